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
import { dirname, join, resolve } from "node:path";
import { init, parse } from "es-module-lexer";
import { transform } from "esbuild";
import MagicString from "magic-string";
import type { ParsedStack } from "vitest";
import type { Plugin } from "vitest/config";

/** What modules look for beside their folder. */
const beside = ["package.json", "bin", "native"];

const isSource = (name: string): boolean => name.endsWith(".ts") && !name.endsWith(".d.ts");
const compiledName = (name: string): string => name.replace(/\.ts$/, ".js");

async function compile(source: string, target: string): Promise<void> {
  const { code } = await transform(readFileSync(source, "utf8"), {
    loader: "ts",
    format: "esm",
    target: "node20.17",
    sourcefile: source,
    sourcemap: "inline",
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
  });
  const text = new MagicString(code);
  for (const { n: name, e: end, d: dynamic } of parse(code)[0])
    if (name?.startsWith(".") && name.endsWith(".ts"))
      text.update(end - (dynamic < 0 ? 2 : 3), end - (dynamic < 0 ? 0 : 1), "js");
  mkdirSync(dirname(target), { recursive: true });
  // Another run may read the file meanwhile.
  const fresh = `${target}.${process.pid}`;
  writeFileSync(fresh, text.toString());
  const { atime, mtime } = statSync(source);
  utimesSync(fresh, atime, mtime);
  renameSync(fresh, target);
}

/** Compiles the sources that have changed, and takes away what is left of those that are gone. */
async function compileAll(from: string, to: string): Promise<void> {
  await init;
  const list = (folder: string): string[] =>
    existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: "utf8" }) : [];
  const names = list(from).filter(isSource);
  const wanted = new Set(names.map(compiledName));
  for (const name of list(to)) if (name.endsWith(".js") && !wanted.has(name)) rmSync(join(to, name));
  const time = (path: string): number => Math.round(statSync(path, { throwIfNoEntry: false })?.mtime.getTime() ?? 0);
  const changed = names.filter((name) => time(join(from, name)) !== time(join(to, compiledName(name))));
  await Promise.all(changed.map((name) => compile(join(from, name), join(to, compiledName(name)))));
}

/** The plugin, for a project whose sources are in `src`. */
export function compiledSources(root: string): Plugin {
  const [sources, scripts, place] = ["src/", "scripts/", ".heddle/compiled/"].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  let ready: Promise<void> | undefined;
  const prepare = async (): Promise<void> => {
    mkdirSync(place, { recursive: true });
    for (const name of beside) if (!existsSync(join(place, name))) symlinkSync(resolve(root, name), join(place, name));
    await compileAll(sources, join(place, "src"));
  };
  let watches = false;
  return {
    name: "compiled-sources",
    enforce: "pre",
    configResolved(config) {
      watches = (config as { readonly test?: { readonly watch?: boolean } }).test?.watch === true;
    },
    async resolveId(source, importer) {
      // What scripts write follows the order of a module's exports, which Node sorts. What Vite has once imports what Vite has.
      if (watches || [sources, scripts].some((folder) => importer?.startsWith(folder))) return undefined;
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
