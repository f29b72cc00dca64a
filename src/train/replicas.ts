/**
 * @module Compares the copies of values that several ranks have: a bit that flipped in the memory of one rank, or a change that one rank made
 * alone, would otherwise train on in silence.
 */
import { isTensor, type Tensor } from "../functions/index.ts";
import { allDevices, type Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import { digestOf, oddRanks } from "./drift.ts";
import type { TrainState } from "./values.ts";

/** Compares the copies of parameters and layer state every so many steps. */
export class Replicas {
  private readonly runtime: Runtime;
  private readonly every: number | false;
  private checkedAt: number;

  constructor(runtime: Runtime, every: number | false, steps: number) {
    this.runtime = runtime;
    this.every = every;
    this.checkedAt = steps;
  }

  /** Whether copies are compared after so many steps; the same on all ranks. */
  isDue(steps: number): boolean {
    return this.runtime.processes !== undefined && this.every !== false && steps % this.every === 0;
  }

  /**
   * Compares the copies. Every rank must call this function, while no program runs.
   *
   * @throws HeddleError `mismatch` naming the ranks, the value, and between which steps it has changed; on all ranks.
   */
  async check({ params, state }: Pick<TrainState, "params" | "state">, steps: number): Promise<void> {
    const { processes } = this.runtime;
    if (processes === undefined || this.every === false || steps === this.checkedAt) return;
    const trees = Object.entries({ parameter: params, "layer state": state });
    const leaves = trees.flatMap(([kind, tree]) => {
      const { leaves: tensors, paths } = flattenTree(tree, isTensor);
      return tensors.map((tensor, index) => ({ tensor, name: `${kind} '${paths[index]}'` }));
    });
    const digests = new Uint32Array(leaves.length);
    for (const [index, { tensor }] of leaves.entries()) digests[index] = await localDigest(tensor);
    const all = await processes.allGather(new Uint8Array(digests.buffer), `digests after step ${steps}`);
    const table = new Uint32Array(all.slice().buffer);
    for (const [index, { tensor, name }] of leaves.entries())
      for (const ranks of copiesOf(tensor, this.runtime)) {
        const values = ranks.map((rank) => String(table[rank * leaves.length + index]));
        if (values.some((value) => value !== values[0])) throw this.changed(name, ranks, values, steps);
      }
    this.checkedAt = steps;
  }

  private changed(name: string, ranks: readonly number[], values: readonly string[], steps: number): HeddleError {
    const { odd, common } = oddRanks(values);
    const whole = ranks.length === this.runtime.world;
    const named = (which: readonly number[]): string =>
      `rank${which.length === 1 ? "" : "s"} ${which.map((index) => ranks[index]).join(", ")}`;
    const since = `since a step from ${this.checkedAt + 1} to ${steps}`;
    const who =
      common === undefined
        ? `${named([...ranks.keys()])} have different copies of ${name}`
        : `${named(odd)} ${odd.length === 1 ? "has" : "have"} another copy of ${name} than ${whole ? "the other ranks" : named([...ranks.keys()].filter((index) => !odd.includes(index)))}`;
    return new HeddleError("mismatch", `${who}, ${since}`, {
      hint: "memory of a rank was altered, or its program changed values on its own; resume from a checkpoint of before",
    });
  }
}

/** A digest of the part of a value that this rank has. */
async function localDigest({ value }: Tensor): Promise<number> {
  const bytes = await value.shards[0]?.read();
  if (bytes === undefined || bytes.length === 0) return 0;
  const padded = bytes.length % 4 === 0 && bytes.byteOffset % 4 === 0 ? bytes : aligned(bytes);
  return digestOf(new Uint32Array(padded.buffer, padded.byteOffset, padded.length / 4));
}

function aligned(bytes: Uint8Array): Uint8Array {
  const result = new Uint8Array(4 * Math.ceil(bytes.length / 4));
  result.set(bytes);
  return result;
}

/** The ranks that have the same part of a value, for each part. */
function copiesOf({ value }: Tensor, { axes }: Runtime): number[][] {
  const split = [...axes.keys()].filter((axis) => value.layout[axis]?.kind !== "replicate");
  const parts = new Map<string, number[]>();
  for (const [rank, { coordinates }] of allDevices(axes).entries()) {
    const part = split.map((axis) => coordinates[axis]).join();
    parts.set(part, [...(parts.get(part) ?? []), rank]);
  }
  return [...parts.values()].filter((ranks) => ranks.length > 1);
}
