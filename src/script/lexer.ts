/** @module Words of DML. */

import { HeddleError } from "../util/errors.ts";
import { formatPlace, type Place } from "./syntax.ts";

/** A word of a script. */
export interface Token {
  readonly kind: "name" | "int" | "double" | "string" | "parameter" | "symbol" | "end";
  readonly text: string;
  readonly at: Place;
  /** Whether it is the first of its line. */
  readonly first: boolean;
}

const words: readonly (readonly [Token["kind"] | "space", RegExp])[] = [
  // SystemDS reads over a point at the end of a call.
  ["space", /\s+|#[^\n]*|\/\*[\s\S]*?\*\/|(?<=\))\.(?!\w)/y],
  ["parameter", /\$(?:[A-Za-z][\w.]*|\d+)/y],
  ["double", /(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[lL]?|\d+[eE][+-]?\d+[lL]?/y],
  ["int", /\d+[lL]?/y],
  ["name", /(?:[A-Za-z]\w*::)?[A-Za-z][\w.]*/y],
  ["string", /"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'/y],
  ["symbol", /%\*%|%\/%|%%|<-|<=|>=|==|!=|&&|\|\||\+=|[-+*/^=<>!&|()[\]{},;:]/y],
];

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };

/** The text of a literal string. */
const unquoted = (text: string): string =>
  text.slice(1, -1).replace(/\\([\s\S])/g, (_whole, letter: string) => escapes[letter] ?? letter);

/** Cuts a script into words. @throws HeddleError `syntax` with the place of a character that begins no word */
export function tokenize(source: string, file: string): Token[] {
  const tokens: Token[] = [];
  let position = 0;
  let [line, start] = [1, 0];
  let first = true;
  while (position < source.length) {
    const at = { file, line, column: position - start + 1 };
    const found = wordAt(source, position);
    if (found === undefined) throw new HeddleError("syntax", noWord(source, position), { where: formatPlace(at) });
    const [kind, text] = found;
    if (text === "/" && source[position + 1] === "*")
      throw new HeddleError("syntax", "the comment that begins here has no end: */ is missing", {
        where: formatPlace(at),
      });
    if (kind !== "space") {
      tokens.push({ kind, text: kind === "string" ? unquoted(text) : text, at, first });
      first = false;
    }
    for (let index = 0; index < text.length; index++)
      if (text[index] === "\n") [line, start, first] = [line + 1, position + index + 1, true];
    position += text.length;
  }
  tokens.push({
    kind: "end",
    text: "the end of the file",
    at: { file, line, column: position - start + 1 },
    first: true,
  });
  return tokens;
}

/** Why no word begins at a position. */
function noWord(source: string, position: number): string {
  const letter = source[position] as string;
  return /["']/.test(letter)
    ? `the string that begins here has no end: ${letter} is missing`
    : `the character ${JSON.stringify(letter)} begins no word of DML`;
}

function wordAt(source: string, position: number): readonly [Token["kind"] | "space", string] | undefined {
  for (const [kind, pattern] of words) {
    pattern.lastIndex = position;
    const match = pattern.exec(source);
    if (match !== null) return [kind, match[0]];
  }
  return undefined;
}
