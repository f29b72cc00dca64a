/** @module Parsers of command line values. */

import { InvalidArgumentError } from "commander";

/** A parser for whole numbers in a range. */
export function wholeNumber(lowest: number, highest: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= lowest && value <= highest) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${lowest} to ${highest}.`);
  };
}

/** Checks a mesh, such as `data=2,model=1` or, with shares, `data=2:1`, and returns it without spaces. */
export function meshText(text: string): string {
  const axes = text.split(",").map((axis) => axis.trim());
  const names = axes.map((axis) => /^([a-z][A-Za-z0-9]*)=([1-9]\d{0,5}(?::[1-9]\d{0,5})*)$/.exec(axis)?.[1]);
  if (names.includes(undefined)) {
    throw new InvalidArgumentError(
      "A mesh is a list of named axes with their sizes, such as data=2 or data=8,model=4.",
    );
  }
  if (new Set(names).size < names.length) throw new InvalidArgumentError("Each axis of a mesh has a name of its own.");
  return axes.join(",");
}
