/** @module The part of Python's literals that headers of npy files use: a dict of texts to texts, booleans and tuples. */
import type { HeddleError } from "../util/errors.ts";

/** A value of such a dict. */
export type PythonLiteral = string | number | boolean | readonly PythonLiteral[];

const token = /[ \t\r\n]*(?:(\d+)[lL]?|'([^'\\\n]*)'|"([^"\\\n]*)"|(True|False)\b|([{}()[\],:]))/y;
const deepest = 8;

/**
 * Reads a dict literal; nothing is evaluated. `problem` makes the error to throw.
 */
export function parsePythonDict(text: string, problem: (what: string) => HeddleError): Map<string, PythonLiteral> {
  let at = 0;
  let next: { kind: "value" | "mark"; value: string | number | boolean } | undefined;
  const advance = (): void => {
    token.lastIndex = at;
    const match = token.exec(text);
    if (match === null) {
      if (text.slice(at).trim() !== "") throw problem(`cannot be read at character ${at}`);
      next = undefined;
      return;
    }
    at = token.lastIndex;
    const [, digits, single, double, truth, mark] = match;
    if (mark !== undefined) next = { kind: "mark", value: mark };
    else
      next = { kind: "value", value: digits !== undefined ? Number(digits) : (single ?? double ?? truth === "True") };
  };
  const isMark = (mark: string): boolean => next?.kind === "mark" && next.value === mark;
  const expect = (mark: string): void => {
    if (!isMark(mark)) throw problem(`should have ${mark} before character ${at}`);
    advance();
  };
  const list = (close: string, depth: number): PythonLiteral[] => {
    if (depth > deepest) throw problem("is nested too deeply");
    const items: PythonLiteral[] = [];
    advance();
    while (!isMark(close)) {
      items.push(value(depth));
      if (!isMark(close)) expect(",");
    }
    advance();
    return items;
  };
  const value = (depth: number): PythonLiteral => {
    if (isMark("(")) return list(")", depth + 1);
    if (isMark("[")) return list("]", depth + 1);
    if (next?.kind !== "value") throw problem(`should have a value before character ${at}`);
    const read = next.value;
    advance();
    return read;
  };
  advance();
  expect("{");
  const fields = new Map<string, PythonLiteral>();
  while (!isMark("}")) {
    const name = value(0);
    if (typeof name !== "string" || fields.has(name)) throw problem(`has a wrong or repeated name ${String(name)}`);
    expect(":");
    fields.set(name, value(0));
    if (!isMark("}")) expect(",");
  }
  advance();
  if (next !== undefined) throw problem("goes on after its dict");
  return fields;
}
