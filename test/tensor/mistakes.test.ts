import { describe, expect, test } from "vitest";
import * as data from "../../src/data/index.ts";
import * as heddle from "../../src/functions/index.ts";
import * as losses from "../../src/losses/index.ts";
import * as nn from "../../src/nn/index.ts";
import { HeddleError } from "../../src/util/errors.ts";

// What a user of plain JavaScript can write.
// biome-ignore lint/suspicious/noExplicitAny: the mistakes are those that types would forbid
const [h, n, l, d] = [heddle, nn, losses, data] as any[];
const { tensor, zeros, random, jit, grad, conv2d } = h;
const image = () => zeros([1, 1, 4, 4]);
const kernel = () => zeros([1, 1, 3, 3]);
const column = (x: object) => d.fromArrays({ x });
const i32 = { dtype: "i32" };
const broken = { kind: "mine", init: () => ({}), apply: () => 3 };
const none = { params: {}, state: {} };

const mistakes: readonly (readonly [what: string, make: () => unknown, code: string, message: RegExp])[] = [
  [
    "a tensor as JSON",
    () => JSON.stringify({ loss: zeros([2]) }),
    "trace",
    /f32\[2\] cannot be written as JSON.*x\.array\(\)/s,
  ],
  ["an item of several", () => zeros([2]).itemSync(), "shape", /item: f32\[2\] has 2 elements, not one/],
  // A promise that is refused must not reject by itself: the test run fails on a rejection that nobody handles.
  [
    "an item of a traced tensor",
    () => jit((a: heddle.Tensor) => a.item())(tensor([1])),
    "trace",
    /function: returns a promise: it is async, or calls data\(\), array\(\) or item\(\)/,
  ],
  [
    "an async loss",
    () =>
      grad(async function loss(a: heddle.Tensor) {
        return (await a.data())[0];
      })(tensor([1])),
    "trace",
    /loss: returns a promise: it is async/,
  ],
  [
    "a system of other rows",
    () => h.linalg.solve(zeros([2, 2]), zeros([3])),
    "shape",
    /solve: f32\[2,2\] and f32\[3\] do not form systems.*\[2,n\] or \[2\]/s,
  ],
  [
    "another batch of systems",
    () => h.linalg.lstsq(zeros([5, 3, 2]), zeros([3, 1])),
    "shape",
    /lstsq: f32\[5,3,2\] and f32\[3,1\].*\[5,3,n\] or \[5,3\]/s,
  ],
  [
    "a system of two dtypes",
    () => h.linalg.choleskySolve(zeros([2, 2]), zeros([2], { dtype: "f64" })),
    "dtype",
    /choleskySolve: needs floats of one dtype, got f32\[2,2\], f64\[2\]/,
  ],
  [
    "the inverse of no square",
    () => h.linalg.inverse(zeros([2, 3])),
    "shape",
    /inverse: needs square matrices .* got f32\[2,3\]/,
  ],
  [
    "the determinant of no square",
    () => h.linalg.determinant(zeros([2, 3])),
    "shape",
    /determinant: needs square .* got f32\[2,3\]/,
  ],
  [
    "the determinant of integers",
    () => h.linalg.slogdet(zeros([2, 2], i32)),
    "dtype",
    /slogdet: needs floats of one dtype, got i32\[2,2\]/,
  ],
  [
    "an unknown dtype",
    () => tensor([1], { dtype: "f8" }),
    "dtype",
    /tensor: there is no dtype "f8".*hint: dtypes are f32, /s,
  ],
  ["a cast to an unknown dtype", () => tensor([1]).cast("float"), "dtype", /cast: there is no dtype "float"/],
  ["zeros of an unknown dtype", () => zeros([2], { dtype: 32 }), "dtype", /zeros: there is no dtype 32/],
  ["an array of no dtype", () => tensor(new DataView(new ArrayBuffer(2))), "dtype", /no dtype is stored in a DataView/],
  [
    "rows of two dtypes",
    () => tensor([Int16Array.of(1), Float32Array.of(1)]),
    "dtype",
    /tensor: rows are typed arrays of i32 and f32.*option dtype/s,
  ],
  [
    "a negative byte",
    () => tensor([1, -1], { dtype: "u8" }),
    "dtype",
    /element 1: -1 is not a value of u8.*\[0, 255\]/s,
  ],
  ["a byte too large", () => tensor([256], { dtype: "u8" }), "dtype", /256 is not a value of u8/],
  ["a fraction", () => tensor([1.5], i32), "dtype", /1\.5 is not a value of i32.*cast/s],
  ["NaN for an integer", () => tensor([Number.NaN], i32), "dtype", /NaN is not a value of i32/],
  ["infinity for an integer", () => tensor([Infinity], { dtype: "u32" }), "dtype", /Infinity is not a value of u32/],
  [
    "a fraction in a typed array",
    () => tensor(Float32Array.of(0.5), i32),
    "dtype",
    /element 0: 0\.5 is not a value of i32/,
  ],
  ["null", () => tensor([1, null]), "dtype", /element 1: null is not a number/],
  ["nothing at all", () => tensor(undefined), "dtype", /undefined is not a number/],
  ["a text", () => tensor(["a"]), "dtype", /"a" is not a number/],
  ["a hole", () => tensor([undefined]), "dtype", /undefined is not a number/],
  ["a bigint out of range", () => tensor([2n ** 63n]), "dtype", /9223372036854775808 is not a value of i64/],
  ["a tensor for a number", () => tensor([tensor(1)]), "dtype", /Tensor\(f32\[\]\) stands where.*concat/s],
  ["a scalar alone put together", () => h.concat([tensor(1)], 0), "shape", /concat: .*scalar has no dims/],
  ["a dim beyond those of one tensor", () => h.concat([tensor([1])], 1), "shape", /concat: dim 1 is not in \[-1, 0\]/],
  [
    "an integer to a negative number",
    () => tensor([2], i32).pow(-1),
    "dtype",
    /pow: i32\[1\] to the -1: integers have.*f32/s,
  ],
  ["the same, of the function", () => h.pow(tensor([2n]), -2n), "dtype", /pow: i64\[1\] to the -2: integers have no/],
  ["a dim turned twice", () => h.reverse(zeros([2, 2]), [0, -2]), "shape", /reverse: dims \[0,-2\] repeat/],
  ["rows of other lengths", () => tensor([[1, 2], [3]]), "shape", /a row of 1 stands among rows of 2/],
  ["full of a fraction", () => h.full([1], 1.5, i32), "dtype", /full: 1\.5 is not a value of i32/],
  ["full of nothing", () => h.full([1]), "dtype", /full: undefined is not a number/],
  ["a size for a shape", () => zeros(3), "shape", /zeros: a shape is an array of sizes such as \[2, 3\], got 3/],
  [
    "a count too large for the dtype",
    () => h.arange(300, { dtype: "u8" }),
    "dtype",
    /arange: 299 is not a value of u8/,
  ],
  [
    "an option of zeros",
    () => zeros([1], { dtpe: "i32" }),
    "option",
    /zeros: unknown option 'dtpe'.*did you mean 'dtype'/s,
  ],
  ["an option of tensor", () => tensor([1], { shpe: [1] }), "option", /unknown option 'shpe'.*'shape'/s],
  [
    "an option of sum",
    () => tensor([1]).sum(0, { keepdims: true }),
    "option",
    /sum: unknown option 'keepdims'.*'keepDims'/s,
  ],
  [
    "an option of conv2d",
    () => conv2d(image(), kernel(), { stride: 2 }),
    "option",
    /unknown option 'stride'.*'strides'/s,
  ],
  [
    "an option of maxPool2d",
    () => h.maxPool2d(image(), 2, { stride: 2 }),
    "option",
    /unknown option 'stride'.*'strides'/s,
  ],
  [
    "an option of uniform",
    () => random.uniform(random.key(1), [2], { minn: 3 }),
    "option",
    /unknown option 'minn'.*'min'/s,
  ],
  [
    "an option of jit",
    () => jit((x: unknown) => x, { donated: [0] }),
    "option",
    /jit: unknown option 'donated'.*'donate'/s,
  ],
  [
    "an option of scan",
    () => h.scan(() => [], tensor(0), tensor([1]), { revers: true }),
    "option",
    /'revers'.*'reverse'/s,
  ],
  [
    "an option of batch",
    () => column({ shape: [2], data: [1, 2] }).batch(1, { dropRemainer: true }),
    "option",
    /dropRemainder/,
  ],
  [
    "padding",
    () => conv2d(image(), kernel(), { padding: "samee" }),
    "option",
    /conv2d: padding is "samee".*"same" or "valid"/s,
  ],
  [
    "padding of a layer",
    () => n.conv2d({ out: 1, kernel: 3, padding: "samee" }),
    "option",
    /conv2d: padding is "samee"/,
  ],
  [
    "a kernel that is missing",
    () => n.conv2d({ out: 1 }),
    "option",
    /conv2d: kernel must be a number or \[height, width\]/,
  ],
  ["dims", () => tensor([1]).sum("a"), "argument", /sum: dims must be a whole number or an array of them, got "a"/],
  ["an operand that is missing", () => tensor([1]).add(), "argument", /add: operand 1 is undefined, not a tensor/],
  ["an array for a tensor", () => tensor([1]).mul([2]), "argument", /mul: operand 1 is \[2\], not a tensor.*tensor\(/s],
  ["a number for a tensor", () => h.exp(3), "argument", /exp: takes at least one tensor, got 3/],
  ["a size for a new shape", () => tensor([1, 2]).reshape(2), "shape", /reshape: a shape is an array.*got 2/],
  [
    "an order",
    () => tensor([[1]]).transpose(1),
    "argument",
    /transpose: order must be an array of whole numbers, got 1/,
  ],
  [
    "a truth value for a predicate",
    () =>
      h.cond(
        true,
        () => tensor(1),
        () => tensor(2),
      ),
    "argument",
    /cond: the predicate is true/,
  ],
  ["a seed with a fraction", () => random.key(1.5), "option", /random\.key: seed must be a whole number, got 1\.5/],
  ["a seed that is NaN", () => random.key(Number.NaN), "option", /seed .*got NaN/],
  ["a negative seed", () => random.key(-1), "option", /seed must be at least 0, got -1/],
  ["a seed too large", () => random.key(2 ** 60), "option", /seed must be .*at most 9007199254740991/],
  [
    "a probability above 1",
    () => random.bernoulli(random.key(1), 2, [1]),
    "option",
    /probability must be at least 0 and at most 1, got 2/,
  ],
  [
    "a probability that is NaN",
    () => random.bernoulli(random.key(1), Number.NaN, [1]),
    "option",
    /probability .*got NaN/,
  ],
  [
    "a gradient of nothing",
    () => grad(() => undefined)(tensor(1)),
    "gradient",
    /must return a scalar tensor.*got undefined/,
  ],
  ["a gradient by a number", () => grad(() => tensor(1))(3), "gradient", /first argument must be a tensor.*got 3/],
  ...["grad", "valueAndGrad", "hessian"].map(
    (name) =>
      [
        `${name} by argument 1`,
        () => h[name]((x: unknown) => x, 1),
        "argument",
        new RegExp(`^${name}: takes one argument, got also 1.*hint: derivatives are by the first argument`, "s"),
      ] as const,
  ),
  ["eye of a fraction", () => h.eye(2, 1.5), "option", /^eye: columns must be a whole number, got 1\.5/],
  ["eye of an unknown dtype", () => h.eye(2, { dtype: "f8" }), "dtype", /^eye: there is no dtype "f8"/],
  [
    "arange from a start",
    () => h.arange(1, 4),
    "option",
    /^arange: takes a count, .*got 1 and 4.*hint: .*add\(start\)/s,
  ],
  ["fft of real numbers", () => h.fft(tensor([1, 2, 3])), "shape", /^fft: takes complex.*got f32\[3\].*use rfft/s],
  [
    "ifft of a pair",
    () => h.ifft(tensor([1, 2])),
    "shape",
    /^ifft: takes complex numbers, \[\.\.\., n, 2\], got f32\[2\]/,
  ],
  [
    "a fill that is a text",
    () => h.unique(tensor([1], i32), { size: 2, fill: "a" }),
    "dtype",
    /a number of i32.*got "a"/,
  ],
  ["a size for options", () => h.unique(tensor([1]), 2), "option", /^unique: .*got 2.*hint: write \{ size: … \}$/s],
  ...["pick", "sort", "softmax", "argsort"].map(
    (name) =>
      [
        `${name} of a scalar`,
        () => h[name](tensor(1), ...(name === "pick" ? [0] : [])),
        "shape",
        new RegExp(`^${name}: dim -1 is not there: a scalar has no dims`),
      ] as const,
  ),
  ...["normal", "uniform", "bits", "foldIn", "bernoulli"].map(
    (name) =>
      [
        `a seed for the key of ${name}`,
        () => random[name](7, ...(name === "foldIn" ? [1] : name === "bernoulli" ? [0.5, [2]] : [[2]])),
        "argument",
        new RegExp(`^random\\.${name}: takes a key first, got 7.*random\\.key\\(7\\)`, "s"),
      ] as const,
  ),
  [
    "a condition that is no tensor",
    () =>
      h.whileLoop(
        () => true,
        (x: unknown) => x,
        tensor(1),
      ),
    "dtype",
    /^whileLoop: the condition must give a bool scalar, got true/,
  ],
  [
    "a condition of many",
    () =>
      h.whileLoop(
        (x: { gt: (y: number) => unknown }) => x.gt(0),
        (x: unknown) => x,
        tensor([1]),
      ),
    "dtype",
    /^whileLoop: the condition must give a bool scalar, got bool\[1\]/,
  ],
  [
    "a reduction of klDivergence",
    () => l.klDivergence(zeros([2]), zeros([2]), { reduction: "max" }),
    "option",
    /^klDivergence: reduction must be mean, sum, none or batchMean, got max/,
  ],
  ["no function", () => jit(undefined), "argument", /jit: takes a function, got undefined/],
  [
    "a donation of no argument",
    () => jit((x: unknown) => x, { donate: [3] })(tensor(1)),
    "option",
    /argument 3 cannot be donated/,
  ],
  [
    "a donation of no field",
    () => jit(({ x }: { x: unknown }) => x, { donate: ["state"] })({ x: tensor(1) }),
    "option",
    /'state' cannot be donated: the first argument has no such tensors\n[\s\S]*it is \{ x \}/,
  ],
  [
    "a tree for a type",
    () => h.evalShape((x: unknown) => x, { a: tensor(1) }),
    "argument",
    /evalShape: input 0 is \{ a \}, not/,
  ],
  [
    "a type without dtype",
    () => h.evalShape((x: unknown) => x, { shape: [2] }),
    "argument",
    /evalShape: input 0 is \{ shape \}/,
  ],
  [
    "a layer that gives a number",
    () => n.sequential(broken).apply(none, tensor([1])),
    "model",
    /layer 0 \(mine\): apply must give \{ y, state \}.*gave 3/,
  ],
  [
    "a function that gives a number",
    () => n.sequential(() => 3).apply(none, tensor([1])),
    "model",
    /must return a tensor, but returned 3/,
  ],
  ["no input", () => n.linear(1).apply(none), "argument", /linear: apply takes a tensor, got undefined/],
  [
    "no variables",
    () => n.linear(1).apply(undefined, tensor([1])),
    "argument",
    /linear: apply takes \{ params, state \}/,
  ],
  ["a loss without target", () => l.mse(tensor(1)), "argument", /mse: takes output and target, got .* and undefined/],
  ["no column", () => d.fromArrays({ x: [1, 2] }), "data", /column "x" is \[1,2\], not \{ shape, data \}/],
  ["nested values", () => column({ shape: [1, 2], data: [[1, 2]] }), "data", /a value is \[1,2\].*flat/s],
  [
    "a text in a column",
    () => column({ shape: [1], data: ["a"] }),
    "dtype",
    /column "x": element 0: "a" is not a number/,
  ],
  ["a value out of range", () => column({ shape: [1], dtype: "u8", data: [300] }), "dtype", /300 is not a value of u8/],
  [
    "a truth value of 2",
    () => column({ shape: [1], dtype: "bool", data: Uint8Array.of(2) }),
    "dtype",
    /element 0 is 2/,
  ],
  [
    "an option of a column",
    () => column({ shape: [1], dtpe: "u8", data: [1] }),
    "option",
    /unknown option 'dtpe'.*'dtype'/s,
  ],
];

describe("mistakes are named, with the user's line", () => {
  test.each(mistakes)("%s", (_what, make, code, message) => {
    let caught: unknown;
    try {
      make();
    } catch (error) {
      caught = error;
    }
    expect(caught).toBeInstanceOf(HeddleError);
    const error = caught as HeddleError;
    expect(error.message).toMatch(message);
    expect(error.code).toBe(code);
    expect(error.where).toMatch(/mistakes\.test\.ts:\d+:\d+$/);
  });

  test("what is no mistake", () => {
    expect([...tensor([2, 0, true], { dtype: "bool" }).dataSync()]).toEqual([1, 0, 1]);
    expect(tensor([true, false]).dtype).toBe("bool");
    expect([...tensor(new Int16Array([-3, 4]), i32).dataSync()]).toEqual([-3, 4]);
    expect([...tensor(Float64Array.of(255, 0), { dtype: "u8" }).dataSync()]).toEqual([255, 0]);
    expect(tensor([1e300]).itemSync()).toBe(Infinity);
    expect(tensor([[], []]).shape).toEqual([2, 0]);
  });
});
