/** @module What the planner decides: legal ways to split a node, and the layouts that follow from one. */
import type { Graph, Node } from "../ir/node.ts";
import type { Layout, Placement } from "./layout.ts";
import type { Interval, Sizes } from "./partition.ts";

/** A dim of an operand of which each device works on a window. */
export interface Windowed {
  readonly side: "input" | "output";
  readonly operand: number;
  readonly dim: number;
  /** The window of each device. */
  readonly wanted: readonly Interval[];
  /** Padding of each device, in place of the op's. */
  readonly padding: readonly (readonly [low: number, high: number])[];
  /** How the operand is split before it is widened, or after its windows are added up; undefined: it is whole. */
  readonly sizes: readonly number[] | undefined;
}

/** One legal way to split an op: the placement that each input must have, and the one that each output then has. */
export interface Strategy {
  readonly inputs: readonly Placement[];
  readonly outputs: readonly Placement[];
  /** The letter that is split, if any. */
  readonly letter: string | undefined;
  /** Each device's share of the letter, where the shares are not equal. */
  readonly sizes?: Sizes;
  /** Dims of which devices work on windows: inputs are widened first, outputs added up after. */
  readonly windows?: readonly Windowed[];
}

/** Placements that operands have or should have: uneven splits and windows are taken from them. */
export interface Hints {
  readonly inputs: readonly (Placement | undefined)[];
  readonly outputs: readonly (Placement | undefined)[];
}

/** The decision for a node: a strategy per axis, and the layout of each result. */
export interface Decision {
  readonly strategies: readonly Strategy[];
  readonly layouts: readonly Layout[];
  /** Plans of the graphs that the node's op owns. */
  readonly owned?: ReadonlyMap<Graph, OwnedPlan>;
}

/** Decisions inside a graph that an op owns, and the layouts at its ends. */
export interface OwnedPlan {
  readonly graph: Graph;
  readonly decisions: ReadonlyMap<Node, Decision>;
  readonly inputs: readonly Layout[];
  readonly outputs: readonly Layout[];
}
