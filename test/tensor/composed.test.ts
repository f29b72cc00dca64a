/** Functions composed of ops: in batches, both ways, in 16 bits, of nothing, where shapes depend on values, and mistakes. */
import { describe, expect, test } from "vitest";
import {
  bincount,
  booleanMask,
  copysign,
  fftfreq,
  fold,
  gridSample,
  histogram,
  hypot,
  istft,
  jit,
  jvp,
  maxPool2d,
  maxUnpool2d,
  nonzero,
  remainder,
  repeatInterleave,
  resize,
  searchsorted,
  stft,
  type Tensor,
  tensor,
  unfold,
  vjp,
  vmap,
} from "../../src/functions/index.ts";
import type { Shape } from "../../src/ir/shape.ts";
import * as nn from "../../src/nn/index.ts";
import { expectClose } from "../support/close.ts";
import { randoms } from "../support/trees.ts";

type Fn = (x: Tensor) => Tensor;
const i32 = { dtype: "i32" } as const;
const mask = tensor([true, false, true]);
const grid = tensor([
  [
    [
      [0.3, -0.6],
      [-0.2, 0.9],
    ],
  ],
]);
const weights = (dtype: "f64" | "f32" | "f16" | "bf16"): Tensor => tensor([0.5, 1, 0.75, 0.25], { dtype });

const functions: readonly (readonly [string, Fn, Shape])[] = [
  ["hypot", (x) => hypot(x, x.mul(0.5).add(1)), [2, 3]],
  ["copysign", (x) => copysign(x, x.sub(0.5)), [2, 3]],
  ["remainder", (x) => remainder(x.mul(5), 1.5), [2, 3]],
  ["maxPool2d with indices", (x) => maxPool2d(x, 2, { indices: true }).values, [1, 1, 4, 4]],
  [
    "maxUnpool2d",
    (x) => {
      const { values, indices } = maxPool2d(x, 2, { indices: true });
      return maxUnpool2d(values, indices, 2);
    },
    [1, 1, 4, 4],
  ],
  ["resize, bilinear", (x) => resize(x, [5, 3]), [1, 2, 3, 4]],
  ["resize, bicubic", (x) => resize(x, [5, 7], { mode: "bicubic", alignCorners: true }), [1, 1, 3, 4]],
  ["resize, nearest", (x) => resize(x, [5, 3], { mode: "nearest" }), [1, 1, 3, 4]],
  ["gridSample by images", (x) => gridSample(x, grid.cast(x.dtype)), [1, 2, 3, 4]],
  [
    "gridSample by places",
    (x) =>
      gridSample(
        tensor([
          [
            [
              [1, 5],
              [2, 7],
            ],
          ],
        ]).cast(x.dtype),
        x.mul(0.2),
        { padding: "border" },
      ),
    [1, 2, 2, 2],
  ],
  ["booleanMask", (x) => booleanMask(x, mask, { size: 2 }), [3, 2]],
  ["repeatInterleave", (x) => repeatInterleave(x, tensor([2, 0, 1], i32), 0, { size: 4 }), [3, 2]],
  ["unfold", (x) => unfold(x, 2, { padding: 1, strides: 2 }), [1, 2, 3, 4]],
  ["fold", (x) => fold(x, [3, 3], 2), [1, 4, 4]],
  ["stft", (x) => stft(x, 4, { hop: 2, window: weights(x.dtype as "f64") }), [2, 9]],
  ["istft", (x) => istft(x, 4, { hop: 2, window: weights(x.dtype as "f64") }), [3, 4, 2]],
  ["localResponseNorm", (x) => nn.functional.localResponseNorm(x, 3, { alpha: 0.5 }), [2, 4, 3]],
  ["weights of bins", (x) => histogram(tensor([0, 1, 2, 1]).cast(x.dtype), { bins: 2, weights: x }).counts, [4]],
  ["weights of numbers", (x) => bincount(tensor([0, 3, 3, 1], i32), { size: 5, weights: x }), [4]],
];

const values = (x: Tensor): Promise<ArrayLike<number>> => x.data();

