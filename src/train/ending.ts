/** @module Ending a training early: any rank may ask for it, and all ranks end after the same step. */

import { distribute, meshOf, type Tensor } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { type Layout, type Mesh, only, shardedOn, stageAxis, withPlacement } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { listed } from "../util/text.ts";
import { StepRecords } from "./drift.ts";
import { batchLayout } from "./feed.ts";
import { stateLayouts } from "./layouts.ts";
import type { Settings } from "./options.ts";
import { stageOfRequest, stageRanks } from "./pipeline.ts";
import type { ModelTypes } from "./values.ts";

/** What each device wants, as inputs of a step: one, or in a pipeline one per stage. */
export type EndRequests<Value> = { readonly [name: string]: Value };

/**
 * The types of a step's inputs `end.…`: per device of the mesh 0, or 1 to end. A step sums the requests, in the all-reduce of the gradients if
 * there is one. In a pipeline each stage has an input of its own, `end.request0`, which goes to every stage when the loss does. Meshes with an
 * axis along which nothing is split have no such sum; there the ranks agree at the end of an epoch.
 */
export function endRequestTypes(mesh: Mesh, settings: Settings, types: ModelTypes): EndRequests<TensorType> {
  const { pipeline, plan, dtype, data } = settings;
  const axes = mesh.axes.filter(({ name }) => pipeline === undefined || name !== stageAxis);
  const shape = axes.map(({ size }) => size);
  const names =
    pipeline === undefined ? ["request"] : stageRanks(pipeline, mesh).map((_rank, stage) => `request${stage}`);
  if (pipeline === undefined && shape.every((size) => size === 1)) return {};
  const requests = Object.fromEntries(names.map((name) => [name, { shape, dtype }]));
  // A given plan decides whether its step has the inputs.
  if (plan !== undefined)
    return names.every((name) => plan.inputs.some((input) => input.name === `end.${name}`)) ? requests : {};
  const batch = batchLayout(mesh, data.batchSizes[0] as number);
  const state = stateLayouts(settings, types, mesh);
  const speaks = mesh.axes.every(
    (axis, index) => axis.size === 1 || !axes.includes(axis) || batch[index]?.kind === "shard" || state.isSplit(index),
  );
  return speaks ? requests : {};
}

/** The layout in which each device, or each device of a stage, holds its own request. */
export function endRequestLayout(mesh: Mesh, { pipeline }: Settings, path: string): Layout {
  const stage = stageOfRequest(path);
  if (pipeline === undefined || stage === undefined)
    return shardedOn(mesh, Object.fromEntries(mesh.axes.map(({ name }, dim) => [name, dim])));
  const others = mesh.axes.filter(({ name }) => name !== stageAxis);
  const layout = shardedOn(mesh, Object.fromEntries(others.map(({ name }, dim) => [name, dim])));
  const position = mesh.axes.findIndex(({ name }) => name === stageAxis);
  return withPlacement(layout, position, only(stageRanks(pipeline, mesh)[stage] as number));
}

const kinds = { none: 0, stop: 1, abort: 2, fail: 3, leave: 4, regroup: 5 } as const;

/** Thrown on all ranks after the same step, when other workers are to take part from there on. */
export class Regrouping extends Error {}

/** Whether the ranks of a run want to end, and the decision on which they agree. */
export class Ending {
  /** Whether all ranks have decided together to fail, so that no rank must be told. */
  agreed = false;
  /** Whether the ranks have ended the training since the process is about to be ended. */
  left = false;
  /** What the steps of this rank have taken. */
  readonly records = new StepRecords();
  private stopped = false;
  private leaving = false;
  private failure: { readonly error: unknown } | undefined;
  private readonly runtime: Runtime;
  private readonly settings: Settings;
  private readonly requests: EndRequests<TensorType>;
  private readonly isCalled: () => boolean;

  /** `isCalled` says whether other workers are to take part. */
  constructor(runtime: Runtime, settings: Settings, types: ModelTypes, isCalled = () => false) {
    this.isCalled = isCalled;
    this.runtime = runtime;
    this.settings = settings;
    this.requests = endRequestTypes(meshOf(runtime), settings, types);
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
    if (this.runtime.processes === undefined || Object.keys(this.requests).length === 0) return false;
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
    if (this.stopped) return kinds.stop;
    return this.isCalled() ? kinds.regroup : kinds.none;
  }

