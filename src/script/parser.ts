/** @module The parser of DML: a script as a syntax tree. */

import { HeddleError } from "../util/errors.ts";
import { type Token, tokenize } from "./lexer.ts";
import {
  type Argument,
  type Block,
  type FunctionDefinition,
  formatPlace,
  type IndexRange,
  type Parameter,
  type Place,
  type ScriptFile,
  type Statement,
  type Target,
  type Term,
} from "./syntax.ts";

/** Operators by how tightly they bind, from the loosest on; `!` stands between the comparisons and `&`. */
const levels: readonly (readonly string[])[] = [
  ["|", "||"],
  ["&", "&&"],
  ["<", "<=", ">", ">=", "==", "!="],
  ["+", "-"],
  ["*", "/"],
  ["%/%", "%%"],
  ["%*%"],
];
const comparisons = 2;

/** Parses a script. @throws HeddleError `syntax` with file, line and column */
export function parseScript(source: string, path: string): ScriptFile {
  return new Parser(tokenize(source, path)).file(path);
}

class Parser {
  private readonly tokens: readonly Token[];
  private position = 0;
  private reads = new Set<string>();

  constructor(tokens: readonly Token[]) {
    this.tokens = tokens;
  }

  private get token(): Token {
    return this.tokens[this.position] as Token;
  }

  private ahead(count: number): Token {
    return this.tokens[Math.min(this.position + count, this.tokens.length - 1)] as Token;
  }

  private is(text: string): boolean {
    const { kind, text: own } = this.token;
    return own === text && (kind === "symbol" || kind === "name");
  }

  private next(): Token {
    const { token } = this;
    this.position++;
    return token;
  }

  private accept(text: string): boolean {
    if (!this.is(text)) return false;
    this.position++;
    return true;
  }

  private expect(text: string, where: string): Token {
    if (!this.is(text)) this.fail(`'${text}' is missing ${where}`);
    return this.next();
  }

  private name(what: string): string {
    if (this.token.kind !== "name") this.fail(`${what} is missing`);
    return this.next().text;
  }

  private fail(message: string, hint?: string): never {
    const { kind, text, at } = this.token;
    throw new HeddleError("syntax", `${message}, before ${kind === "end" ? text : `'${text}'`}`, {
      where: formatPlace(at),
      ...(hint && { hint }),
    });
  }

  file(path: string): ScriptFile {
    const functions = new Map<string, FunctionDefinition>();
    const body: Statement[] = [];
    while (this.token.kind !== "end") {
      if (this.accept(";")) continue;
      if (this.isFunction()) {
        const definition = this.definition();
        functions.set(definition.name, definition);
      } else body.push(this.statement());
    }
    return { path, functions, body, reads: this.reads };
  }

  private isFunction(): boolean {
    const [, equals, word] = [this.token, this.ahead(1), this.ahead(2)];
    return this.token.kind === "name" && /^(=|<-)$/.test(equals.text) && /^(externalF|f)unction$/.test(word.text);
  }

  private definition(): FunctionDefinition {
    const { at, text: name } = this.next();
    this.next();
    if (this.token.text === "externalFunction") this.fail(`the function ${name} is written in Java`);
    this.next();
    const around = this.reads;
    this.reads = new Set();
    const parameters = this.parameters("the parameters");
    let results: Parameter[] = [];
    if (this.accept("return")) results = this.parameters("the results");
    const body = this.block();
    for (const { name: result } of results) this.reads.add(result);
    const { reads } = this;
    this.reads = around;
    return { at, name, parameters, results, body, reads };
  }

  private parameters(what: string): Parameter[] {
    this.expect("(", `before ${what}`);
    const list: Parameter[] = [];
    while (!this.is(")")) {
      const type = this.name("a type").toLowerCase();
      if (this.accept("[")) {
        this.name("the type of elements");
        this.expect("]", "after the type of elements");
      }
      const name = this.name("a name");
      list.push({ name, type, byDefault: this.accept("=") || this.accept("<-") ? this.term() : undefined });
      if (!this.accept(",")) break;
    }
    this.expect(")", `after ${what}`);
    return list;
  }

  private block(): Block {
    if (!this.accept("{")) return [this.statement()];
    const body: Statement[] = [];
    while (!this.accept("}")) {
      if (this.token.kind === "end") this.fail("a '}' is missing");
      if (this.accept(";")) continue;
      body.push(this.statement());
    }
    return body;
  }

  private statement(): Statement {
    const { at, text, kind } = this.token;
    const statement = kind === "name" ? this.keyword(text, at) : undefined;
    const made = statement ?? (this.is("[") ? this.results(at) : this.assignment(at));
    while (this.accept(";"));
    return made;
  }

  private keyword(text: string, at: Place): Statement | undefined {
    switch (text) {
      case "if": {
        this.next();
        const test = this.inParentheses("the condition");
        const then = this.block();
        while (this.is(";") && this.ahead(1).text === "else") this.next();
        return { at, kind: "if", test, then, otherwise: this.accept("else") ? this.block() : [] };
      }
      case "while":
        this.next();
        return { at, kind: "while", test: this.inParentheses("the condition"), body: this.block() };
      case "for":
      case "parfor":
        return this.loop(at);
      case "source": {
        this.next();
        const path = this.pathInParentheses();
        this.expect("as", "after source(…)");
        return { at, kind: "source", path, as: this.name("the name of the namespace") };
      }
      case "setwd":
        this.next();
        return { at, kind: "setwd", path: this.pathInParentheses() };
      default:
        return undefined;
    }
  }

