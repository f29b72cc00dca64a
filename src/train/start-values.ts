/** @module The option `from`: values to begin a training with. */
import type { Tensors } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { matching, type Pattern } from "../util/pattern.ts";
import { shown } from "../util/show.ts";

/** Where a training begins; a `TrainResult` is one. */
export interface StartValues {
  /** As a tree in the form of the model's own, or with `only` in part. */
  readonly params: Tensors;
  /**
   * Which of the model's parameters, and of what layers keep, are taken, by a pattern of their names, such as `"body"`; the others begin as
   * the model's own, whatever else `params` and `state` hold. Not with `optimizerState`. Default: all, which must then be there.
   */
  readonly only?: Pattern;
  /** What layers keep; default as the model makes it. */
  readonly state?: Tensors;
  /** What the same optimizer kept; default as it begins. */
  readonly optimizerState?: Tensors;
  /** Optimizer steps taken before, which schedules, Adam's corrections and dropout count on from; default 0. */
  readonly steps?: number;
  /** Epochs gone through before: the orders of shuffled data go on after them. Default 0. */
  readonly epochs?: number;
}

/** @throws HeddleError `option`. */
export function checkStart(from: StartValues): void {
  if (typeof from !== "object" || from === null || typeof from.params !== "object")
    throw new HeddleError("option", `train: from must be { params, … } or an earlier result, got ${shown(from)}`);
  if (from.only !== undefined) matching("train: from.only", from.only);
  if (from.only !== undefined && from.optimizerState !== undefined)
    throw new HeddleError(
      "option",
      "train: from.only takes a part of the parameters, which optimizerState does not go with",
      {
        hint: "leave out optimizerState: from: { params: result.params, only: … }",
      },
    );
  for (const name of ["steps", "epochs"] as const)
    if (from[name] !== undefined) checkInteger("train", `from.${name}`, from[name], 0);
}
