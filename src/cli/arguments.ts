/** @module Parsers of command line values. */

import { InvalidArgumentError, Option } from "commander";
import { formatMesh, parseMesh } from "../plan/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { allVariables, readEnvironment } from "../util/settings.ts";

/** The flag of compressed gradients, of `heddle run` and `heddle plan`. */
export const compressionFlag = (): Option =>
  new Option("--compression <how>", "compress gradients, where the file does not say how, such as topK:ratio=0.01");

/** A parser for whole numbers in a range. */
export function wholeNumber(lowest: number, highest: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= lowest && value <= highest) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${lowest} to ${highest}.`);
  };
}

/** A number of workers, and the least with which an elastic run goes on. */
export interface WorkerRange {
  readonly most: number;
  readonly least?: number;
}

/** Parses a number of workers, such as `8`, or a range, such as `2:8`. */
export function workerRange(text: string): WorkerRange {
  const [, least, most] = /^(?:(\d{1,4}):)?(\d{1,4})$/.exec(text) ?? [];
  const [low, high] = [Number(least ?? 1), Number(most)];
  if (low >= 1 && high >= low && high <= 1024) return { most: high, ...(least === undefined ? {} : { least: low }) };
  throw new InvalidArgumentError(
    "It must be a whole number from 1 to 1024, or two such as 2:8, of which the first is not the larger.",
  );
}

/** A parser for a value that workers read from an environment variable. */
export function asVariable(name: "HEDDLE_EXECUTOR" | "HEDDLE_WORKERS"): (text: string) => string {
  return (text) => {
    try {
      readEnvironment({ [name]: text });
      return text;
    } catch {
      throw new InvalidArgumentError(`It can be ${allVariables.find((known) => known.name === name)?.legal}.`);
    }
  };
}

/** Checks a mesh, such as `data=2,model=1` or, with shares, `data=2:1`, and returns it without spaces. */
export function meshText(text: string): string {
  const compact = text.replace(/\s+/g, "");
  try {
    return formatMesh(parseMesh(compact));
  } catch (error) {
    if (!(error instanceof HeddleError)) throw error;
    throw new InvalidArgumentError(
      `${error.plain}. A mesh is named axes with their sizes, such as data=2 or data=8,model=4.`,
    );
  }
}
