/** @module Steps in flight: a bounded queue. Results are read in order, and launches do not wait for them. */

/** The largest number of steps in flight: one runs while the next is ready to run. */
export const mostInFlight = 2;

/** One launched run. */
export interface Launched {
  /** Reads the results and passes them on; rejects with the error of the run. */
  readonly settle: () => Promise<void>;
  /** Frees the inputs. Called when the run has ended, with or without an error. */
  readonly release: () => void;
}

/** Launched runs, oldest first. */
export class InFlight {
  private readonly queue: Launched[] = [];

  /** Whether no more run can be launched now. */
  get isFull(): boolean {
    return this.queue.length >= mostInFlight;
  }

  /** Waits until one more run can be launched. */
  async room(): Promise<void> {
    while (this.isFull) await this.settleFirst();
  }

  add(run: Launched): void {
    this.queue.push(run);
  }

  /** Waits for all runs. */
  async drain(): Promise<void> {
    while (this.queue.length > 0) await this.settleFirst();
  }

  /**
   * Waits for all runs, at most for this time, and frees their inputs; ignores errors. A run may never end if another process does not
   * take part in its step.
   */
  async abandon(milliseconds: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, milliseconds);
    });
    const runs = this.queue.splice(0);
    await Promise.race([Promise.allSettled(runs.map((run) => run.settle())), late]);
    clearTimeout(timer);
    for (const run of runs) run.release();
  }

  private async settleFirst(): Promise<void> {
    const run = this.queue[0] as Launched;
    try {
      await run.settle();
    } finally {
      this.queue.shift();
      run.release();
    }
  }
}
