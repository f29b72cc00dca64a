/**
 * @module Trainings of one small problem under several policies in virtual time: how long, and how many samples, until the loss is near the
 * best. Policies and their state machines are the real ones, and so are gradients; only time is made.
 */
import {
  complete,
  exponential,
  policyNamed,
  ring,
  type SimulatedModel,
  type Step,
  simulate,
  simulateGossip,
  type Topology,
} from "../consistency/index.ts";
import { HeddleError } from "../util/errors.ts";
import { philox4x32 } from "../util/philox.ts";

/** How fast workers are. */
export type Stragglers = "none" | "slow" | "random";

/** What is compared. */
export interface RaceOptions {
  /** Specs of policies, and `d-psgd` or `ad-psgd` with a topology: `ad-psgd:ring`. */
  readonly policies: readonly string[];
  readonly workers: number;
  readonly stragglers: Stragglers;
  /** Trainings of each policy with other data and times, of which the median counts. */
  readonly seeds: number;
  /** The share of the first loss above the best at which a training ends. */
  readonly target: number;
}

/** How one policy did: the median over the seeds, at the best learning rate. */
export interface RaceResult {
  readonly policy: string;
  readonly learningRate: number;
  /** Virtual seconds until the target; Infinity where no training reached it. */
  readonly seconds: number;
  /** Samples whose gradients arrived until then. */
  readonly samples: number;
  /** The share of the workers' time that they waited. NaN for trainings without a server. */
  readonly waiting: number;
  /** Updates between a copy and the update that was computed with it: the mean. NaN for trainings without a server. */
  readonly staleness: number;
  /** The excess loss over time, in the training of the median: `[seconds, share of the first]`. */
  readonly curve: readonly (readonly [number, number])[];
}

const batch = 8;
const features = 20;
const rows = 500;
/** From the middle: once one reaches the target, slower ones are given up early. */
const rates = [1.6, 3.2, 0.8, 6.4, 0.4, 12.8, 0.2, 25.6, 0.1];
/** Virtual seconds after which a training is given up; a step of a worker takes 1. */
const longest = 1500;

/** Runs all policies, one after another. @throws HeddleError `option` for a malformed policy */
export function race(options: RaceOptions): RaceResult[] {
  const runners = options.policies.map((policy) => [policy, runnerOf(policy, options.workers)] as const);
  const problems = Array.from({ length: options.seeds }, (_unused, seed) => new Problem(seed));
  return runners.map(([policy, run]) => {
    let best: RaceResult | undefined;
    for (const learningRate of rates) {
      const limit = best?.seconds ?? Infinity;
      const found = problems.map((problem) => run(problem, learningRate, options, Math.min(limit, longest)));
      const one = { policy, learningRate, ...medianOf(found) };
      if (best === undefined || one.seconds < best.seconds) best = one;
    }
    return best as RaceResult;
  });
}

type Outcome = Omit<RaceResult, "policy" | "learningRate">;
/** Runs a training; one that takes longer than the limit is given up. */
type Runner = (problem: Problem, learningRate: number, options: RaceOptions, limit: number) => Outcome;

function medianOf(found: readonly Outcome[]): Outcome {
  const sorted = [...found].sort((left, right) => left.seconds - right.seconds);
  return sorted[Math.floor((sorted.length - 1) / 2)] as Outcome;
}

/** Numbers in [0, 1) of a seed and a purpose. */
function numbers(seed: number, purpose: number): () => number {
  let at = 0;
  let words: readonly number[] = [];
  return () => {
    if (at % 4 === 0) words = philox4x32([at >>> 2, purpose, 0, 0], [seed, 0]);
    return (words[at++ % 4] as number) / 2 ** 32;
  };
}

/** Logistic regression on labels with noise, over features of different scales. */
class Problem {
  readonly seed: number;
  /** The loss at zero, and the least one. */
  readonly first: number;
  readonly least: number;
  private readonly inputs: readonly Float64Array[];
  private readonly labels: Uint8Array;

  constructor(seed: number) {
    this.seed = seed;
    const next = numbers(seed, 1);
    const normal = (): number => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    const truth = Float64Array.from({ length: features }, () => 2 * normal());
    this.inputs = Array.from({ length: rows }, () =>
      Float64Array.from({ length: features }, (_unused, feature) => normal() * 0.3 ** (feature / features)),
    );
    this.labels = Uint8Array.from(this.inputs, (input) => (next() < sigmoid(dot(input, truth)) ? 1 : 0));
    this.first = this.loss(new Float64Array(features));
    // The best loss, by descent with all rows and momentum.
    const weights = new Float64Array(features);
    const velocity = new Float64Array(features);
    const all = Array.from({ length: rows }, (_unused, row) => row);
    for (let step = 0; step < 400; step++) {
      const gradient = this.gradientOf(weights, all);
      for (let index = 0; index < features; index++) {
        velocity[index] = 0.9 * (velocity[index] as number) - (gradient[index] as number);
        (weights[index] as number) += velocity[index] as number;
      }
    }
    this.least = this.loss(weights);
  }

