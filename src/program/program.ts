/** @module A program: the steps that each device of a class runs, as data that can be printed, read back and counted. */
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
  /** How the devices share what is split; undefined: equally. */
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
 * Runs a body repeatedly. The body takes the number of the iteration, the carries, slice `number` of each sliced argument, and
 * the further arguments whole; it returns the next carries and values that are stacked. The results are the last carries
 * and the stacks.
 */
export interface LoopStep {
  readonly kind: "loop";
  readonly body: Program;
  /** Runs before each iteration on the body's arguments; its only output, a bool, tells whether to continue. */
  readonly condition: Program | undefined;
  /** The number of iterations; undefined where a condition decides. */
  readonly length: number | undefined;
  readonly reverse: boolean;
  readonly carries: number;
  readonly slices: number;
  readonly arguments: readonly ValueId[];
  readonly results: readonly ValueId[];
}

/** Runs one of two programs on the arguments after the first argument, a bool: the first program where it is true. */
export interface BranchStep {
  readonly kind: "branch";
  readonly branches: readonly [onTrue: Program, onFalse: Program];
  readonly arguments: readonly ValueId[];
  readonly results: readonly ValueId[];
}

/** Frees values that no later step needs. */
export interface FreeStep {
  readonly kind: "free";
  readonly values: readonly ValueId[];
}

/** A step that computes values. */
export type WorkStep = RunStep | CollectiveStep | LoopStep | BranchStep;

export type Step = WorkStep | FreeStep;

/** The number of devices on the mesh of a program. */
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

/** The steps of one class of devices. */
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
