/** @module Explains errors that keep a user's file from starting, with their position: misspelt imports and syntax errors. */

import { readFileSync } from "node:fs";
// The whole module, as in packages.ts of the runtime: webpack rewrites an imported `createRequire`.
import nodeModule, { type SourceMapping } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { methodHint, nameHint } from "../util/foreign.ts";
import { nearest } from "../util/options.ts";

/**
 * The error as `file:line:column: what is wrong`, the line, and a similar name if there is one; undefined for an error of
 * another kind or without a position.
 */
export function explainScriptError(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  return (
    missingExport(error) ?? missingMember(error) ?? notIterable(error) ?? wrongSyntax(error) ?? missingModule(error)
  );
}

interface Place {
  readonly file: string;
  readonly line: number;
  /** Counted from 1. */
  readonly column: number;
}

/** The position that Node writes above the stack of a module's error: file and line, the text, a caret. */
function placeAbove(error: Error): Place | undefined {
  const match = /^(\S.*):(\d+)\n.*\n( *)\^+\n/.exec(error.stack ?? "");
  if (match === null) return undefined;
  const [, file, line, indent] = match as unknown as [string, string, string, string];
  return written({ file: asPath(file), line: Number(line), column: indent.length + 1 });
}

/** The place that a place in a compiled file was written at, by the file's source map. */
function written(place: Place): Place {
  const { originalSource, originalLine, originalColumn } = (nodeModule
    .findSourceMap(place.file)
    ?.findEntry(place.line - 1, place.column - 1) ?? {}) as Partial<SourceMapping>;
  if (originalSource === undefined || originalLine === undefined || originalColumn === undefined) return place;
  return { file: asPath(originalSource), line: originalLine + 1, column: originalColumn + 1 };
}

/** The file that a compiled file was written as. */
function writtenFile(file: string): string {
  const [source] = nodeModule.findSourceMap(file)?.payload.sources ?? [];
  return source?.startsWith("file:") === true ? fileURLToPath(source) : file;
}

