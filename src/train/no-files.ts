/** @module The error of features that need files, in an environment without files. */
import { HeddleError } from "../util/errors.ts";

/** The error for `what`, such as `"train: the option checkpoint writes files"`. */
export const noFiles = (what: string): HeddleError =>
  new HeddleError("file", `${what}, and a browser has no files`, {
    hint: "exportWeights of heddle/train gives the weights of a result as arrays, which the page can keep or send",
  });
