/** @module What the command line gives to each command. */

/** The surroundings of a command. */
export interface CommandContext {
  /** Sets the exit status. */
  finish(status: number): void;
  /** Fires when the reader of the output is gone: a command that takes time then ends. */
  readonly signal: AbortSignal;
}
