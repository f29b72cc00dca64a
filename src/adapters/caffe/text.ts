/**
 * @module The text format of protobuf, in which Caffe's networks and solvers are written: `name: value`, `name { … }`,
 * lists, comments. It is read into fields with their places; nothing in it is evaluated, and nesting is bounded.
 */
import { checkRecognised, HeddleError, nearest, recognisedBytes, shown } from "../../extend/index.ts";

type Scalar =
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "word"; readonly value: string };

interface Field {
  readonly name: string;
  readonly value: Scalar | Message;
  readonly line: number;
  readonly column: number;
}

/** The deepest nesting of messages that is read. */
const deepest = 32;
const largestText = 16 * 2 ** 20;

/** The place of a message or a field in a file. */
interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The error for a place of a file. */
export const errorAt = ({ file, line, column }: Place, problem: string, hint?: string): HeddleError =>
  new HeddleError("format", `${file}:${line}:${column}: ${problem}`, hint === undefined ? {} : { hint });

/** A message: its fields are asked for by name, and `finish` refuses fields that were never asked for. */
export class Message {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** The name in error messages, such as `convolution_param`. */
  readonly name: string;
  readonly #fields: readonly Field[];
  readonly #asked = new Set<string>();

  constructor(name: string, fields: readonly Field[], location: Place) {
    this.name = name;
    this.file = location.file;
    this.line = location.line;
    this.column = location.column;
    this.#fields = fields;
  }

