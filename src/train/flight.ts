/** @module Steps under way: a bounded queue whose results are read in order, without the launches waiting for them. */

/** Steps that may be under way at a time: one runs while the next one waits with everything in place. */
export const mostInFlight = 2;

/** One launched run. */
export interface Launched {
  /** Reads what it gives and hands it on; rejects with the run's error. */
  readonly settle: () => Promise<void>;
  /** Gives back what it needed. Called when it has ended, however. */
  readonly release: () => void;
}

/** Launched runs, oldest first. */
export class InFlight {
  private readonly queue: Launched[] = [];

  /** Waits until there is room for one more launch. */
  async room(): Promise<void> {
    while (this.queue.length >= mostInFlight) await this.settleFirst();
  }

  add(run: Launched): void {
    this.queue.push(run);
  }

  /** Waits for all. */
  async drain(): Promise<void> {
    while (this.queue.length > 0) await this.settleFirst();
  }

  /**
   * Waits for all for so long, and gives everything back; errors are of no interest any more. Another process may never
   * take its part in a step that is under way.
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
