/**
 * @module Runs scripts. Statements make lazy matrices; a value that control flow reads, and the end of an iteration of a loop, ask for
 * what the function reads later, as one program (`heddle/matrix`).
 */

import { isAbsolute, join, resolve } from "node:path";
import { evaluate, Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { Args, builtinOf, type Given, type Host, wholeOf } from "./builtin.ts";
import "./builtins/index.ts";
import { converted, elementsOf, isSingle, literal, rangeOf, returned } from "./conversion.ts";
import { part, type Range, replaced } from "./indexing.ts";
import { operate, operateUnary } from "./operators.ts";
import { isStackFull, nested, placed } from "./places.ts";
import {
  type Argument,
  type Block,
  type FunctionDefinition,
  formatPlace,
  type IndexRange,
  type Statement,
  type Target,
  type Term,
} from "./syntax.ts";
import { type Found, type Unit, Units, unitOf } from "./units.ts";
import {
  asMatrix,
  asScalar,
  boolean,
  double,
  int,
  kindOf,
  List,
  pendingWithin,
  type Scalar,
  string,
  type Value,
} from "./values.ts";

/** Options of {@link runScript}. */
export interface ScriptOptions {
  /** Values of `$name`, or of `$1`, `$2`, …; they are read as numbers and booleans where they look like them. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Folders of DML functions: a function `f` that is not there is `m_f` of the file `f.dml` in one of them. */
  readonly library?: readonly string[];
  /** Gets each printed line; default: the output. */
  readonly print?: (line: string) => void;
  /** The folder to which the script's paths are relative; default the current one. */
  readonly folder?: string;
  /** The first seed of random functions that get none, default 0: a script gives the same numbers each time. */
  readonly seed?: number;
}

interface Scope {
  readonly unit: Unit;
  readonly variables: Map<string, Value>;
  readonly reads: ReadonlySet<string>;
}

const constants: Readonly<Record<string, number>> = {
  Inf: Infinity,
  inf: Infinity,
  NaN: Number.NaN,
  nan: Number.NaN,
  PI: Math.PI,
  pi: Math.PI,
};

/** A run of scripts: their files, library and output. */
export class Interpreter implements Host {
  private readonly units: Units;
  private readonly options: ScriptOptions;
  private folder: string;
  private seeds: number;
  private frames: Scope[] = [];
  /** The most frames at which the stack was full. */
  private deepest = 0;

  /** @throws HeddleError `file` for a library that is not a folder */
  constructor(options: ScriptOptions = {}) {
    this.options = options;
    this.folder = resolve(options.folder ?? ".");
    this.seeds = options.seed ?? 0;
    this.units = new Units(options.library ?? []);
  }

  /** Runs a script's text; gives its variables. @throws HeddleError with file, line and column of the script */
  run(source: string, path: string): ReadonlyMap<string, Value> {
    const unit = unitOf(source, path);
    const frame: Scope = { unit, variables: new Map(), reads: unit.file.reads };
    nested(path, () => this.within(frame, () => this.block(unit.file.body)));
    return frame.variables;
  }

  /** The functions of a text, to be called with {@link Interpreter.call}. */
  load(source: string, path: string): void {
    const unit = unitOf(source, path);
    this.frames = [{ unit, variables: new Map(), reads: unit.file.reads }];
    this.units.sourceAll(unit, this.folder);
  }

  print(line: string): void {
    (this.options.print ?? console.log)(line);
  }

  path(name: string): string {
    return isAbsolute(name) ? name : join(this.folder, name);
  }

  seed(): number {
    return this.seeds++;
  }

  has(name: string): boolean {
    return this.frame.variables.has(name);
  }

  call(name: string, args: readonly Given[]): readonly Value[] {
    const found = this.functionOf(name);
    if (found !== undefined) return this.callDefined(found.definition, found.unit, args);
    const builtin = builtinOf(name);
    if (builtin !== undefined) {
      const result = builtin.run(new Args(builtin, args), this);
      return Array.isArray(result) ? (result as readonly Value[]) : [result as Value];
    }
    const library = this.units.inLibrary(name, this.folder);
    if (library !== undefined) return this.callDefined(library.definition, library.unit, args);
    throw new HeddleError("argument", `there is no function '${name}'`, {
      hint:
        (this.options.library ?? []).length === 0
          ? "functions of SystemDS that are written in DML are taken from --library DIR or HEDDLE_DML_LIBRARY"
          : `it is no builtin that Heddle has, and there is no ${name}.dml in ${(this.options.library ?? []).join(", ")}`,
    });
  }

  private get frame(): Scope {
    return this.frames.at(-1) as Scope;
  }

  private within<Result>(frame: Scope, body: () => Result): Result {
    this.frames.push(frame);
    try {
      return body();
    } finally {
      this.frames.pop();
    }
  }

  /** A function of this file, of a namespace, or of the file of the caller that a name is passed on from, as for `eval`. */
  private functionOf(name: string): Found | undefined {
    const [space, own] = name.includes("::") ? (name.split("::") as [string, string]) : [undefined, name];
    for (let index = this.frames.length - 1; index >= 0; index--) {
      const { unit } = this.frames[index] as Scope;
      const where = space === undefined ? unit : unit.namespaces.get(space);
      const definition = where?.file.functions.get(own);
      if (where !== undefined && definition !== undefined) return { definition, unit: where };
      if (index === this.frames.length - 1 && builtinOf(name) !== undefined) return undefined;
    }
    return undefined;
  }

  private callDefined(definition: FunctionDefinition, unit: Unit, args: readonly Given[]): readonly Value[] {
    const { name, parameters, results, body, reads } = definition;
    const frame: Scope = { unit, variables: new Map(), reads };
    const names = new Set(parameters.map((parameter) => parameter.name));
    let position = 0;
    for (const { name: own, value } of args) {
      const at = own ?? parameters[position++]?.name;
      if (at === undefined || !names.has(at))
        throw new HeddleError(
          "argument",
          `${name}: ${own === undefined ? "got too many arguments" : `there is no argument '${own}'`}`,
          {
            hint: `it takes ${[...names].join(", ")}`,
          },
        );
      if (frame.variables.has(at)) throw new HeddleError("argument", `${name}: the argument '${at}' is given twice`);
      const type = parameters.find((one) => one.name === at)?.type ?? "";
      frame.variables.set(at, converted(`${name}: '${at}'`, value, type));
    }
    return this.deeper(definition, frame, () => {
      for (const { name: own, byDefault, type } of parameters) {
        if (frame.variables.has(own)) continue;
        if (byDefault === undefined) throw new HeddleError("argument", `${name}: the argument '${own}' is missing`);
        frame.variables.set(own, converted(`${name}: '${own}'`, this.value(byDefault), type));
      }
      this.block(body);
      return results.map(({ name: result, type }) => {
        const value = frame.variables.get(result);
        if (value === undefined)
          throw new HeddleError("argument", `${name}: the result '${result}' got no value`, {
            where: formatPlace(definition.at),
          });
        return returned(`${name}: the result '${result}'`, value, type);
      });
    });
  }

  /** Runs a function's body. @throws HeddleError `memory` where the function calls itself until the stack is full */
  private deeper<Result>({ name, reads }: FunctionDefinition, frame: Scope, body: () => Result): Result {
    try {
      return this.within(frame, body);
    } catch (error) {
      if (!isStackFull(error)) throw error;
      // V8 ends the process where it compiles a regular expression with little stack left, so the error is made a few calls below the end.
      this.deepest = Math.max(this.deepest, this.frames.length);
      const open = this.frames.filter((one) => one.reads === reads).length;
      if (open === 0 || this.frames.length > this.deepest - spareCalls) throw error;
      throw new HeddleError("memory", `${name}: calls itself too deeply: ${open} calls of it are open`, {
        hint: "a recursion needs a case that makes no call; a loop needs no stack",
      });
    }
  }

  private block(body: Block): void {
    for (const statement of body) placed(statement.at, () => this.statement(statement));
  }

  private statement(statement: Statement): void {
    switch (statement.kind) {
      case "assign":
        this.assign(statement.target, statement.adds, this.value(statement.value));
        return;
      case "results":
        this.assignResults(statement.targets, statement.value);
        return;
      case "call":
        this.results(statement.value);
        return;
      case "if":
        this.block(this.truth(statement.test) ? statement.then : statement.otherwise);
        return;
      case "while":
        while (this.truth(statement.test)) {
          this.block(statement.body);
          this.endBlock();
        }
        return;
      case "for":
        this.loop(statement);
        return;
      case "source":
        this.units.source(this.frame.unit, statement, this.folder);
        return;
      case "setwd":
        this.folder = this.path(statement.path);
    }
  }

  private loop({ variable, from, to, body }: Statement & { readonly kind: "for" }): void {
    const start = this.rangeStart(from);
    const list =
      to === undefined
        ? start instanceof List
          ? start.items
          : elementsOf(asMatrix(start))
        : rangeOf(asScalar(start), asScalar(this.value(to)));
    for (const item of list) {
      this.frame.variables.set(variable, item);
      this.block(body);
      this.endBlock();
    }
  }

  /** The start of a range; `seq` of a loop may be empty, which it is nowhere else. */
  private rangeStart(from: Term): Value {
    if (from.kind !== "call" || from.name !== "seq") return this.value(from);
    const [start = 1, end = 1, step = start <= end ? 1 : -1] = from.args.map(
      ({ value }) => asScalar(this.value(value)).number,
    );
    return (end - start) * step < 0 ? new List([]) : this.value(from);
  }

  /** The values that the function reads somewhere, computed together. */
  private endBlock(wanted: readonly Matrix[] = []): void {
    const { variables, reads } = this.frame;
    const pending = [...wanted];
    for (const [name, value] of variables)
      if (reads.has(name)) for (const one of pendingWithin(value)) pending.push(one);
    evaluate(...pending);
  }

  private assign({ name, ranges }: Target, adds: boolean, value: Value): void {
    const { variables } = this.frame;
    if (ranges === undefined) {
      variables.set(name, adds ? operate("+", this.variable(name), value) : value);
      return;
    }
    const at = ranges.map((range) => this.range(range));
    const old = this.variable(name);
    variables.set(name, replaced(old, at, adds ? operate("+", part(old, at), value) : value));
  }

  private assignResults(targets: readonly Target[], term: Term): void {
    const values = this.results(term);
    if (values.length < targets.length)
      throw new HeddleError("argument", `there are ${values.length} results for ${targets.length} variables`);
    targets.forEach(({ name }, index) => {
      this.frame.variables.set(name, values[index] as Value);
    });
  }

  private variable(name: string): Value {
    const value = this.frame.variables.get(name);
    if (value !== undefined) return value;
    const constant = constants[name];
    if (constant !== undefined) return double(constant);
    throw new HeddleError("argument", `the variable '${name}' has no value`);
  }

  private results(term: Term): readonly Value[] {
    if (term.kind !== "call") return [this.value(term)];
    return placed(term.at, () => {
      if (term.name === "ifdef") return [this.orDefault(term.args)];
      this.checkArguments(term.name, term.args);
      return this.call(
        term.name,
        term.args.map(({ name, value }) => ({ name, value: this.value(value) })),
      );
    });
  }

  /** As in SystemDS: from the first argument with a name on, all have names. */
  private checkArguments(name: string, args: readonly Argument[]): void {
    const named = args.findIndex((argument) => argument.name !== undefined);
    const unnamed = named < 0 ? -1 : args.findIndex((argument, at) => argument.name === undefined && at > named);
    if (unnamed < 0) return;
    throw new HeddleError(
      "argument",
      `${name}: argument ${unnamed + 1} has no name, and stands after '${args[named]?.name}'`,
      { where: formatPlace((args[unnamed] as Argument).value.at), hint: "give it a name, or put it first" },
    );
  }

  /** `ifdef($name, value)` */
  private orDefault([given, otherwise]: readonly Argument[]): Value {
    if (given?.value.kind !== "parameter" || otherwise === undefined)
      throw new HeddleError("argument", "ifdef: takes a parameter $name and a default");
    const text = this.options.parameters?.[given.value.name];
    return text === undefined ? this.value(otherwise.value) : literal(text);
  }

  private truth(term: Term): boolean {
    const value = this.value(term);
    if (!isSingle(value))
      throw new HeddleError("argument", `a condition must be a scalar, and this one is ${kindOf(value)}`, {
        where: formatPlace(term.at),
        hint: "all(X), any(X) and sum(X) are scalars, and so is as.scalar(X[1, 1])",
      });
    const scalar = asScalar(value);
    if (scalar.lazy !== undefined) this.endBlock([scalar.lazy]);
    return scalar.type === "string" ? scalar.text.toLowerCase() === "true" : scalar.number !== 0;
  }

  private range(range: IndexRange): Range {
    if (range.kind === "all") return undefined;
    if (range.kind === "one") {
      const at = asScalar(this.value(range.at));
      if (at.type === "string") return at.text;
      const index = this.position(at);
      return [index, index];
    }
    return [this.position(asScalar(this.value(range.from))), this.position(asScalar(this.value(range.to)))];
  }

  private position(scalar: Scalar): number {
    if (scalar.lazy !== undefined) this.endBlock([scalar.lazy]);
    return wholeOf(scalar.number);
  }

  /** `(X < y) == 0` as `X >= y`, which SystemDS makes of it: the two differ where an element is NaN. */
  private negated({ at, op, left, right }: Term & { readonly kind: "binary" }): Value | undefined {
    if (op !== "==" || right.kind !== "int" || right.value !== 0 || left.kind !== "binary") return undefined;
    const other = opposite[left.op];
    if (other === undefined) return undefined;
    const [x, y] = [this.value(left.left), this.value(left.right)];
    const isMatrix = x instanceof Matrix || y instanceof Matrix;
    return placed(at, () => (isMatrix ? operate(other, x, y) : operate("==", operate(left.op, x, y), int(0))));
  }

  private value(term: Term): Value {
    switch (term.kind) {
      case "int":
        return int(term.value);
      case "double":
        return double(term.value);
      case "string":
        return string(term.value);
      case "boolean":
        return boolean(term.value);
      case "name":
        return placed(term.at, () => this.variable(term.name));
      case "parameter": {
        const text = this.options.parameters?.[term.name];
        if (text !== undefined) return literal(text);
        throw new HeddleError("argument", `the parameter $${term.name} has no value`, {
          where: formatPlace(term.at),
          hint: /^\d/.test(term.name) ? "give it with -args" : `give it with -nvargs ${term.name}=…`,
        });
      }
      case "unary":
        return placed(term.at, () => operateUnary(term.op, this.value(term.operand)));
      case "binary": {
        const negated = this.negated(term);
        if (negated !== undefined) return negated;
        const left = this.value(term.left);
        const right = this.value(term.right);
        return placed(term.at, () => operate(term.op, left, right));
      }
      case "index":
        return placed(term.at, () =>
          part(
            this.variable(term.name),
            term.ranges.map((range) => this.range(range)),
          ),
        );
      case "call": {
        const [value] = this.results(term);
        if (value === undefined)
          throw new HeddleError("argument", `${term.name} gives no value`, { where: formatPlace(term.at) });
        return value;
      }
    }
  }
}

const opposite: Readonly<Record<string, string>> = { "<": ">=", "<=": ">", ">": "<=", ">=": "<" };

/** Calls of a script whose stack is enough to make an error. */
const spareCalls = 16;

/**
 * Runs a DML script.
 *
 * @param source the script's text
 * @param path its path, which errors name
 * @returns its variables at the end
 * @throws HeddleError with file, line and column of the script
 */
export const runScript = (source: string, path: string, options: ScriptOptions = {}): ReadonlyMap<string, Value> =>
  new Interpreter(options).run(source, path);