/** All functions in one program, as to compile each alone takes longer than all else here. */
function together(build: (fn: Fn, shape: Shape, what: string) => Tensor[]): (at: number) => Tensor[] {
  let results: Tensor[][] | undefined;
  return (at) => {
    results ??= jit(() => functions.map(([what, fn, shape]) => build(fn, shape, what)))();
    return results[at] as Tensor[];
  };
}

const numbered = functions.map(([what], at) => [what, at] as const);

describe("in batches and both ways", () => {
  const all = together((fn, shape) => {
    const [x, dx, both] = [randoms(shape, 1), randoms(shape, 2), randoms([2, ...shape], 3)];
    const element = (at: number): Tensor => both.slice([at, ...shape.map(() => 0)], [at + 1, ...shape]).reshape(shape);
    // A tangent along dx, weighed, is the gradient of the weighed sum along dx.
    const { value, tangent } = jvp(fn, [x], [dx]);
    const w = randoms(value.shape, 4);
    const [slope] = vjp(fn, x).pullback(w);
    return [vmap(fn)(both), fn(element(0)), fn(element(1)), tangent.mul(w).sum(), slope.mul(dx).sum()];
  });

  test.each(numbered)("%s", async (_what, at) => {
    const [batch, first, second, forward, backward] = all(at) as [Tensor, Tensor, Tensor, Tensor, Tensor];
    expect(batch.shape).toEqual([2, ...first.shape]);
    expectClose(await values(batch), [...(await first.data()), ...(await second.data())], 1e-12);
    expect(await forward.item()).toBeCloseTo(await backward.item(), 10);
  });
});

describe("in 16 bits", () => {
  const dtypes = [
    ["f16", 2 ** -8],
    ["bf16", 2 ** -5],
  ] as const;
  const all = together((fn, shape, what) =>
    /places/.test(what)
      ? []
      : dtypes.flatMap(([dtype]) => {
          const narrow = randoms(shape, 5).cast(dtype);
          return [fn(narrow), fn(narrow.cast("f64"))];
        }),
  );

  test.each(numbered)("%s", async (_what, at) => {
    const found = all(at);
    for (const [place, [dtype, tolerance]] of dtypes.entries()) {
      const [narrow, wide] = found.slice(2 * place, 2 * place + 2);
      // Places between elements of an image, rounded, are other ones.
      if (narrow === undefined || wide === undefined) continue;
      expect(narrow.dtype).toBe(dtype);
      expectClose(await values(narrow), await values(wide), tolerance);
    }
  });
});

describe("of nothing", () => {
  const empty: readonly (readonly [string, () => Tensor, Shape])[] = [
    ["hypot", () => hypot(randoms([0, 2], 1), 1), [0, 2]],
    ["resize", () => resize(randoms([0, 1, 2, 2], 1), 3), [0, 1, 3, 3]],
    ["gridSample", () => gridSample(randoms([0, 1, 2, 2], 1), randoms([0, 3, 3, 2], 1)), [0, 1, 3, 3]],
    ["gridSample at no place", () => gridSample(randoms([1, 1, 2, 2], 1), randoms([1, 0, 3, 2], 1)), [1, 1, 0, 3]],
    ["nonzero", () => nonzero(randoms([0, 3], 1)), [0, 2]],
    ["nonzero of zeros", () => nonzero(tensor([0, 0])), [0, 1]],
    ["nonzero of a scalar", () => nonzero(tensor(2)), [1, 0]],
    ["booleanMask", () => booleanMask(randoms([0, 3], 1), tensor([], { dtype: "bool" }), {}), [0, 3]],
    ["booleanMask of all false", () => booleanMask(randoms([2, 3], 1), tensor([false, false])), [0, 3]],
    ["repeatInterleave", () => repeatInterleave(randoms([0, 3], 1), [], 0), [0, 3]],
    ["repeatInterleave, never", () => repeatInterleave(randoms([2, 3], 1), [0, 0], 0), [0, 3]],
    ["searchsorted", () => searchsorted(tensor([1, 2]), tensor([])), [0]],
    ["bincount", () => bincount(tensor([], i32)), [0]],
    ["histogram", () => histogram(tensor([])).counts, [10]],
    ["unfold", () => unfold(randoms([0, 2, 3, 3], 1), 2), [0, 8, 4]],
    ["fold", () => fold(randoms([0, 8, 4], 1), [3, 3], 2), [0, 2, 3, 3]],
    ["stft", () => stft(randoms([0, 9], 1), 4), [0, 3, 10, 2]],
    ["maxPool2d", () => maxPool2d(randoms([0, 4, 4], 1), 2, { indices: true }).indices, [0, 2, 2]],
  ];
  test.each(empty)("%s", async (_what, make, shape) => {
    const y = make();
    expect([y.shape, (await y.data()).length]).toEqual([shape, shape.reduce((product, size) => product * size, 1)]);
  });
});

