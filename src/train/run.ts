/** @module A training under way: its values, its position, and the loop over steps and epochs. */
import { reportToLauncher } from "../comm/launcher.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { learningRateAt } from "../optim/index.ts";
import { replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { distribute, meshOf, type Tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { evaluateDataset, readMetrics } from "./evaluate.ts";
import type { FedBatch, Feed } from "./feed.ts";
import { InFlight } from "./flight.ts";
import { type BatchOutcome, columnNames, type ModelTypes, type TrainState } from "./functions.ts";
import { type EpochRecord, type StepRecord, Tally, type TrainControl } from "./history.ts";
import { formatNumber } from "./metrics.ts";
import type { Settings } from "./options.ts";
import { wholeState } from "./pipeline.ts";
import type { Programs } from "./programs.ts";
import type { Reporter } from "./progress.ts";
import type { Saver } from "./saver.ts";
import { exportState, type RunPosition } from "./state.ts";

/** What a run is made of. */
export interface RunParts {
  readonly settings: Settings;
  readonly types: ModelTypes;
  readonly runtime: Runtime;
  readonly programs: Programs;
  readonly feed: Feed;
  readonly reporter: Reporter;
  /** Undefined where this process writes no checkpoints. */
  readonly saver: Saver | undefined;
  readonly signal: AbortSignal;
}

/** The values of a run, where it stands, and its loop. */
export class Run {
  values: TrainState;
  readonly position: RunPosition;
  private readonly parts: RunParts;
  private readonly key: Tensor;
  private readonly flight = new InFlight();
  private readonly recentLoss = new RecentLoss();
  private stopped = false;
  private savedAt: number;

  constructor(parts: RunParts, values: TrainState, key: Tensor, position: RunPosition) {
    this.parts = parts;
    this.values = values;
    this.key = key;
    this.position = position;
    this.savedAt = position.steps;
  }

  /** Trains to the last epoch, or until a callback stops it. Throws the reason of an abort. */
  async train(): Promise<void> {
    try {
      while (this.position.epoch < this.parts.settings.epochs && !this.stopped) await this.epoch();
      if (this.savedAt !== this.position.steps) await this.save();
      this.values = wholeState(this.values);
      await this.parts.saver?.finished();
    } catch (error) {
      await this.flight.abandon();
      throw error;
    }
  }

  private async epoch(): Promise<void> {
    const { settings, feed, reporter, signal } = this.parts;
    const { position } = this;
    const started = performance.now();
    const done = position.batch;
    reporter.startEpoch({
      epoch: position.epoch,
      epochs: settings.epochs,
      batches: settings.data.batchesPerEpoch,
      done,
    });
    let examples = 0;
    const batches = feed.batches(settings.data, {
      columns: columnNames(settings),
      epoch: position.epoch,
      step: done,
      seed: settings.seed,
      signal,
    });
    for await (const batch of batches) {
      await this.flight.room();
      if (this.stopped) {
        batch.release();
        break;
      }
      this.launch(batch);
      examples += batch.rows;
      reporter.step({ done: position.batch, examples, loss: this.recentLoss.mean });
      this.parts.saver?.check();
      const ends = position.batch === settings.data.batchesPerEpoch;
      if (!ends && this.isDue(false)) await this.save();
    }
    await this.flight.drain();
    if (position.batch < settings.data.batchesPerEpoch) return;
    await this.endEpoch((performance.now() - started) / 1000, examples);
  }

  /** Enqueues one step. */
  private launch(batch: FedBatch): void {
    const { settings, programs, runtime, types } = this.parts;
    const { position } = this;
    const step = position.steps;
    const learningRate = learningRateAt(settings.optimizer, step);
    const scalars = [this.scalar("i32", step), this.scalar(settings.dtype, learningRate)] as const;
    reportToLauncher({ type: "progress", step });
    runtime.processes?.setStep(step);
    const { params, optimizer, state } = this.values;
    const program = programs.step(batch.rows);
    const { loss, metrics, ...values } = program.run(params, optimizer, state, this.key, ...scalars, batch.columns);
    this.values = values;
    const record = { step, epoch: position.epoch, batch: batch.step, learningRate };
    const { tally } = position;
    this.flight.add({
      settle: () => this.settle({ loss, metrics }, record, batch.rows, tally, types),
      release: () => {
        batch.release();
        for (const tensor of [...scalars, loss, ...Object.values(metrics)]) tensor.dispose();
      },
    });
    position.steps++;
    position.batch++;
  }

  private async settle(
    outcome: BatchOutcome,
    known: Omit<StepRecord, "loss">,
    rows: number,
    tally: Tally,
    types: ModelTypes,
  ): Promise<void> {
    const loss = await outcome.loss.item();
    const metrics = await readMetrics(outcome, types, rows);
    if (!Number.isFinite(loss) && this.parts.settings.nan === "error") throw badLoss(loss, known, this.parts.settings);
    tally.add(rows, loss, metrics);
    this.recentLoss.add(loss);
    for (const { onStep } of this.parts.settings.callbackList) await onStep?.({ ...known, loss }, this.control);
  }

  private readonly control: TrainControl = {
    stop: () => {
      this.stopped = true;
    },
  };

  private async endEpoch(seconds: number, examples: number): Promise<void> {
    const { settings, reporter } = this.parts;
    const { position } = this;
    const { loss, metrics } = position.tally.means();
    const evaluation =
      settings.evaluate === undefined
        ? undefined
        : await evaluateDataset(this.parts, wholeState(this.values), settings.evaluate);
    const record: EpochRecord = {
      epoch: position.epoch,
      steps: position.steps,
      loss,
      metrics,
      evaluation,
      seconds,
      examplesPerSecond: examples / seconds,
    };
    position.history.push(record);
    position.epoch++;
    position.batch = 0;
    position.tally = new Tally();
    reporter.endEpoch(record);
    for (const { onEpoch } of settings.callbackList) await onEpoch?.(record, this.control);
    if (this.isDue(true)) await this.save();
  }

  private isDue(epochEnds: boolean): boolean {
    return this.parts.saver?.isDue(this.position.steps, epochEnds) === true;
  }

  /** Copies everything and begins to write it. */
  private async save(): Promise<void> {
    const { saver, settings } = this.parts;
    if (saver === undefined) return;
    // What is copied must be of one step, and of one whose loss was found good.
    await this.flight.drain();
    await saver.save(await exportState(settings, this.values, this.key, this.position));
    this.savedAt = this.position.steps;
  }

  private scalar(dtype: "i32" | "f32" | "f64", value: number): Tensor {
    const { runtime } = this.parts;
    const data: TypedArray = dtypes[dtype].create([value]);
    return distribute(runtime, data, { shape: [], dtype }, replicated(meshOf(runtime)));
  }
}

function badLoss(
  loss: number,
  { step, epoch, batch, learningRate }: Omit<StepRecord, "loss">,
  settings: Settings,
): HeddleError {
  const where = `step ${step + 1} (epoch ${epoch + 1} of ${settings.epochs}, batch ${batch + 1})`;
  return new HeddleError("nan", `the loss is ${formatNumber(loss)} at ${where}, with learning rate ${learningRate}`, {
    hint: 'lower the learning rate, look at the data for NaN, or pass nan: "continue"',
  });
}

/** Mean over the last losses, so that what is shown does not jump. */
class RecentLoss {
  private readonly values: number[] = [];

  add(loss: number): void {
    this.values.push(loss);
    if (this.values.length > 20) this.values.shift();
  }

  get mean(): number | undefined {
    const { values } = this;
    return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
  }
}
