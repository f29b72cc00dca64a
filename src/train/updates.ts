/**
 * @module Updates of parameters that a step does not make itself: what a run asks of the parameter servers. The step then gives the gradients
 * in the place of the optimizer's state, and the parameters as they were.
 */
import { type Tensors, zerosLike } from "../functions/index.ts";
import type { Optimizer } from "../optim/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { mapTensors } from "./accumulate.ts";
import { type MetricSums, Tally } from "./history.ts";
import type { Settings } from "./options.ts";
import type { Programs } from "./programs.ts";
import type { RunState } from "./state.ts";
import type { LookedBatch } from "./tables.ts";
import type { ModelTypes, TrainState } from "./values.ts";

/** What depends on the settings. */
export interface Training {
  readonly settings: Settings;
  readonly types: ModelTypes;
  readonly programs: Programs;
  /** The devices of its values, where they are not those of the step. */
  readonly runtime?: Runtime;
}

/** A step whose gradients are pushed. */
export interface StepDone {
  /** Rows of this worker's part of the batch. */
  readonly rows: number;
  /** The learning rates of the step. */
  readonly rates: readonly number[];
  /** The number of steps so far. */
  readonly steps: number;
  /** Whether the step is the last one of an epoch. */
  readonly ends: boolean;
  /** Whether the training ends with it, as far as is known. */
  readonly isLast: boolean;
  /** Whether this worker asks to end. */
  readonly stop: boolean;
}

/** Where a run has its parameters updated. */
export interface Updates {
  /** The training with its optimizer and whole batches, of which checkpoints and results are. */
  readonly whole: Training;
  /** The training of this process: its rows of each batch, and gradients in place of the optimizer's state. */
  readonly own: Training;
  /** Whether another worker says where the run begins, and this process reads no checkpoint. */
  readonly follows: boolean;
  /** Batches after the last step that this worker leaves out, since it was late. */
  readonly missed: number;
  /** The rows of a batch of which this worker has so many; absent where each worker goes at its own pace. */
  readonly wholeRows?: (own: number) => number;
  /** Whether a worker has asked all to end. */
  readonly stopped: boolean;
  /** Lines that describe the exchange, for the report of the plan. */
  readonly lines: readonly string[];
  /** Bytes that this worker sends in a step, on the mean; absent where that is not known before it. */
  readonly sent?: number;
  /** Begins the run: on the first worker from a state of the whole training, elsewhere where that worker is. */
  begin(state: RunState): Promise<RunState>;
  /** Whether something is exchanged after a step. Called once after each. */
  isDue(done: StepDone): boolean;
  /** Exchanges what the last step, or the steps since the last exchange, have found; gives the values to go on with. */
  step(values: TrainState, done: StepDone): Promise<TrainState>;
  /** Where the model has tables on servers. */
  readonly tables: TablesOfUpdates | undefined;
  /** The state of the whole training, for a checkpoint. */
  saved(state: RunState): Promise<RunState>;
  /** The sums of an epoch over all workers. */
  tally(epoch: number, tally: Tally): Promise<Tally>;
  /** Waits for the end of all workers; with `stop` asks them to end. Gives the last values, with the optimizer's state. */
  finish(values: TrainState, stop: boolean): Promise<TrainState>;
  /** Lines about what was measured, and a record for the folder of the run; after the end. */
  report(): Promise<{ readonly lines: readonly string[]; readonly record?: object }>;
  /** Ends the links. */
  close(): Promise<void>;
}

/** Rows of tables for batches. */
export interface TablesOfUpdates {
  /** The values for a step on a batch: with its rows, and parameters of the same version. */
  forStep(values: TrainState, batch: LookedBatch): Promise<TrainState>;
  /** The variables for another use of a batch, and what frees its rows. */
  forUse(
    variables: Pick<TrainState, "params" | "state">,
    batch: LookedBatch,
  ): Promise<{ readonly values: Pick<TrainState, "params" | "state">; release(): void }>;
}

/** An optimizer whose state is the gradients, and which changes no parameter. */
export const gradientsOnly = ({ name, learningRate, parts }: Optimizer): Optimizer => ({
  name,
  learningRate,
  ...(parts === undefined ? {} : { parts }),
  init: (params) => mapTensors(params, zerosLike),
  update: <Params extends Tensors>(grads: Params, _state: Tensors, params: Params) => ({ params, state: grads }),
});

/** The sums of a worker, to be sent. */
export const tallyText = ({ loss, examples, rejected, sums }: Tally): string =>
  JSON.stringify({ loss, examples, rejected, sums: [...sums] });

/** The sums of all workers. */
export function summed(texts: readonly string[]): Tally {
  const sum = new Tally();
  for (const text of texts) {
    const told = JSON.parse(text) as { loss: number; examples: number; rejected: number; sums: [string, MetricSums][] };
    // A worker that was late may have left out the whole epoch.
    if (told.examples > 0) sum.add(told.examples, (told.loss ?? Number.NaN) / told.examples, new Map(told.sums));
    sum.rejected += told.rejected;
  }
  return sum;
}