describe("where the shape depends on values", () => {
  const x = tensor([
    [0, 5, 0],
    [7, 0, Number.NaN],
  ]);
  const sized: readonly (readonly [string, () => Tensor, unknown])[] = [
    [
      "nonzero",
      () => nonzero(x),
      [
        [0, 1],
        [1, 0],
        [1, 2],
      ],
    ],
    ["booleanMask", () => booleanMask(tensor([1, 2, 3]), mask), [1, 3]],
    [
      "a mask of numbers",
      () =>
        booleanMask(
          tensor([
            [1, 2],
            [3, 4],
          ]),
          tensor([0, -2]),
        ),
      [[3, 4]],
    ],
    ["repeatInterleave", () => repeatInterleave(tensor([1, 2]), tensor([3n, 1n])), [1, 1, 1, 2]],
    ["bincount", () => bincount(tensor([1n, 4n, 1n])), [0, 2, 0, 0, 1]],
  ];
  test.each(sized)("%s: read where it is known, and asked for where it is traced", (_what, make, wanted) => {
    expect(make().arraySync()).toEqual(wanted);
    expect(() => jit(make)()).toThrow(/^\w+: .* is not known yet.*\{ size: … \}/s);
  });

  test("bins of integers, of bounds, as shares", async () => {
    const bytes = tensor([0, 1, 1, 4, 200], { dtype: "u8" });
    expect(() => histogram(bytes, { bins: [3, 1] })).toThrow(/histogram: bins must ascend, got 3 before 1/);
    const { counts, edges } = histogram(bytes, { bins: [0, 1, 4] });
    expect([counts.dtype, edges.dtype, counts.arraySync()]).toEqual(["i32", "f32", [1, 3]]);
    expectClose(await values(histogram(bytes, { bins: 2, range: [0, 4], density: true }).counts), [0.375, 0.125], 1e-7);
  });
});

