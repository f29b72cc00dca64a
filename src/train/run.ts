/** @module A running training: its values, its position, and the loop over steps and epochs. */

import { distribute, meshOf, type Tensor } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { learningRateAt } from "../optim/index.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { replicated } from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { listed } from "../util/text.ts";
import { type BadStep, badLoss, lossAt, RecentLoss, tooManyBad } from "./bad-loss.ts";
import { isAsked } from "./ending.ts";
import { batched, evaluateDataset, predictWith, readMetrics } from "./evaluate.ts";
import type { FedBatch } from "./feed.ts";
import { columnNames } from "./functions.ts";
import {
  type Callbacks,
  type EpochRecord,
  type Snapshot,
  type StepRecord,
  Tally,
  type TrainControl,
} from "./history.ts";
import { host } from "./host.ts";
import type { Moment } from "./host-interface.ts";
import { evaluated } from "./kept.ts";
import type { RunParts } from "./parts.ts";
import { observe, plateaus } from "./plateaus.ts";
import { attempt, refusedIn } from "./refused.ts";
import { Replicas } from "./replicas.ts";
import { Rollback } from "./rollback.ts";
import { Copier } from "./snapshot.ts";
import { copyOf, disposeState, type RunPosition } from "./state.ts";
import { InFlight, mostInFlight } from "./steps-in-flight.ts";
import type { Updates } from "./updates.ts";
import type { BatchOutcome, TrainState } from "./values.ts";

/** Time for steps in flight when a training fails, so that each rank can report a failure that all ranks have. */
const abandonMilliseconds = 500;

/** The values of a run, its position, and its loop. */
export class Run {
  values: TrainState;
  readonly position: RunPosition;
  private readonly parts: RunParts;
  private readonly key: Tensor;
  private readonly flight = new InFlight();
  private readonly recentLoss = new RecentLoss();
  /** Whether the run ended without an error before the last epoch. */
  private stopped = false;
  private lastStep = Infinity;
  /** Whether an error ended the run: later results are ignored. */
  private failed = false;
  /** The number of steps after which all ranks decide whether to end; they also decide at the end of an epoch. */
  private endAt: number | undefined;
  /** Steps before this process. */
  private readonly startedAt: number;
  private readonly copier: Copier;
  private readonly resumed: boolean;
  private readonly replicas: Replicas;
  private readonly rollback: Rollback | undefined;
  /** Batches that are left out from now on, since this worker was late. */
  private missed = 0;
  /** How many snapshots callbacks have restored. */
  private restored = 0;
  /** Callbacks that threw an error. */
  private readonly broken = new Set<Callbacks>();
  /** The learning rate of the last launched step. */
  private lastRate = 0;
  private summarise: (() => void) | undefined;

  constructor(parts: RunParts, values: TrainState, key: Tensor, position: RunPosition, resumed = false) {
    this.resumed = resumed;
    this.parts = parts;
    this.copier = new Copier(parts);
    this.values = values;
    this.key = key;
    this.position = position;
    this.startedAt = position.steps;
    const { checkReplicas, nan, rollback } = parts.settings;
    this.replicas = new Replicas(parts.runtime, checkReplicas, position.steps);
    this.rollback = nan === "rollback" ? new Rollback(rollback) : undefined;
    // What a worker's memory holds may be in no file.
    parts.saver?.start(parts.elastic?.fromMemory === true ? -1 : position.steps);
    for (const schedule of plateaus(parts.settings)) schedule.restart();
    for (const record of position.history) observe(parts.settings, record);
    void this.hold();
  }

  /** In an elastic run, keeps the values for the case that a worker is lost. All steps must have ended. */
  private async hold(): Promise<void> {
    const { values, key, position } = this;
    await this.parts.elastic?.hold({ values, key, position: copyOf(position) });
  }

