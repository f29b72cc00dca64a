/**
 * @module Functions of text in `map`, as scripts write them: Java's lambda expressions over strings. What is read is the part of Java that
 * transforms a cell: calls of String's methods, operators, `? :`, arrays, and the functions of SystemDS's `UtilFunctions`.
 */

import { HeddleError } from "../util/errors.ts";
import { formatDouble } from "./values.ts";

/** A value of such an expression. `char` counts as a string of one letter; a whole number is told from a double by its class. */
export type LambdaValue = string | number | boolean | Double | readonly string[];

/** A double, which Java writes with a point. */
class Double {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

type Scope = ReadonlyMap<string, LambdaValue>;
type Compute = (scope: Scope) => LambdaValue;

const isWide = (value: LambdaValue): boolean => value instanceof Double;

function numberOf(value: LambdaValue): number {
  if (value instanceof Double) return value.value;
  if (typeof value === "number") return value;
  throw new HeddleError("argument", `map: ${textOf(value)} is not a number`);
}

/** As `String.valueOf`. */
function textOf(value: LambdaValue): string {
  if (value instanceof Double) return formatDouble(value.value);
  return Array.isArray(value) ? value.join(",") : String(value);
}

const whole = (value: LambdaValue): number => Math.trunc(numberOf(value));
const pattern = (value: LambdaValue, flags = ""): RegExp => {
  try {
    return new RegExp(textOf(value), `u${flags}`);
  } catch (error) {
    throw new HeddleError("argument", `map: ${(error as Error).message}`, { cause: error });
  }
};

/** As Java's `split`: empty texts at the end are left away; a pattern that takes no letter makes none at the start. */
function split(text: string, by: LambdaValue): string[] {
  const parts = text.split(pattern(by));
  while (parts.length > 1 && parts.at(-1) === "") parts.pop();
  return parts;
}

/** The words of a row, without anything but letters and figures. */
const words = (text: string): string[] => split(text.toLowerCase().trim(), "\\s+");

/** The least number of words put in, taken out or replaced, as a share of the longer text. */
function wordErrorRate(left: string, right: string): number {
  const [a, b] = [split(left, " "), split(right, " ")];
  let row = Array.from({ length: b.length + 1 }, (_unused, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(
        Math.min(
          (next[j - 1] as number) + 1,
          (row[j] as number) + 1,
          (row[j - 1] as number) + Number(a[i - 1] !== b[j - 1]),
        ),
      );
    row = next;
  }
  return (row[b.length] as number) / Math.max(a.length, b.length);
}

/** The letters that two texts share, as a part of the letters that they have. */
function jaccard(left: string, right: string): number {
  const [a, b] = [new Set(left), new Set(right)];
  const shared = [...a].filter((letter) => b.has(letter)).length;
  return shared / (a.size + b.size - shared);
}

type Call = (args: readonly LambdaValue[]) => LambdaValue;
const first = (args: readonly LambdaValue[]): string => textOf(args[0] as LambdaValue);
const second = (args: readonly LambdaValue[]): string => textOf(args[1] as LambdaValue);
const parsed = (text: string): number => {
  if (text.trim() === "" || Number.isNaN(Number(text)))
    throw new HeddleError("argument", `map: "${text}" is not a number`);
  return Number(text);
};

/** Functions of classes, by `Class.name`. */
const functions: Readonly<Record<string, Call>> = {
  "String.valueOf": (args) => first(args),
  "Integer.valueOf": (args) => Math.trunc(parsed(first(args))),
  "Integer.parseInt": (args) => Math.trunc(parsed(first(args))),
  "Double.valueOf": (args) => new Double(parsed(first(args))),
  "Double.parseDouble": (args) => new Double(parsed(first(args))),
  "Math.abs": ([x]) =>
    isWide(x as LambdaValue) ? new Double(Math.abs(numberOf(x as LambdaValue))) : Math.abs(numberOf(x as LambdaValue)),
  "Math.max": ([x, y]) => Math.max(numberOf(x as LambdaValue), numberOf(y as LambdaValue)),
  "Math.min": ([x, y]) => Math.min(numberOf(x as LambdaValue), numberOf(y as LambdaValue)),
  "UtilFunctions.getAsciiAtIdx": (args) => {
    const code = first(args).charCodeAt(whole(args[1] as LambdaValue) - 1);
    return Number.isNaN(code) ? 0 : code;
  },
  "UtilFunctions.splitRecodeEntry": (args) => {
    const text = first(args);
    const at = text.lastIndexOf("·");
    return [text.slice(0, at), text.slice(at + 1)];
  },
  "UtilFunctions.jaccardSim": (args) => new Double(jaccard(first(args), second(args))),
  "UtilFunctions.getWordErrorRate": (args) => new Double(wordErrorRate(first(args), second(args))),
  "UtilFunctions.cleanAndTokenizeRow": (args) => words(first(args).replaceAll(/[^a-zA-Z0-9\s]/g, " ")),
};

type Method = (text: string, args: readonly LambdaValue[]) => LambdaValue;

/** Methods of strings; `text` is the object. */
const methods: Readonly<Record<string, Method>> = {
  length: (text) => text.length,
  isEmpty: (text) => text === "",
  isBlank: (text) => text.trim() === "",
  trim: (text) => text.trim(),
  strip: (text) => text.trim(),
  toLowerCase: (text) => text.toLowerCase(),
  toUpperCase: (text) => text.toUpperCase(),
  toString: (text: string) => text,
  concat: (text, args) => text + first(args),
  repeat: (text, args) => text.repeat(whole(args[0] as LambdaValue)),
  equals: (text, args) => text === first(args),
  equalsIgnoreCase: (text, args) => text.toLowerCase() === first(args).toLowerCase(),
  compareTo: (text, args) => (text < first(args) ? -1 : Number(text > first(args))),
  contains: (text, args) => text.includes(first(args)),
  startsWith: (text, args) => text.startsWith(first(args)),
  endsWith: (text, args) => text.endsWith(first(args)),
  indexOf: (text, args) => text.indexOf(first(args)),
  lastIndexOf: (text, args) => text.lastIndexOf(first(args)),
  charAt: (text, args) => text[whole(args[0] as LambdaValue)] ?? "",
  substring: (text, args) =>
    text.slice(whole(args[0] as LambdaValue), args[1] === undefined ? undefined : whole(args[1])),
  replace: (text, args) => text.split(first(args)).join(second(args)),
  replaceAll: (text, args) => text.replace(pattern(args[0] as LambdaValue, "g"), second(args)),
  replaceFirst: (text, args) => text.replace(pattern(args[0] as LambdaValue), second(args)),
  matches: (text, args) => pattern(`^(?:${first(args)})$`).test(text),
  split: (text, args) => split(text, args[0] as LambdaValue),
};

const token =
  /\s*(?:(?<number>\d+(?:\.\d+)?)|(?<name>[A-Za-z_]\w*)|(?<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<symbol>->|&&|\|\||[=!<>]=|[-+*/%<>!?:()[\]{},.]))/y;

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
const levels: readonly (readonly string[])[] = [
  ["||"],
  ["&&"],
  ["==", "!="],
  ["<", "<=", ">", ">="],
  ["+", "-"],
  ["*", "/", "%"],
];

const compared: Readonly<Record<string, (order: number) => boolean>> = {
  "<": (order) => order < 0,
  "<=": (order) => order <= 0,
  ">": (order) => order > 0,
  ">=": (order) => order >= 0,
};

function operated(op: string, x: LambdaValue, y: LambdaValue): LambdaValue {
  if (op === "==" || op === "!=") return (textOf(x) === textOf(y)) === (op === "==");
  if (op === "+" && (typeof x === "string" || typeof y === "string")) return textOf(x) + textOf(y);
  const [a, b] = [numberOf(x), numberOf(y)];
  const compare = compared[op];
  if (compare !== undefined) return compare(a - b);
  const isDouble = isWide(x) || isWide(y);
  const value = op === "+" ? a + b : op === "-" ? a - b : op === "*" ? a * b : op === "/" ? a / b : a % b;
  return isDouble ? new Double(value) : Math.trunc(value);
}

/** A lambda expression: its parameters and what it computes of their values. */
export interface Lambda {
  readonly parameters: readonly string[];
  readonly apply: (...values: readonly LambdaValue[]) => LambdaValue;
}

class LambdaParser {
  private readonly tokens: { readonly kind: string; readonly text: string }[] = [];
  private position = 0;
  private readonly source: string;

  constructor(source: string) {
    this.source = source;
    for (token.lastIndex = 0; source.slice(token.lastIndex).trim() !== ""; ) {
      const start = token.lastIndex;
      const groups = token.exec(source)?.groups;
      const found = Object.entries(groups ?? {}).find(([, text]) => text !== undefined);
      if (found === undefined) throw this.error(`"${source.slice(start).trim()}" cannot be read`);
      this.tokens.push({ kind: found[0], text: found[1] as string });
    }
  }

  lambda(): Lambda {
    const parameters: string[] = [];
    if (this.accept("(")) {
      do parameters.push(this.name());
      while (this.accept(","));
      this.expect(")");
    } else parameters.push(this.name());
    this.expect("->");
    const body = this.choice();
    if (this.position < this.tokens.length) throw this.error(`"${this.text}" does not belong there`);
    return {
      parameters,
      apply: (...values) => body(new Map(parameters.map((name, index) => [name, values[index] as LambdaValue]))),
    };
  }

  private get text(): string | undefined {
    return this.tokens[this.position]?.text;
  }

  private error(what: string): HeddleError {
    return new HeddleError("argument", `map: ${what} in "${this.source}"`, {
      hint: 'write a lambda expression of Java, as "s -> s.toLowerCase()"',
    });
  }

  private accept(text: string): boolean {
    const found = this.tokens[this.position];
    if (found?.kind === "string" || found?.text !== text) return false;
    this.position++;
    return true;
  }

  private expect(text: string): void {
    if (!this.accept(text)) throw this.error(`'${text}' is missing before ${this.text ?? "the end"}`);
  }

  private name(): string {
    const found = this.tokens[this.position++];
    if (found?.kind !== "name") throw this.error(`a name is missing before ${found?.text ?? "the end"}`);
    return found.text;
  }

  private choice(): Compute {
    const test = this.operators(0);
    if (!this.accept("?")) return test;
    const then = this.choice();
    this.expect(":");
    const otherwise = this.choice();
    return (scope) => (test(scope) === true ? then(scope) : otherwise(scope));
  }

  private operators(level: number): Compute {
    const symbols = levels[level];
    if (symbols === undefined) return this.prefixed();
    let left = this.operators(level + 1);
    for (let op = symbols.find((symbol) => this.accept(symbol)); op !== undefined; ) {
      const [x, symbol, y] = [left, op, this.operators(level + 1)];
      if (symbol === "&&") left = (scope) => x(scope) === true && y(scope);
      else if (symbol === "||") left = (scope) => x(scope) === true || y(scope);
      else left = (scope) => operated(symbol, x(scope), y(scope));
      op = symbols.find((other) => this.accept(other));
    }
    return left;
  }

  private prefixed(): Compute {
    if (this.accept("!")) {
      const operand = this.prefixed();
      return (scope) => operand(scope) !== true;
    }
    if (this.accept("-")) {
      const operand = this.prefixed();
      return (scope) => operated("-", 0, operand(scope));
    }
    let value = this.primary();
    for (;;) {
      if (this.accept("[")) {
        const [array, at] = [value, this.choice()];
        this.expect("]");
        value = (scope) => this.element(array(scope), whole(at(scope)));
      } else if (this.accept(".")) value = this.method(value, this.name());
      else return value;
    }
  }

  private element(array: LambdaValue, at: number): LambdaValue {
    const value = Array.isArray(array) ? (array as readonly string[])[at] : undefined;
    if (value === undefined) throw this.error(`there is no element ${at} of ${textOf(array)}`);
    return value;
  }

  private method(object: Compute, name: string): Compute {
    // `array.length` has no arguments.
    if (!this.accept("("))
      return (scope) => {
        const value = object(scope);
        return Array.isArray(value) ? value.length : textOf(value).length;
      };
    const args = this.args(")");
    if (!Object.hasOwn(methods, name)) throw this.error(`strings have no method '${name}' that Heddle knows`);
    const run = methods[name] as Method;
    return (scope) =>
      run(
        textOf(object(scope)),
        args.map((arg) => arg(scope)),
      );
  }

  private args(end: string): Compute[] {
    const list: Compute[] = [];
    while (!this.accept(end)) {
      list.push(this.choice());
      if (!this.accept(",")) {
        this.expect(end);
        break;
      }
    }
    return list;
  }

  private primary(): Compute {
    const found = this.tokens[this.position++];
    if (found === undefined) throw this.error("an expression is missing at the end");
    const { kind, text } = found;
    if (kind === "string") {
      const value = text.slice(1, -1).replace(/\\(.)/gs, (_all, letter: string) => escapes[letter] ?? letter);
      return () => value;
    }
    if (kind === "number") {
      const value = text.includes(".") ? new Double(Number(text)) : Number(text);
      return () => value;
    }
    if (text === "(") {
      const inner = this.choice();
      this.expect(")");
      return inner;
    }
    if (kind !== "name") throw this.error(`an expression is missing before '${text}'`);
    if (text === "true" || text === "false") return () => text === "true";
    return text === "new" ? this.array() : this.named(text);
  }

  /** `new String[]{a, b}` */
  private array(): Compute {
    this.name();
    this.expect("[");
    this.expect("]");
    this.expect("{");
    const parts = this.args("}");
    return (scope) => parts.map((part) => textOf(part(scope)));
  }

  private named(name: string): Compute {
    const call = `${name}.${this.tokens[this.position + 1]?.text}`;
    if (this.text === "." && Object.hasOwn(functions, call)) {
      this.position += 2;
      this.expect("(");
      const args = this.args(")");
      const run = functions[call] as Call;
      return (scope) => run(args.map((arg) => arg(scope)));
    }
    return (scope) => {
      const value = scope.get(name);
      if (value === undefined) throw this.error(`there is no '${name}'`);
      return value;
    };
  }
}

/** Reads a lambda expression. @throws HeddleError `argument` for what is not read */
export const parseLambda = (source: string): Lambda => new LambdaParser(source).lambda();

/** A result as the text of a cell. */
export const cellOf = textOf;
