/**
 * @module Errors of a run as data. Every executor makes the same record for the same fault (native code in
 * `native/core/src/error.rs` and `native/comm/src/error.rs`), and all sentences for them are here.
 */
import type { ErrorCode } from "./error-codes.ts";

/** The fields of each kind of fault. */
interface Faults {
  /** An index outside [least, size). */
  readonly index: {
    readonly index: number | bigint;
    /** Position among all indices, in row-major order. */
    readonly position: number;
    readonly size: number;
    /** Default 0; below 0 if negative indices count from the end. */
    readonly least?: number;
    /** For an index that i32 cannot hold: whether it is more or less than `index`. */
    readonly or?: "more" | "less" | undefined;
    /** The row of the batch with the index. */
    readonly row?: number;
    /** The row's number in the dataset. */
    readonly source?: number | undefined;
  };
  /** A label that is not a class, in row `position`. */
  readonly label: {
    readonly index: number | bigint;
    readonly position: number;
    readonly size: number;
    readonly source?: number | undefined;
  };
  readonly zeroDivisor: {
    readonly op: "div" | "rem";
    readonly dtype: string;
    /** Number of the division in a native call, from 0, and the number of divisions. */
    readonly division?: number;
    readonly of?: number;
  };
  /** The matrix in a batch; undefined for a single matrix. */
  readonly notPositiveDefinite: { readonly matrix?: number | undefined };
  readonly singular: { readonly matrix?: number | undefined; readonly pivot: number };
  readonly notConverging: { readonly matrix?: number | undefined };
  /** A loop that takes more iterations than it may. */
  readonly pastBound: { readonly loop: string; readonly most: number };
  /** Any other refused value, in words. */
  readonly said: { readonly text: string };
  /** A loss that is not finite. */
  readonly badLoss: { readonly loss: number };
  /** A malformed program or call. */
  readonly run: { readonly text: string };
  readonly invalid: { readonly text: string };
  readonly panic: { readonly text: string };
  readonly memory: { readonly bytes: number };
  readonly aborted: { readonly reason: string; readonly during?: string };
  readonly timeout: { readonly limit: number; readonly waitingFor: string; readonly during: string };
  /** `peer`: the rank in words, with its address if that is another host's. */
  readonly peerClosed: { readonly rank: number; readonly peer: string; readonly during: string };
  readonly peerAborted: { readonly rank: number; readonly reason: string; readonly during: string };
  /** A rank that ended before all had joined; `own` is the waiting rank. */
  readonly peerMissing: { readonly rank: number; readonly own: number; readonly during: string };
  readonly mismatch: { readonly text: string };
  readonly protocol: { readonly peer: string; readonly detail: string };
  readonly auth: { readonly peer: string; readonly reason: string };
  readonly store: { readonly key: string; readonly detail: string };
  readonly io: { readonly what: string; readonly detail: string };
}

/** The place of a fault, as far as it is known. */
export interface FaultPlace {
  /** The waiting worker that reported the fault. */
  readonly worker?: string;
  /** The users' name of the op or function; undefined if the sentence or the program names it. */
  readonly by?: string | undefined;
  /** What the user may do instead. */
  readonly hint?: string;
  /** Iterations of the loops around the op, outermost first. */
  readonly iterations?: readonly number[];
  /** The step of a training. */
  readonly training?:
    | { readonly step: number; readonly epoch: number; readonly epochs: number; readonly batch: number }
    | undefined;
  /** The batch of an evaluation, from 1. */
  readonly evaluation?: number | undefined;
  /** Of several devices the one that says so, which counts rows, positions and matrices within what it has. */
  readonly device?: number | undefined;
  readonly devices?: number | undefined;
  /** The lowered program that ran. */
  readonly program?: string;
  /** The outermost step that was reached, and its kernel. */
  readonly step?: number;
  readonly kernel?: string;
  /** The outermost step that began the collective, if an overlapped collective failed. */
  readonly begun?: number;
  /** The call's number among all calls. */
  readonly call?: number;
}

export type FaultKind = keyof Faults;
type FaultOf<K extends FaultKind> = { readonly kind: K } & Faults[K] & FaultPlace;
/** What went wrong: a kind with its fields, and the place. */
export type Fault = { readonly [K in FaultKind]: FaultOf<K> }[FaultKind];

const matrix = (number: number | undefined): string =>
  number === undefined ? "the matrix" : `matrix ${number} of the batch`;
const ofData = (source: number | undefined): string => (source === undefined ? "" : ` (row ${source} of the data)`);
const asSaid = ({ text }: { readonly text: string }): string => text;

