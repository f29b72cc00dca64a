/** @module Count sketches of gradients (Charikar 2002; Ivkin et al., "Communication-efficient Distributed SGD with Sketching", 2019). */
import { median, random, select, zeros } from "../../functions/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { type Compressor, registerCompressor } from "../compressor.ts";
import { asRows, atShared, shareOf } from "./rows.ts";

/** Options of {@link countSketch}. */
export interface CountSketchOptions {
  /** Number of rows of the table, odd; default 5. */
  readonly rows?: number;
  /** Cells of a row, as a share of the elements of a tensor; default 0.01. */
  readonly columns?: number;
  /** The share of the elements, those of largest estimate, of which values are sent; default 0.01. */
  readonly ratio?: number;
}

/**
 * Sends a table of sums first: each row adds each element, with a random sign, to a random cell, the same on all devices. The sum of the
 * tables says which elements of the summed gradient are largest, by the medians of their cells; then each device sends its own values of
 * these elements. Both are added up on the way.
 */
export function countSketch(options: CountSketchOptions = {}): Compressor {
  checkOptions("compression.countSketch", options, ["rows", "columns", "ratio"]);
  const { rows: depth = 5, columns = 0.01, ratio = 0.01 } = options;
  checkInteger("compression.countSketch", "rows", depth, 1);
  if (depth % 2 === 0) throw new HeddleError("option", `compression.countSketch: rows must be odd, got ${depth}`);
  checkNumber("compression.countSketch", "columns", columns, Number.MIN_VALUE, 1);
  checkNumber("compression.countSketch", "ratio", ratio, Number.MIN_VALUE, 1);
  return {
    name: "countSketch",
    travels: "sum",
    feedback: true,
    sparse: true,
    compress: (x, { key, sum }) => {
      const rows = asRows(x);
      const [count, size] = rows.shape as [number, number];
      const width = shareOf(size, columns);
      const words = random.bits(key, [depth, size]);
      const cells = words.shiftRightLogical(1).rem(width).cast("i32");
      const signs = select(words.and(1).eq(0), 1, -1).cast(x.dtype);
      const empty = zeros([count, depth, width], { dtype: x.dtype });
      const signed = rows.reshape([count, 1, size]).mul(signs);
      const table = sum(empty.scatterAlongDim(cells.broadcastTo(signed.shape), signed, -1, { op: "sum" }));
      const k = shareOf(size, ratio);
      const { indices } = median(table.takeAlongDim(cells).mul(signs), 0).abs().topK(k);
      return { message: { values: rows.takeAlongDim(indices.broadcastTo([count, k])) }, shared: { indices } };
    },
    decompress: atShared,
  };
}

registerCompressor({
  name: "countSketch",
  doc: "the hundredth that is largest by a count sketch of the sum",
  make: countSketch,
  takesOptions: true,
});
