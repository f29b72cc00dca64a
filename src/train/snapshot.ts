/**
 * @module The values of a training between two of its steps, copied while it goes on: what is evaluated, predicted or saved
 * beside a step never sees half of it. The copy is made by a program in the queue of the steps, so it waits for nothing and is
 * of the state after the last step launched, on every worker after the same one.
 */

import { type CompiledFunction, compileFunction, isTensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import type { RunParts } from "./parts.ts";
import type { TrainState } from "./values.ts";

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