  /**
   * Trains to the last epoch, until a callback ends the training, or for `steps` steps. Throws the reason of an abort. `summarise` is
   * called once: when the first step is done and others are in flight, since it compiles programs that are needed later.
   */
  async train(steps: number, summarise: () => void): Promise<void> {
    const { position, parts } = this;
    this.lastStep = position.steps + steps;
    this.summarise = () => {
      this.summarise = undefined;
      summarise();
    };
    try {
      await this.begin();
      while (position.epoch < parts.settings.epochs && !this.stopped) await this.epoch();
      this.summarise?.();
      const copy = this.rollback?.end();
      if (copy !== undefined) disposeState(copy);
      if (parts.updates !== undefined) await this.finish(parts.updates);
      // Values whose copies differ are in no file.
      await this.checkReplicas();
      await this.save("end");
      await parts.saver?.finished();
      const { history, steps: taken } = position;
      await this.tell(({ onEnd }) => onEnd?.({ history, steps: taken }, this.control));
      if (parts.settings.callbackList.some(({ onEnd }) => onEnd !== undefined))
        await parts.ending.decide(position.steps);
    } catch (error) {
      this.failed = true;
      await this.flight.abandon(abandonMilliseconds);
      throw error;
    }
  }

  /** The last values of all workers, with the optimizer's state. */
  private async finish(updates: Updates): Promise<void> {
    const { reporter, runtime } = this.parts;
    this.values = await updates.finish(this.values, this.stopped);
    if (runtime.rank !== 0) return;
    const { lines, record } = await updates.report();
    for (const line of lines) reporter.line(line);
    if (record === undefined) return;
    host.process?.keep("events.jsonl", () => `${JSON.stringify({ at: Date.now(), event: "servers", ...record })}\n`);
  }

  private async begin(): Promise<void> {
    const { settings, types, runtime, reporter, ending } = this.parts;
    const { epoch, steps, history } = this.position;
    const start = {
      epoch: epoch + 1,
      epochs: settings.epochs,
      steps,
      history: [...history],
      resumed: this.resumed,
      metrics: [...types.metricSizes.keys()],
      validates: settings.evaluate !== undefined,
      rank: runtime.rank,
      print: reporter.line,
    };
    await this.tell(({ onBegin }) => onBegin?.(start, this.control));
    // A callback may fail or stop on one rank alone. Most callbacks have no such hook, so that ranks need not agree.
    if (settings.callbackList.some(({ onBegin }) => onBegin !== undefined)) {
      this.stopped = await ending.decide(steps);
    }
  }

  /**
   * Calls the callbacks in order. An error on this rank ends the training when all ranks know of it. Until then the other callbacks
   * are called as on the other ranks, since they may communicate with those.
   */
  private async tell(call: (callbacks: Callbacks) => void | Promise<void> | undefined): Promise<void> {
    const { settings, ending } = this.parts;
    for (const callbacks of settings.callbackList) {
      if (this.broken.has(callbacks)) continue;
      try {
        await call(callbacks);
      } catch (error) {
        if (!ending.fail(error)) throw error;
        this.broken.add(callbacks);
      }
    }
  }

  private async epoch(): Promise<void> {
    const { settings, feed, reporter, signal } = this.parts;
    const { position } = this;
    const started = performance.now();
    const done = position.batch;
    reporter.startEpoch({
      epoch: position.epoch + 1,
      epochs: settings.epochs,
      batches: settings.data.batchesPerEpoch,
      done,
    });
    let examples = 0;
    const batches = feed.batches(settings.data, {
      columns: columnNames(settings, settings.data),
      epoch: position.epoch + position.orderOffset,
      step: done,
      seed: settings.seed,
      signal,
    });
    for await (const batch of host.process?.profiledInput(batches) ?? batches) {
      await this.flight.room();
      if (await this.keepsBack(batch)) {
        batch.release();
        if (this.rollback?.bad !== undefined) break;
        continue;
      }
      if (this.endAt !== undefined && position.steps >= this.endAt) {
        batch.release();
        break;
      }
      const { tables } = this.parts.updates ?? {};
      if (tables !== undefined) {
        const looked = { ...batch, dataset: settings.data.ofLength(batch.length) };
        this.values = await tables.forStep(this.values, looked);
      }
      await this.launched(batch);
      if (this.parts.updates !== undefined) await this.exchange(this.parts.updates, batch.rows);
      // Once the first step is done and others run: what the summary compiles would delay the first step.
      if (position.steps - this.startedAt > mostInFlight || position.batch === settings.data.batchesPerEpoch)
        this.summarise?.();
      if (position.steps + this.missed >= this.lastStep) this.endAt = position.steps;
      examples += this.parts.updates?.wholeRows?.(batch.rows) ?? batch.rows;
      reporter.step({ done: position.batch, examples, loss: this.recentLoss.mean });
      this.parts.saver?.check();
      const ends = position.batch === settings.data.batchesPerEpoch;
      if (this.replicas.isDue(position.steps)) await this.checkReplicas();
      if (!ends) await this.save("step");
    }
    await this.flight.drain();
    // The epoch goes on from an earlier batch.
    if (this.rollback?.bad !== undefined) return this.goBack(this.rollback.bad);
    if (position.batch === settings.data.batchesPerEpoch) {
      await this.endEpoch((performance.now() - started) / 1000, examples);
    }
    this.endAt = undefined;
    this.stopped = (await this.parts.ending.decide(position.steps)) || position.steps >= this.lastStep;
  }

