/** @module What the methods of a model report: the history of a fit, and errors under the method's name. */
import { HeddleError } from "../../extend/index.ts";
import { type EpochRecord, logsOf } from "../../train/index.ts";

/** The result of `fit`. */
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

/** The hint for models with several inputs or outputs, which the methods of a model here do not take. */
export const severalHint =
  'several inputs and outputs are train\'s: train({ model, data, input: ["image", "meta"], target: ["kind", "price"], loss: { kind: …, price: … }, … })';

/** Functions whose errors are reported under the name of the method that called them. */
const inner: readonly (string | undefined)[] = ["train", "evaluate", "predict"];

/** Runs a part of a method; errors of the training or evaluation inside name the method `what`. */
export async function toldOf<Result>(what: string, body: () => Promise<Result>): Promise<Result> {
  try {
    return await body();
  } catch (error) {
    if (!(error instanceof HeddleError) || error.constructor !== HeddleError || error.by === what) throw error;
    if (!inner.includes(error.by) && error.code !== "shape" && error.code !== "dtype") throw error;
    throw error.toldAs(what, inner.includes(error.by) ? error.said : error.plain, error.where);
  }
}
