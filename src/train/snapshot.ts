/**
 * @module The values of a training between two of its steps, copied while it goes on: what is evaluated, predicted or saved
 * beside a step never sees half of it. The copy is made by a program in the queue of the steps, so it waits for nothing and is
 * of the state after the last step launched, on every worker after the same one.
 */

import type { Dataset } from "../data/index.ts";
import { type CompiledFunction, compileFunction, isTensor, type Tensor } from "../functions/index.ts";
import type { OneOrMore } from "../nn/index.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import type { TrainState } from "./functions.ts";
import type { Evaluation } from "./history.ts";
import type { RunParts } from "./run.ts";

/** A copy of all that a training changes, after a whole number of its steps. */
export interface Snapshot {
  /** Optimizer steps that led to it. */
  readonly steps: number;
  readonly params: TrainState["params"];
  /** Their moving average, with `ema`; undefined without. */
  readonly averaged: TrainState["params"] | undefined;
  readonly state: TrainState["state"];
  readonly optimizerState: TrainState["optimizer"];
  /**
   * Mean loss and metrics over every row of a dataset, computed beside the steps that follow. On several workers every one must
   * call it in the same callback, and await it there.
   */
  evaluate(dataset: Dataset): Promise<Evaluation>;
  /** The model's outputs for every row of a dataset, or for a batch; on several workers as {@link Snapshot.evaluate}. */
  predict<Output extends OneOrMore<Tensor> = Tensor>(input: Dataset | OneOrMore<Tensor>): Promise<Output>;
  /** Gives the memory back. */
  dispose(): void;
}

type Copy = CompiledFunction<(values: TrainState) => TrainState>;

/** Copies the values of a run. */
export class Copier {
  private readonly parts: RunParts;
  private program: Copy | undefined;
  /** Evaluations on several workers that have begun and not ended. */
  private under = 0;

  constructor(parts: RunParts) {
    this.parts = parts;
  }

  /** Enqueues a copy, each part where it is kept. Nothing is exchanged: one worker may do so alone. */
  copy(values: TrainState): TrainState {
    const { types, runtime, programs } = this.parts;
    this.program ??= compileFunction(inOrder, [inOrder(types.state)], runtime, {
      name: "snapshot",
      layouts: programs.layouts.kept,
      outputLayouts: programs.layouts.kept,
    });
    return this.program.run(inOrder(values));
  }

  /** Runs what communicates with other workers, who must do so at the same place. */
  async together<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    this.checkAlone(what);
    this.under++;
    try {
      return await work();
    } finally {
      this.under--;
    }
  }

  /** @throws HeddleError `order` where workers might come to a program and to what is under way in different orders. */
  checkAlone(what: string): void {
    if (this.under === 0 || this.parts.runtime.processes === undefined) return;
    throw new HeddleError("order", `train: ${what} begins while an evaluation of a snapshot is under way`, {
      hint: "on several workers await it in the callback, so that all do both in one order",
    });
  }
}

/** The groups in one order, by which two trees are of one form. */
const inOrder = <Group>({ params, optimizer, state }: { params: Group; optimizer: Group; state: Group }) => ({
  params,
  optimizer,
  state,
});

/** Gives the memory of values back. */
export function disposeState(values: TrainState): void {
  for (const tensor of flattenTree(values, isTensor).leaves) tensor.dispose();
}