  /** Copies the values if a copy is due. Whether a batch is not to be trained on: it is left out, or values are to be restored first. */
  private async keepsBack(batch: FedBatch): Promise<boolean> {
    const { rollback, position } = this;
    if (this.missed > 0) {
      this.missed--;
      position.batch++;
      position.steps++;
      return true;
    }
    if (rollback === undefined) return false;
    // The copy is of steps whose losses are known.
    if (rollback.isDue(position)) await this.flight.drain();
    if (rollback.bad !== undefined) return true;
    if (rollback.isDue(position)) {
      const before = rollback.keep(this.copier.copy(this.values), position);
      if (before !== undefined) disposeState(before);
    }
    if (!rollback.leavesOut(batch.step)) return false;
    position.batch++;
    return true;
  }

  /** Restores the copy from before a step with a bad loss, whose batch is left out from now on. */
  private goBack(bad: BadStep): void {
    const { settings, reporter, runtime, elastic } = this.parts;
    const kept = this.rollback?.goBack(this.position, settings.data.batchesPerEpoch);
    if (kept === undefined) throw tooManyBad(bad, settings);
    const before = this.values;
    this.values = this.copier.copy(kept);
    if (elastic === undefined) disposeState(before);
    void this.hold();
    this.endAt = undefined;
    const { steps } = this.position;
    const rows = [...bad.rows];
    const left = `back to the values after ${steps} steps, without the batch: rows ${listed(rows.map(String))} of the data`;
    reporter.warn(`${lossAt(bad, settings)}: ${left}`);
    if (runtime.rank !== 0) return;
    const { step, epoch, batch } = bad.record;
    const line = { step, epoch, batch, loss: String(bad.loss), backTo: steps, rows };
    host.process?.keep("left-out.jsonl", () => `${JSON.stringify(line)}\n`);
  }

  /** Exchanges what the last step has found with servers or other workers, if that is due, and goes on with what they give. */
  private async exchange(updates: Updates, rows: number): Promise<void> {
    const { settings, ending } = this.parts;
    const { steps, batch, epoch } = this.position;
    const rates = this.rates(steps - 1).values;
    const ends = batch === settings.data.batchesPerEpoch;
    const isLast = (ends && epoch + 1 === settings.epochs) || steps >= this.lastStep;
    const done = { rows, rates, steps, ends, isLast, stop: ending.requested };
    if (!updates.isDue(done)) return;
    // A loss that ends the training is known before what came of it is anywhere.
    await this.flight.drain();
    this.values = await updates.step(this.values, done);
    this.missed = updates.missed;
    if (!updates.stopped) return;
    ending.stop();
    this.endAt ??= steps;
  }

  /** {@link launch}. If it fails because an earlier step failed, the error of the earlier step is thrown. */
  private async launched(batch: FedBatch): Promise<void> {
    try {
      this.launch(batch);
    } catch (error) {
      await this.flight.drain();
      throw error;
    }
  }

