/** @module Windows that slide over three dims, channels last. */
import { reduceOps } from "./reduce.ts";
import { dtype, flag, kernel, paddings, reads, size, sizeOrOne, sizes, type Values, writes } from "./schema.ts";

const shared = {
  op: reduceOps,
  dtype: dtype(),
  n: size(),
  d: sizeOrOne(),
  h: size(),
  w: size(),
  c: size(),
  od: sizeOrOne(),
  oh: size(),
  ow: size(),
  window: sizes(3),
  strides: sizes(3),
  dilation: sizes(3),
  padding: paddings(),
};

const [large, small] = ["[n d h w c]", "[n od oh ow c]"];
const struct = "Window";

export const reduceWindow = kernel(
  "reduceWindow",
  { ...shared, in: reads(large), out: writes(small) },
  {
    doc: "Folds each window; `dilation` is the distance of a window's elements; padding counts as the identity.",
    struct,
  },
);

export const selectAndScatter = kernel(
  "selectAndScatter",
  { ...shared, in: reads(large, { inPlace: "gate" }), source: reads(small), gate: flag(), out: writes(large) },
  {
    doc: "The gradient of a windowed max or min of floats: each source value is added at the first position of its window that holds the extreme (row-major order; the first NaN counts as the extreme); the rest is 0. `gate` writes 0 where `in` is at most 0; the windows must then cover the input without overlap.",
    epilogue: { gate: isTiled },
    struct,
  },
);

export const windowTake = kernel(
  "windowTake",
  { ...shared, in: reads(large), source: reads(large), out: writes(small) },
  { doc: "The value of `source` where `in` has the window's extreme.", struct },
);

/** Whether every input of a pooling lies in exactly one window. */
function isTiled(call: Values<typeof shared>): boolean {
  const { window, strides, padding, dilation, d = 1 } = call;
  if (d !== 1 || window[0] !== 1 || dilation.some((step) => step !== 1)) return false;
  return (["d", "h", "w"] as const).every((field, axis) => {
    const reach = (call[`o${field}`] ?? 1) * (strides[axis] as number);
    return window[axis] === strides[axis] && padding[axis]?.[0] === 0 && reach >= (call[field] ?? 1);
  });
}
