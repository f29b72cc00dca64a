/**
 * @module Patterns of dotted names, such as those of parameters: one syntax for all options that choose by name.
 *
 * - `*` matches any characters between two dots, `**` any number of parts of a name
 * - `{weight,bias}` matches either, `{0-11}` a number in the range
 * - the name of a layer matches everything in it: `head` matches `head.weight`
 * - a list matches if any of its patterns does; `!` in front of a pattern excludes its names from the matches of earlier patterns
 */
import { HeddleError } from "./errors.ts";
import { nearest } from "./options.ts";
import { shown } from "./show.ts";
import { listed } from "./text.ts";

/** A pattern of names, or several. */
export type Pattern = string | readonly string[];

/** Whether a value is a pattern or a list of patterns. */
export const isPattern = (value: unknown): value is Pattern =>
  (typeof value === "string" && value !== "") ||
  (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "string" && item !== ""));

/** The patterns of a list; `excludes` stands for a leading `!`. */
const partsOf = (pattern: Pattern): { readonly text: string; readonly excludes: boolean; readonly matches: RegExp }[] =>
  [pattern].flat().map((item) => {
    const excludes = item.startsWith("!");
    const text = excludes ? item.slice(1) : item;
    return { text, excludes, matches: expressionOf(text) };
  });

/** Whether names match a pattern. @throws HeddleError `option` for a malformed pattern. */
export function matching(what: string, pattern: Pattern): (name: string) => boolean {
  if (!isPattern(pattern))
    throw new HeddleError("option", `${what}: must be a pattern of names or a list of them, got ${shown(pattern)}`, {
      hint: 'such as "head" or ["**.bias", "!head.bias"]',
    });
  const parts = partsOf(pattern);
  const initial = parts[0]?.excludes === true;
  return (name) => parts.reduce((chosen, { matches, excludes }) => (matches.test(name) ? !excludes : chosen), initial);
}

/** @throws HeddleError `option` for a pattern of the list that matches no name; the error lists the names. */
export function checkMatches(what: string, pattern: Pattern, names: readonly string[]): void {
  for (const { text, matches } of partsOf(pattern)) {
    if (names.some((name) => matches.test(name))) continue;
    const suggestion = nearest(text, names);
    throw new HeddleError("option", `${what}: "${text}" matches none of the names`, {
      hint:
        suggestion === undefined
          ? `the names are ${folded(names)}`
          : `did you mean "${suggestion}"? The names are ${folded(names)}`,
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
  return Array.from({ length: Math.max(0, Math.min(count, 100_000)) }, (_, index) => Number(first) + index).join("|");
}

/** Largest number of names in a message. */
const maxNames = 12;

/**
 * Summarises names as patterns: `blocks.{0-11}.linear.{weight,bias}`. Numbered layers with the same names become one pattern, and so do
 * the names within a layer.
 */
export function foldedNames(names: readonly string[]): string[] {
  // Names that differ only in numbers.
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
    let column = 0;
    return key
      .split(".")
      .map((part) => (part === "#" ? rangeOf(columnOf(rows, column++)) : part))
      .join(".");
  });
  const byLayer = new Map<string, string[]>();
  for (const name of ranged) {
    const lastDot = name.lastIndexOf(".");
    const layer = name.slice(0, Math.max(0, lastDot));
    byLayer.set(layer, [...(byLayer.get(layer) ?? []), name.slice(lastDot + 1)]);
  }
  return [...byLayer].flatMap(([layer, leaves]) => {
    if (layer === "") return leaves;
    return leaves.length === 1 ? [`${layer}.${leaves[0]}`] : [`${layer}.{${leaves.join(",")}}`];
  });
}

/** {@link foldedNames} as a list in a sentence. */
export function folded(names: readonly string[]): string {
  return listed(foldedNames(names), maxNames) || "none";
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

const columnOf = (rows: readonly (readonly number[])[], column: number): number[] =>
  rows.map((row) => row[column] as number);