describe("mistakes", () => {
  const image = randoms([1, 1, 4, 4], 1);
  const bytes = tensor([[[1, 2]]], { dtype: "u8" });
  const mistakes: readonly (readonly [string, () => unknown, RegExp])[] = [
    [
      "hypot of integers",
      () => hypot(tensor([3], i32), 4),
      /^hypot: not defined for i32\[1\] and i32\[1\].*float dtype first/s,
    ],
    ["remainder of bool", () => remainder(mask, mask), /^remainder: not defined for bool/],
    ["remainder by a fraction", () => remainder(tensor([3], i32), 0.5), /^remainder: 0.5 is not a value of i32/],
    [
      "indices of 64-bit integers",
      () => maxPool2d(tensor([[1n, 2n]]), 1, { indices: true }),
      /^maxPool2d: not defined with indices for i64/,
    ],
    [
      "maxima without indices",
      () => maxUnpool2d(image, image, 2),
      /^maxUnpool2d: takes maxima and their integer indices.*f64\[1,1,4,4\]/,
    ],
    ["a mode of resize", () => resize(image, 3, { mode: "area" as never }), /^resize: mode is "area".*nearestExact/s],
    [
      "corners of the nearest",
      () => resize(image, 3, { mode: "nearest", alignCorners: true }),
      /^resize: alignCorners is not for/,
    ],
    ["no size", () => resize(image, 0), /^resize: cannot resize f64\[1,1,4,4\] to \[0,0\]/],
    ["integers between elements", () => resize(bytes, 3), /^resize: takes floats, or mode "nearest", got u8\[1,1,2\]/],
    ["a vector at another size", () => resize(tensor([1]), 3), /^resize: takes \[batch, channels, …\].*got f32\[1\]/],
    [
      "places of one number",
      () => gridSample(image, image),
      /^gridSample: f64\[1,1,4,4\] is not read at f64\[1,1,4,4\]/,
    ],
    [
      "a padding of gridSample",
      () => gridSample(image, image, { padding: "wrap" as never }),
      /^gridSample: padding is "wrap"/,
    ],
    [
      "a mask of other dims",
      () => booleanMask(image, mask),
      /^booleanMask: bool\[3\] does not have the first dims of f64/,
    ],
    [
      "a fill of other dtype",
      () => booleanMask(bytes, tensor([true]), { fill: -1 }),
      /^booleanMask: fill must be a number of u8/,
    ],
    [
      "too few counts",
      () => repeatInterleave(tensor([1, 2, 3]), [1, 2]),
      /^repeatInterleave: dim 0 of f32\[3\] needs a count for each, got i32\[2\]/,
    ],
    ["a negative count", () => repeatInterleave(tensor([1, 2]), [1, -2]), /^repeatInterleave: a count is -2/],
    [
      "two dtypes to search",
      () => searchsorted(tensor([1, 2]), mask),
      /^searchsorted: f32\[2\] and bool\[3\] are of two dtypes/,
    ],
    ["numbers that are floats", () => bincount(tensor([1, 2])), /^bincount: takes integers, got f32\[2\]/],
    [
      "a number beyond",
      () => bincount(tensor([1, 9], i32), { size: 3 }).dataSync(),
      /^bincount: index 9 at position 1 is outside \[0, 3\)/,
    ],
    ["no bins", () => histogram(tensor([1]), { bins: 0 }), /^histogram: bins must be at least 1, got 0/],
    [
      "a range of NaN",
      () => histogram(tensor([1, Number.NaN])),
      /^histogram: f32\[2\] has NaN or infinite elements[\s\S]*give the range/,
    ],
    [
      "a range without end",
      () => histogram(tensor([1, Infinity])),
      /^histogram: f32\[2\] has NaN or infinite elements/,
    ],
    ["a range upside down", () => histogram(tensor([1]), { range: [2, 1] }), /^histogram: range must be \[low, high\]/],
    ["a window too large", () => unfold(image, 5), /^unfold: a window of 5 .* does not fit into 4 elements/],
    [
      "columns that are none",
      () => fold(image, [4, 4], 2),
      /^fold: \[4,4\] is made of \[batch, channels · 4, 9\], got f64\[1,1,4,4\]/,
    ],
    ["a piece too large", () => stft(tensor([1, 2]), 8), /^stft: pieces of 8 do not fit into f32\[2\]/],
    [
      "a window of another dtype",
      () => stft(randoms([9], 1), 4, { window: tensor([1]) }),
      /^stft: window must be a vector of at most 4 numbers in f64/,
    ],
    ["spectra of another size", () => istft(randoms([3, 4, 2], 1), 8), /^istft: takes spectra \[..., 5, pieces, 2\]/],
    [
      "windows with gaps",
      () => istft(randoms([3, 4, 2], 1), 4, { hop: 5 }),
      /^istft: the windows of 4 pieces of 4, 5 apart, add up to 0 at element 2 of the signal/,
    ],
    [
      "a window that is 0 at the signal's start",
      () => istft(randoms([3, 4, 2], 1), 4, { center: false, window: tensor([0, 0.5, 1, 0.5], { dtype: "f64" }) }),
      /add up to 0 at element 0 of the signal/,
    ],
    ["no spacing", () => fftfreq(4, 0), /^fftfreq: spacing must not be 0/],
    [
      "responses of integers",
      () => nn.functional.localResponseNorm(bytes, 3),
      /^localResponseNorm: takes floats, got u8/,
    ],
  ];
  test.each(mistakes)("%s", (_what, make, message) => expect(make).toThrow(message));
});
