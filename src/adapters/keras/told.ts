/** @module What functions of a model tell: the history of a fit, and errors as theirs. */
import { HeddleError } from "../../extend/index.ts";
import { type EpochRecord, logsOf } from "../../train/index.ts";

/** What `fit` tells. */
export interface History {
  /** Numbers of the epochs, from 1. */
  readonly epoch: readonly number[];
  /** A list for each number: `loss`, the metrics, `val_loss`, … */
  readonly history: { readonly [name: string]: readonly number[] };
  /** The same, epoch by epoch, with times and rates. */
  readonly epochs: readonly EpochRecord[];
}

/** The lists of numbers of a fit. */
export function historyOf(epochs: readonly EpochRecord[]): History {
  const history: { [name: string]: number[] } = {};
  for (const record of epochs)
    for (const [name, value] of Object.entries(logsOf(record))) {
      history[name] ??= [];
      history[name].push(value);
    }
  return { epoch: epochs.map(({ epoch }) => epoch), history, epochs };
}

/** What is written where a model has several inputs or outputs: Keras' functions have one of each here. */
export const severalHint =
  'several inputs and outputs are train\'s: train({ model, data, input: ["image", "meta"], target: ["kind", "price"], loss: { kind: …, price: … }, … })';

/** Whose errors are not of the function that was called, but of what it is made of. */
const inner: readonly (string | undefined)[] = ["train", "evaluate", "predict"];

/** Runs a part of a function of the model; errors of what is trained or evaluated name the function. */
export async function toldOf<Result>(what: string, body: () => Promise<Result>): Promise<Result> {
  try {
    return await body();
  } catch (error) {
    if (!(error instanceof HeddleError) || error.constructor !== HeddleError || error.by === what) throw error;
    if (!inner.includes(error.by) && error.code !== "shape" && error.code !== "dtype") throw error;
    throw error.toldAs(what, inner.includes(error.by) ? error.said : error.plain, error.where);
  }
}
