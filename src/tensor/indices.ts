/** @module Integers that users give as indices and labels, in the dtype in which lookups read them. */
import { maximum, minimum } from "./functions.ts";
import type { Tensor } from "./tensor.ts";

const [least, most] = [-(2 ** 31), 2 ** 31 - 1];

/** As i32; what that cannot hold becomes its least or largest number, which is outside of every table, rather than wrap into it. */
export function toIndices(x: Tensor): Tensor {
  switch (x.dtype) {
    case "i64":
      return maximum(minimum(x, most), least).cast("i32");
    case "u32":
    case "u64":
      return minimum(x, most).cast("i32");
    case "i32":
      return x;
    default:
      return x.cast("i32");
  }
}
