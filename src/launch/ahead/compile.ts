/** @module One file compiled to JavaScript: without types, with "use heddle" applied, and where its imports are. */
import { dirname, extname } from "node:path";
import { pathToFileURL } from "node:url";
import { init, parse } from "es-module-lexer";
import { type BuildFailure, build, type Loader } from "esbuild";
import { isUserFile, transformedText } from "../autograph-hooks.ts";
import { NeedsLoader } from "./files.ts";

/** A compiled file. */
export interface Compiled {
  readonly code: string;
  /** Its imports in the order of `code`. */
  readonly imports: readonly ImportPlace[];
}

/** Where an import is in the code. */
export interface ImportPlace {
  readonly specifier: string;
  /** The text between quotes. */
  readonly start: number;
  readonly end: number;
  /** The end of its attributes, if it has some; those that ask for JSON are all that may be. */
  readonly attributesEnd?: number;
}

/**
 * Compiles a file.
 *
 * @param tsconfig path of a tsconfig.json; undefined for none
 * @throws NeedsLoader if the code asks for modules in ways that only a loader can follow, or has an error, which the loader reports
 */
export async function compileFile(file: string, text: string, tsconfig: string | undefined): Promise<Compiled> {
  if (extname(file) === ".json") {
    JSON.parse(text);
    // Not as an object of JavaScript, in which "__proto__" is no name.
    return { code: `export default JSON.parse(${JSON.stringify(text)});\n`, imports: [] };
  }
  const { code, map } = await withoutTypes(file, text, tsconfig);
  await init;
  const imports = importsOf(code, file);
  const comment = Buffer.from(JSON.stringify(map)).toString("base64");
  return { code: `${code}//# sourceMappingURL=data:application/json;base64,${comment}\n`, imports };
}

async function withoutTypes(
  file: string,
  text: string,
  tsconfig: string | undefined,
): Promise<{ code: string; map: object }> {
  const { href } = pathToFileURL(file);
  const constants = { url: href, filename: file, dirname: dirname(file) };
  try {
    const { outputFiles } = await build({
      stdin: {
        contents: (isUserFile(href) ? transformedText(text, file) : undefined) ?? text,
        sourcefile: file,
        resolveDir: dirname(file),
        loader: extname(file).replace(/^\.[cm]?/, "") as Loader,
      },
      ...(tsconfig === undefined ? { tsconfigRaw: {} } : { tsconfig }),
      // The place of the compiled file is not that of what it was made from.
      define: Object.fromEntries(
        Object.entries(constants).map(([name, value]) => [`import.meta.${name}`, JSON.stringify(value)]),
      ),
      format: "esm",
      platform: "node",
      target: `node${process.versions.node}`,
      charset: "utf8",
      sourcemap: "external",
      sourcesContent: false,
      outfile: "compiled.js",
      write: false,
      logLevel: "silent",
    });
    const [map, code] = outputFiles.map((output) => output.text) as [string, string];
    return { code, map: { ...(JSON.parse(map) as object), sources: [href], sourcesContent: undefined } };
  } catch (error) {
    throw (error as BuildFailure).errors === undefined && (error as { code?: string }).code !== "syntax"
      ? error
      : new NeedsLoader(String(error));
  }
}

/** The beginning of an import or export that takes nothing or the default: all that a module of JSON has for Node. */
const takesDefault =
  /^(?:import|(?:import\s+[^\s{*,]+|(?:import|export)\s*\{\s*default(?:\s+as\s[^,}]+)?\s*\})\s*from)\s*$/;

function importsOf(code: string, file: string): ImportPlace[] {
  const needsLoader = (what: string): never => {
    throw new NeedsLoader(`${file} ${what}`);
  };
  if (/\b(?:require|createRequire|getBuiltinModule)\b/.test(code)) needsLoader("may require modules");
  const [imports] = parse(code);
  return imports.flatMap(({ n: specifier, t: kind, s: start, e: end, ss: from, se: statementEnd, at: attributes }) => {
    if (kind === 3) needsLoader("uses import.meta");
    if (specifier === undefined) return needsLoader("imports what it computes");
    if (kind === 2) {
      // The cache may be gone when the program comes to it.
      return /^[./]|:/.test(specifier) && !specifier.startsWith("node:")
        ? needsLoader("imports a file late")
        : [{ specifier, start: start + 1, end: end - 1 }];
    }
    if (kind !== 1) needsLoader("imports in a new way");
    if (attributes === null)
      return specifier.endsWith(".json") ? needsLoader("imports JSON without saying so") : [{ specifier, start, end }];
    if (!specifier.endsWith(".json") || attributes.join() !== "type,json") needsLoader("imports with attributes");
    if (!takesDefault.test(code.slice(from, start - 1))) needsLoader("imports names of JSON");
    return [{ specifier, start, end, attributesEnd: statementEnd }];
  });
}
