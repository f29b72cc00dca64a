/** @module The parser of the text that `print.ts` writes. */

import type { Reduction } from "../ir/equation.ts";
import type { Attrs } from "../ir/node.ts";
import { parseGraph } from "../ir/parse.ts";
import { unquoted } from "../ir/print.ts";
import { parseType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { type Plain, parseCanonicalJson } from "../util/text.ts";
import type { Program, ProgramAxis, ProgramInput, ProgramOutput, Step, ValueId } from "./program.ts";

/**
 * Parses the text of a program.
 *
 * @throws HeddleError `parse` with the line number.
 */
export function parseProgram(text: string): Program {
  return new ProgramReader(text).read();
}

class ProgramReader {
  private readonly lines: readonly string[];
  private line = 0;
  private readonly axes: ProgramAxis[] = [];
  private readonly inputs: ProgramInput[] = [];
  private readonly outputs: ProgramOutput[] = [];
  private readonly donated: (number | undefined)[] = [];
  private readonly values: TensorType[] = [];
  private readonly steps: Step[] = [];

  constructor(text: string) {
    this.lines = text.split("\n");
  }

  read(): Program {
    const head = /^program @("(?:[^"\\\p{Cc}]|\\(?:["\\bfnrt]|u[\da-f]{4}))*"|(?!")\S*) \{$/u.exec(this.lines[0] ?? "");
    if (head === null) throw this.error("expected 'program @name {'");
    for (this.line = 1; this.line < this.lines.length; this.line++) {
      const text = this.lines[this.line] as string;
      if (text === "}") return this.program(unquoted(head[1] as string));
      this.statement(text.trim());
    }
    throw this.error("program ends without '}'");
  }

  private program(name: string): Program {
    const { axes, inputs, outputs, values, steps, donated } = this;
    return { name, axes, inputs, outputs, values, steps, donated };
  }

  private statement(text: string): void {
    const word = text.slice(0, text.indexOf(" "));
    if (word === "axis") this.axis(text);
    else if (word === "input") this.input(text);
    else if (word === "output") this.output(text);
    else if (word === "free") this.steps.push({ kind: "free", values: this.ids(text.slice(5)) });
    else this.step(text);
  }

  private axis(text: string): void {
    const match = this.match(/^axis (\S+) (\d+)$/, text);
    this.axes.push({ name: match[1] as string, size: Number(match[2]) });
  }

  private input(text: string): void {
    const match = this.match(/^input (%\d+) (\S+) ?(.*)$/, text);
    this.define(`${match[1]} ${match[2]}`);
    this.inputs.push({ name: match[3] as string, type: this.values.at(-1) as TensorType });
  }

  private output(text: string): void {
    const match = this.match(/^output %(\d+)(?: (?!<-)(.*?))?(?: <- %(\d+))?$/, text);
    const value = Number(match[1]);
    const type = this.values[value];
    if (type === undefined) throw this.error(`%${value} is not defined`);
    this.outputs.push({ name: match[2] ?? "", type, value });
    this.donated.push(match[3] === undefined ? undefined : Number(match[3]));
  }

  private step(text: string): void {
    const match = this.match(/^(.*?) ?= ([A-Za-z0-9]+)\(([%0-9, ]*)\)(?: (\{.*\}))?$/, text);
    const arguments_ = this.ids(match[3] as string);
    const results = (match[1] as string)
      .split(", ")
      .filter((part) => part !== "")
      .map((part) => this.define(part));
    const op = match[2] as string;
    if (op === "run")
      this.steps.push({ kind: "run", region: parseGraph(this.indented()), arguments: arguments_, results });
    else if (op === "loop") this.steps.push(this.loop(match[4] ?? "{}", arguments_, results));
    else if (op === "branch") this.steps.push(this.branch(arguments_, results));
    else this.steps.push(this.collective(op, match[4] ?? "{}", arguments_, results));
  }

  private collective(op: string, text: string, arguments_: readonly ValueId[], results: readonly ValueId[]): Step {
    const attrs = this.attrs(text);
    const { axis, reduction, label } = attrs as { axis?: string; reduction?: Reduction; label?: string };
    if (axis === undefined) throw this.error(`${op} has no axis`);
    const reductionField = reduction === undefined ? {} : { reduction };
    return {
      kind: "collective",
      op,
      axis,
      ...reductionField,
      label: label ?? "",
      attrs,
      arguments: arguments_,
      results,
    };
  }

  private loop(text: string, arguments_: readonly ValueId[], results: readonly ValueId[]): Step {
    const { length, reverse, carries, slices } = this.attrs(text);
    const [body, condition, ...more] = this.programs();
    if (body === undefined || more.length > 0) throw this.error("a loop has a body and at most a condition");
    if (typeof carries !== "number" || typeof slices !== "number" || typeof reverse !== "boolean")
      throw this.error("a loop has the fields carries, slices and reverse");
    const count = typeof length === "number" ? length : undefined;
    return { kind: "loop", body, condition, length: count, reverse, carries, slices, arguments: arguments_, results };
  }

  private branch(arguments_: readonly ValueId[], results: readonly ValueId[]): Step {
    const [onTrue, onFalse, ...more] = this.programs();
    if (onTrue === undefined || onFalse === undefined || more.length > 0) throw this.error("a branch has two programs");
    return { kind: "branch", branches: [onTrue, onFalse], arguments: arguments_, results };
  }

  /** The indented programs below this line. */
  private programs(): Program[] {
    return this.indented()
      .split(/(?<=^\})\n(?=program )/m)
      .filter((text) => text !== "")
      .map(parseProgram);
  }

  private attrs(text: string): Attrs {
    try {
      return parseCanonicalJson(text) as { [key: string]: Plain };
    } catch {
      throw this.error(`malformed attributes '${text}'`);
    }
  }

  /** The text of the indented lines below this line. */
  private indented(): string {
    const lines: string[] = [];
    for (
      let next = this.lines[this.line + 1];
      next !== undefined && (next === "" || next.startsWith("    "));
      next = this.lines[this.line + 1]
    ) {
      lines.push(next.slice(4));
      this.line++;
    }
    return lines.join("\n");
  }

  private define(text: string): ValueId {
    const match = this.match(/^%(\d+) (\S+)$/, text);
    const type = parseType(match[2] as string);
    if (type === undefined) throw this.error(`'${match[2]}' is not a type`);
    if (Number(match[1]) !== this.values.length) throw this.error(`expected %${this.values.length}, got %${match[1]}`);
    this.values.push(type);
    return this.values.length - 1;
  }

  private ids(text: string): ValueId[] {
    return text
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "")
      .map((part) => Number(this.match(/^%(\d+)$/, part)[1]));
  }

  private match(pattern: RegExp, text: string): RegExpExecArray {
    const match = pattern.exec(text);
    if (match === null) throw this.error(`malformed line '${text}'`);
    return match;
  }

  private error(message: string): HeddleError {
    return new HeddleError("parse", `line ${this.line + 1}: ${message}`);
  }
}
