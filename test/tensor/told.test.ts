/** Mistakes are told by the name of the function that was called, whatever it is made of. */
import { describe, expect, test } from "vitest";
import * as heddle from "../../src/functions/index.ts";
import * as losses from "../../src/losses/index.ts";
import * as metrics from "../../src/metrics/index.ts";
import * as nn from "../../src/nn/index.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { partOf } from "../support/sample.ts";

const { evalShape, tensor, isTensor } = heddle;

type Callable = (...given: unknown[]) => unknown;

/** Functions of functions, of meshes and of programs: they are no ops. */
const others = [
  ...[
    "HeddleError",
    "Tensor",
    "isTensor",
    "allClose",
    "tensorFunction",
    "connect",
    "deviceRuntime",
    "meshOf",
    "evalShape",
  ],
  // What adapters are made of: they take nodes, types and weights of neighbours that their caller has checked.
  ...["traceApart", "traceFunction", "toIndices", "resampled", "tapsOf", "sampleAt", "randomRows"],
  ...["compileFunction", "compilePipeline", "compilePlan", "planFunction"],
  ...[
    "jit",
    "grad",
    "valueAndGrad",
    "jvp",
    "vjp",
    "vmap",
    "jacobian",
    "hessian",
    "customGradient",
    "customJvp",
    "remat",
  ],
  ...["stablehlo", "isOnStage", "placeOn", "fromShards", "distribute", "redistribute", "replicate"],
  ...["cond", "scan", "whileLoop", "isCounted", "topK", "precision", "recall", "f1", "auc", "rocAuc", "perplexity"],
];

const groups: { readonly [group: string]: object } = {
  heddle,
  linalg: heddle.linalg,
  random: heddle.random,
  losses,
  metrics,
  "nn.functional": nn.functional,
};

const functions = Object.entries(groups).flatMap(([group, names]) =>
  Object.entries(names).flatMap(([name, fn]) =>
    typeof fn === "function" && !(others.includes(name) && ["heddle", "metrics"].includes(group))
      ? [[`${group}: ${name}`, name, fn as Callable] as const]
      : [],
  ),
);

const f32 = tensor([
  [1, 2, 3],
  [4, 5, 6],
]);
const [row, i32, bools] = [tensor([1, 2, 3, 4]), tensor([0, 1], { dtype: "i32" }), tensor([true, false, true])];

const shownArgument = (value: unknown): string => (isTensor(value) ? String(value) : JSON.stringify(value));

/** Wrong alone, behind a tensor, and behind two. */
const calls: readonly (readonly unknown[])[] = [
  ...[tensor(2), i32, bools, 5, [9], { nonsense: 1 }, undefined].map((one) => [one]),
  ...[f32, i32].flatMap((first) => [row, bools, 5, [-1, -1], { nonsense: 1 }, "x"].map((second) => [first, second])),
  ...[f32, i32, bools].flatMap((both) => [undefined, 5, [9], bools].map((third) => [both, both, third])),
];

test.each(functions.map((row, at) => [...row, at] as const))("%s", (_title, name, fn, at) => {
  const bad = partOf(calls, 3, at).flatMap((given) => {
    try {
      evalShape((() => fn(...given)) as never);
      return [];
    } catch (error) {
      const [said] = String((error as Error).message).split("\n") as [string];
      const named = error instanceof HeddleError && new RegExp(`^[\\w.]*\\b${name}\\b`).test(said);
      return named ? [] : [`(${given.map(shownArgument).join(", ")}): ${(error as Error).name}: ${said}`];
    }
  });
  expect(bad).toEqual([]);
});

describe("what is said", () => {
  const cases: readonly (readonly [call: string, run: () => unknown, said: RegExp])[] = [
    ["softmax along a dim that is not there", () => heddle.softmax(f32, 5), /^softmax: dim 5 is not in \[-2, 1\]/],
    ["segments as floats", () => heddle.segmentSum(f32, tensor([0, 1]), 2), /^segmentSum: updates f32\[2,3\]/],
    ["solve of sizes that differ", () => heddle.linalg.solve(f32, f32), /^solve: needs square matrices/],
    ["reshape with two open sizes", () => heddle.reshape(f32, [-1, -1]), /^reshape: invalid size -1/],
    ["matmul of dtypes that differ", () => heddle.matmul(f32, i32), /^matmul: needs two numbers/],
    [
      "sort with options only",
      () => heddle.sort(f32, { descending: true } as never),
      /^sort: dim .*\n.*\n? *hint: options come after the dim: \(x, -1/,
    ],
    ["median of integers", () => heddle.median(i32), /^median: not defined for i32\[2\]/],
    ["a loss of integers", () => losses.huber(i32, i32), /^huber: 0.5 is not a value of i32/],
  ];
  test.each(cases)("%s", (_call, run, said) => {
    expect(run).toThrow(said);
  });

  const key = heddle.random.key(0);
  const layers = [
    nn.linear(2),
    nn.conv2d({ out: 2, kernel: 3 }),
    nn.batchNorm(),
    nn.layerNorm(),
    nn.maxPool2d(2),
    nn.lstm({ hidden: 2 }),
    nn.gru({ hidden: 2 }),
    nn.rnn({ hidden: 2 }),
    nn.glu(),
    nn.multiHeadAttention({ heads: 2 }),
    nn.transformerEncoderLayer({ heads: 2 }),
    nn.embeddingBag(4, 2),
  ];
  test.each(layers.map((layer) => [layer.kind, layer] as const))("a layer by itself: %s", (kind, layer) => {
    for (const type of [
      { shape: [], dtype: "bool" },
      { shape: [2], dtype: "bool" },
    ] as const) {
      expect(() => layer.init(key, type)).toThrow(new RegExp(`^(layer \\S+ \\()?${kind}\\b`));
    }
    const good = (() => {
      for (const shape of [
        [2, 4],
        [2, 3, 4],
        [1, 4, 6, 6],
      ])
        for (const dtype of ["f32", "i32"] as const)
          try {
            return layer.init(key, { shape, dtype });
          } catch {}
      throw new Error(`${kind} takes nothing`);
    })();
    expect(() => layer.apply(good, kind === "embeddingBag" ? tensor(1) : tensor([true]))).toThrow(
      new RegExp(`^(layer \\S+ \\()?${kind}\\b`),
    );
  });
});
