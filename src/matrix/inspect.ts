/** @module How a matrix shows in a REPL and in `console.log`. */

import { formatValues, inspectMethod } from "../tensor/inspect.ts";
import { cells, type Expression, formatSize } from "./expression.ts";

/** Larger matrices are not written as text. */
const mostElements = 2 ** 21;

/** `Matrix(2x2) [[1, 2], …`, a line for each row; without elements what they come from. It computes nothing. */
export function inspectMatrix({ size, operator, stored }: Expression): string {
  if (operator?.kept === true) return `Matrix(${formatSize(size)}, entries)`;
  const head = `Matrix(${formatSize(size)})`;
  const { host, tensor, apart } = stored ?? {};
  if (apart !== undefined && host === undefined) return `${head} (in blocks on the workers)`;
  if (host !== undefined && cells(size) <= mostElements)
    return `${head} ${formatValues(size, "f64", host.data, head.length + 1)}`;
  if (host !== undefined) return `${head} (too large to show; await data())`;
  if (tensor === undefined) return `${head} (${operator?.name ?? "a value"}, not computed yet)`;
  // The tensor knows whether its values are at hand.
  const [first = "", ...others] = tensor[inspectMethod]().split("\n");
  const [whole, type = ""] = /^tensor<(.*?)>/.exec(first) ?? [];
  const off = (whole?.length ?? 0) - head.length;
  return [first.replace(`tensor<${type}>`, head), ...others.map((line) => line.slice(Math.max(0, off)))].join("\n");
}