  /** Enqueues one step. */
  private launch(batch: FedBatch): void {
    const { parts, position } = this;
    const { settings, programs, runtime, ending } = parts;
    const step = position.steps;
    const { requested } = ending;
    const { learningRate } = this.control;
    this.lastRate = learningRate;
    this.copier.checkAlone("a step");
    const rates = this.rates(step);
    ending.records.add(step + 1, {
      "learning rate": rates.values,
      epoch: position.epoch + 1,
      batch: batch.step + 1,
      // Workers with copies of their own may have one row more or less.
      rows: parts.updates === undefined ? batch.rows : 0,
      "number of restored snapshots": this.restored,
    });
    const endRequest = ending.tensors(requested);
    const scalars = {
      step: this.scalar("i32", step),
      learningRate: this.replicatedTensor(settings.dtype, rates.values, rates.shape),
    };
    host.process?.report({ type: "progress", step: step + 1 });
    runtime.processes?.setStep(step + 1);
    const { params, optimizer, state } = this.values;
    const program = programs.step(batch, position.epoch);
    const inputs = { params, optimizer, state, key: this.key, ...scalars, batch: batch.columns, end: endRequest };
    // Users count from 1.
    const record = { step: step + 1, epoch: position.epoch + 1, batch: batch.step + 1, learningRate };
    const refused = (error: unknown): unknown =>
      refusedIn(error, { training: { ...record, epochs: settings.epochs } }, batch, settings);
    const { loss, metrics, accepted, end, ...values } = attempt(() => program.run(inputs), refused);
    this.values = values;
    const { tally } = position;
    this.flight.add({
      settle: async () => {
        await this.settle(
          { loss, metrics, ...(accepted === undefined ? {} : { accepted }) },
          record,
          batch,
          tally,
        ).catch((error: unknown) => {
          throw refused(error);
        });
        const after = { steps: step + 1, batch: batch.step + 1, tally };
        if (!this.failed && this.rollback?.bad === undefined)
          await parts.elastic?.hold({ values, key: this.key, position: copyOf({ ...position, ...after }) });
        // All ranks read the same sum for the same step.
        const alone = runtime.processes === undefined;
        const ends = Object.keys(end).length === 0 ? alone && requested : await isAsked(end);
        if (ends) this.endAt ??= step + mostInFlight;
      },
      release: () => {
        batch.release();
        const ends = [
          ...Object.values(endRequest),
          ...Object.values(end),
          ...(accepted === undefined ? [] : [accepted]),
        ];
        for (const tensor of [...Object.values(scalars), ...ends, loss, ...Object.values(metrics)]) tensor.dispose();
      },
    });
    position.steps++;
    position.batch++;
  }

  private async settle(
    outcome: BatchOutcome,
    known: Omit<StepRecord, "loss" | "rejected">,
    batch: FedBatch,
    tally: Tally,
  ): Promise<void> {
    const { rows } = batch;
    const { settings, programs } = this.parts;
    const loss = await outcome.loss.item();
    const metrics = await readMetrics(outcome, programs.metricSizes(settings.data, batch.length), rows);
    const rejected = outcome.accepted !== undefined && !(await outcome.accepted.item());
    // Steps after one with a bad loss have its values.
    if (this.failed || this.rollback?.bad !== undefined) return;
    const mean = rejected ? undefined : this.recentLoss.isAbove(loss, settings.spike);
    if (mean !== undefined || !Number.isFinite(loss)) {
      const bad = { record: known, loss, mean, rows: batch.sources };
      if (settings.nan === "error") throw badLoss(bad, settings, batch);
      if (this.rollback !== undefined && !rejected) {
        this.rollback.bad = bad;
        return;
      }
    }
    if (rejected) {
      tally.rejected++;
    } else {
      tally.add(rows, loss, metrics);
      this.recentLoss.add(loss);
    }
    const record = { ...known, loss, rejected };
    await this.tell(({ onStep }) => onStep?.(record, this.control));
  }

  private readonly control: TrainControl = this.makeControl();

  private makeControl(): TrainControl {
    const rate = (): number => {
      const { position, parts } = this;
      return position.rateScale * learningRateAt(parts.settings.optimizer, position.steps);
    };
    return {
      stop: () => this.parts.ending.stop(),
      get learningRate() {
        return rate();
      },
      scaleLearningRate: (factor) => {
        checkNumber("train", "the factor of a learning rate", factor, 0);
        this.position.rateScale *= factor;
      },
      snapshot: () => this.snapshot(),
      restore: (snapshot) => this.restore(snapshot),
    };
  }

