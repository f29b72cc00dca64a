/** @module A program: the steps that one device of a class runs. Data that can be printed, read back and counted. */
import type { Reduction } from "../ir/equation.ts";
import type { Attrs, Graph, Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";

/** Number of a value of a program; the inputs come first. */
export type ValueId = number;

/** A mesh axis and the number of devices along it. */
export interface ProgramAxis {
  readonly name: string;
  readonly size: number;
  /** How its devices share what is split; undefined: equally. */
  readonly shares?: readonly number[];
}

export interface ProgramInput {
  readonly name: string;
  readonly type: TensorType;
}

export interface ProgramOutput {
  readonly name: string;
  readonly type: TensorType;
  readonly value: ValueId;
}

/** Runs a piece of graph between two communications. */
export interface RunStep {
  readonly kind: "run";
  readonly region: Graph;
  readonly arguments: readonly ValueId[];
  readonly results: readonly ValueId[];
}

/** Communicates along a mesh axis. */
export interface CollectiveStep {
  readonly kind: "collective";
  /** Name of the op, such as `allReduce`. */
  readonly op: string;
  readonly axis: string;
  readonly reduction?: Reduction;
  readonly label: string;
  /** All attributes of the op. */
  readonly attrs: Attrs;
  readonly arguments: readonly ValueId[];
  readonly results: readonly ValueId[];
}

/** Whether a step is one end of a message from one device to another. */
export const isTransfer = ({ op }: CollectiveStep): boolean => op === "send" || op === "receive";

/**
 * Runs a body again and again. It takes the count of the iteration, the carries, slice `count` of the next arguments, and
 * the further arguments whole; it gives the next carries and values that are stacked. Results are the last carries and
 * the stacks.
 */
export interface LoopStep {
  readonly kind: "loop";
  readonly body: Program;
  /** Runs before each iteration on what the body takes; its only output, a bool, says whether to go on. */
  readonly condition: Program | undefined;
  /** Undefined where the condition decides. */
  readonly length: number | undefined;
  readonly reverse: boolean;
  readonly carries: number;
  readonly slices: number;
  readonly arguments: readonly ValueId[];
  readonly results: readonly ValueId[];
}

/** Runs one of two programs on the arguments after the first: the first where that, a bool, is true. */
export interface BranchStep {
  readonly kind: "branch";
  readonly branches: readonly [onTrue: Program, onFalse: Program];
  readonly arguments: readonly ValueId[];
  readonly results: readonly ValueId[];
}

/** Values that no later step needs. */
export interface FreeStep {
  readonly kind: "free";
  readonly values: readonly ValueId[];
}

/** A step that makes values. */
export type WorkStep = RunStep | CollectiveStep | LoopStep | BranchStep;

export type Step = WorkStep | FreeStep;

/** Devices of the mesh that a program is for. */
export const devicesOf = ({ axes }: Pick<Program, "axes">): number =>
  axes.reduce((product, { size }) => product * size, 1);

/** The programs that a step runs. */
export function programsOf(step: Step): readonly Program[] {
  if (step.kind === "branch") return step.branches;
  if (step.kind !== "loop") return [];
  return step.condition === undefined ? [step.body] : [step.body, step.condition];
}

/** All steps of a program and of the programs that they run. */
export const stepsWithin = (program: Program): Step[] =>
  program.steps.flatMap((step) => [step, ...programsOf(step).flatMap(stepsWithin)]);

/** The nodes of all its graphs, in an order that is the same when the program is printed and read again. */
export const nodesRun = (program: Program): Node[] =>
  stepsWithin(program).flatMap((step) => (step.kind === "run" ? topological(step.region.outputs) : []));

/** What one class of devices does. */
export interface Program {
  readonly name: string;
  readonly axes: readonly ProgramAxis[];
  readonly inputs: readonly ProgramInput[];
  readonly outputs: readonly ProgramOutput[];
  /** Type of each value, by its number. */
  readonly values: readonly TensorType[];
  readonly steps: readonly Step[];
  /** For each output the index of the input whose buffer it takes over, if any. */
  readonly donated: readonly (number | undefined)[];
}