/** A text with the files that were written in place of those that were compiled of them. */
export const withWrittenFiles = (text: string): string =>
  // From one path's beginning to its end: another one does not begin between.
  text.replace(/(?:file:\/\/)?\/(?:(?!\s\/)[^\n'"()]){1,4096}?\.mjs\b/g, (path) => {
    const file = asPath(path);
    const source = writtenFile(file);
    return source === file ? path : source;
  });

function missingExport(error: Error): string | undefined {
  const match = /^The requested module '(.+)' does not provide an export named '(.+)'/.exec(error.message);
  const location = placeAbove(error);
  if (match === null || location === undefined) return undefined;
  const [, requested, name] = match as unknown as [string, string, string];
  // A compiled file has other names for the files that it imports.
  const module = (requested.startsWith(".") ? specifierAfter(location) : undefined) ?? requested;
  const names = exportsOf(module, location.file);
  const suggestion = (module === "heddle" ? nameHint(name, names) : undefined) ?? nearest(name, names);
  return described(location, `'${module}' has no export '${name}'`, suggestion);
}

/** The module of the import or export that a place is in. */
function specifierAfter({ file, line, column }: Place): string | undefined {
  const text = linesOf(file)
    .slice(line - 1)
    .join("\n")
    .slice(column - 1);
  return /\bfrom\s*["']([^"'\n]+)["']/.exec(text)?.[1];
}

/** A call of a missing member: of a namespace of Heddle (`nn.Linear`), or a method known from another library (`model.fit`). */
function missingMember(error: Error): string | undefined {
  const match = /^(?:[\w$]+\.)*?([\w$]+)\.([\w$]+) is not a (?:function|constructor)/.exec(error.message);
  if (!(error instanceof TypeError) || match === null) return undefined;
  const [message, space, name] = match as unknown as [string, string, string];
  const location = placeInStack(error);
  if (location === undefined || !/["']heddle["']/.test(linesOf(location.file).join("\n"))) return undefined;
  const members = membersOf(space, location.file);
  if (members.length > 0) {
    const suggestion = nameHint(name, members) ?? nearest(name, members);
    const whole = suggestion === undefined || suggestion.includes(".") ? suggestion : `${space}.${suggestion}`;
    return described(location, `'${space}' has no '${name}'`, whole);
  }
  const hint = methodHint(name);
  return hint === undefined ? undefined : `${described(location, message)}\n  hint: ${hint}`;
}

/** A loop over a value that is not iterable, which may be a tensor. */
function notIterable(error: Error): string | undefined {
  if (!(error instanceof TypeError) || !/ is not iterable\b|^Spread syntax requires/.test(error.message))
    return undefined;
  const location = placeInStack(error);
  if (location === undefined || !/["']heddle["']/.test(linesOf(location.file).join("\n"))) return undefined;
  const hint =
    "if it is a tensor: x.at(index) is a row of x.shape[0], await x.array() gives the values as nested arrays";
  return `${described(location, error.message)}\n  hint: ${hint}`;
}

/** The innermost position in a user's file. */
function placeInStack(error: Error): Place | undefined {
  for (const line of (error.stack ?? "").split("\n")) {
    const match = /(?:\(|at )((?:file:)?\/[^()]+):(\d+):(\d+)\)?$/.exec(line);
    if (match === null || /\/node_modules\/|node:/.test(line)) continue;
    const [, file, row, column] = match as unknown as [string, string, string, string];
    return { file: asPath(file), line: Number(row), column: Number(column) };
  }
  return undefined;
}

/** The members of a namespace of Heddle, such as `nn`; empty for any other name. */
function membersOf(space: string, importer: string): string[] {
  try {
    const file = fileOfSpace(space, moduleOf("heddle", importer));
    return file === undefined ? [] : exportsOfFile(file);
  } catch {
    return [];
  }
}

/** The file that a module, or a module that it re-exports, exports as a namespace of this name. */
function fileOfSpace(space: string, file: string, depth = 0): string | undefined {
  const text = readFileSync(file, "utf8");
  const match = new RegExp(
    `^export\\s*\\*\\s*as\\s+${space.replaceAll("$", "\\$")}\\s+from\\s*["'](\\.[^"']+)["']`,
    "m",
  ).exec(text);
  if (match !== null) return beside(file, match[1] as string);
  for (const path of depth > 3 ? [] : reexported(text)) {
    const inner = fileOfSpace(space, beside(file, path), depth + 1);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

const beside = (file: string, path: string): string => fileURLToPath(new URL(path, pathToFileURL(file)));

/** The files whose names a module re-exports with `export *`. */
const reexported = (text: string): string[] =>
  [...text.matchAll(/^export\s*\*\s*from\s*["'](\.[^"']+)["']/gm)].map(([, path]) => path as string);

/** The exports of a module of the user's or of Heddle, read from its text, so that a message does not run the module. */
function exportsOf(module: string, importer: string): string[] {
  try {
    const isHeddle = /^heddle(\/|$)/.test(module);
    if (!isHeddle && !module.startsWith(".")) return [];
    return exportsOfFile(isHeddle ? moduleOf(module, importer) : nodeModule.createRequire(importer).resolve(module));
  } catch {
    // Without the names, the message suggests none.
    return [];
  }
}

function exportsOfFile(file: string, depth = 0): string[] {
  const text = readFileSync(file, "utf8");
  const groups = (pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, group]) => group as string);
  const declared = groups(/^export\s+(?:async\s+)?(?:const|let|var|function\*?|class)\s+([\w$]+)/gm);
  const listed = groups(/^export\s*\{([^}]*)\}/gm)
    .flatMap((list) => list.split(","))
    .map(
      (item) =>
        item
          .trim()
          .split(/\s+as\s+/)
          .at(-1) as string,
    )
    .filter((name) => /^[\w$]+$/.test(name));
  const spaces = groups(/^export\s*\*\s*as\s+([\w$]+)/gm);
  const others = depth > 3 ? [] : reexported(text);
  const inner = others.flatMap((path) => exportsOfFile(beside(file, path), depth + 1));
  return [...declared, ...listed, ...spaces, ...inner];
}

/** A compiler's error: esbuild's `file:line:column: ERROR: text` (columns from 0), or Node's for types that it cannot strip. */
function wrongSyntax(error: Error): string | undefined {
  const match = /^(\S.*):(\d+):(\d+): ERROR: (.*)$/m.exec(error.message);
  if (match !== null) {
    const [, file, line, column, text] = match as unknown as [string, string, string, string, string];
    const shown = described({ file: asPath(file), line: Number(line), column: Number(column) + 1 }, text);
    return asCommonJs.test(text) ? `${shown}\n  hint: ${moduleHint}` : shown;
  }
  const location = placeAbove(error);
  if (location === undefined || !(error instanceof SyntaxError)) return undefined;
  const [text = ""] = error.message.split("\n", 1);
  const shown = described(location, text);
  return asCommonJs.test(text) ? `${shown}\n  hint: ${moduleHint}` : shown;
}

/** What esbuild and Node say of a module that is read as CommonJS. */
const asCommonJs = /^Top-level await .* "cjs" output format|^Cannot use import statement outside a module/;

const moduleHint =
  'the file is read as CommonJS: write "type": "module" in the package.json of the project, or name the file .mts (.mjs)';

function missingModule(error: Error): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  const match = /^(?:Cannot find (package|module)|Package subpath) '(.+?)'.* imported from (.+)$/m.exec(error.message);
  if (match === null || (code !== "ERR_MODULE_NOT_FOUND" && code !== "ERR_PACKAGE_PATH_NOT_EXPORTED")) return undefined;
  const [, kind, name, importer] = match as unknown as [string, string | undefined, string, string];
  const file = writtenFile(asPath(importer));
  const inPackage = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(name)?.[1];
  const location = placeOfImport(file, name.split("/").at(-1) as string, inPackage);
  if (location === undefined) return undefined;
  const { specifier } = location;
  if (inPackage !== undefined)
    return described(location, `'${specifier}' means a file that its package lacks: ${name}`);
  if (kind === "package")
    return described(location, `the package '${name}' is not installed`, nearest(name, ["heddle"]));
  if (kind === "module") return described(location, `there is no file '${specifier}'`);
  return described(location, `'${specifier}' is not a part of its package`, nearest(specifier, subpaths(file)));
}

/** Where a file imports from a specifier that ends in `last`, or else from a package; or else where it names what ends in `last`. */
function placeOfImport(
  file: string,
  last: string,
  inPackage?: string,
): (Place & { readonly specifier: string }) | undefined {
  const text = linesOf(file).join("\n");
  const ending = `(?:[^"'\\n]*/)?${escaped(last)}`;
  const after = "\\b(?:from|import)\\s*\\(?\\s*";
  const all = (before: string, specifier: string) => [
    ...text.matchAll(new RegExp(`(?<=${before})["'](${specifier})["']`, "g")),
  ];
  const ofPackage = inPackage === undefined ? [] : all(after, `${escaped(inPackage)}(?:/[^"'\\n]*)?`);
  const whole = ofPackage.filter(([, specifier]) => specifier === inPackage);
  // Of several parts of a package it is not known which.
  const [match] = [...all(after, ending), ...whole, ...(ofPackage.length === 1 ? ofPackage : []), ...all("", ending)];
  if (match === undefined) return undefined;
  const before = text.slice(0, match.index).split("\n");
  return { file, line: before.length, column: (before.at(-1) as string).length + 1, specifier: match[1] as string };
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The file of a module of Heddle as it was compiled: of the bundle for Node the text does not tell what a namespace has. */
function moduleOf(module: string, importer: string): string {
  const { exports, file } = manifestOf(importer);
  return beside(file, exports[`.${module.slice("heddle".length)}`]?.default as string);
}

/** Heddle's package.json. */
function manifestOf(importer: string) {
  const file = nodeModule.createRequire(importer).resolve("heddle/package.json");
  const { exports } = JSON.parse(readFileSync(file, "utf8")) as { exports: Record<string, { default?: string }> };
  return { exports, file };
}

function subpaths(importer: string): string[] {
  try {
    return Object.keys(manifestOf(importer).exports).map((name) => `heddle${name.slice(1)}`);
  } catch {
    return [];
  }
}

function described(location: Place, what: string, near?: string): string {
  const { file, line, column } = location;
  const text = linesOf(file)[line - 1];
  const shown = text === undefined ? "" : `\n  ${text}\n  ${" ".repeat(column - 1)}^`;
  return `${file}:${line}:${column}: ${what}${shown}${near === undefined ? "" : `\n  hint: did you mean '${near}'?`}`;
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split(/\r?\n/);
  } catch {
    return [];
  }
}

const asPath = (file: string): string => (file.startsWith("file:") ? fileURLToPath(file) : file);
