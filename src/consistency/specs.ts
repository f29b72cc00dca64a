/** @module Specs: a registered name and numbers, `dssp:2:8`, as options and command lines write them. */
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";

/** A number of a spec. */
export interface SpecNumber {
  readonly name: string;
  /** What it means, in a few words. */
  readonly doc: string;
  /** The least value; default 0. */
  readonly least?: number;
  /** Whether it may have a fraction; default false. */
  readonly fraction?: boolean;
  /** Its value where the spec has none. Absent: the spec must have it. */
  readonly default?: number;
}

/** A registered kind of what specs name. */
export interface SpecKind<Made> {
  /** Lower-case letters, digits and dashes. */
  readonly name: string;
  /** What it does, in a sentence. */
  readonly doc: string;
  /** The numbers after the name, in order. Default: none. */
  readonly numbers?: readonly SpecNumber[];
  /** Makes one from the numbers. */
  readonly make: (...numbers: number[]) => Made;
}

/** How the spec of a kind is written: `dssp:LOW:HIGH`, with numbers that have defaults in brackets. */
export function specForm({ name, numbers = [] }: SpecKind<unknown>): string {
  return [name, ...numbers.map((number) => (number.default === undefined ? number.name : `[${number.name}]`))].join(
    ":",
  );
}

/** A registry of kinds. */
export class Specs<Made> {
  private readonly what: string;
  private readonly register: string;
  private readonly byName = new Map<string, SpecKind<Made>>();

  /** @param what what the kinds make, for errors @param register the function that registers them, for errors */
  constructor(what: string, register: string) {
    this.what = what;
    this.register = register;
  }

  /** @throws HeddleError `option` for a name that is taken, `argument` for a malformed kind */
  add(kind: SpecKind<Made>): void {
    const { name, make } = (kind ?? {}) as Partial<SpecKind<Made>>;
    if (typeof name !== "string" || !/^[a-z][a-z0-9-]*$/.test(name) || typeof make !== "function")
      throw new HeddleError("argument", `${this.register}: takes { name, doc, numbers, make }, got ${shown(kind)}`, {
        hint: `name has lower-case letters, digits and dashes; make gives a ${this.what}`,
      });
    if (this.byName.has(name)) throw new HeddleError("option", `${this.register}: '${name}' is taken`);
    this.byName.set(name, kind);
  }

  /** All kinds, in the order in which they were registered. */
  get kinds(): readonly SpecKind<Made>[] {
    return [...this.byName.values()];
  }

  /** What a spec names. @throws HeddleError `option` for an unknown name, and for numbers that the kind does not take */
  named(spec: string): Made {
    if (typeof spec !== "string")
      throw new HeddleError("argument", `the spec of a ${this.what} is a text, got ${shown(spec)}`);
    const [name = "", ...texts] = spec.split(":");
    const kind = this.byName.get(name);
    if (kind === undefined) {
      const near = nearest(name, [...this.byName.keys()]);
      throw new HeddleError("option", `there is no ${this.what} '${name}'`, {
        hint: near === undefined ? `there are ${listed([...this.byName.keys()])}` : `did you mean '${near}'?`,
      });
    }
    const { numbers = [] } = kind;
    if (texts.length > numbers.length)
      throw this.malformed(
        spec,
        kind,
        `takes ${numbers.length === 0 ? "no numbers" : numbers.length === 1 ? "one number" : `at most ${numbers.length} numbers`}`,
      );
    return kind.make(...numbers.map((number, index) => this.valueOf(spec, kind, number, texts[index])));
  }

  private valueOf(spec: string, kind: SpecKind<Made>, number: SpecNumber, text: string | undefined): number {
    if (text === undefined) {
      if (number.default !== undefined) return number.default;
      throw this.malformed(spec, kind, `lacks ${number.name} (${number.doc})`);
    }
    const { least = 0, fraction = false } = number;
    const value = /^\d+(\.\d+)?(e-?\d+)?$/.test(text) ? Number(text) : NaN;
    if (value >= least && (fraction ? value < Infinity : Number.isSafeInteger(value))) return value;
    const wanted = fraction ? "a number" : "a whole number";
    throw this.malformed(spec, kind, `has '${text}' for ${number.name}: it must be ${wanted} from ${least}`);
  }

  private malformed(spec: string, kind: SpecKind<Made>, problem: string): HeddleError {
    return new HeddleError("option", `${this.what} '${spec}' ${problem}`, { hint: `write ${specForm(kind)}` });
  }
}
