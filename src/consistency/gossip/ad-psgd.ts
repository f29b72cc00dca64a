/**
 * @module AD-PSGD (Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", 2018): a worker that has a gradient
 * averages its parameters with those of one neighbour, and then applies the gradient. Averages of two take place one after another where
 * they share a worker, beside the computation of gradients; no worker waits for a slow one.
 */
import { HeddleError } from "../../util/errors.ts";
import type { Topology } from "./topology.ts";

/** A worker averages its parameters with a neighbour's; both have the mean then. */
export interface Pair {
  readonly worker: number;
  /** Absent: no neighbour is left, and the worker goes on alone. */
  readonly neighbour?: number;
}

/** Decides who averages with whom. A worker is in one average at a time; who waits holds nothing, so no circle of waits comes about. */
export class PairAverages {
  private readonly neighbours: readonly (readonly number[])[];
  private readonly random: () => number;
  private readonly live = new Set<number>();
  private readonly busy = new Map<number, Pair>();
  private waiting: readonly number[] = [];

  /** @param random numbers in [0, 1): which neighbour */
  constructor(topology: Topology, random: () => number) {
    this.random = random;
    this.neighbours = topology.mixing.map((weights, worker) => [...weights.keys()].filter((other) => other !== worker));
    for (let worker = 0; worker < topology.workers; worker++) this.live.add(worker);
  }

  /** A worker has its gradient. Returns the averages that begin now. @throws HeddleError `protocol` */
  ready(worker: number): Pair[] {
    if (!this.live.has(worker)) throw new HeddleError("protocol", `worker ${worker} is ready, but it left`);
    if (this.waiting.includes(worker)) throw new HeddleError("protocol", `worker ${worker} is ready, but it waits`);
    this.waiting = [...this.waiting, worker];
    return this.begin();
  }

  /** An average has ended. Returns the averages that begin now. @throws HeddleError `protocol` */
  finish(pair: Pair): Pair[] {
    if (this.busy.get(pair.worker) !== pair)
      throw new HeddleError("protocol", `worker ${pair.worker} averages nothing`);
    this.free(pair);
    return this.begin();
  }

  /** A worker has finished or failed; its average is given up, and the one who began it goes on. Returns the averages that begin now. */
  leave(worker: number): Pair[] {
    this.live.delete(worker);
    this.waiting = this.waiting.filter((other) => other !== worker);
    const pair = this.busy.get(worker);
    if (pair !== undefined) {
      this.free(pair);
      if (pair.worker !== worker) this.waiting = [pair.worker, ...this.waiting];
    }
    return this.begin();
  }

  private free({ worker, neighbour }: Pair): void {
    this.busy.delete(worker);
    if (neighbour !== undefined) this.busy.delete(neighbour);
  }

  private begin(): Pair[] {
    const pairs: Pair[] = [];
    for (const worker of this.waiting) {
      if (this.busy.has(worker)) continue;
      const live = (this.neighbours[worker] as readonly number[]).filter((other) => this.live.has(other));
      const free = live.filter((other) => !this.busy.has(other));
      if (free.length === 0 && live.length > 0) continue;
      const neighbour = free[Math.floor(this.random() * free.length)];
      const pair = { worker, ...(neighbour !== undefined && { neighbour }) };
      this.busy.set(worker, pair);
      if (neighbour !== undefined) this.busy.set(neighbour, pair);
      pairs.push(pair);
    }
    const begun = new Set(pairs.map(({ worker }) => worker));
    this.waiting = this.waiting.filter((worker) => !begun.has(worker));
    return pairs;
  }
}
