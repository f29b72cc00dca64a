/**
 * @module `paramserv`: a training by a parameter server whose workers, gradients and steps are functions of the script. The consistency is
 * one of Heddle's policies, run in virtual time in this process: the same answer each time, also where workers do not wait.
 */

import { type Policy, policyNamed, simulate } from "../../consistency/index.ts";
import { evaluate, type Matrix } from "../../matrix/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin, type Host } from "../builtin.ts";
import { operate } from "../operators.ts";
import { kindOf, List, pendingWithin, type Value } from "../values.ts";

/** What a worker has: rows of the features and of the labels. */
interface Share {
  readonly features: Matrix;
  readonly labels: Matrix;
}

const policies: Readonly<Record<string, string>> = { BSP: "bsp", ASP: "async", SBP: "backup" };

function policyOf(args: Args, workers: number): Policy {
  const type = args.text("utype", "ASP").toUpperCase();
  if (!Object.hasOwn(policies, type))
    throw new HeddleError("argument", `paramserv: there is no update type "${type}"`, {
      hint: `there are ${Object.keys(policies).join(", ")}`,
    });
  if (type !== "SBP") return policyNamed(policies[type] as string);
  const backups = args.int("num_backup_workers", 1);
  if (backups < 0 || backups >= workers)
    throw new HeddleError("argument", `paramserv: ${backups} of ${workers} workers cannot be backups`);
  return policyNamed(`backup:${backups}`);
}

/** The rows of each worker: as they come, or in turns. */
function sharesOf(features: Matrix, labels: Matrix, workers: number, scheme: string): Share[] {
  if (features.rows !== labels.rows)
    throw new HeddleError("shape", `paramserv: ${features.rows} rows of features, ${labels.rows} of labels`);
  if (workers > features.rows)
    throw new HeddleError("argument", `paramserv: ${workers} workers for ${features.rows} rows`);
  const rowsOf: Readonly<Record<string, (worker: number) => number[]>> = {
    DISJOINT_CONTIGUOUS: (worker) => {
      const size = Math.ceil(features.rows / workers);
      const start = worker * size;
      return Array.from({ length: Math.min(size, features.rows - start) }, (_unused, row) => start + row);
    },
    DISJOINT_ROUND_ROBIN: (worker) =>
      Array.from({ length: features.rows }, (_unused, row) => row).filter((row) => row % workers === worker),
  };
  if (!Object.hasOwn(rowsOf, scheme))
    throw new HeddleError("argument", `paramserv: there is no scheme "${scheme}"`, {
      hint: `there are ${Object.keys(rowsOf).join(" and ")}: neither draws random numbers`,
    });
  return Array.from({ length: workers }, (_unused, worker) => {
    const rows = (rowsOf[scheme] as (worker: number) => number[])(worker);
    return { features: features.take(rows), labels: labels.take(rows) };
  });
}

function listOf(what: string, value: Value | undefined): List {
  if (value instanceof List) return value;
  throw new HeddleError(
    "argument",
    `paramserv: ${what} is ${value === undefined ? "missing" : kindOf(value)}, not a list`,
  );
}

const evaluated = (list: List): List => {
  evaluate(...pendingWithin(list));
  return list;
};

const summed = (left: List, right: List): List =>
  new List(
    left.items.map((item, at) => operate("+", item, right.items[at] as Value)),
    left.names,
  );

/** What the script computes. */
class Training {
  model: List;
  private readonly args: Args;
  private readonly host: Host;
  private readonly batch: number;
  private readonly hyperparams: List;
  readonly shares: readonly Share[];

  constructor(args: Args, host: Host, shares: readonly Share[]) {
    this.args = args;
    this.host = host;
    this.shares = shares;
    this.model = listOf("'model'", args.value("model"));
    this.hyperparams = args.has("hyperparams") ? listOf("'hyperparams'", args.value("hyperparams")) : new List([]);
    this.batch = args.int("batchsize", 64);
    if (this.batch < 1) throw new HeddleError("argument", `paramserv: the batch size is ${this.batch}`);
  }

  /** Batches of an epoch of a worker. */
  batches(worker: number): number {
    return Math.ceil((this.shares[worker] as Share).features.rows / this.batch);
  }

  /** The gradients of a batch at a copy of the model. */
  gradients(model: List, worker: number, step: number): List {
    const { features, labels } = this.shares[worker] as Share;
    const start = (step % this.batches(worker)) * this.batch;
    const rows = [start, Math.min(start + this.batch, features.rows)] as const;
    const [value] = this.host.call(this.args.text("upd"), [
      { name: "model", value: model },
      { name: "hyperparams", value: this.hyperparams },
      { name: "features", value: features.slice(rows) },
      { name: "labels", value: labels.slice(rows) },
    ]);
    return evaluated(listOf(`the result of '${this.args.text("upd")}'`, value));
  }

  /** The model after a step by gradients. */
  step(gradients: List): void {
    const [value] = this.host.call(this.args.text("agg"), [
      { name: "model", value: this.model },
      { name: "hyperparams", value: this.hyperparams },
      { name: "gradients", value: gradients },
    ]);
    this.model = evaluated(listOf(`the result of '${this.args.text("agg")}'`, value));
  }
}

/** Settings of which Heddle has one value. */
const only: readonly (readonly [name: string, value: string])[] = [
  ["freq", "BATCH"],
  ["checkpointing", "NONE"],
  ["modelAvg", "FALSE"],
  ["nbatches", "1"],
  ["weighting", "FALSE"],
];

function checkSettings(args: Args): void {
  for (const [name, value] of only)
    if (args.text(name, value).toUpperCase() !== value)
      throw new HeddleError("argument", `paramserv: ${name} is ${value}, not ${args.text(name)}`);
}

builtin(
  "paramserv",
  "model features labels val_features? val_labels? upd agg mode? utype? freq? epochs batchsize? k? scheme? hyperparams? checkpointing? modelAvg? nbatches? num_backup_workers? val? weighting? runtime_balancing? seed?",
  "the model after a training: a list like model. upd gives gradients of a batch, agg the model after a step by them",
  (args, host) => {
    checkSettings(args);
    const workers = args.int("k", 1);
    if (workers < 1) throw new HeddleError("argument", `paramserv: there are ${workers} workers`);
    const scheme = args.text("scheme", "DISJOINT_CONTIGUOUS").toUpperCase();
    const shares = sharesOf(args.matrix("features"), args.matrix("labels"), workers, scheme);
    const training = new Training(args, host, shares);
    const epochs = args.int("epochs");
    simulate<List, List>({
      policy: policyOf(args, workers),
      workers,
      merging: "sum",
      clocks: (worker) => epochs * training.batches(worker),
      seconds: () => 1,
      model: {
        copy: () => training.model,
        gradient: (model, worker, step) => training.gradients(model, worker, step),
        add: summed,
        applyLocally: () => {},
        exchange: () => new List([]),
        size: () => 0,
        apply: ({ parts }) => {
          const lists = parts.flatMap(({ update }) => update.payload ?? []);
          if (lists.length > 0) training.step(evaluated(lists.reduce(summed)));
        },
      },
    });
    return training.model;
  },
);
