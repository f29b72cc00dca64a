/** @module D-PSGD and AD-PSGD in virtual time, with parameters as vectors. */
import { HeddleError } from "../../util/errors.ts";
import { VirtualTime } from "../virtual-time.ts";
import { type Pair, PairAverages } from "./ad-psgd.ts";
import { type Mix, NeighbourSteps } from "./d-psgd.ts";
import type { Topology } from "./topology.ts";

/** A training without a server. */
export interface GossipOptions {
  readonly kind: "d-psgd" | "ad-psgd";
  readonly topology: Topology;
  readonly first: Float64Array;
  readonly learningRate: number;
  /** The gradient of a worker's step at its parameters. */
  readonly gradient: (params: Float64Array, worker: number, step: number) => Float64Array;
  /** The seconds of a worker's gradient. */
  readonly seconds: (worker: number, step: number) => number;
  /** The seconds of a message. Default 0. */
  readonly delay?: () => number;
  /** Numbers in [0, 1): which neighbour. */
  readonly random: () => number;
  /** Steps of each worker. */
  readonly steps: number;
  /** Workers that die, and when. */
  readonly deaths?: ReadonlyMap<number, number>;
  /** Called after each step of a worker. True ends the simulation. */
  readonly stepped?: (params: readonly Float64Array[], seconds: number) => boolean;
}

/** How a simulation went. */
export interface GossipResult {
  readonly seconds: number;
  /** The parameters of each worker. */
  readonly params: readonly Float64Array[];
  /** Steps of each worker. */
  readonly steps: readonly number[];
  /** Workers that neither finished nor died. Empty if no wait is endless. */
  readonly stuck: readonly number[];
  /** Parameters that travelled between workers. */
  readonly messages: number;
}

/** Runs a training to its end. @throws HeddleError `option` for an unknown kind */
export function simulateGossip(options: GossipOptions): GossipResult {
  if (options.kind !== "d-psgd" && options.kind !== "ad-psgd")
    throw new HeddleError("option", `simulateGossip: kind must be "d-psgd" or "ad-psgd", got ${String(options.kind)}`);
  return new Gossip(options).run();
}

class Gossip {
  private readonly options: GossipOptions;
  private readonly time = new VirtualTime();
  private readonly params: Float64Array[];
  /** Parameters at the beginning of the clock of now and of the one before. */
  private readonly kept: Map<number, Float64Array>[];
  private readonly gradients: (Float64Array | undefined)[] = [];
  private readonly steps: number[];
  private readonly over = new Set<number>();
  private readonly neighbours: NeighbourSteps;
  private readonly pairs: PairAverages;
  private messages = 0;
  private ended = -1;

  constructor(options: GossipOptions) {
    this.options = options;
    const { topology, first, random } = options;
    this.params = Array.from({ length: topology.workers }, () => first.slice());
    this.kept = this.params.map((own) => new Map([[0, own.slice()]]));
    this.steps = this.params.map(() => 0);
    this.neighbours = new NeighbourSteps(topology);
    this.pairs = new PairAverages(topology, random);
  }

  run(): GossipResult {
    const workers = [...this.params.keys()];
    for (const [worker, at] of this.options.deaths ?? []) this.later(at, () => this.leave(worker));
    for (const worker of workers) this.compute(worker);
    this.time.run();
    const stuck = this.ended >= 0 ? [] : workers.filter((worker) => !this.over.has(worker));
    const seconds = this.ended >= 0 ? this.ended : this.time.now;
    return { seconds, params: this.params, steps: this.steps, stuck, messages: this.messages };
  }

  private later(seconds: number, run: () => void): void {
    this.time.after(seconds, () => {
      if (this.ended < 0) run();
    });
  }

  private compute(worker: number): void {
    const step = this.steps[worker] as number;
    if (step === this.options.steps) {
      this.leave(worker);
      return;
    }
    // The gradient is that of the parameters of now, whatever comes while it is computed.
    const at = (this.params[worker] as Float64Array).slice();
    this.later(this.options.seconds(worker, step), () => {
      if (this.over.has(worker)) return;
      this.gradients[worker] = this.options.gradient(at, worker, step);
      if (this.options.kind === "d-psgd") this.mix(this.neighbours.ready(worker));
      else this.average(this.pairs.ready(worker));
    });
  }

  private leave(worker: number): void {
    if (this.over.has(worker)) return;
    this.over.add(worker);
    if (this.options.kind === "d-psgd") this.mix(this.neighbours.leave(worker));
    else this.average(this.pairs.leave(worker));
  }

  private mix(mixes: readonly Mix[]): void {
    for (const { worker, clock, from } of mixes) {
      this.messages += from.size - 1;
      this.later(this.delay(), () => {
        if (this.over.has(worker)) return;
        const mixed = new Float64Array(this.options.first.length);
        for (const [other, weight] of from) addTo(mixed, this.kept[other]?.get(clock) as Float64Array, weight);
        this.params[worker] = mixed;
        this.apply(worker);
        const kept = this.kept[worker] as Map<number, Float64Array>;
        kept.set(clock + 1, (this.params[worker] as Float64Array).slice());
        kept.delete(clock - 2);
        this.compute(worker);
      });
    }
  }

  private average(pairs: readonly Pair[]): void {
    for (const pair of pairs) {
      const { worker, neighbour } = pair;
      this.messages += neighbour === undefined ? 0 : 2;
      this.later(this.delay(), () => {
        if (this.over.has(worker) || (neighbour !== undefined && this.over.has(neighbour))) return;
        const own = this.params[worker] as Float64Array;
        const other = neighbour === undefined ? own : (this.params[neighbour] as Float64Array);
        for (let index = 0; index < own.length; index++)
          own[index] = other[index] = ((own[index] as number) + (other[index] as number)) / 2;
        this.apply(worker);
        this.average(this.pairs.finish(pair));
        this.compute(worker);
      });
    }
  }

  private apply(worker: number): void {
    addTo(this.params[worker] as Float64Array, this.gradients[worker] as Float64Array, -this.options.learningRate);
    (this.steps[worker] as number)++;
    if (this.options.stepped?.(this.params, this.time.now) === true) this.ended = this.time.now;
  }

  private delay(): number {
    return this.options.delay?.() ?? 0;
  }
}

function addTo(sum: Float64Array, values: Float64Array, weight: number): void {
  for (let index = 0; index < sum.length; index++) (sum[index] as number) += weight * (values[index] as number);
}
