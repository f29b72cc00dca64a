/** @module What the command `heddle checkpoint` does: checkpoints summarized, verified, compared, averaged and written as weights. */
import type { HostTensor } from "../io/safetensors.ts";
import { dtypes, isFloat } from "../ir/dtype.ts";
import { bytesOf, formatType, sameType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkMatches, matching, type Pattern } from "../util/pattern.ts";
import { absolutePlace, openStorage } from "./drivers.ts";
import { openCheckpoint, type PartsCheckpoint } from "./open.ts";
import { listCheckpoints, messageOf, stepsIn, unfinishedProblem } from "./series.ts";
import type { OpenCheckpoint } from "./types.ts";

/** What a checkpoint holds, without its values; `problem` for one that cannot be opened. */
export interface Summary {
  readonly path: string;
  readonly step: number;
  readonly problem?: string;
  /** Number of files with values: 1, or that of the ranks that wrote parts. */
  readonly files?: number;
  readonly tensors?: number;
  /** Bytes of all values. */
  readonly bytes?: number;
  /** The next batch: its epoch and its number in the epoch, from 0. */
  readonly position?: { readonly epoch: number; readonly step: number };
  /** The version of Heddle that wrote it. */
  readonly library?: string;
}

/** The paths of the checkpoints at a place: of the folder of a run, newest first, or of one checkpoint. */
export async function checkpointsAt(place: string): Promise<readonly string[]> {
  const inFolder = await listCheckpoints(place);
  return inFolder.length > 0 ? inFolder.map(({ path }) => path) : [absolutePlace(place)];
}

/** Opens a checkpoint, or the newest of a run's folder, for some work. */
export async function withCheckpoint<Result>(
  place: string,
  work: (checkpoint: OpenCheckpoint) => Promise<Result>,
): Promise<Result> {
  const [path] = await checkpointsAt(place);
  const checkpoint = await openCheckpoint(path as string);
  try {
    return await work(checkpoint);
  } finally {
    await checkpoint.close();
  }
}

/** Summaries of the checkpoints in the folder of a run, newest first; saves that have not finished come after them. */
export async function summaries(place: string): Promise<Summary[]> {
  const all: Summary[] = [];
  const { checkpoints, unfinished } = await stepsIn(await openStorage(place));
  for (const { path, step } of checkpoints) {
    try {
      const known = await withCheckpoint(path, async ({ description, entries, ...checkpoint }) => ({
        files: "manifest" in checkpoint ? (checkpoint as PartsCheckpoint).manifest.files.size : 1,
        tensors: entries.size,
        bytes: [...entries.values()].reduce((sum, type) => sum + bytesOf(type), 0),
        position: description.position,
        library: description.library,
      }));
      all.push({ path, step, ...known });
    } catch (error) {
      all.push({ path, step, problem: messageOf(error) });
    }
  }
  return [...all, ...unfinished.map(({ path, step }) => ({ path, step, problem: `${path}: ${unfinishedProblem}` }))];
}

/** Reads and verifies everything at a place; what is wrong with each checkpoint, undefined for nothing. */
export async function verified(place: string): Promise<ReadonlyMap<string, string | undefined>> {
  const found = new Map<string, string | undefined>();
  for (const path of await checkpointsAt(place)) {
    const problem = await withCheckpoint(path, (checkpoint) => checkpoint.verify()).then(() => undefined, messageOf);
    found.set(path, problem);
  }
  return found;
}

/** How a value differs between two checkpoints. */
export interface Difference {
  readonly name: string;
  /** The types; undefined where a checkpoint lacks the value. */
  readonly left: string | undefined;
  readonly right: string | undefined;
  /** Elements that differ, if both have one type. */
  readonly elements?: number;
  /** The largest absolute difference; NaN if one side alone is NaN. */
  readonly largest?: number;
}