  /** The loss above the least one, as a share of the first. */
  excess(weights: Float64Array): number {
    return (this.loss(weights) - this.least) / (this.first - this.least);
  }

  /** The gradient of a worker's step: a batch that worker and step decide. */
  gradient(weights: Float64Array, worker: number, step: number): Float64Array {
    const chosen: number[] = [];
    for (let block = 0; chosen.length < batch; block++)
      for (const word of philox4x32([step, worker, block, 0], [this.seed, 1])) chosen.push(word % rows);
    return this.gradientOf(weights, chosen.slice(0, batch));
  }

  private gradientOf(weights: Float64Array, chosen: readonly number[]): Float64Array {
    const gradient = new Float64Array(features);
    for (const row of chosen) {
      const input = this.inputs[row] as Float64Array;
      const error = (sigmoid(dot(input, weights)) - (this.labels[row] as number)) / chosen.length;
      for (let index = 0; index < features; index++) (gradient[index] as number) += error * (input[index] as number);
    }
    return gradient;
  }

  private loss(weights: Float64Array): number {
    let sum = 0;
    for (const [row, input] of this.inputs.entries()) {
      const logit = dot(input, weights);
      sum += Math.log1p(Math.exp(-Math.abs(logit))) + Math.max(0, this.labels[row] === 1 ? -logit : logit);
    }
    return sum / rows;
  }
}

const sigmoid = (logit: number): number => 1 / (1 + Math.exp(-logit));

function dot(left: Float64Array, right: Float64Array): number {
  let sum = 0;
  for (let index = 0; index < left.length; index++) sum += (left[index] as number) * (right[index] as number);
  return sum;
}

/** Seconds of a step: about 1; "slow": worker 0 takes four times as long; "random": one step in ten takes ten times as long. */
function secondsOf(stragglers: Stragglers, seed: number): (worker: number) => number {
  const next = numbers(seed, 2);
  return (worker) => {
    const own = 0.9 + 0.2 * next();
    if (stragglers === "slow") return worker === 0 ? 4 * own : own;
    return stragglers === "random" && next() < 0.1 ? 10 * own : own;
  };
}

const topologies: { readonly [name: string]: (workers: number) => Topology } = { ring, exponential, complete };

function runnerOf(policy: string, workers: number): Runner {
  const [kind, name = "exponential"] = policy.split(":");
  if (kind === "d-psgd" || kind === "ad-psgd") {
    const make = Object.hasOwn(topologies, name) ? topologies[name] : undefined;
    if (make === undefined)
      throw new HeddleError("option", `there is no topology '${name}'`, { hint: Object.keys(topologies).join(", ") });
    return (problem, learningRate, options, limit) =>
      runWithoutServer(problem, learningRate, kind, make(workers), options, limit);
  }
  policyNamed(policy);
  return (problem, learningRate, options, limit) => runOnServer(problem, learningRate, policy, options, limit);
}

/** The excess is computed after each so many updates. */
const looks = 8;

/** Takes down the excess over time, and says when a training is over. */
class Curve {
  readonly points: [number, number][] = [[0, 1]];
  private count = 0;
  private readonly target: number;
  private readonly limit: number;

  constructor(target: number, limit: number) {
    this.target = target;
    this.limit = limit;
  }

  /** Whether the training is over. */
  add(seconds: number, excess: () => number): boolean {
    if (++this.count % looks !== 0) return false;
    const value = excess();
    this.points.push([seconds, value]);
    return value <= this.target || !(value < 4) || seconds > this.limit;
  }

  get reached(): boolean {
    return (this.points.at(-1) as [number, number])[1] <= this.target;
  }
}

interface Copy {
  readonly weights: Float64Array;
  /** Steps that the server had applied. */
  readonly version: number;
}
interface Payload {
  readonly values: Float64Array;
  readonly version: number;
  readonly samples: number;
}

/** The server of the problem. */
class Server implements SimulatedModel<Copy, Payload> {
  readonly weights = new Float64Array(features);
  samples = 0;
  stale = 0;
  updates = 0;
  private version = 0;
  private readonly means = new Map<number, { readonly sum: Float64Array; applied: Float64Array }>();
  private readonly problem: Problem;
  private readonly learningRate: number;

