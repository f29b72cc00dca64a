/**
 * @module Which modules of a Rust crate use each other, read from `use` declarations and from paths in the code.
 *
 * Types count as functions do. A name that a module passes on with `pub use` counts as used from the module that defines the name.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { blankComments } from "./check-layers.ts";

/** One name in a `use` declaration: `use a::{b, c as d}` has `a::b` and `a::c`, known as `b` and `d`. */
interface Used {
  readonly path: readonly string[];
  readonly name: string;
}

interface Module {
  readonly file: string;
  readonly code: string;
  readonly uses: readonly Used[];
  /** Names that the module passes on. */
  readonly passed: readonly Used[];
}

/** Files of a crate's folder `src`, each with the files whose modules it uses. */
export function rustImports(source: string): Map<string, string[]> {
  const modules = new Map<string, Module>();
  const names = readdirSync(source, { recursive: true, encoding: "utf8" }).map((name) => name.split(sep).join("/"));
  for (const file of names.filter((name) => name.endsWith(".rs")).sort())
    modules.set(moduleOf(file), readModule(file, readFileSync(join(source, file), "utf8")));
  const macros = new Map<string, string>();
  for (const [name, { code }] of modules)
    for (const [, macro] of code.matchAll(/#\[macro_export\]\s*macro_rules!\s+(\w+)/g)) macros.set(macro ?? "", name);
  const crate: Crate = { modules, macros };
  return new Map([...modules].map(([name, module]) => [module.file, usedFiles(name, module, crate)]));
}

interface Crate {
  readonly modules: ReadonlyMap<string, Module>;
  /** Modules of exported macros, which stand at the root of the crate. */
  readonly macros: ReadonlyMap<string, string>;
}

/** `a/b.rs` and `a/b/mod.rs` are `a::b`; the root of a crate has an empty name. */
const moduleOf = (file: string): string => file.replace(/(^|\/)(mod|lib|main)\.rs$|\.rs$/, "").replaceAll("/", "::");

function readModule(file: string, text: string): Module {
  // Unit tests stand at the end of a file. An apostrophe is a lifetime more often than a character.
  const [source = ""] = text.split(/^#\[cfg\(test\)\]\nmod \w+ \{$/m);
  const code = flatten(blankComments(source.replaceAll("'", " ").replaceAll("`", " ")));
  const declarations = [...code.matchAll(/\b(pub(?:\([\w\s]+\))?\s+)?use\s+([^;]+);/g)];
  const read = (only: boolean) =>
    declarations.flatMap(([, visible, tree = ""]) => (only && visible === undefined ? [] : usedNames(tree)));
  return { file, code: code.replace(/\buse\s+[^;]+;/g, ""), uses: read(false), passed: read(true) };
}

/** In a module that stands inside of a file, `super` is the file's own module. */
function flatten(code: string): string {
  const block = /\bmod\s+\$?\w+\s*\{/g;
  for (let match = block.exec(code); match !== null; match = block.exec(code)) {
    let [end, depth] = [block.lastIndex, 1];
    for (; end < code.length && depth > 0; end++) depth += code[end] === "{" ? 1 : code[end] === "}" ? -1 : 0;
    const inner = code.slice(block.lastIndex, end).replace(/\bsuper::((?:super::)*)/g, "self::$1");
    code = code.slice(0, block.lastIndex) + inner + code.slice(end);
  }
  return code;
}

/** The names of a `use` tree. */
function usedNames(tree: string, before: readonly string[] = []): Used[] {
  const text = tree.trim();
  const group = /^((?:\w+\s*::\s*)*)\{([\s\S]*)\}$/.exec(text);
  if (group === null) {
    const [path = "", known] = text.split(/\s+as\s+/);
    const names = [...before, ...path.split("::").map((name) => name.trim())];
    return [{ path: names, name: known ?? names.at(-1) ?? "" }];
  }
  const prefix = [...before, ...(group[1]?.match(/\w+/g) ?? [])];
  let depth = 0;
  const parts = [""];
  for (const letter of group[2] ?? "") {
    depth += letter === "{" ? 1 : letter === "}" ? -1 : 0;
    if (letter === "," && depth === 0) parts.push("");
    else parts.push(`${parts.pop()}${letter}`);
  }
  return parts.filter((part) => part.trim() !== "").flatMap((part) => usedNames(part, prefix));
}

function usedFiles(name: string, module: Module, crate: Crate): string[] {
  const paths = module.code.match(/\b\w+(?:::\w+)+/g) ?? [];
  const all = [...module.uses.map(({ path }) => path), ...paths.map((path) => path.split("::"))];
  const used = all.flatMap((path) => resolve(name, path, crate, 0) ?? []).filter((other) => other !== name);
  return [...new Set(used)].map((other) => crate.modules.get(other)?.file as string).sort();
}

/** The module that defines what a path names, or nothing where the path leads out of the crate. */
function resolve(from: string, path: readonly string[], crate: Crate, depth: number): string | undefined {
  let module = from;
  let [first = "", ...rest] = path;
  if (first === "crate") module = "";
  else if (first === "super" || first === "self") {
    while (first === "super" || first === "self") {
      if (first === "super") module = module.split("::").slice(0, -1).join("::");
      [first = "", ...rest] = rest;
    }
    rest = [first, ...rest];
  } else if (crate.modules.has(inside(module, first))) rest = [...path];
  else return undefined;
  for (;;) {
    const [next = "", ...others] = rest;
    if (!crate.modules.has(inside(module, next)) || next === "") break;
    module = inside(module, next);
    rest = others;
  }
  const [wanted = ""] = rest;
  if (module === "" && crate.macros.has(wanted)) return crate.macros.get(wanted);
  const passed = crate.modules.get(module)?.passed.find(({ name }) => name === wanted);
  if (passed === undefined || depth > 8) return crate.modules.has(module) ? module : undefined;
  return resolve(module, [...passed.path, ...rest.slice(1)], crate, depth + 1) ?? module;
}

const inside = (module: string, name: string): string => (module === "" ? name : `${module}::${name}`);
