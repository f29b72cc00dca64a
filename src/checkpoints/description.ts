/** @module What a checkpoint says of a run besides its values, as JSON, and the checks of it: files are not trusted. */
import { HeddleError } from "../util/errors.ts";
import type { Plain } from "../util/text.ts";

/** What a checkpoint says of a run. */
export interface Description {
  /** The version of Heddle that wrote the checkpoint. */
  readonly library: string;
  /** Optimizer steps since the run began. */
  readonly step: number;
  /** The next batch to read: the epoch, and the batch in the epoch, both counted from 0. */
  readonly position: { readonly epoch: number; readonly step: number };
  /** The run's seed. */
  readonly seed: number;
  /** The random key, as unsigned 32-bit words. */
  readonly key: readonly number[];
  /** Other data as JSON, such as the dataset's description and the history; numbers are finite. */
  readonly extra: { readonly [key: string]: Plain };
}

/** The description without what else an object has. @throws HeddleError `checkpoint` if something in it cannot be kept */
export function checkedDescription(given: Description): Description {
  const { library, step, position, seed, key, extra } = given;
  const problem = problemOf(given);
  if (problem !== undefined) throw new HeddleError("checkpoint", `cannot save a checkpoint: ${problem}`);
  return { library, step, position: { epoch: position.epoch, step: position.step }, seed, key, extra };
}

/** For `JSON.stringify`: JSON would silently turn other numbers into null. @throws HeddleError `checkpoint` */
export function onlyFinite(name: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value))
    throw new HeddleError("checkpoint", `cannot save a checkpoint: extra "${name}" is ${value}`);
  return value;
}

/** The first problem of a description; undefined if it is well-formed. */
export function problemOf(info: Partial<Description>): string | undefined {
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const isWord = (value: unknown): boolean => isCount(value) && (value as number) < 2 ** 32;
  if (typeof info.library !== "string") return "its library version is not text";
  if (!isCount(info.step)) return `its step is ${String(info.step)}`;
  if (!isCount(info.position?.epoch) || !isCount(info.position?.step)) return "its position is not { epoch, step }";
  if (!isCount(info.seed)) return `its seed is ${String(info.seed)}`;
  if (!Array.isArray(info.key) || !info.key.every(isWord)) return "its key is not a list of 32-bit words";
  if (typeof info.extra !== "object" || info.extra === null || Array.isArray(info.extra))
    return "its extra is not an object";
  return undefined;
}
