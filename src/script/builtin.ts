/** @module What a builtin function is: name, arguments, a line of text, and what it computes. */

import type { Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { asMatrix, asScalar, constantsOf, Frame, kindOf, List, type Scalar, type Value } from "./values.ts";

/** An argument of a call with its value. */
export interface Given {
  readonly name: string | undefined;
  readonly value: Value;
}

/** What builtins ask of the run that they are part of. */
export interface Host {
  /** Prints a line. */
  print(line: string): void;
  /** A path of the script as a path of this machine. */
  path(name: string): string;
  /** Calls a function by name. */
  call(name: string, args: readonly Given[]): readonly Value[];
  /** Whether there is a variable of this name. */
  has(name: string): boolean;
  /** The seed of a random function that got none. */
  seed(): number;
}

/** A builtin function. */
export interface Builtin {
  readonly name: string;
  /** Names of the arguments, in their order; `name?` may be missing, `...` takes any number. */
  readonly parameters: readonly string[];
  /** One line for the reference: what it computes, with the size of the result. */
  readonly doc: string;
  readonly run: (args: Args, host: Host) => Value | readonly Value[];
}

/** The arguments of one call, by the names of the builtin's parameters. */
export class Args {
  readonly all: readonly Given[];
  private readonly by = new Map<string, Value>();
  private readonly builtin: Builtin;

  constructor(builtin: Builtin, given: readonly Given[]) {
    this.builtin = builtin;
    this.all = given;
    const { parameters, name } = builtin;
    if (parameters.includes("...")) {
      for (const { name: own, value } of given) {
        if (own === undefined) continue;
        if (parameters.length > 1) this.checkNew(own);
        this.by.set(own, value);
      }
      return;
    }
    const names = parameters.map((parameter) => parameter.replace("?", ""));
    const named = new Set(given.flatMap(({ name: own }) => own ?? []));
    let position = 0;
    for (const { name: own, value } of given) {
      if (own !== undefined && !names.includes(own))
        throw new HeddleError("argument", `${name}: there is no argument '${own}'`, { hint: this.takes });
      while (own === undefined && named.has(names[position] as string)) position++;
      const at = own ?? names[position++];
      if (at === undefined) throw new HeddleError("argument", `${name}: got too many arguments`, { hint: this.takes });
      this.checkNew(at);
      this.by.set(at, value);
    }
    const missing = parameters.find((parameter) => !parameter.endsWith("?") && !this.by.has(parameter));
    if (missing !== undefined) this.missing(missing);
  }

  private checkNew(name: string): void {
    if (!this.by.has(name)) return;
    throw new HeddleError("argument", `${this.builtin.name}: the argument '${name}' is given twice`, {
      hint: this.takes,
    });
  }

  private missing(name: string): never {
    throw new HeddleError("argument", `${this.builtin.name}: the argument '${name}' is missing`, { hint: this.takes });
  }

  private get takes(): string {
    return `it takes ${this.builtin.parameters.join(", ")}`;
  }

  has(name: string): boolean {
    return this.by.has(name);
  }

  /** @throws HeddleError `argument` for an argument that the call leaves out */
  value(name: string): Value {
    return this.by.get(name) ?? this.missing(name);
  }

  /** @throws HeddleError `argument` for text, frames and lists */
  matrix(name: string): Matrix {
    const value = this.value(name);
    if (value instanceof Frame || value instanceof List) this.wrong(name, "a matrix", value);
    return asMatrix(value);
  }

  scalar(name: string): Scalar {
    const value = this.value(name);
    if (value instanceof Frame || (value instanceof List && value.items.length !== 1))
      this.wrong(name, "a scalar", value);
    return asScalar(value);
  }

  /** @throws HeddleError `gradient` while a gradient is recorded that runs through the number */
  number(name: string, byDefault?: number): number {
    if (byDefault !== undefined && !this.has(name)) return byDefault;
    const scalar = this.scalar(name);
    if (scalar.lazy !== undefined) constantsOf(this.builtin.name, scalar.lazy);
    return scalar.number;
  }

  /** A whole number; a double is cut, as SystemDS does. */
  int(name: string, byDefault?: number): number {
    return wholeOf(byDefault !== undefined && !this.has(name) ? byDefault : this.scalar(name).number);
  }

  text(name: string, byDefault?: string): string {
    return byDefault !== undefined && !this.has(name) ? byDefault : this.scalar(name).text;
  }

  flag(name: string, byDefault = false): boolean {
    if (!this.has(name)) return byDefault;
    const scalar = this.scalar(name);
    return scalar.type === "string" ? scalar.text.toLowerCase() === "true" : scalar.number !== 0;
  }

  private wrong(name: string, wanted: string, value: Value): never {
    throw new HeddleError("argument", `${this.builtin.name}: '${name}' is ${kindOf(value)}, not ${wanted}`);
  }
}

/** A number without its fraction; one just below a whole number, by rounding, is that number. */
export const wholeOf = (value: number): number => Math.sign(value) * Math.floor(Math.abs(value) + 1e-12);

const table = new Map<string, Builtin>();

/** Adds a builtin: `parameters` are words, `x y? ...`. */
export function builtin(names: string, parameters: string, doc: string, run: Builtin["run"]): void {
  for (const name of names.split(" "))
    table.set(name, { name, parameters: parameters.split(" ").filter((word) => word !== ""), doc, run });
}

/** The builtin of a name. */
export const builtinOf = (name: string): Builtin | undefined => table.get(name);

/** All builtins, by name. */
export const builtins = (): readonly Builtin[] => [...table.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
