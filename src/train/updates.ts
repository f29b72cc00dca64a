/**
 * @module Updates of parameters that a step does not make itself: what a run asks of the parameter servers. The step then gives the gradients
 * in the place of the optimizer's state, and the parameters as they were.
 */
import { type Tensors, zerosLike } from "../functions/index.ts";
import type { Optimizer } from "../optim/index.ts";
import { mapTensors } from "./accumulate.ts";
import type { Tally } from "./history.ts";
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
}

/** A step whose gradients are pushed. */
export interface StepDone {
  /** Rows of this worker's part of the batch. */
  readonly rows: number;
  /** The learning rates of the step. */
  readonly rates: readonly number[];
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
  /** Whether a worker has asked all to end. */
  readonly stopped: boolean;
  /** Lines that describe the servers, for the report of the plan. */
  readonly lines: readonly string[];
  /** Begins the run: on the first worker from a state of the whole training, elsewhere where that worker is. */
  begin(state: RunState): Promise<RunState>;
  /** Pushes the gradients of the last step, waits for the next clock, and gives the values with the pulled parameters. */
  step(values: TrainState, done: StepDone): Promise<TrainState>;
  /** Where the model has tables on servers. */
  readonly tables: TablesOfUpdates | undefined;
  /** The values with the optimizer's state, from the servers. */
  state(values: TrainState): Promise<TrainState>;
  /** The sums of an epoch over all workers. */
  tally(epoch: number, tally: Tally): Promise<Tally>;
  /** Waits for the end of all workers; with `stop` asks them to end. Gives the last values, with the optimizer's state. */
  finish(values: TrainState, stop: boolean): Promise<TrainState>;
  /** Lines about what was measured, and the record for the folder of the run; after the end. */
  report(): Promise<{ readonly lines: readonly string[]; readonly record: object }>;
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