/** The values that differ between two checkpoints; values with the same bits do not. */
export async function differences(left: OpenCheckpoint, right: OpenCheckpoint): Promise<Difference[]> {
  const found: Difference[] = [];
  for (const name of new Set([...left.entries.keys(), ...right.entries.keys()])) {
    const [a, b] = [left.entries.get(name), right.entries.get(name)];
    const types = { left: a && formatType(a), right: b && formatType(b) };
    if (a === undefined || b === undefined || !sameType(a, b)) {
      found.push({ name, ...types });
      continue;
    }
    const [x, y] = [(await left.read(name)).data, (await right.read(name)).data];
    let [elements, largest] = [0, 0];
    for (let index = 0; index < x.length; index++) {
      if (Object.is(x[index], y[index])) continue;
      elements++;
      // Math.max gives NaN as soon as one number is NaN.
      largest = Math.max(largest, Math.abs(Number(x[index]) - Number(y[index])));
    }
    if (elements > 0) found.push({ name, ...types, elements, largest });
  }
  return found;
}

/** Values by name as a checkpoint has them, `params/0.weight`, chosen by a pattern in which the slash is a dot: `params.0`. */
function chosen(entries: ReadonlyMap<string, TensorType>, only: Pattern): string[] {
  const dotted = (name: string): string => name.replace("/", ".");
  const names = [...entries.keys()];
  checkMatches("--only", only, names.map(dotted));
  const matches = matching("--only", only);
  return names.filter((name) => matches(dotted(name)));
}

/** Values without the group in their names, as weights are named: `0.weight`. */
function weightsNamed(tensors: ReadonlyMap<string, HostTensor>): Map<string, HostTensor> {
  const named = new Map<string, HostTensor>();
  for (const [name, tensor] of tensors) {
    const short = name.replace(/^(params|state|optimizer)\//, "");
    if (named.has(short))
      throw new HeddleError("option", `two values would be named "${short}"`, { hint: "choose with --only" });
    named.set(short, tensor);
  }
  return named;
}

/** The chosen values of a checkpoint under the names of weights. */
export async function exported(checkpoint: OpenCheckpoint, only: Pattern): Promise<Map<string, HostTensor>> {
  const tensors = new Map<string, HostTensor>();
  for (const name of chosen(checkpoint.entries, only)) tensors.set(name, await checkpoint.read(name));
  return weightsNamed(tensors);
}

/**
 * The means of the chosen values over some checkpoints, computed in f64, under the names of weights; integers and bools are those of the
 * first checkpoint.
 *
 * @throws HeddleError `option` if a checkpoint lacks a value or has it of another type
 */
export async function averaged(places: readonly string[], only: Pattern): Promise<Map<string, HostTensor>> {
  const sums = new Map<string, { readonly first: HostTensor; readonly sum: Float64Array }>();
  for (const [index, place] of places.entries())
    await withCheckpoint(place, async (checkpoint) => {
      const names = index === 0 ? chosen(checkpoint.entries, only) : sums.keys();
      for (const name of names) {
        const type = checkpoint.entries.get(name);
        const before = sums.get(name);
        if (type === undefined || (before !== undefined && !sameType(type, before.first)))
          throw new HeddleError(
            "option",
            `${checkpoint.path} ${type === undefined ? `has no ${name}` : `has ${name} as ${formatType(type)}, not as ${formatType(before?.first as HostTensor)}`}`,
            { hint: "average checkpoints of one model" },
          );
        if (before !== undefined && !isFloat(type.dtype)) continue;
        const tensor = await checkpoint.read(name);
        const { first, sum } = before ?? {
          first: tensor,
          sum: new Float64Array(isFloat(type.dtype) ? tensor.data.length : 0),
        };
        for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] as number) + Number(tensor.data[at]);
        sums.set(name, { first, sum });
      }
    });
  const means = [...sums].map(([name, { first, sum }]): [string, HostTensor] => {
    if (!isFloat(first.dtype)) return [name, first];
    const data = dtypes[first.dtype].create(sum.length);
    for (let at = 0; at < sum.length; at++) data[at] = (sum[at] as number) / places.length;
    return [name, { ...first, data }];
  });
  return weightsNamed(new Map(means));
}
