/** @module Targets: what programs are lowered to, each with its rules for the ops beside or apart from them. */
import { HeddleError } from "../util/errors.ts";
import { type Absent, type AnyOpDef, absent } from "./node.ts";

/** What programs are lowered to: a machine or a language. */
export interface Target<Rule = unknown> {
  readonly name: string;
  /** How an op is written there; absent with the reason where it is not: a composite is then its body. */
  readonly ruleOf: (op: AnyOpDef) => Rule | Absent;
}

const targets = new Map<string, Target>();

/** Enters a target, whose rules tests compare with the list of ops. @throws HeddleError `op` when the name is taken. */
export function registerTarget<T extends Target>(target: T): T {
  if (targets.has(target.name)) throw new HeddleError("op", `target '${target.name}' is already defined`);
  targets.set(target.name, target);
  return target;
}

/** All targets, in order of registration. */
export const allTargets = (): readonly Target[] => [...targets.values()];

/** A target whose rules are kept apart from the ops, by their names. */
export class RuleTable<Rule> implements Target<Rule> {
  /** What rules are for: `native`, `stablehlo`, or what whoever adds the table calls it. */
  readonly name: string;
  private readonly rules = new Map<string, Rule | Absent>();

  constructor(name: string) {
    this.name = name;
  }

  /** Ops that something has been said of. */
  get ops(): readonly string[] {
    return [...this.rules.keys()];
  }

  /** Adds rules by the names of ops. @throws HeddleError `op` when one has a rule already. */
  define(rules: { readonly [op: string]: Rule | Absent }): void {
    for (const [op, rule] of Object.entries(rules)) {
      if (this.rules.has(op)) throw new HeddleError("op", `${op} is already defined for '${this.name}'`);
      this.rules.set(op, rule);
    }
  }

  readonly ruleOf = ({ name }: AnyOpDef): Rule | Absent =>
    this.rules.get(name) ?? absent(`nobody has said how: define({ ${name}: … }) of '${this.name}'`);
}
