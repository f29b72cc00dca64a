/** @module Windows that slide over three dims, channels last. */
import { reduceOps } from "./reduce.ts";
import * as is from "./schema.ts";

const shared = {
  op: reduceOps,
  dtype: is.dtype(),
  n: is.size(),
  d: is.sizeOrOne(),
  ...is.sized("h", "w", "c"),
  od: is.sizeOrOne(),
  ...is.sized("oh", "ow"),
  window: is.sizes(3),
  strides: is.sizes(3),
  dilation: is.sizes(3),
  padding: is.paddings(),
};

const [large, small] = ["[n d h w c]", "[n od oh ow c]"];
const struct = "Window";

/** Sums and extremes over sliding windows. */
export const reduceWindow = is.kernel(
  "reduceWindow",
  { ...shared, in: is.reads(large), out: is.writes(small) },
  {
    doc: "Folds each window by `op`; `dilation` is the distance between neighbouring elements of a window; padding counts as the identity of `op`.",
    struct,
  },
);

/** The gradient of a windowed extreme. */
export const selectAndScatter = is.kernel(
  "selectAndScatter",
  {
    ...shared,
    in: is.reads(large, { inPlace: { gate: true } }),
    source: is.reads(small),
    gate: is.flag(),
    out: is.writes(large),
  },
  {
    doc: "The gradient of a windowed max or min of floats: each source value is added at the first position of its window that holds the extreme (row-major order; the first NaN counts as the extreme); the rest is 0. `gate` writes 0 where `in` is at most 0; the windows must then cover the input without overlap.",
    epilogue: { gate: isTiled },
    struct,
  },
);

/** Elements of one tensor at the positions where another has its windows' extremes. */
export const windowTake = is.kernel(
  "windowTake",
  { ...shared, in: is.reads(large), source: is.reads(large), out: is.writes(small) },
  { doc: "For each window, the value of `source` at the position where `in` has the extreme of the window.", struct },
);

/** Whether every input of a pooling lies in exactly one window. */
function isTiled(call: is.Values<typeof shared>): boolean {
  const { window, strides, padding, dilation, d = 1 } = call;
  if (d !== 1 || window[0] !== 1 || dilation.some((step) => step !== 1)) return false;
  return (["d", "h", "w"] as const).every((field, axis) => {
    const reach = (call[`o${field}`] ?? 1) * (strides[axis] as number);
    return window[axis] === strides[axis] && padding[axis]?.[0] === 0 && reach >= (call[field] ?? 1);
  });
}
