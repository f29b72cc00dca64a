/** @module Exit statuses of the `heddle` command. */

/** Besides these, `heddle run` passes on the status of the user's script. */
export const exitStatus = {
  ok: 0,
  /** Something failed. */
  failure: 1,
  /** The command line or the environment is wrong: an unknown flag, a missing file. */
  usage: 2,
  /** The reader of the output is gone (`heddle plan … | head`): 128 + SIGPIPE, as shells give it. */
  brokenPipe: 141,
} as const;
