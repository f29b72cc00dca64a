/** @module Words of a column of text, as `tokenize` gives them. */

import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { laxJson } from "./transform.ts";
import { Frame } from "./values.ts";

interface Token {
  readonly text: string;
  /** Where it begins in the text, from 1. */
  readonly at: number;
}

/** The parts of a text between matches of a pattern. */
function tokensOf(text: string, by: RegExp): Token[] {
  const tokens: Token[] = [];
  let start = 0;
  for (const { 0: between = "", index } of [...text.matchAll(by), Object.assign([""], { index: text.length })]) {
    if (index > start) tokens.push({ text: text.slice(start, index), at: start + 1 });
    start = index + between.length;
  }
  return tokens;
}

const malformed = (what: string): HeddleError =>
  new HeddleError("argument", `tokenize: ${what}`, {
    hint: 'a specification is JSON, as {"algo": "split", "out": "position", "id_cols": [1], "tokenize_col": 2}',
  });

/** The cells that follow the identifiers, in a row for each token: its place or count, and its text. */
function cellsOf(
  tokens: readonly Token[],
  out: string,
  isSorted: boolean,
  most: number,
): readonly (readonly string[])[] {
  if (out === "position") return tokens.slice(0, most).map(({ text, at }) => [String(at), text]);
  const counts = new Map<string, number>();
  for (const { text } of tokens) counts.set(text, (counts.get(text) ?? 0) + 1);
  const entries = [...counts];
  if (isSorted) entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.slice(0, most).map(([text, count]) => [text, String(count)]);
}

/**
 * A row for each token of each row (the identifiers, then place and token, or token and count), or with `format_wide` a row for each row,
 * with its tokens side by side.
 *
 * @throws HeddleError `argument` for a malformed specification
 */
export function tokenized(frame: Frame, specification: string, most: number): Frame {
  const spec = laxJson(specification);
  const column = (value: unknown): readonly string[] => {
    const found = frame.columns[Number(value) - 1];
    if (found === undefined) throw malformed(`there is no column ${shown(value)} of ${frame.columns.length}`);
    return found;
  };
  const { algo, out, id_cols: ids, format_wide: wide } = spec;
  if (algo !== "split") throw malformed(`there is no algorithm ${shown(algo)}: "split" is`);
  if (out !== "position" && out !== "count")
    throw malformed(`there is no output ${shown(out)}: "position" and "count" are`);
  if (!Array.isArray(ids)) throw malformed('"id_cols" is no list');
  const { regex = "\\s+" } = (spec.algo_params ?? {}) as { regex?: string };
  const { sort_alpha: isSorted = false } = (spec.out_params ?? {}) as { sort_alpha?: boolean };
  const [texts, keys, by] = [column(spec.tokenize_col), ids.map(column), new RegExp(regex, "gu")];
  const rows = texts.flatMap((text, row) => {
    const key = keys.map((cells) => cells[row] as string);
    const cells = cellsOf(tokensOf(text, by), out, isSorted, most);
    if (wide !== true) return cells.map((two) => [...key, ...two]);
    const words = cells.map((two) => two[out === "position" ? 1 : 0] as string);
    return [[...key, ...words, ...new Array<string>(most - words.length).fill("")]];
  });
  const width = keys.length + (wide === true ? most : 2);
  return new Frame(Array.from({ length: width }, (_unused, at) => rows.map((row) => row[at] as string)));
}