  /** A copy of the values after the last launched step. */
  snapshot(): Snapshot {
    const { parts, copier } = this;
    const { settings } = parts;
    const values = copier.copy(this.values);
    const seen = { ...values, params: evaluated(settings, values.params, values.optimizer) };
    const predict = (input: Parameters<Snapshot["predict"]>[0]) =>
      predictWith(parts, { params: seen.params, state: seen.state }, input);
    return {
      steps: this.position.steps,
      params: values.params,
      averaged: settings.ema === undefined ? undefined : seen.params,
      state: values.state,
      optimizerState: values.optimizer,
      evaluate: (dataset) =>
        copier.together("an evaluation", () => evaluateDataset(parts, seen, batched(dataset, settings.data))),
      predict: (input) => copier.together("a prediction", async () => (await predict(input)) as never),
      dispose: () => disposeState(values),
    };
  }

  private restore({ params, state, optimizerState: optimizer }: Snapshot): void {
    if (this.parts.updates !== undefined)
      throw new HeddleError(
        "option",
        "train: values that are exchanged with servers or other workers are not restored from a snapshot",
        {
          hint: "resume from a checkpoint",
        },
      );
    this.restored++;
    const before = this.values;
    this.values = this.copier.copy({ params, state, optimizer });
    // An elastic run may still hold them: then they are freed when they are collected.
    if (this.parts.elastic === undefined) disposeState(before);
  }

  /** Compares the copies of values on other ranks. */
  private async checkReplicas(): Promise<void> {
    await this.flight.drain();
    if (this.rollback?.bad !== undefined) return;
    this.copier.checkAlone("a comparison of copies");
    try {
      await this.replicas.check(this.values, this.position.steps);
    } catch (error) {
      // All ranks have the same table. What they did otherwise says more than what follows from it.
      if (error instanceof HeddleError && error.code === "mismatch") await this.parts.ending.differed();
      throw error;
    }
  }

  private async endEpoch(seconds: number, examples: number): Promise<void> {
    const { settings, reporter, runtime } = this.parts;
    const { position } = this;
    const tally = (await this.parts.updates?.tally(position.epoch, position.tally)) ?? position.tally;
    const { loss, metrics } = tally.means(this.parts.types.metrics);
    const validation =
      settings.evaluate === undefined
        ? undefined
        : await evaluateDataset(this.parts, this.evaluated(), settings.evaluate);
    const record: EpochRecord = {
      epoch: position.epoch + 1,
      steps: position.steps,
      loss,
      metrics,
      rejected: tally.rejected,
      validation,
      seconds,
      examplesPerSecond: examples / seconds,
      learningRate: this.lastRate,
    };
    position.history.push(record);
    observe(settings, record);
    position.epoch++;
    position.batch = 0;
    position.tally = new Tally();
    await this.hold();
    reporter.endEpoch(record);
    if (runtime.rank === 0) host.process?.keep("metrics.jsonl", () => `${JSON.stringify(record)}\n`);
    await this.tell(({ onEpoch }) => onEpoch?.(record, this.control));
    await this.save("epoch");
  }

  /** The values for evaluation and prediction, in their layouts. */
  evaluated(): TrainState {
    const { settings } = this.parts;
    return { ...this.values, params: evaluated(settings, this.values.params, this.values.optimizer) };
  }

  /** Copies the values and starts to write them, if a checkpoint is due. */
  private async save(moment: Moment): Promise<void> {
    const { saver } = this.parts;
    if (saver?.isDue(moment, this.position.steps) !== true) return;
    // The copies must be of one step, whose loss has been checked.
    await this.flight.drain();
    if (this.rollback?.bad !== undefined) return;
    const { values, key, position } = this;
    const state = { values, key, position };
    await saver.save(moment, (await this.parts.updates?.saved(state)) ?? state);
  }

  /** The learning rates of a step: one, or one per parameter group. */
  private rates(step: number): { readonly shape: readonly number[]; readonly values: readonly number[] } {
    const { shape, values } = learningRatesAt(this.parts.settings.optimizer, step);
    return { shape, values: values.map((rate) => this.position.rateScale * rate) };
  }

  private scalar(dtype: "i32", value: number): Tensor {
    return this.replicatedTensor(dtype, [value], []);
  }

  /** Replicated values. */
  private replicatedTensor(dtype: "i32" | "f32" | "f64", values: readonly number[], shape: readonly number[]): Tensor {
    const { runtime } = this.parts;
    const data: TypedArray = dtypes[dtype].create(values);
    return distribute(runtime, data, { shape, dtype }, replicated(meshOf(runtime)));
  }
}
