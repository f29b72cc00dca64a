/** @module Checks option objects: a misspelt name is an error, not a silent default. */
import { HeddleError } from "./errors.ts";
import { callHint, optionHint } from "./foreign.ts";
import { shown } from "./show.ts";

/**
 * Throws unless the options are a record, and for a name that is not among `allowed`; the error suggests the nearest allowed name.
 *
 * @throws HeddleError `option`.
 */
export function checkOptions(what: string, options: object, allowed: readonly string[]): void {
  checkRecord(what, options, allowed[0]);
  for (const name of Object.keys(options)) {
    if (allowed.includes(name)) continue;
    const suggestion = nearest(name, allowed);
    const hint = suggestion === undefined ? `options are ${allowed.join(", ")}` : `did you mean '${suggestion}'?`;
    throw new HeddleError("option", `${what}: unknown option '${name}'`, { hint: optionHint(name, allowed) ?? hint });
  }
}

/**
 * Gives the options back if they are a record.
 *
 * @throws HeddleError `option`.
 */
export function asRecord<Options extends object>(what: string, options: Options): Options {
  checkRecord(what, options);
  return options;
}

function checkRecord(what: string, options: unknown, example = "name"): void {
  const prototype: unknown =
    typeof options === "object" && options !== null ? Object.getPrototypeOf(options) : undefined;
  if (prototype === null || prototype === Object.prototype) return;
  const hint = (typeof options === "number" ? callHint(what) : undefined) ?? `write { ${example}: … }`;
  throw new HeddleError("option", `${what}: takes its options as a record, got ${shown(options)}`, {
    // A maker passed on without being called gets the arguments of the thing that it makes.
    hint: isPlain(options) ? hint : `${hint}; to pass on the thing that it makes, call it: ${what}(…)`,
  });
}

const isPlain = (value: unknown): boolean => typeof value === "number" || typeof value === "string";

/** The allowed name that differs in at most a third of its letters; undefined if there is none. */
export function nearest(name: string, allowed: readonly string[]): string | undefined {
  const ranked = allowed
    .map((other) => ({ other, distance: editDistance(name.toLowerCase(), other.toLowerCase()) }))
    .sort((left, right) => left.distance - right.distance);
  const [best] = ranked;
  return best !== undefined && best.distance <= Math.max(1, Math.floor(best.other.length / 3)) ? best.other : undefined;
}

/** The Levenshtein distance, in which a swap of two neighbours counts as one change. */
function editDistance(left: string, right: string): number {
  let rowBefore: number[] = [];
  let row = Array.from({ length: right.length + 1 }, (_unused, column) => column);
  for (let line = 1; line <= left.length; line++) {
    const next = [line];
    for (let column = 1; column <= right.length; column++) {
      const change = (row[column - 1] as number) + (left[line - 1] === right[column - 1] ? 0 : 1);
      const swapped = left[line - 1] === right[column - 2] && left[line - 2] === right[column - 1];
      const swap = swapped ? (rowBefore[column - 2] as number) + 1 : Infinity;
      next.push(Math.min(change, swap, (row[column] as number) + 1, (next[column - 1] as number) + 1));
    }
    rowBefore = row;
    row = next;
  }
  return row[right.length] as number;
}

/** The function of the option `only`, which chooses by name; all names without it. Throws unless it is a function. */
export function chosenBy(what: string, only: unknown): (name: string) => boolean {
  if (only === undefined) return () => true;
  if (typeof only === "function") return only as (name: string) => boolean;
  throw new HeddleError("option", `${what}: only must be a function of a name, got ${shown(only)}`, {
    hint: "such as (name) => names.includes(name)",
  });
}

/** Throws unless a value is a Uint8Array. */
export function checkBytes(what: string, bytes: unknown): asserts bytes is Uint8Array {
  if (!(bytes instanceof Uint8Array))
    throw new HeddleError("argument", `${what}: takes the bytes of a file (a Uint8Array), got ${shown(bytes)}`);
}

/** Throws unless a text names a single file or folder: placeholders such as `{epoch}` are not filled in. */
export function checkPlace(what: string, name: string, path: unknown, kind: "file" | "folder"): void {
  if (typeof path !== "string" || path === "")
    throw new HeddleError("option", `${what}: ${name} must name a ${kind}, got ${shown(path)}`);
  const [placeholder] = /\{\w[^{}]*\}/.exec(path) ?? [];
  if (placeholder !== undefined)
    throw new HeddleError("option", `${what}: ${name} has ${placeholder}, which is not filled in here`, {
      hint: "only callbacks.modelCheckpoint writes a file for each epoch",
    });
}

/** Throws unless a number is finite and in `[lowest, highest]`. */
export function checkNumber(
  what: string,
  name: string,
  value: number,
  lowest = -Number.MAX_VALUE,
  highest = Number.MAX_VALUE,
): void {
  const isNumber = typeof value === "number";
  if (isNumber && Number.isFinite(value) && value >= lowest && value <= highest) return;
  // Such a large bound is named only if the value is above it.
  const below = highest >= Number.MAX_SAFE_INTEGER && !(isNumber && value > highest) ? "" : ` and at most ${highest}`;
  const above = lowest === Number.MIN_VALUE ? "finite and above 0" : `at least ${lowest}`;
  const range = lowest === -Number.MAX_VALUE ? "finite" : `${above}${below}`;
  throw new HeddleError("option", `${what}: ${name} must be ${isNumber ? range : "a number"}, got ${shown(value)}`);
}

/** Throws unless a number is an integer in `[lowest, highest]`. */
export function checkInteger(
  what: string,
  name: string,
  value: number,
  lowest = 0,
  highest = Number.MAX_SAFE_INTEGER,
): void {
  checkNumber(what, name, value, lowest, highest);
  if (!Number.isInteger(value)) {
    throw new HeddleError("option", `${what}: ${name} must be a whole number, got ${value}`);
  }
}
