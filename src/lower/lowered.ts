/** @module What lowering takes of a device, and what it gives. */
import type { Machine } from "../cost/index.ts";
import type { Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Program } from "../program/program.ts";
import type { Overlap } from "./async-collectives.ts";
import type { FusionLimits } from "./cluster.ts";
import type { KernelChoice } from "./expand.ts";
import type { LoweredJson } from "./json.ts";
import type { PeakReport } from "./memory.ts";

/** The device, as far as lowering needs it. */
export interface LowerTarget {
  /** The most workers that one kernel may use, each with a scratch piece. */
  readonly slots: number;
  /** `none` lowers the bodies of composites even where there is a kernel. */
  readonly kernels?: KernelChoice;
  readonly limits?: FusionLimits;
  /** The rates of the device and its links; default: the machine that plans assume. */
  readonly machine?: Machine | undefined;
  /** Which collectives are async; default: those for which it saves time. */
  readonly overlap?: Overlap;
  /** `apart` keeps epilogues as separate calls. */
  readonly epilogues?: "folded" | "apart";
  /** Receives the nodes for which calls may fail; the field `origin` of a call is then the index of its list. */
  readonly origins?: (readonly Node[])[];
}

/** One buffer that a run of the program takes. */
export interface LoweredArgument {
  readonly name: string;
  readonly type: TensorType;
  readonly bytes: number;
  /** Index of the input that it holds when the program starts. */
  readonly input?: number;
  /** Index of the output that it holds when the program ends. */
  readonly output?: number;
}

/** A program of kernel calls, with the layout of its memory. */
export interface LoweredProgram {
  readonly name: string;
  readonly axes: Program["axes"];
  readonly json: LoweredJson;
  /** The JSON text of `json`. */
  readonly text: string;
  /** Bytes of values and scratch areas. */
  readonly arenaBytes: number;
  /** Bytes that a device needs besides the arguments: the arena, and after it room for partial results of kernels. */
  readonly workBytes: number;
  readonly argumentBytes: number;
  /** Predicted peak memory: `workBytes` and the arguments. */
  readonly peakBytes: number;
  /** The argument in each of `json.buffers`. */
  readonly arguments: readonly LoweredArgument[];
  /** The first of `json.steps` that writes over a donated input; a run that fails before it has changed nothing. */
  readonly firstDonatedWrite: number;
  /** The peak of live memory in the arena. */
  readonly peak: PeakReport;
  /** The values in the arena, with their offsets and lives. */
  readonly layout: readonly ArenaValue[];
}

/** A value, temporary or scratch area in the arena. */
export interface ArenaValue {
  readonly label: string;
  readonly offset: number;
  readonly bytes: number;
  /** Numbers of the first and last step that use it, as `flatten` counts them. */
  readonly first: number;
  readonly last: number;
}
