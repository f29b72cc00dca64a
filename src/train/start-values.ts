/** @module The option `from`: the initial values of a training. */
import type { Tensors } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { matching, type Pattern } from "../util/pattern.ts";
import { shown } from "../util/show.ts";

/** The initial values of a training; a `TrainResult` can be used as such. */
export interface StartValues {
  /** A tree with the structure of the model's parameters; with `only` it may have a part of them. */
  readonly params: Tensors;
  /**
   * Which parameters and layer states are used, by a pattern of names such as `"body"`; the model initializes all others, and other
   * values in `params` and `state` are ignored. Not together with `optimizerState`. Default: all, and none may be missing.
   */
  readonly only?: Pattern;
  /** State of layers; default the model's initial state. */
  readonly state?: Tensors;
  /** State of the same optimizer; default its initial state. */
  readonly optimizerState?: Tensors;
  /** Number of earlier optimizer steps, from which schedules, Adam's bias correction and dropout continue; default 0. */
  readonly steps?: number;
  /** Number of earlier epochs, after which the orders of shuffled data continue; default 0. */
  readonly epochs?: number;
}

/** @throws HeddleError `option`. */
export function checkStart(from: StartValues): void {
  if (typeof from !== "object" || from === null || typeof from.params !== "object")
    throw new HeddleError("option", `train: from must be { params, … } or an earlier result, got ${shown(from)}`);
  if (from.only !== undefined) matching("train: from.only", from.only);
  if (from.only !== undefined && from.optimizerState !== undefined)
    throw new HeddleError("option", "train: from.only selects some parameters, so optimizerState cannot be used", {
      hint: "leave out optimizerState: from: { params: result.params, only: … }",
    });
  for (const name of ["steps", "epochs"] as const)
    if (from[name] !== undefined) checkInteger("train", `from.${name}`, from[name], 0);
}
