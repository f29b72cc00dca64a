/** @module Convolutions, channels last, and their gradients by the weight. */
import { epilogueOf } from "./dot.ts";
import { packedWeights, partialWeights } from "./narrow-conv/work.ts";
import * as is from "./schema.ts";

const shared = {
  dtype: is.dtype(),
  n: is.size(),
  g: is.sizeOrOne(),
  d: is.sizeOrOne(),
  ...is.sized("h", "w", "c"),
  kd: is.sizeOrOne(),
  ...is.sized("kh", "kw", "o"),
  od: is.sizeOrOne(),
  ...is.sized("oh", "ow"),
  strides: is.sizes(3),
  padding: is.paddings(),
  inputDilation: is.sizes(3),
  kernelDilation: is.sizes(3),
  slots: is.size(),
};

/** A convolution, by the views of x, weight and out. */
const forward = (x: string, weight: string, out: string, bias: string) => ({
  ...shared,
  x: is.reads(x),
  weight: is.strided(is.reads(weight)),
  ...epilogueOf(bias),
  out: is.writes(out),
  scratch: is.scratch(),
});

/** The gradient by the weight: x, dy and out. */
const filter = (x: string, dy: string, out: string) => ({
  ...shared,
  x: is.reads(x),
  dy: is.reads(dy),
  out: is.writes(out),
  scratch: is.scratch(),
});

/** The extent of a padded image along a dim. */
const extent = (out: string, window: string, axis: number): string =>
  `(reach(${out}, strides[${axis}]) + reach(${window}, kernelDilation[${axis}]) + 1)`;

const sizes = {
  /** Bytes of the weight, and of a worker's scratch: its padded image, or its columns if they are smaller. */
  weights: "aligned(g * kd * kh * kw * c * o * bytes(dtype))",
  slot: `aligned(min(${extent("od", "kd", 0)} * ${extent("oh", "kh", 1)} * ${extent("ow", "kw", 2)}, kd * kh * kw * od * oh * ow) * c * bytes(dtype))`,
  chunks: "min(n, 8)",
};

const groups = { sizes: ["ConvSizes", shared, sizes] } as const;
const withEpilogue = { ...groups, epilogue: ["EpilogueJson", epilogueOf("[o]")] } as const;

type Forward = is.Values<ReturnType<typeof forward>>;
const epilogue = { columns: ({ g = 1, o }: Forward) => g * o };

/** A convolution over channels-last rows, group by group. */
export const conv = is.kernel("conv", forward("[n d h w g c]", "[g kd kh kw c o]", "[n od oh ow g o]", "[g o]"), {
  doc: "Convolution (cross-correlation) in `g` groups, with the epilogue of `dot`. Padding may be negative. Scratch: the packed weight, then for each slot the smaller of two areas: the padded image (`c` times the reach of the windows), or its columns; each area is rounded up to 64 bytes. Of bf16, sums are made in f32 and rounded once; the packed weight is then after the arena.",
  derived: { bytes: "weights + slots * slot" },
  work: packedWeights,
  epilogue,
  struct: "Conv",
  groups: withEpilogue,
});

/** The gradient of {@link conv} by its weight. */
export const convFilter = is.kernel("convFilter", filter("[n d h w g c]", "[n od oh ow g o]", "[g kd kh kw c o]"), {
  doc: "The gradient of `conv` with respect to its weight. Scratch: `min(n, 8)` partial sums, added in the order of a fixed tree, then the slots; of bf16, the sums are f32 after the arena, and are rounded once.",
  derived: { bytes: "chunks * weights + slots * slot" },
  work: partialWeights,
  struct: "ConvFilter",
  groups,
});

/** A convolution of many small groups, whose channels lie side by side. */
export const convGroups = is.kernel(
  "convGroups",
  forward("[n d h w c g]", "[kd kh kw c o g]", "[n od oh ow o g]", "[o g]"),
  {
    doc: "`conv` for many groups of few channels, such as depthwise convolutions: groups are the lanes of vectors, so `g` is the last dim of every operand. The weight has no gaps; no scratch.",
    derived: { bytes: "0" },
    epilogue,
    struct: "Conv",
    groups: withEpilogue,
  },
);

/** The gradient of {@link convGroups} by its weight. */
export const convGroupsFilter = is.kernel(
  "convGroupsFilter",
  filter("[n d h w c g]", "[n od oh ow o g]", "[kd kh kw c o g]"),
  {
    doc: "The gradient of `convGroups` with respect to its weight. Scratch: only the partial sums.",
    derived: { bytes: "chunks * weights" },
    struct: "ConvFilter",
    groups,
  },
);
