/**
 * @module Copies the values of a training between two steps, for evaluations, predictions and files while later steps run. A program in
 * the queue of the steps makes the copy. So it waits for nothing, and has the values after the last launched step, which is the same
 * step on every worker.
 */

import { type CompiledFunction, compileFunction } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import type { RunParts } from "./parts.ts";
import type { TrainState } from "./values.ts";

type Copy = CompiledFunction<(values: TrainState) => TrainState>;

/** Copies the values of a run. */
export class Copier {
  private readonly parts: RunParts;
  private program: Copy | undefined;
  /** Number of running evaluations that communicate between workers. */
  private running = 0;

  constructor(parts: RunParts) {
    this.parts = parts;
  }

  /** Enqueues a copy with the layouts of the values. It does not communicate: one worker may call this function alone. */
  copy(values: TrainState): TrainState {
    const { types, runtime, programs } = this.parts;
    this.program ??= compileFunction(inOrder, [inOrder(types.state)], runtime, {
      name: "snapshot",
      layouts: programs.layouts.kept,
      outputLayouts: programs.layouts.kept,
    });
    return this.program.run(inOrder(values));
  }

  /** Runs work that communicates with other workers, which must run it at the same point. */
  async together<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    this.checkAlone(what);
    this.running++;
    try {
      return await work();
    } finally {
      this.running--;
    }
  }

  /** @throws HeddleError `order` if `what` begins while communicating work runs: workers might run the two in different orders. */
  checkAlone(what: string): void {
    if (this.running === 0 || this.parts.runtime.processes === undefined) return;
    throw new HeddleError("order", `train: ${what} begins while an evaluation of a snapshot is under way`, {
      hint: "on several workers await it in the callback, so that all do both in one order",
    });
  }
}

/** The groups in a fixed order, so that two trees have the same structure. */
const inOrder = <Group>({ params, optimizer, state }: { params: Group; optimizer: Group; state: Group }) => ({
  params,
  optimizer,
  state,
});
