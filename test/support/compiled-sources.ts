/**
 * @module A plugin of Vitest: Node itself loads the sources, each compiled to a file of its own in `.heddle/compiled`. What Vite makes of modules
 * takes several times as long to load, and a seventh more time to run, since each use of an import is a call. Where Vitest watches files, Vite has
 * the sources, as it knows then what depends on them.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { SourceMap } from "node:module";
import { dirname, join } from "node:path";
import { init, parse } from "es-module-lexer";
import { type TransformOptions, transform, version } from "esbuild";
import MagicString from "magic-string";
import type { ParsedStack } from "vitest";
import type { Plugin } from "vitest/config";
import { isRunning } from "../../src/util/process.ts";

/** What modules look for beside their folder. */
const beside = ["package.json", "bin", "native"];

const isSource = (name: string): boolean => name.endsWith(".ts") && !name.endsWith(".d.ts");
const compiledName = (name: string): string => name.replace(/\.ts$/, ".js");

const options = {
  loader: "ts",
  format: "esm",
  target: "node20.17",
  sourcemap: "inline",
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
} as const satisfies TransformOptions;
/** What else a compiled file follows from than its source. */
const madeBy = JSON.stringify({ version, options, form: 1 });

async function compile(source: string, target: string): Promise<void> {
  const { atime, mtime } = statSync(source);
  const { code } = await transform(readFileSync(source, "utf8"), { ...options, sourcefile: source });
  const text = new MagicString(code);
  for (const { n: name, e: end, d: dynamic } of parse(code)[0])
    if (name?.startsWith(".") && name.endsWith(".ts"))
      text.update(end - (dynamic < 0 ? 2 : 3), end - (dynamic < 0 ? 0 : 1), "js");
  mkdirSync(dirname(target), { recursive: true });
  // Another run may read the file meanwhile.
  const fresh = `${target}.${process.pid}`;
  writeFileSync(fresh, text.toString());
  utimesSync(fresh, atime, mtime);
  renameSync(fresh, target);
}

/** Another run may have made it. */
function link(to: string, path: string): void {
  try {
    symlinkSync(to, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Compiles the sources that have changed, and takes away what is left of those that are gone. */
async function compileAll(from: string, to: string): Promise<void> {
  await init;
  const list = (folder: string): string[] =>
    existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: "utf8" }) : [];
  const names = list(from).filter(isSource);
  const wanted = new Set(names.map(compiledName));
  const isLeft = (name: string): boolean => {
    // What a run that was killed had not renamed yet.
    const maker = /\.js\.(\d+)$/.exec(name)?.[1];
    return maker === undefined ? name.endsWith(".js") && !wanted.has(name) : !isRunning(Number(maker));
  };
  for (const name of list(to)) if (isLeft(name)) rmSync(join(to, name), { force: true });
  const time = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtime.getTime() ?? 0;
  // Within the precision to which a file's time can be set.
  const changed = names.filter((name) => Math.abs(time(join(from, name)) - time(join(to, compiledName(name)))) > 2);
  await Promise.all(changed.map((name) => compile(join(from, name), join(to, compiledName(name)))));
}

/** The plugin, for a project whose sources are in `src`. */
export function compiledSources(root: string): Plugin {
  const [sources, place] = [join(root, "src/"), join(root, ".heddle/compiled/")];
  let ready: Promise<void> | undefined;
  const prepare = async (): Promise<void> => {
    mkdirSync(place, { recursive: true });
    for (const name of beside) link(join("../..", name), join(place, name));
    const [made, stamp] = [join(place, "src"), join(place, "made-by.json")];
    if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== madeBy) rmSync(made, { recursive: true, force: true });
    writeFileSync(stamp, madeBy);
    await compileAll(sources, made);
  };
  let watches = false;
  return {
    name: "compiled-sources",
    enforce: "pre",
    configResolved(config) {
      watches = (config as { readonly test?: { readonly watch?: boolean } }).test?.watch === true;
    },
    async resolveId(source, importer) {
      // What Vite has once imports what Vite has.
      if (watches || importer?.startsWith(sources)) return undefined;
      const id = (await this.resolve(source, importer, { skipSelf: true }))?.id;
      if (id === undefined || !id.startsWith(sources) || !isSource(id)) return undefined;
      ready ??= prepare();
      await ready;
      return { id: join(place, "src", compiledName(id.slice(sources.length))), external: true };
    },
  };
}

/** Shows the place in the source of a frame of a stack. */
export function sourceOfFrame(_error: unknown, frame: ParsedStack): boolean {
  if (!/[\\/]\.heddle[\\/]compiled[\\/].*\.js$/.test(frame.file)) return true;
  const map = /\/\/# sourceMappingURL=data:application\/json;base64,(\S+)\s*$/.exec(
    readFileSync(frame.file, "utf8"),
  )?.[1];
  if (map === undefined) return true;
  const entry = new SourceMap(JSON.parse(Buffer.from(map, "base64").toString())).findEntry(
    frame.line - 1,
    frame.column - 1,
  );
  if ("originalSource" in entry)
    Object.assign(frame, {
      file: entry.originalSource,
      line: entry.originalLine + 1,
      column: entry.originalColumn + 1,
    });
  return true;
}
