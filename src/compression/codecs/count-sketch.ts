/** @module Count sketches of gradients (Charikar 2002; Ivkin et al., "Communication-efficient Distributed SGD with Sketching", 2019). */
import { median, random, select, type Tensor, zeros } from "../../functions/index.ts";
import { sizeOf } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { type Compressor, registerCompressor } from "../compressor.ts";
import { asRows, fromRows, part, shareOf, spread } from "./rows.ts";

/** Options of {@link countSketch}. */
export interface CountSketchOptions {
  /** Number of rows of the table, odd; default 5. */
  readonly rows?: number;
  /** Cells of a row, as a share of the elements of a tensor; default 0.02. */
  readonly columns?: number;
  /** The share of the elements, those of largest estimate, that is taken from the table; default 0.01. */
  readonly ratio?: number;
}

/**
 * Sends a table of sums: each row adds each element, with a random sign, to a random cell, the same on all devices. Tables are added up
 * on the way. The elements whose estimates (medians over the rows) are largest are taken from the sum; each device counts an
 * equal share of them as sent.
 */
export function countSketch(options: CountSketchOptions = {}): Compressor {
  checkOptions("compression.countSketch", options, ["rows", "columns", "ratio"]);
  const { rows: depth = 5, columns = 0.02, ratio = 0.01 } = options;
  checkInteger("compression.countSketch", "rows", depth, 1);
  if (depth % 2 === 0) throw new HeddleError("option", `compression.countSketch: rows must be odd, got ${depth}`);
  checkNumber("compression.countSketch", "columns", columns, Number.MIN_VALUE, 1);
  checkNumber("compression.countSketch", "ratio", ratio, Number.MIN_VALUE, 1);
  const estimates = (table: Tensor, { cells, signs }: { cells: Tensor; signs: Tensor }): Tensor => {
    const count = table.shape[0] as number;
    return median(table.takeAlongDim(cells.broadcastTo([count, ...cells.shape])).mul(signs), 1);
  };
  return {
    name: "countSketch",
    travels: "sum",
    feedback: true,
    sparse: true,
    sent: "share",
    compress: (x, { key }) => {
      const rows = asRows(x);
      const [count, size] = rows.shape as [number, number];
      const width = shareOf(size, columns);
      const words = random.bits(key, [depth, size]);
      const cells = words.shiftRightLogical(1).rem(width).cast("i32");
      const signs = select(words.and(1).eq(0), 1, -1).cast(x.dtype);
      const signed = rows.reshape([count, 1, size]).mul(signs);
      const table = zeros([count, depth, width], { dtype: x.dtype }).scatterAlongDim(
        cells.broadcastTo([count, depth, size]),
        signed,
        -1,
        { op: "sum" },
      );
      return { message: { table }, shared: { cells, signs } };
    },
    decompress: (message, given) => {
      const size = sizeOf(given.shape);
      const estimated = estimates(part(message, "table"), given.shared as { cells: Tensor; signs: Tensor });
      const { indices } = estimated.abs().topK(shareOf(size, ratio));
      return fromRows(spread(estimated.takeAlongDim(indices), indices, size), given);
    },
  };
}

registerCompressor({
  name: "countSketch",
  doc: "a count sketch, and the largest hundredth of its estimates",
  make: () => countSketch(),
});