  /** The requests to end as inputs of a step, with a digest of what the step takes; empty if steps have no such inputs. */
  tensors(requested: boolean): EndRequests<Tensor> {
    const { runtime, requests, settings } = this;
    return Object.fromEntries(
      Object.entries(requests).map(([name, type]) => {
        const data: TypedArray = dtypes[settings.dtype].create(
          new Array<number>(sizeOf(type.shape)).fill((requested ? 1 : 0) + (this.digestIn(name) ? this.share : 0)),
        );
        return [name, distribute(runtime, data, type, endRequestLayout(meshOf(runtime), settings, `end.${name}`))];
      }),
    );
  }

  /** This rank's part of the sum of digests. */
  private get share(): number {
    const { processes, rank, world } = this.runtime;
    // The fixed-point numbers of a switch have a scale for a block: digests would take bits from the gradients beside them.
    if (processes === undefined || readEnvironment().throughSwitch !== undefined) return 0;
    return this.records.share(rank, world);
  }

  /** Whether a request carries a rank's digest: in a pipeline the first stage of the rank does, so that each rank has one. */
  private digestIn(name: string): boolean {
    const stage = stageOfRequest(`end.${name}`);
    const { pipeline } = this.settings;
    if (stage === undefined || pipeline === undefined) return true;
    const homes = stageRanks(pipeline, meshOf(this.runtime));
    return homes.indexOf(homes[stage] as number) === stage;
  }

  /** Called when all ranks know that they differ. @throws HeddleError `mismatch` if their steps have taken different things */
  async differed(): Promise<void> {
    this.agreed = true;
    const { processes } = this.runtime;
    if (processes !== undefined) await this.records.compare(processes);
  }

  /**
   * Decides with all other ranks, between two steps, whether to end; true for an end without an error.
   *
   * @throws the reason of this rank's signal, the error of its callback, HeddleError `peerAborted` naming the ranks that ended the run, or
   * `mismatch` if ranks have trained differently.
   */
  async decide(step: number): Promise<boolean> {
    const { processes, rank } = this.runtime;
    if (processes === undefined) {
      this.left = this.leaving;
      if (this.kind === kinds.regroup) throw new Regrouping();
      return this.stopped || this.leaving;
    }
    const { bytes: own } = this.records;
    const told = await processes.allGather(Uint8Array.of(this.kind, ...own), `whether to end after ${step} steps`);
    const width = 1 + own.length;
    const requests = told.filter((_byte, index) => index % width === 0);
    const ranksOf = (kind: number): number[] => [...requests.keys()].filter((other) => requests[other] === kind);
    const [aborting, failing] = [ranksOf(kinds.abort), ranksOf(kinds.fail)];
    if (aborting.length + failing.length === 0) {
      if (told.some((byte, index) => index % width > 0 && byte !== told[index % width])) {
        this.agreed = true;
        await this.records.explain(processes);
      }
      this.left = requests.includes(kinds.leave);
      if (this.left || requests.includes(kinds.stop)) return true;
      if (!requests.includes(kinds.regroup)) return false;
      this.agreed = true;
      throw new Regrouping();
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

/** The sums of the requests in a step's result, one per input; empty if steps have no such inputs. */
export type StepEnd = { readonly [name: string]: Tensor };

/** The sum of each request over the devices that have one. */
export const sumsOfRequests = (requests: EndRequests<Tensor>): StepEnd =>
  // In a pipeline, a result with the name of an input would stay on its stage.
  Object.fromEntries(
    Object.entries(requests).map(([name, request]) => [name.replace(/^request(?=\d)/, "sum"), request.sum()]),
  );

/** Whether a device asks for an end, or the digests of what the step took differ. */
export async function isAsked(sums: StepEnd): Promise<boolean> {
  const values = await Promise.all(Object.values(sums).map((sum) => sum.item()));
  return values.reduce((total, value) => total + value, 0) !== 0;
}
