/** @module Rewrite rules, which are equations between graphs, and the log of their uses. */
import type { Node } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { positionOf } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import type { SourcePosition } from "../util/source.ts";
import type { Order } from "./order.ts";

/** One equation, read from left to right. */
export interface Rule {
  readonly name: string;
  /** The equation of the rule: `"x * 1 = x"`. */
  readonly equation: string;
  /** Names of the ops that may be the root of the left side; `"*"` is any. */
  readonly roots: readonly string[];
  /** The right side in the current trace; undefined (or the node itself) where the rule does not apply. */
  readonly rewrite: (node: Node) => Node | undefined;
}

/** Makes a rule; `roots` are op names divided by spaces. */
export function rule(roots: string, name: string, equation: string, rewrite: Rule["rewrite"]): Rule {
  return { name, equation, roots: roots.split(" "), rewrite };
}

/** One use of a rule. */
export interface Firing {
  readonly rule: string;
  /** The node that matched and its replacement, as {@link describeNode} prints them. */
  readonly before: string;
  readonly after: string;
  readonly position: SourcePosition | undefined;
}

/** The uses of rules, in order: for a viewer and for tests. */
export class RewriteTrace {
  /** Uses of rules, in their order. */
  readonly firings: Firing[] = [];
  private readonly order: Order | undefined;

  /** @param order The order that every use of a rule to a fixed point must lower; undefined: not checked. */
  constructor(order?: Order) {
    this.order = order;
  }

  /** Records a use. */
  record(rule: Rule, before: Node, after: Node): void {
    this.firings.push({
      rule: rule.name,
      before: describeNode(before),
      after: describeNode(after),
      position: positionOf(before),
    });
  }

  /** @throws HeddleError `rewrite` where the last use of a rule did not lower the order. */
  checkLower(before: Node, after: Node): void {
    if (this.order === undefined || this.order(before, after)) return;
    const { rule } = this.firings.at(-1) as Firing;
    throw new HeddleError(
      "rewrite",
      `'${rule}' does not lower ${describeNode(before)}: it gives ${describeNode(after)}`,
    );
  }

  /** How often each rule fired, most often first. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { rule } of this.firings) counts.set(rule, (counts.get(rule) ?? 0) + 1);
    return new Map([...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)));
  }
}
