/** @module Ending a training before its last epoch: wished by any rank, agreed by all, at the same step. */

import { distribute, meshOf, type Tensor, type Tensors } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import type { TensorType } from "../ir/shape.ts";
import { type Layout, type Mesh, shardedOn } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { listed } from "../util/text.ts";
import { batchLayout } from "./feed.ts";
import { stateLayouts } from "./layouts.ts";
import type { Settings } from "./options.ts";
import type { ModelTypes } from "./values.ts";

/**
 * One wish per device of a mesh: 0, or 1 to end. A step sums them in the message that carries the gradients. The stages of a
 * pipeline have no such message, nor has an axis along which nothing is split; there all agree at the end of an epoch.
 */
export function wishTypes(mesh: Mesh, settings: Settings, types: ModelTypes): { readonly wish?: TensorType } {
  const shape = mesh.axes.map(({ size }) => size);
  if (settings.pipeline !== undefined || shape.every((size) => size === 1)) return {};
  // A plan that is given is of a step with it, or of one without.
  const wish = { wish: { shape, dtype: settings.dtype } };
  if (settings.plan !== undefined) return settings.plan.inputs.some(({ name }) => name === "end.wish") ? wish : {};
  const batch = batchLayout(mesh, settings.data.batchSizes[0] as number);
  const state = stateLayouts(settings, types, mesh);
  const speaks = shape.every((size, place) => size === 1 || batch[place]?.kind === "shard" || state.isSplit(place));
  return speaks ? wish : {};
}

/** Each device holds its own wish. */
export function wishLayout(mesh: Mesh): Layout {
  return shardedOn(mesh, Object.fromEntries(mesh.axes.map(({ name }, dim) => [name, dim])));
}

const kinds = { none: 0, stop: 1, abort: 2, fail: 3 } as const;

/** What the ranks of a run wish, and what they agree on. */
export class Ending {
  /** Whether all ranks have decided together to fail: none has to be told then. */
  agreed = false;
  private stopped = false;
  private failure: { readonly error: unknown } | undefined;
  private readonly runtime: Runtime;
  private readonly settings: Settings;
  private readonly wish: TensorType | undefined;

  constructor(runtime: Runtime, settings: Settings, types: ModelTypes) {
    this.runtime = runtime;
    this.settings = settings;
    this.wish = wishTypes(meshOf(runtime), settings, types).wish;
  }

  /** Wishes to end well. */
  stop(): void {
    this.stopped = true;
  }

  /**
   * Wishes to end with an error, which {@link Ending.decide} throws once all ranks have come to the same step.
   *
   * @returns false where nothing is to be agreed on, or only at the end of an epoch: the error is to be thrown at once
   */
  fail(error: unknown): boolean {
    if (this.runtime.processes === undefined || this.wish === undefined) return false;
    this.failure ??= { error };
    return true;
  }

  /** Whether this rank wishes to end now. */
  get wished(): boolean {
    return this.kind !== kinds.none;
  }

  private get kind(): number {
    if (this.failure !== undefined) return kinds.fail;
    if (this.runtime.processes !== undefined && this.settings.signal?.aborted === true) return kinds.abort;
    return this.stopped ? kinds.stop : kinds.none;
  }

  /** The wish as a step takes it; empty where steps carry none. */
  tensors(wished: boolean): Tensors {
    const { runtime, wish } = this;
    if (wish === undefined) return {};
    const size = wish.shape.reduce((product, count) => product * count, 1);
    const data: TypedArray = dtypes[this.settings.dtype].create(new Array<number>(size).fill(wished ? 1 : 0));
    return { wish: distribute(runtime, data, wish, wishLayout(meshOf(runtime))) };
  }

  /**
   * Decides with all other ranks, between two steps: true to end well.
   *
   * @throws the reason of this rank's signal or what its callback threw, or HeddleError `peerAborted` naming the ranks where.
   */
  async decide(step: number): Promise<boolean> {
    const { processes, rank } = this.runtime;
    if (processes === undefined) return this.stopped;
    const wishes = await processes.allGather(Uint8Array.of(this.kind), `whether to end after ${step} steps`);
    const ranksOf = (kind: number): number[] => [...wishes.keys()].filter((other) => wishes[other] === kind);
    const [aborting, failing] = [ranksOf(kinds.abort), ranksOf(kinds.fail)];
    if (aborting.length + failing.length === 0) return wishes.includes(kinds.stop);
    this.agreed = true;
    if (this.failure !== undefined) throw this.failure.error;
    if (aborting.includes(rank)) throw this.settings.signal?.reason;
    const named = (ranks: readonly number[]): string =>
      ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${listed(ranks.map(String))}`;
    const what =
      failing.length > 0 ? `a callback of ${named(failing)} failed, which` : `the signal of ${named(aborting)}`;
    throw new HeddleError("peerAborted", `${what} ended the training after ${step} steps`);
  }
}

/** The wish of a step's result; undefined where steps carry none. */
export type StepEnd = { readonly wish?: Tensor };
