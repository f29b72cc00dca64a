/**
 * @module D-PSGD (Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", 2017): in each clock a worker computes a
 * gradient, mixes its neighbours' parameters of the same clock with its own, and applies the gradient. It waits for its neighbours only.
 */
import { HeddleError } from "../../util/errors.ts";
import type { Topology } from "./topology.ts";

/** A worker mixes the parameters of these workers, as they were at the beginning of this clock. */
export interface Mix {
  readonly worker: number;
  readonly clock: number;
  /** Workers and weights, the worker itself among them; they add up to 1. */
  readonly from: ReadonlyMap<number, number>;
}

/** Decides when workers mix. A worker keeps its parameters of the clock before: a neighbour may be one clock behind. */
export class NeighbourSteps {
  private readonly topology: Topology;
  /** For each worker those whom it hears, and those who hear it: they still need its parameters of the clock before. */
  private readonly near: readonly ReadonlySet<number>[];
  /** For each live worker the clock whose gradient it has, or computes. */
  private readonly clocks = new Map<number, { clock: number; ready: boolean }>();

  constructor(topology: Topology) {
    this.topology = topology;
    const near = topology.mixing.map((weights) => new Set(weights.keys()));
    for (const [worker, weights] of topology.mixing.entries())
      for (const other of weights.keys()) (near[other] as Set<number>).add(worker);
    this.near = near;
    for (let worker = 0; worker < topology.workers; worker++) this.clocks.set(worker, { clock: 0, ready: false });
  }

  /** A worker has its gradient. Returns the mixes that are possible now: those workers go on with the next clock. @throws HeddleError `protocol` */
  ready(worker: number): Mix[] {
    const entry = this.clocks.get(worker);
    if (entry === undefined || entry.ready)
      throw new HeddleError("protocol", `worker ${worker} is ready, but it ${entry === undefined ? "left" : "waits"}`);
    entry.ready = true;
    return this.release();
  }

  /** A worker has finished or failed: its weight falls to those that hear it. Returns the mixes that are possible now. */
  leave(worker: number): Mix[] {
    this.clocks.delete(worker);
    return this.release();
  }

  private release(): Mix[] {
    const mixes: Mix[] = [];
    // A neighbour's parameters of this clock are there when it has begun the clock: they are those before its own mix.
    for (const [worker, { clock, ready }] of this.clocks) {
      const near = [...(this.near[worker] as ReadonlySet<number>)];
      if (ready && near.every((other) => this.isReady(other, clock))) mixes.push(this.mix(worker, clock));
    }
    for (const { worker } of mixes) {
      const entry = this.clocks.get(worker) as { clock: number; ready: boolean };
      entry.clock++;
      entry.ready = false;
    }
    return mixes;
  }

  private isReady(other: number, clock: number): boolean {
    const entry = this.clocks.get(other);
    return entry === undefined || entry.clock > clock || (entry.clock === clock && entry.ready);
  }

  private mix(worker: number, clock: number): Mix {
    const from = new Map<number, number>();
    for (const [other, weight] of this.topology.mixing[worker] ?? []) {
      const whose = this.clocks.has(other) ? other : worker;
      from.set(whose, (from.get(whose) ?? 0) + weight);
    }
    return { worker, clock, from };
  }
}
