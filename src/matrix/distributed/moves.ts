/** @module Changes of form as operators of a worker's program: what they do to the worker's part, by collectives. */

import { allGather, allReduce, allToAll, reduceScatter } from "../../comm/index.ts";
import type { Tensor } from "../../functions/index.ts";
import * as t from "../../functions/index.ts";
import type { Operator, Size } from "../expression.ts";
import { blockLength, blockLengths, blockStart, type Move, type Place } from "./layout.ts";

/** Told what a worker sends, in bytes. */
export type Sent = (bytes: number) => void;

const even = (lengths: readonly number[]): boolean => lengths.every((length) => length === lengths[0]);
const bytesOf = ({ size }: Tensor): number => 8 * size;

/** The operator of a change of a matrix of this size, for one worker. It tells `sent` what this worker sends, of the tensor that it sends. */
export function moveOperator(move: Move, size: Size, place: Place, sent: Sent): Operator {
  return { name: move.kind, build: ([x]) => built(x as Tensor, move, size, place, sent) };
}

function built(x: Tensor, move: Move, size: Size, place: Place, sent: Sent): Tensor {
  const others = place.size - 1;
  switch (move.kind) {
    case "cut": {
      const from = [0, 0];
      from[move.dim] = blockStart(size[move.dim], place.rank, place.size);
      const to = size.map((length, dim) =>
        dim === move.dim ? (from[dim] as number) + blockLength(length, place) : length,
      );
      return t.slice(x, from, to);
    }
    case "gather": {
      sent(bytesOf(x) * others);
      const sizes = blockLengths(size[move.dim], place.size);
      return allGather(x, { dim: move.dim, ...(even(sizes) ? {} : { sizes }) });
    }
    case "reduce":
      sent((2 * bytesOf(x) * others) / place.size);
      return allReduce(x, { reduction: move.reduction });
    case "scatter": {
      const sizes = blockLengths(size[move.dim], place.size);
      const own = sizes[place.rank] as number;
      sent((bytesOf(x) * (size[move.dim] - own)) / Math.max(1, size[move.dim]));
      return reduceScatter(x, { dim: move.dim, reduction: move.reduction, ...(even(sizes) ? {} : { sizes }) });
    }
    case "turn":
      return move.to === 0
        ? rowsOfColumns(x, size, place, sent)
        : t.transpose(rowsOfColumns(t.transpose(x), [size[1], size[0]], place, sent));
  }
}

/** Blocks of rows from blocks of columns: each worker sends every other the rows that are that one's. */
function rowsOfColumns(x: Tensor, [rows, columns]: Size, place: Place, sent: Sent): Tensor {
  const [heights, widths] = [blockLengths(rows, place.size), blockLengths(columns, place.size)];
  const [height, width] = [heights[place.rank] as number, widths[place.rank] as number];
  sent(8 * width * (rows - height));
  const sends = heights.map((length) => length * width);
  const receives = widths.map((length) => length * height);
  const flat = allToAll(t.reshape(x, [rows * width]), { sends, receives });
  let at = 0;
  const parts = receives.map((length, from) => {
    at += length;
    return t.reshape(t.slice(flat, [at - length], [at]), [height, widths[from] as number]);
  });
  return t.concat(parts, 1);
}