/** The error code and the sentence of each kind. */
const kinds: { readonly [K in FaultKind]: readonly [code: ErrorCode, say: (fault: Faults[K]) => string] } = {
  index: [
    "value",
    ({ index, position, size, least = 0, or, row, source }) => {
      const more = or === undefined ? "" : ` or ${or}`;
      const where = row === undefined ? `at position ${position}` : `in row ${row} of the batch`;
      return `index ${index}${more} ${where} is outside [${least}, ${size})${ofData(source)}`;
    },
  ],
  label: [
    "value",
    ({ index, position, size, source }) => `label ${index} at row ${position} is outside [0, ${size})${ofData(source)}`,
  ],
  zeroDivisor: ["value", ({ op, dtype }) => `integer ${op === "div" ? "division" : "remainder"} by zero (${dtype})`],
  notPositiveDefinite: ["value", (fault) => `${matrix(fault.matrix)} is not positive definite`],
  singular: ["value", (fault) => `${matrix(fault.matrix)} is singular: pivot ${fault.pivot} is 0`],
  notConverging: ["value", (fault) => `${matrix(fault.matrix)}: the iteration does not converge`],
  pastBound: [
    "value",
    ({ loop, most }) =>
      `whileLoop '${loop}' ran past maxIterations ${most}: its condition still holds after so many iterations; give it a larger maxIterations, or a condition that ends sooner`,
  ],
  said: ["value", asSaid],
  badLoss: ["nan", ({ loss }) => `the loss is ${loss}`],
  run: ["run", asSaid],
  invalid: ["run", asSaid],
  panic: ["internal", ({ text }) => `a native task failed: ${text}`],
  memory: ["memory", ({ bytes }) => `out of memory: cannot get ${bytes} bytes`],
  aborted: [
    "aborted",
    ({ reason, during }) =>
      during === undefined
        ? `aborted: ${reasonOf(reason)}`
        : `this rank aborted: ${reasonOf(reason)} (while it was in ${during})`,
  ],
  timeout: [
    "timeout",
    ({ limit, waitingFor, during }) => `timed out after ${limit.toFixed(1)} s waiting for ${waitingFor} in ${during}`,
  ],
  peerClosed: ["peerClosed", ({ peer, during }) => `${peer} closed its connection during ${during}`],
  peerAborted: [
    "peerAborted",
    ({ rank, reason, during }) => `rank ${rank} aborted: ${reasonOf(reason)} (while this rank was in ${during})`,
  ],
  peerMissing: ["peerClosed", ({ rank, own }) => `rank ${own} waits for all ranks to join, but rank ${rank} has ended`],
  mismatch: ["mismatch", asSaid],
  protocol: ["protocol", ({ peer, detail }) => `${peer} broke the protocol: ${detail}`],
  auth: ["auth", ({ peer, reason }) => `could not authenticate ${peer}: ${reason}`],
  store: ["store", ({ key, detail }) => `the store refused key '${key}': ${detail}`],
  io: ["io", ({ what, detail }) => `${what}: ${detail}`],
};

/** The error code of a fault. */
export const codeOf = ({ kind }: Fault): ErrorCode => kinds[kind][0];

/** The sentence for a fault without its place. */
export const describeFault = (fault: Fault): string => (kinds[fault.kind][1] as (fault: Fault) => string)(fault);

/** The sentence for a fault. */
export function sentenceOf(fault: Fault): string {
  const { by, said } = spokenOf(fault);
  return by === undefined ? said : `${by}: ${said}`;
}

/** The sentence for a fault in two parts: the function or worker that it begins with, and the rest. */
export function spokenOf(fault: Fault): { readonly by: string | undefined; readonly said: string } {
  const { worker, by, iterations = [], training, evaluation, program } = fault;
  const way = by === undefined && program === undefined ? [] : iterations;
  const speakers = [worker, by ?? nativePlace(fault)].filter((part) => part !== undefined);
  const parts = [...speakers.slice(1), ...way.map((count) => `iteration ${count}`), describeFault(fault)];
  return { by: speakers[0], said: `${parts.join(": ")}${countedOn(fault)}${inRun({ training, evaluation })}` };
}

/** Whose rows, positions or matrices those of a sentence are, where there are several devices. */
function countedOn({ device, devices, ...fault }: Fault): string {
  const counts = "position" in fault || fault.kind === "said" || ("matrix" in fault && fault.matrix !== undefined);
  return counts && device !== undefined ? ` (counted on device ${device} of ${devices})` : "";
}

/** The step of a training or the batch of an evaluation, as the end of a sentence. */
export function inRun({ training, evaluation }: Pick<FaultPlace, "training" | "evaluation">): string {
  if (training !== undefined) return `, in ${describeStep(training)}`;
  return evaluation === undefined ? "" : `, in batch ${evaluation} of the evaluation`;
}

/** The failing call of a lowered program; an abort concerns the whole program. */
function nativePlace({ kind, program, step, begun = step, kernel }: Fault): string | undefined {
  return program === undefined || kind === "aborted" ? program : `op ${begun} of program ${program} (${kernel})`;
}

/** A step of a training, in words. */
export const describeStep = ({ step, epoch, epochs, batch }: NonNullable<FaultPlace["training"]>): string =>
  `step ${step} (epoch ${epoch} of ${epochs}, batch ${batch})`;

/** The sentence for a record from native code; other text, such as a reason passed to `abort`, stays unchanged. */
export function reasonOf(reason: string): string {
  const fault = parseFault(reason);
  return fault === undefined ? reason : sentenceOf(fault);
}

/** Reads a record from JSON; undefined for malformed text. */
export function parseFault(text: unknown): Fault | undefined {
  if (typeof text !== "string" || !text.startsWith("{")) return undefined;
  try {
    return asFault(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Checks a record from another process: undefined unless its kind is known and its fields are plain. */
export function asFault(value: unknown): Fault | undefined {
  const { kind, iterations = [], ...fields } = (value ?? {}) as { readonly [field: string]: unknown };
  const plain = Object.values(fields).every((field) => typeof field === "number" || typeof field === "string");
  const isKnown = typeof kind === "string" && Object.hasOwn(kinds, kind) && Array.isArray(iterations);
  return isKnown && plain && iterations.every(Number.isSafeInteger) ? (value as Fault) : undefined;
}
