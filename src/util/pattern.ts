/**
 * @module Patterns of dotted names, such as those of parameters: one language for all options that choose by name.
 *
 * - `*` is any run of characters between two dots, `**` any number of parts of a name
 * - `{weight,bias}` is one or the other, `{0-11}` a number of the range
 * - what names a layer is for all that is in it: `head` for `head.weight`
 * - of a list any; `!` in front of a pattern takes out what it names of those before
 */
import { HeddleError } from "./errors.ts";
import { nearest } from "./options.ts";
import { shown } from "./show.ts";
import { listed } from "./text.ts";

/** A pattern of names, or several. */
export type Pattern = string | readonly string[];

/** Whether it is a pattern or a list of patterns. */
export const isPattern = (value: unknown): value is Pattern =>
  (typeof value === "string" && value !== "") ||
  (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string" && one !== ""));

/** The patterns of a list, without the `!` of those that take out. */
const partsOf = (pattern: Pattern): { readonly text: string; readonly takesOut: boolean; readonly matches: RegExp }[] =>
  [pattern].flat().map((one) => {
    const takesOut = one.startsWith("!");
    const text = takesOut ? one.slice(1) : one;
    return { text, takesOut, matches: expressionOf(text) };
  });

/** Whether names match a pattern. @throws HeddleError `option` for what is no pattern. */
export function matching(what: string, pattern: Pattern): (name: string) => boolean {
  if (!isPattern(pattern))
    throw new HeddleError("option", `${what}: must be a pattern of names or a list of them, got ${shown(pattern)}`, {
      hint: 'such as "head" or ["**.bias", "!head.bias"]',
    });
  const parts = partsOf(pattern);
  const from = parts[0]?.takesOut === true;
  return (name) => parts.reduce((known, { matches, takesOut }) => (matches.test(name) ? !takesOut : known), from);
}

/** @throws HeddleError `option` for a pattern of the list that matches no name, with the names there are. */
export function checkMatches(what: string, pattern: Pattern, names: readonly string[]): void {
  for (const { text, matches } of partsOf(pattern)) {
    if (names.some((name) => matches.test(name))) continue;
    const near = nearest(text, names);
    throw new HeddleError("option", `${what}: "${text}" matches none of the names`, {
      hint:
        near === undefined
          ? `the names are ${folded(names)}`
          : `did you mean "${near}"? The names are ${folded(names)}`,
    });
  }
}

const special = /[\\^$.|?+()[\]]/g;

function expressionOf(pattern: string): RegExp {
  const parts = pattern.split(".");
  const text = parts.map((part, index) => {
    const last = index === parts.length - 1;
    if (part === "**") return last ? ".*" : "(?:[^.]+\\.)*";
    return pieceOf(part) + (last ? "(?:\\..*)?" : "\\.");
  });
  return new RegExp(`^${text.join("")}$`);
}

function pieceOf(part: string): string {
  return part
    .split(/(\{[^{}]*\}|\*+)/)
    .map((piece) => {
      if (piece.startsWith("*")) return "[^.]*";
      if (!/^\{.*\}$/.test(piece)) return piece.replaceAll(special, "\\$&");
      return `(?:${piece.slice(1, -1).split(",").map(choiceOf).join("|")})`;
    })
    .join("");
}

function choiceOf(choice: string): string {
  const [, first, last] = /^(\d+)-(\d+)$/.exec(choice) ?? [];
  if (first === undefined || last === undefined) return choice.replaceAll(special, "\\$&");
  const count = Number(last) - Number(first) + 1;
  return Array.from({ length: Math.max(0, Math.min(count, 100_000)) }, (_unused, at) => Number(first) + at).join("|");
}

/** Most names of a message. */
const most = 12;

/**
 * Names in few words, as patterns: `blocks.{0-11}.linear.{weight,bias}`. Layers that are numbered and alike are one, and so are the
 * names within a layer.
 */
export function foldedNames(names: readonly string[]): string[] {
  // Alike but for numbers.
  const alike = new Map<string, number[][]>();
  for (const name of names) {
    const numbers = name.split(".").filter(isNumber).map(Number);
    const key = name
      .split(".")
      .map((part) => (isNumber(part) ? "#" : part))
      .join(".");
    alike.set(key, [...(alike.get(key) ?? []), numbers]);
  }
  const ranged = [...alike].map(([key, rows]) => {
    let place = 0;
    return key
      .split(".")
      .map((part) => (part === "#" ? rangeOf(columnOf(rows, place++)) : part))
      .join(".");
  });
  const within = new Map<string, string[]>();
  for (const name of ranged) {
    const at = name.lastIndexOf(".");
    const layer = name.slice(0, Math.max(0, at));
    within.set(layer, [...(within.get(layer) ?? []), name.slice(at + 1)]);
  }
  return [...within].flatMap(([layer, own]) => {
    if (layer === "") return own;
    return own.length === 1 ? [`${layer}.${own[0]}`] : [`${layer}.{${own.join(",")}}`];
  });
}

/** {@link foldedNames} as a list in a sentence. */
export function folded(names: readonly string[]): string {
  return listed(foldedNames(names), most) || "none";
}

const isNumber = (part: string): boolean => /^\d+$/.test(part);

/** `3`, `{0-11}` or `{0,2,5-7}`. */
function rangeOf(values: readonly number[]): string {
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const value of sorted) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] === value - 1) last[1] = value;
    else runs.push([value, value]);
  }
  const text = runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
  return sorted.length === 1 ? text : `{${text}}`;
}

const columnOf = (rows: readonly (readonly number[])[], place: number): number[] =>
  rows.map((row) => row[place] as number);
