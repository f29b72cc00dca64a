/** @module The registry of consistency policies, and the parser of their specs: a name and numbers, `dssp:2:8`. */
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import type { Policy } from "./policy.ts";

/** A number of a spec. */
export interface PolicyNumber {
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

/** A registered kind of policy. */
export interface PolicyKind {
  /** Lower-case letters, digits and dashes. */
  readonly name: string;
  /** What it does, in a sentence. */
  readonly doc: string;
  /** The numbers after the name, in order. Default: none. */
  readonly numbers?: readonly PolicyNumber[];
  /** A new policy. */
  readonly make: (...numbers: number[]) => Policy;
}

const kinds = new Map<string, PolicyKind>();

/**
 * Adds a kind of policy, so that `--policy name` chooses it.
 *
 * @throws HeddleError `option` for a name that is taken, `argument` for a malformed kind
 */
export function registerPolicy(kind: PolicyKind): void {
  const { name, make } = (kind ?? {}) as Partial<PolicyKind>;
  if (typeof name !== "string" || !/^[a-z][a-z0-9-]*$/.test(name) || typeof make !== "function")
    throw new HeddleError("argument", `registerPolicy: takes { name, doc, numbers, make }, got ${shown(kind)}`, {
      hint: "name has lower-case letters, digits and dashes; make gives a policy",
    });
  if (kinds.has(name)) throw new HeddleError("option", `registerPolicy: '${name}' is taken`);
  kinds.set(name, kind);
}

/** All registered kinds, in the order in which they were registered. */
export const policyKinds = (): readonly PolicyKind[] => [...kinds.values()];

/**
 * The policy of a spec: `bsp`, `ssp:3`, `dssp:2:8`.
 *
 * @throws HeddleError `option` for an unknown name, and for numbers that the policy does not take
 */
export function policyNamed(spec: string): Policy {
  if (typeof spec !== "string")
    throw new HeddleError("argument", `policyNamed: takes the spec of a policy, got ${shown(spec)}`);
  const [name = "", ...texts] = spec.split(":");
  const kind = kinds.get(name);
  if (kind === undefined) {
    const near = nearest(name, [...kinds.keys()]);
    throw new HeddleError("option", `there is no policy '${name}'`, {
      hint: near === undefined ? `there are ${listed([...kinds.keys()])}` : `did you mean '${near}'?`,
    });
  }
  const { numbers = [] } = kind;
  if (texts.length > numbers.length)
    throw malformed(spec, kind, `takes ${numbers.length === 0 ? "no" : `at most ${numbers.length}`} numbers`);
  return kind.make(...numbers.map((number, index) => valueOf(spec, kind, number, texts[index])));
}

/** How the spec of a kind is written: `dssp:LOW:HIGH`, with defaults in brackets. */
export function specForm({ name, numbers = [] }: PolicyKind): string {
  return [name, ...numbers.map((number) => (number.default === undefined ? number.name : `[${number.name}]`))].join(
    ":",
  );
}

function valueOf(spec: string, kind: PolicyKind, number: PolicyNumber, text: string | undefined): number {
  if (text === undefined) {
    if (number.default !== undefined) return number.default;
    throw malformed(spec, kind, `lacks ${number.name} (${number.doc})`);
  }
  const { least = 0, fraction = false } = number;
  const value = /^\d+(\.\d+)?(e-?\d+)?$/.test(text) ? Number(text) : NaN;
  if (!(value >= least) || (!fraction && !Number.isSafeInteger(value)))
    throw malformed(
      spec,
      kind,
      `has '${text}' for ${number.name}: it must be ${fraction ? "a number" : "a whole number"} from ${least}`,
    );
  return value;
}

const malformed = (spec: string, kind: PolicyKind, what: string): HeddleError =>
  new HeddleError("option", `policy '${spec}' ${what}`, { hint: `write ${specForm(kind)}` });
