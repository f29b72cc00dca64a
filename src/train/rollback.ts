/**
 * @module Going back after a bad loss: every few steps the values are copied; after a step with a bad loss the copy is restored, and the batch of
 * that step is left out.
 */
import type { BadStep } from "./bad-loss.ts";
import type { Tally } from "./history.ts";
import type { RunPosition } from "./state.ts";
import type { TrainState } from "./values.ts";

/** Batches that an epoch may leave out. */
const mostLeftOut = 10;

interface Kept {
  readonly values: TrainState;
  readonly steps: number;
  readonly epoch: number;
  readonly batch: number;
  readonly tally: Tally;
}

/** The copy to go back to, and the batches that are left out. */
export class Rollback {
  /** The step whose loss was bad, until the copy is restored. */
  bad: BadStep | undefined;
  private readonly every: number;
  private kept: Kept | undefined;
  private readonly leftOut = new Set<number>();

  constructor(every: number) {
    this.every = every;
  }

  /** Whether the values are to be copied before the next step. */
  isDue({ steps, epoch }: RunPosition): boolean {
    return this.kept === undefined || this.kept.epoch !== epoch || steps - this.kept.steps >= this.every;
  }

  /** Keeps a copy of the values; gives the copy before it, which is no longer needed. */
  keep(values: TrainState, { steps, epoch, batch, tally }: RunPosition): TrainState | undefined {
    const before = this.kept;
    if (before?.epoch !== epoch) this.leftOut.clear();
    this.kept = { values, steps, epoch, batch, tally: tally.copy() };
    return before?.values;
  }

  /** Whether a batch of the epoch, from 0, is left out. */
  leavesOut(batch: number): boolean {
    return this.leftOut.has(batch);
  }

  /** Gives up the copy, and gives its values. */
  end(): TrainState | undefined {
    const values = this.kept?.values;
    this.kept = undefined;
    return values;
  }

  /**
   * Goes back: sets the position to that of the copy, whose values it gives; undefined if the epoch has left out too many of its batches, or
   * all but one.
   */
  goBack(position: RunPosition, batches: number): TrainState | undefined {
    const { bad, kept, leftOut } = this;
    if (bad === undefined || kept === undefined || leftOut.size >= Math.min(mostLeftOut, batches - 1)) return undefined;
    leftOut.add(bad.record.batch - 1);
    this.bad = undefined;
    position.steps = kept.steps;
    position.batch = kept.batch;
    position.tally = kept.tally.copy();
    return kept.values;
  }
}
