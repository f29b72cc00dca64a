/** reduceWindow beside what it is made of: all dtypes, four dims, batches, branches of mistakes. Floats: windows.test.ts. */
import { conv2d, grad, jit, type ReduceWindowOptions, reduceWindow, type Tensor, tensor, vmap, zeros } from "heddle";
import { describe, expect, test } from "vitest";

const options = (op: ReduceWindowOptions["op"], rest: object = {}): ReduceWindowOptions => ({ op, ...rest });
const values = (x: Tensor): unknown[] => [x.dtype, x.arraySync()];

describe("values", () => {
  test.each<[string, Tensor, readonly number[], ReduceWindowOptions, unknown[]]>([
    ["bytes wrap", tensor([200, 100, 7], { dtype: "u8" }), [2], options("sum"), ["u8", [44, 107]]],
    ["products wrap", tensor([16, 16, 3], { dtype: "i8" }), [2], options("prod"), ["i8", [0, 48]]],
    ["truth values are counted", tensor([true, true, false]), [2], options("sum"), ["i32", [2, 1]]],
    ["64 bits are exact", tensor([2n ** 60n, 1n, 2n]), [2], options("sum"), ["i64", [2n ** 60n + 1n, 3n]]],
    ["bits in all", tensor([7, 6, 12], { dtype: "i32" }), [2], options("and"), ["i32", [6, 4]]],
    ["any", tensor([false, false, true]), [2], options("or"), ["bool", [false, true]]],
    ["same", tensor([1, 2, 3]), [2], options("max", { padding: "same", strides: 2 }), ["f32", [2, 3]]],
    [
      "the last dims",
      tensor([
        [1, 2, 3],
        [4, 5, 6],
      ]),
      [3],
      options("sum"),
      ["f32", [[6], [15]]],
    ],
    ["no window", tensor([1, 2]), [], options("sum"), ["f32", [1, 2]]],
    ["no rows", zeros([0, 4]), [2], options("max"), ["f32", []]],
    [
      "16 bits over four dims are rounded once",
      tensor(
        [
          [
            [
              [1, 2 ** -8],
              [2 ** -8, 2 ** -8],
            ],
          ],
          [
            [
              [2 ** -8, 2 ** -8],
              [2 ** -8, 2 ** -8],
            ],
          ],
        ],
        { dtype: "bf16" },
      ),
      [2, 1, 2, 2],
      options("sum"),
      ["bf16", [[[[1.03125]]]]],
    ],
  ])("%s", (_name, x, window, given, wanted) => {
    expect(values(reduceWindow(x, window, given))).toEqual(wanted);
    expect(values(jit((y: Tensor) => reduceWindow(y, window, given))(x))).toEqual(wanted);
  });

  test("of ties over four dims the first in row-major order takes the gradient", () => {
    const slope = grad((x: Tensor) => reduceWindow(x, [2, 2, 2, 2], options("max")).sum())(zeros([2, 2, 2, 2]));
    expect(Array.from(slope.dataSync())).toEqual([1, ...new Array<number>(15).fill(0)]);
  });

  test("a batch is windows of each", () => {
    const x = tensor([
      [1, 5, 2],
      [4, 3, 9],
    ]);
    const fn = (row: Tensor): Tensor => reduceWindow(row, [2], options("max"));
    expect(vmap(fn)(x).arraySync()).toEqual([
      [5, 5],
      [4, 9],
    ]);
  });
});

const x = zeros([4, 5]);
const image = zeros([1, 1, 4, 4]);
// biome-ignore lint/suspicious/noExplicitAny: mistakes that types would forbid
const free = reduceWindow as any;

describe("mistakes", () => {
  test.each<[string, () => unknown, string, RegExp]>([
    ["no op", () => free(x, [2], {}), "option", /reduceWindow: op is undefined[\s\S]*sum, prod, max/],
    ["another op", () => free(x, [2], { op: "mean" }), "option", /op is "mean"/],
    ["no options", () => free(x, [2]), "option", /reduceWindow: takes its options as a record, got undefined/],
    ["a misspelt option", () => free(x, [2], { op: "sum", stride: 2 }), "option", /'stride'[\s\S]*'strides'/],
    ["a number for a window", () => free(x, 2, { op: "sum" }), "argument", /window must be an array of whole numbers/],
    ["too many dims", () => reduceWindow(x, [1, 2, 2], options("sum")), "shape", /3 dims, \[1, 2, 2\], of f32\[4,5\]/],
    [
      "a window too large",
      () => reduceWindow(x, [6, 2], options("sum", { padding: [[0, 1], 0] })),
      "shape",
      /: window 6 does not fit into the 4 elements, with padding 0 and 1, along dim 0 of f32\[4,5\]/,
    ],
    [
      "padding alone",
      () => reduceWindow(x, [2], options("sum", { padding: 2 })),
      "shape",
      /padding 2 holds a whole window of 2,/,
    ],
    ["no window", () => reduceWindow(x, [0], options("sum")), "shape", /: window 0 is less than 1, along dim 1 of/],
    [
      "no stride",
      () => reduceWindow(x, [2], options("sum", { strides: 0 })),
      "shape",
      /: strides 0 is less than 1, along/,
    ],
    [
      "no dilation",
      () => reduceWindow(x, [2], options("sum", { dilation: 0 })),
      "shape",
      /: dilation 0 is less than 1,/,
    ],
    [
      "padding below 0",
      () => reduceWindow(x, [2], options("sum", { padding: [[-1, 0]] })),
      "shape",
      /: padding -1 is less/,
    ],
    [
      "a dilation too large",
      () => reduceWindow(x, [2], options("sum", { dilation: 5 })),
      "shape",
      /: window 2 with dilation 5, which spans 6, does not fit into the 5 elements, along dim 1/,
    ],
    [
      "gaps around all there is",
      () => reduceWindow(zeros([1]), [2], options("sum", { dilation: 2, padding: 1 })),
      "shape",
      /: window 2 with dilation 2, which spans 3, steps over all 1 elements, with padding 1 and 1, along/,
    ],
    ["two strides", () => reduceWindow(x, [2], options("sum", { strides: [1, 1] })), "argument", /strides must be/],
    ["bits of floats", () => reduceWindow(x, [2], options("and")), "dtype", /reduceWindow and: not defined for f32/],
    ["gaps of 0", () => conv2d(image, image, { inputDilation: 0 }), "shape", /strides and dilations are 1 or more/],
    [
      "gaps of three dims",
      () => conv2d(image, image, { inputDilation: [1, 1, 1] }),
      "argument",
      /inputDilation must be one/,
    ],
  ])("%s", (_name, make, code, message) => {
    expect(make).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }));
  });
});