  constructor(problem: Problem, learningRate: number) {
    this.problem = problem;
    this.learningRate = learningRate;
  }

  readonly copy = (): Copy => ({ weights: this.weights.slice(), version: this.version });
  readonly gradient = ({ weights, version }: Copy, worker: number, step: number): Payload => ({
    values: this.problem.gradient(weights, worker, step),
    version,
    samples: batch,
  });
  readonly add = (left: Payload, right: Payload): Payload => ({
    values: left.values.map((value, index) => value + (right.values[index] as number)),
    version: left.version,
    samples: left.samples + right.samples,
  });
  readonly applyLocally = ({ weights }: Copy, { values }: Payload): void => addTo(weights, values, -this.learningRate);
  readonly exchange = (copy: Copy, server: Copy, elasticity: number): Payload => {
    const moved = copy.weights.map((value, index) => elasticity * (value - (server.weights[index] as number)));
    addTo(copy.weights, moved, -1);
    return { values: moved, version: server.version, samples: 0 };
  };
  readonly size = ({ values }: Payload): number => this.learningRate * Math.max(...values.map(Math.abs));

  readonly apply = ({ parts, mean }: Step<Payload>, carries: "gradient" | "difference"): void => {
    const sum = new Float64Array(features);
    for (const { update, weight } of parts) {
      const { values, version, samples } = update.payload as Payload;
      addTo(sum, values, weight);
      this.stale += this.version - version;
      this.samples += samples;
      this.updates++;
    }
    this.version++;
    if (carries === "difference") addTo(this.weights, sum, 1);
    else if (mean === undefined) addTo(this.weights, sum, -this.learningRate);
    else this.applyMean(mean.group, mean.scale, sum);
  };
  readonly close = (group: number): void => {
    this.means.delete(group);
  };

  private applyMean(group: number, scale: number, added: Float64Array): void {
    const own = this.means.get(group) ?? { sum: new Float64Array(features), applied: new Float64Array(features) };
    this.means.set(group, own);
    addTo(own.sum, added, 1);
    const next = own.sum.map((value) => value * scale);
    addTo(this.weights, next, -this.learningRate);
    addTo(this.weights, own.applied, this.learningRate);
    own.applied = next;
  }
}

function addTo(sum: Float64Array, values: Float64Array, weight: number): void {
  for (let index = 0; index < sum.length; index++) (sum[index] as number) += weight * (values[index] as number);
}

function runOnServer(
  problem: Problem,
  learningRate: number,
  policy: string,
  options: RaceOptions,
  limit: number,
): Outcome {
  const { workers, stragglers, target } = options;
  const server = new Server(problem, learningRate);
  const curve = new Curve(target, limit);
  const delays = numbers(problem.seed, 3);
  const elastic = policyNamed(policy).worker.carries === "difference";
  let steps = 0;
  const seconds = secondsOf(stragglers, problem.seed);
  const { waited, ...result } = simulate({
    policy,
    workers,
    model: server,
    clocks: () => longest,
    seconds(worker) {
      steps++;
      return seconds(worker);
    },
    delay: () => 0.05 * delays(),
    updated: (at) => curve.add(at, () => problem.excess(server.weights)),
  });
  return {
    seconds: curve.reached ? result.seconds : Infinity,
    // Workers of their own copies push no gradients: their steps count.
    samples: elastic ? steps * batch : result.dropped * batch + server.samples,
    waiting: waited / (result.seconds * workers),
    staleness: server.stale / server.updates,
    curve: curve.points,
  };
}

function runWithoutServer(
  problem: Problem,
  learningRate: number,
  kind: "d-psgd" | "ad-psgd",
  topology: Topology,
  { workers, stragglers, target }: RaceOptions,
  limit: number,
): Outcome {
  const curve = new Curve(target, limit);
  const delays = numbers(problem.seed, 3);
  const seconds = secondsOf(stragglers, problem.seed);
  const result = simulateGossip({
    kind,
    topology,
    first: new Float64Array(features),
    learningRate,
    gradient: (weights, worker, step) => problem.gradient(weights, worker, step),
    seconds: (worker) => seconds(worker),
    delay: () => 0.05 * delays(),
    random: numbers(problem.seed, 4),
    steps: longest,
    // What counts is the mean of all workers' parameters.
    stepped: (params, at) =>
      curve.add(at, () => {
        const mean = new Float64Array(features);
        for (const own of params) addTo(mean, own, 1 / workers);
        return problem.excess(mean);
      }),
  });
  return {
    seconds: curve.reached ? result.seconds : Infinity,
    samples: result.steps.reduce((sum, one) => sum + one, 0) * batch,
    waiting: NaN,
    staleness: NaN,
    curve: curve.points,
  };
}
