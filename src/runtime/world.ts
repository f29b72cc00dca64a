/** @module The processes of a run, as each of them sees the others. */

/** A rank's membership among the processes of a run. */
export interface World {
  readonly rank: number;
  readonly size: number;
  /** Records the step in the flight recorder. */
  setStep(step: number): void;
  /** Waits for all ranks. */
  barrier(label: string): Promise<void>;
  /**
   * Compares a text with that of every other rank.
   *
   * @throws HeddleError `mismatch` naming both sides.
   */
  agree(what: string, text: string): Promise<void>;
  /**
   * Runs `work` on rank 0, and gives its text to all ranks.
   *
   * @throws the error of `work`: on rank 0 itself, on the others a HeddleError with its code and message.
   */
  together(what: string, work: () => Promise<string>): Promise<string>;
  /** The bytes of all ranks, in order; all lengths are equal. No other collective may be running. */
  allGather(bytes: Uint8Array, label: string): Promise<Uint8Array>;
  /** The bytes of one rank on all; all lengths are equal. No other collective may be running. */
  broadcast(bytes: Uint8Array, root: number, label: string): Promise<Uint8Array>;
  /** Number of this world among those of its name and epoch: a failed world is followed by the next. */
  readonly attempt: number;
  /** Whether a rank has failed or aborted, so that nothing more can be done with this world. */
  readonly failed: boolean;
  /** Tells the other ranks why this rank ends. */
  abort(reason: string): void;
  close(): void;
}
