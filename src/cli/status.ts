/** @module Exit statuses of the `heddle` command. */

/** Besides these, `heddle run` passes on the status of the user's script. */
export const exitStatus = {
  ok: 0,
  /** Something failed. */
  failure: 1,
  /** The command line is wrong: an unknown flag, a missing file. */
  usage: 2,
} as const;
