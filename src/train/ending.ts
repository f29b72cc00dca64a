/** @module Ending a training early: any rank may ask for it, and all ranks end after the same step. */

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
 * The type of a step's input `end.request`: per device of the mesh 0, or 1 to end. A step sums the requests in the all-reduce of the gradients.
 * Pipelines, and meshes with an axis along which nothing is split, have no such all-reduce; there the ranks agree at the end of an epoch.
 */
export function endRequestTypes(mesh: Mesh, settings: Settings, types: ModelTypes): { readonly request?: TensorType } {
  const shape = mesh.axes.map(({ size }) => size);
  if (settings.pipeline !== undefined || shape.every((size) => size === 1)) return {};
  // A given plan decides whether its step has the input.
  const request = { request: { shape, dtype: settings.dtype } };
  if (settings.plan !== undefined)
    return settings.plan.inputs.some(({ name }) => name === "end.request") ? request : {};
  const batch = batchLayout(mesh, settings.data.batchSizes[0] as number);
  const state = stateLayouts(settings, types, mesh);
  const speaks = shape.every((size, axis) => size === 1 || batch[axis]?.kind === "shard" || state.isSplit(axis));
  return speaks ? request : {};
}

/** The layout in which each device holds its own request. */
export function endRequestLayout(mesh: Mesh): Layout {
  return shardedOn(mesh, Object.fromEntries(mesh.axes.map(({ name }, dim) => [name, dim])));
}

const kinds = { none: 0, stop: 1, abort: 2, fail: 3, leave: 4 } as const;

/** Whether the ranks of a run want to end, and the decision on which they agree. */
export class Ending {
  /** Whether all ranks have decided together to fail, so that no rank must be told. */
  agreed = false;
  /** Whether the ranks have ended the training since the process is about to be ended. */
  left = false;
  private stopped = false;
  private leaving = false;
  private failure: { readonly error: unknown } | undefined;
  private readonly runtime: Runtime;
  private readonly settings: Settings;
  private readonly request: TensorType | undefined;

  constructor(runtime: Runtime, settings: Settings, types: ModelTypes) {
    this.runtime = runtime;
    this.settings = settings;
    this.request = endRequestTypes(meshOf(runtime), settings, types).request;
  }

  /** Asks for an end without an error. */
  stop(): void {
    this.stopped = true;
  }

  /** Asks for an end without an error, after which the process ends: its machine is wanted for something else. */
  readonly leave = (): void => {
    this.leaving = true;
  };

  /**
   * Asks for an end with an error, which {@link Ending.decide} throws once all ranks have reached the same step.
   *
   * @returns false if there is no other rank, or ranks agree only at the end of an epoch: then the caller throws the error at once
   */
  fail(error: unknown): boolean {
    if (this.runtime.processes === undefined || this.request === undefined) return false;
    this.failure ??= { error };
    return true;
  }

  /** Whether this rank wants to end now. */
  get requested(): boolean {
    return this.kind !== kinds.none;
  }

  private get kind(): number {
    if (this.failure !== undefined) return kinds.fail;
    if (this.runtime.processes !== undefined && this.settings.signal?.aborted === true) return kinds.abort;
    if (this.leaving) return kinds.leave;
    return this.stopped ? kinds.stop : kinds.none;
  }

  /** The request to end as an input of a step; empty if steps have no such input. */
  tensors(requested: boolean): Tensors {
    const { runtime, request } = this;
    if (request === undefined) return {};
    const size = request.shape.reduce((product, count) => product * count, 1);
    const data: TypedArray = dtypes[this.settings.dtype].create(new Array<number>(size).fill(requested ? 1 : 0));
    return { request: distribute(runtime, data, request, endRequestLayout(meshOf(runtime))) };
  }

  /**
   * Decides with all other ranks, between two steps, whether to end; true for an end without an error.
   *
   * @throws the reason of this rank's signal, the error of its callback, or HeddleError `peerAborted` naming the ranks that ended the run.
   */
  async decide(step: number): Promise<boolean> {
    const { processes, rank } = this.runtime;
    if (processes === undefined) {
      this.left = this.leaving;
      return this.stopped || this.leaving;
    }
    const requests = await processes.allGather(Uint8Array.of(this.kind), `whether to end after ${step} steps`);
    const ranksOf = (kind: number): number[] => [...requests.keys()].filter((other) => requests[other] === kind);
    const [aborting, failing] = [ranksOf(kinds.abort), ranksOf(kinds.fail)];
    if (aborting.length + failing.length === 0) {
      this.left = requests.includes(kinds.leave);
      return this.left || requests.includes(kinds.stop);
    }
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

/** The sum of the requests in a step's result; undefined if steps have no such input. */
export type StepEnd = { readonly request?: Tensor };