  private inParentheses(what: string): Term {
    this.expect("(", `before ${what}`);
    const term = this.term();
    this.expect(")", `after ${what}`);
    return term;
  }

  private pathInParentheses(): string {
    this.expect("(", "before the path");
    if (this.token.kind !== "string") this.fail("a path in quotes is missing");
    const { text } = this.next();
    this.expect(")", "after the path");
    return text;
  }

  private loop(at: Place): Statement {
    const parallel = this.next().text === "parfor";
    this.expect("(", "before the variable of the loop");
    const variable = this.name("the variable of the loop");
    this.expect("in", "after the variable of the loop");
    const from = this.term();
    const to = this.accept(":") ? this.term() : undefined;
    // Options say how SystemDS runs the loop, not what it computes.
    while (this.accept(",")) {
      this.name("the name of an option");
      this.expect("=", "after the name of an option");
      this.term();
    }
    this.expect(")", "after the range of the loop");
    return { at, kind: "for", parallel, variable, from, to, body: this.block() };
  }

  private results(at: Place): Statement {
    this.expect("[", "before the results");
    const targets: Target[] = [];
    do {
      const place = this.token.at;
      targets.push({ at: place, name: this.name("the name of a result"), ranges: undefined });
    } while (this.accept(","));
    this.expect("]", "after the results");
    if (!this.accept("=")) this.expect("<-", "after the results");
    return { at, kind: "results", targets, value: this.term() };
  }

  private assignment(at: Place): Statement {
    if (this.token.kind === "name") {
      const start = this.position;
      const { text: name } = this.next();
      // What is assigned to is not read, but the rest of a matrix whose part is assigned is.
      const ranges = this.is("[") ? this.ranges() : undefined;
      const adds = this.is("+=");
      if (adds || this.is("=") || this.is("<-")) {
        this.next();
        if (adds || ranges !== undefined) this.reads.add(name);
        return { at, kind: "assign", target: { at, name, ranges }, adds, value: this.term() };
      }
      this.position = start;
    }
    const value = this.term();
    if (value.kind !== "call") this.fail("a statement is an assignment, a call or a loop");
    return { at, kind: "call", value };
  }

  private term(level = 0): Term {
    if (level === comparisons && this.is("!")) {
      const { at } = this.next();
      return { at, kind: "unary", op: "!", operand: this.term(comparisons) };
    }
    const operators = levels[level];
    if (operators === undefined) return this.signed();
    let left = this.term(level + 1);
    while (this.token.kind === "symbol" && operators.includes(this.token.text)) {
      const { at, text } = this.next();
      left = { at, kind: "binary", op: text, left, right: this.term(level + 1) };
    }
    return left;
  }

  private signed(): Term {
    if (this.is("-") || this.is("+")) {
      const { at, text } = this.next();
      return { at, kind: "unary", op: text as "-" | "+", operand: this.signed() };
    }
    if (this.is("!")) return this.term(comparisons);
    const base = this.primary();
    if (!this.is("^")) return base;
    const { at } = this.next();
    return { at, kind: "binary", op: "^", left: base, right: this.signed() };
  }

  private primary(): Term {
    const { token } = this;
    const { at, text } = token;
    switch (token.kind) {
      case "int":
      case "double":
        this.next();
        return { at, kind: token.kind, value: Number(text.replace(/[lL]$/, "")) };
      case "string":
        this.next();
        return { at, kind: "string", value: text };
      case "parameter":
        this.next();
        return { at, kind: "parameter", name: text.slice(1) };
      case "name":
        return this.named(this.next());
      default:
        if (this.is("[")) return { at, kind: "call", name: "list", args: this.args("[", "]") };
        if (!this.is("(")) this.fail("an expression is missing");
        return this.inParentheses("the expression");
    }
  }

  private named({ at, text }: Token): Term {
    if (/^(TRUE|FALSE|true|false)$/.test(text)) return { at, kind: "boolean", value: text.toLowerCase() === "true" };
    if (this.is("(")) return { at, kind: "call", name: text, args: this.args() };
    this.reads.add(text);
    // `[a, b] = f()` may follow on the next line.
    if (this.is("[") && !this.token.first) return { at, kind: "index", name: text, ranges: this.ranges() };
    return { at, kind: "name", name: text };
  }

  private args(open = "(", close = ")"): Argument[] {
    this.expect(open, "before the arguments");
    const list: Argument[] = [];
    while (!this.is(close)) {
      const isNamed = this.token.kind === "name" && this.ahead(1).text === "=" && this.ahead(1).kind === "symbol";
      const name = isNamed ? this.next().text : undefined;
      if (isNamed) this.next();
      list.push({ name, value: this.term() });
      while (this.accept(";")); // SystemDS reads over these
      if (!this.accept(",")) break;
    }
    this.expect(close, "after the arguments");
    return list;
  }

  private ranges(): IndexRange[] {
    this.expect("[", "before the index");
    const list: IndexRange[] = [];
    do {
      if (this.is(",") || this.is("]")) list.push({ kind: "all" });
      else {
        const from = this.term();
        if (!this.accept(":")) list.push({ kind: "one", at: from });
        else if (this.is(",") || this.is("]")) this.fail("the end of a range is missing", "write X[a:nrow(X), ]");
        else list.push({ kind: "range", from, to: this.term() });
      }
      if (list.length === 2 && this.is(",")) this.fail("an index has at most a range of rows and one of columns");
    } while (this.accept(","));
    this.expect("]", "after the index");
    return list;
  }
}