  #all(name: string): readonly Field[] {
    this.#asked.add(name);
    return this.#fields.filter((field) => field.name === name);
  }

  has(name: string): boolean {
    return this.#fields.some((field) => field.name === name);
  }

  #placed(field: Field): Place {
    return { file: this.file, line: field.line, column: field.column };
  }

  /** All values of a repeated field. */
  #scalars(name: string, kind: Scalar["kind"], what: string): (string | number)[] {
    return this.#all(name).map((field) => {
      const { value } = field;
      if (value instanceof Message || value.kind !== kind)
        throw errorAt(this.#placed(field), `${name} must be ${what}`);
      return value.value;
    });
  }

  /** The last of several values counts, as in protobuf. */
  #one<Value>(name: string, values: readonly Value[], otherwise: Value | undefined): Value {
    const value = values.at(-1) ?? otherwise;
    if (value !== undefined) return value;
    const near = nearest(
      name,
      this.#fields.map((field) => field.name),
    );
    throw errorAt(
      this,
      `${this.name} needs the field ${name}`,
      near === undefined ? undefined : `is ${near} meant to be ${name}?`,
    );
  }

  numbers(name: string): number[] {
    return this.#scalars(name, "number", "a number") as number[];
  }

  number(name: string, otherwise?: number): number {
    return this.#one(name, this.numbers(name), otherwise);
  }

  /** A whole number from `lowest` on. */
  integer(name: string, lowest: number, otherwise?: number): number {
    const value = this.number(name, otherwise);
    if (Number.isSafeInteger(value) && value >= lowest) return value;
    const field = this.#all(name).at(-1);
    throw errorAt(
      field === undefined ? this : this.#placed(field),
      `${name} must be a whole number from ${lowest} on, got ${value}`,
    );
  }

  texts(name: string): string[] {
    return this.#scalars(name, "text", "a text in quotes") as string[];
  }

  text(name: string, otherwise?: string): string {
    return this.#one(name, this.texts(name), otherwise);
  }

  /** One of the allowed words; older files write words in quotes. */
  word<Word extends string>(name: string, allowed: readonly Word[], otherwise?: Word): Word {
    const fields = this.#all(name);
    const words = fields.map((field) => {
      const { value } = field;
      const word = value instanceof Message ? "{ … }" : String(value.value);
      if ((allowed as readonly string[]).includes(word)) return word as Word;
      throw errorAt(this.#placed(field), `${name} is ${word}; ${allowed.join(", ")} are read`);
    });
    return this.#one(name, words, otherwise);
  }

  flag(name: string, otherwise: boolean): boolean {
    return this.word(name, ["true", "false"], otherwise ? "true" : "false") === "true";
  }

  messages(name: string): Message[] {
    return this.#all(name).map((field) => {
      if (field.value instanceof Message) return field.value;
      throw errorAt(this.#placed(field), `${name} must be { … }`);
    });
  }

  message(name: string): Message | undefined {
    return this.messages(name).at(-1);
  }

  /** Accepts fields that change nothing here. */
  ignore(...names: readonly string[]): void {
    for (const name of names) this.#asked.add(name);
  }

  /** Throws for a field that was never asked for: a misspelt name, or one that is not imported. */
  finish(): void {
    const field = this.#fields.find(({ name }) => !this.#asked.has(name));
    if (field === undefined) return;
    const near = nearest(field.name, [...this.#asked]);
    throw errorAt(
      this.#placed(field),
      `${this.name} has the field ${field.name}, which is not known`,
      near === undefined ? `fields that are read: ${[...this.#asked].sort().join(", ")}` : `did you mean ${near}?`,
    );
  }
}

const token =
  /[ \t\r\n]+|#[^\n]*|([A-Za-z_][A-Za-z0-9_.]*)|([-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fF]?)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|([{}<>[\]:,;-])/y;

interface Token {
  readonly kind: "word" | "number" | "text" | "mark" | "end";
  readonly text: string;
  readonly line: number;
  readonly column: number;
}

function* tokens(text: string, file: string): Generator<Token> {
  let line = 1;
  let lineStart = 0;
  for (let at = 0; at < text.length; at = token.lastIndex) {
    token.lastIndex = at;
    const match = token.exec(text);
    const location = { file, line, column: at - lineStart + 1 };
    if (match === null) throw errorAt(location, `cannot be read: ${JSON.stringify(text.slice(at, at + 12))}`);
    const [whole, word, number, quoted, mark] = match;
    const kind = word !== undefined ? "word" : number !== undefined ? "number" : quoted !== undefined ? "text" : "mark";
    if (word !== undefined || number !== undefined || quoted !== undefined || mark !== undefined)
      yield { kind, text: whole, line: location.line, column: location.column };
    for (let next = whole.indexOf("\n"); next >= 0; next = whole.indexOf("\n", next + 1)) {
      line++;
      lineStart = at + next + 1;
    }
  }
  yield { kind: "end", text: "the end", line, column: text.length - lineStart + 1 };
}

const escapes: { readonly [letter: string]: string } = { n: "\n", t: "\t", r: "\r" };
const unquoted = (text: string): string =>
  text.slice(1, -1).replace(/\\(.)/g, (_whole, letter: string) => escapes[letter] ?? letter);

class Parser {
  readonly #tokens: Generator<Token>;
  readonly #file: string;
  #next: Token;

  constructor(text: string, file: string) {
    this.#file = file;
    this.#tokens = tokens(text, file);
    this.#next = this.#tokens.next().value as Token;
  }

  #error(problem: string): HeddleError {
    return errorAt({ file: this.#file, ...this.#next }, problem);
  }

  #advance(): Token {
    const taken = this.#next;
    if (taken.kind !== "end") this.#next = this.#tokens.next().value as Token;
    return taken;
  }

  #take(mark: string): boolean {
    if (this.#next.kind !== "mark" || this.#next.text !== mark) return false;
    this.#advance();
    return true;
  }

  fields(close: string | undefined, depth: number): Field[] {
    if (depth > deepest) throw this.#error(`messages are nested more than ${deepest} deep`);
    const fields: Field[] = [];
    while (!(close === undefined ? this.#next.kind === "end" : this.#take(close))) {
      const name = this.#next;
      if (name.kind !== "word") throw this.#error(`a field's name should stand here, not ${name.text}`);
      this.#advance();
      const colon = this.#take(":");
      const { line, column } = name;
      for (const value of this.#values(name, colon, depth)) fields.push({ name: name.text, value, line, column });
      if (!this.#take(",")) this.#take(";");
    }
    return fields;
  }

  #values(name: Token, colon: boolean, depth: number): (Scalar | Message)[] {
    if (colon && this.#take("[")) {
      const list: (Scalar | Message)[] = [];
      while (!this.#take("]")) {
        list.push(this.#value(name, true, depth));
        if (!this.#take(",") && !(this.#next.kind === "mark" && this.#next.text === "]"))
          throw this.#error(`, or ] should stand here, not ${this.#next.text}`);
      }
      return list;
    }
    return [this.#value(name, colon, depth)];
  }

  #value(name: Token, colon: boolean, depth: number): Scalar | Message {
    for (const [open, close] of [
      ["{", "}"],
      ["<", ">"],
    ] as const)
      if (this.#take(open)) return new Message(name.text, this.fields(close, depth + 1), { file: this.#file, ...name });
    if (!colon) throw this.#error(`: or { should stand after ${name.text}, not ${this.#next.text}`);
    const value = this.#advance();
    if (value.kind === "word") return { kind: "word", value: value.text };
    if (value.kind === "number")
      return { kind: "number", value: Number(value.text.replace(/(?<!^[-+]?0x.*)[fF]$/i, "")) };
    if (value.kind !== "text")
      throw errorAt({ file: this.#file, ...value }, `a value of ${name.text} should stand here, not ${value.text}`);
    let text = unquoted(value.text);
    while (this.#next.kind === "text") text += unquoted(this.#advance().text);
    return { kind: "text", value: text };
  }
}

/** Reads a file's text. @throws HeddleError `format` with the place, as `file:line:column`. */
export function parsePrototxt(text: string, file: string): Message {
  const location = { file, line: 1, column: 1 };
  if (typeof text !== "string") throw new HeddleError("argument", `takes a text, got ${shown(text)}`);
  if (text.length > largestText)
    throw errorAt(location, `the text has ${text.length} characters; at most ${largestText} are read`);
  checkRecognised(new TextEncoder().encode(text.slice(0, recognisedBytes)), file, "Caffe text", ["empty"]);
  return new Message("the file", new Parser(text, file).fields(undefined, 0), location);
}
