/** Layers made of layers: what they compute, how their variables are called, and layers that stand in several places. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { evalShape, grad, jit, mesh, nn, random, type Tensor, type TrainOptions, tensor, train, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";
import { bars, options } from "../train/synthetic.ts";

const key = random.key(0);
const f32 = (...shape: number[]) => ({ shape, dtype: "f32" as const });
const paths = (tree: unknown): string[] => flattenTree(tree, isTensor).paths;
const input = (...shape: number[]): Tensor => random.normal(random.key(7), shape);

const joined = (a: Tensor, b: Tensor): Tensor => a.mul(b);
const cases: readonly (readonly [string, nn.Layer, readonly number[], readonly string[], readonly number[]])[] = [
  ["residual", nn.residual(nn.linear(3), nn.tanh()), [2, 3], ["0.weight", "0.bias"], [2, 3]],
  [
    "a sum",
    nn.parallel([nn.linear(4), nn.linear(4, { bias: false })], "sum"),
    [2, 3],
    ["0.weight", "0.bias", "1.weight"],
    [2, 4],
  ],
  [
    "one behind another",
    nn.parallel({ a: nn.linear(4), b: (x) => x }, "concat"),
    [2, 3],
    ["a.weight", "a.bias"],
    [2, 7],
  ],
  ["along a dim", nn.parallel([nn.relu(), nn.tanh()], "concat", { dim: -2 }), [2, 3, 4], [], [2, 6, 4]],
  [
    "a function",
    nn.parallel([nn.linear(4), nn.linear(1)], joined),
    [2, 3],
    ["0.weight", "0.bias", "1.weight", "1.bias"],
    [2, 4],
  ],
  [
    "lists and records",
    nn.module({ blocks: [nn.linear(3), nn.linear(3)], heads: { a: nn.linear(1), b: nn.linear(2) } }, (l, x) => {
      const hidden = l.blocks.reduce((y, block) => block(y).relu(), x);
      return l.heads.a(hidden).add(l.heads.b(hidden));
    }),
    [2, 3],
    [
      "blocks.0.weight",
      "blocks.0.bias",
      "blocks.1.weight",
      "blocks.1.bias",
      "heads.a.weight",
      "heads.a.bias",
      "heads.b.weight",
      "heads.b.bias",
    ],
    [2, 2],
  ],
  [
    "a module in a module",
    nn.sequential(
      nn.module({ inner: nn.module({ norm: nn.batchNorm() }, (l, x) => l.norm(x)), out: nn.linear(1) }, (l, x) =>
        l.out(l.inner(x)),
      ),
    ),
    [4, 3],
    ["0.inner.norm.weight", "0.inner.norm.bias", "0.out.weight", "0.out.bias"],
    [4, 1],
  ],
];

test.each(cases)("%s: names, shapes, and init alike in any trace", (_name, layer, shape, names, out) => {
  const made = layer.init(key, f32(...shape));
  expect(paths(made.params)).toEqual(names);
  expect(made.output.shape).toEqual(out);
  expect(evalShape((k: Tensor) => layer.init(k, f32(...shape)).params, { shape: [2], dtype: "u32" })).toEqual(
    evalShape(() => made.params),
  );
  const { y, state } = layer.apply(made, input(...shape), { train: true, key });
  expect(y.shape).toEqual(out);
  expect(paths(state)).toEqual(paths(made.state));
});

describe("what they compute", () => {
  const x = input(4, 3);

  test("a module is what its function writes out", async () => {
    const [first, second] = [nn.linear(5), nn.linear(2)];
    const layer = nn.module({ first, second }, (l, given) => l.second(l.first(given).tanh()));
    const { params, state } = layer.init(key, f32(4, 3));
    const byHand = second.apply(
      { params: params.second, state },
      first.apply({ params: params.first, state }, x).y.tanh(),
    ).y;
    expectClose(await layer.apply({ params, state }, x).y.data(), await byHand.data(), 0);
  });

  test("a residual adds, branches add", async () => {
    const inner = nn.linear(3);
    const { params } = inner.init(key, f32(4, 3));
    const plain = inner.apply({ params, state: {} }, x).y;
    const around = nn.residual(inner).apply({ params: { "0": params }, state: {} }, x).y;
    const both = nn.parallel([inner, (y: Tensor) => y], "sum").apply({ params: { "0": params }, state: {} }, x).y;
    for (const found of [around, both]) expectClose(await found.data(), await plain.add(x).data(), 0);
  });

  test("tensors of the context, options of layers and other functions of layers reach them", async () => {
    const layer = nn.module(
      { lstm: nn.lstm({ hidden: 3, output: "last" }), head: nn.linear(2) },
      (l, sequences, { lengths }) => {
        const last = l.lstm(sequences, lengths === undefined ? {} : { lengths });
        const run = l.lstm.use(sequences, (lstm, variables, given) =>
          lstm.run(variables, sequences, lengths === undefined ? given : { ...given, lengths }),
        );
        return l.head(last.add(run.final.h.reshape([2, 3])));
      },
      { kind: "reader", context: ["lengths"] },
    );
    const made = layer.init(key, f32(2, 4, 5));
    const lengths = tensor([1, 4], { dtype: "i32" });
    const sequences = input(2, 4, 5);
    const [short, whole] = [layer.apply(made, sequences, { lengths }).y, layer.apply(made, sequences).y];
    const at = async (y: Tensor, row: number): Promise<number> => (await y.data())[2 * row] as number;
    expect(await at(short, 1)).toBe(await at(whole, 1));
    expect(await at(short, 0)).not.toBe(await at(whole, 0));
  });

  test("each use of a layer draws anew, by the name and not by the order", async () => {
    const layer = nn.module({ a: nn.dropout(0.5), b: nn.dropout(0.5) }, (l, given) =>
      l.a(given).add(l.a(given).mul(10)).add(l.b(given).mul(100)),
    );
    const ones = input(1, 64).mul(0).add(1);
    const made = layer.init(key, f32(1, 64));
    const drawn = await layer.apply(made, ones, { train: true, key }).y.data();
    expect(new Set(drawn).size).toBe(8);
  });

  test("a layer that is for training alone, and precision that reaches those inside", () => {
    const layer = nn.module({ body: nn.layerNorm(), aside: nn.linear(1) }, (l, given, { train: trains }) =>
      trains ? l.body(given).add(l.aside(given)) : l.body(given),
    );
    const made = layer.init(key, f32(2, 3));
    expect(paths(made.params)).toContain("aside.weight");
    expect(layer.apply(made, zeros([2, 3]), { train: true, precision: "bf16" }).y.dtype).toBe("bf16");
  });
});

describe("a layer in several places", () => {
  const shared = () => {
    const norm = nn.batchNorm();
    const body = nn.sequential(nn.linear(3), norm);
    return {
      sequential: nn.sequential(body, nn.relu(), body),
      "across layers": nn.sequential(body, nn.residual(nn.tanh(), nn.sequential(norm)), nn.linear(3)),
      module: nn.module({ a: body, b: nn.sequential(nn.relu(), body) }, (l, x) => l.b(l.a(x))),
      "the second first": nn.module({ a: body, b: nn.sequential(nn.relu(), body) }, (l, x) => l.a(l.b(x))),
      remat: nn.sequential(body, nn.remat(nn.sequential(nn.relu()))),
    };
  };
  const names = ["linear.weight", "linear.bias", "norm.weight", "norm.bias"].length;

  test.each(Object.keys(shared()).filter((name) => name !== "remat"))("%s: one set of variables", async (name) => {
    const layer = shared()[name as keyof ReturnType<typeof shared>] as nn.Layer;
    const made = layer.init(key, f32(6, 3));
    expect(paths(made.params).length).toBe(name === "across layers" ? names + 2 : names);
    // Both uses count as batches of one norm.
    const { state } = layer.apply(made, input(6, 3), { train: true, key });
    const { leaves, paths: stateNames } = flattenTree<Tensor>(state, isTensor);
    expect(stateNames).toEqual(paths(made.state));
    expect(await leaves[stateNames.findIndex((one) => one.endsWith("tracked"))]?.item()).toBe(2);
  });

  test("its gradient is the sum of those of two layers with equal values", async () => {
    const one = nn.linear(3);
    const tied = nn.sequential(one, nn.tanh(), one);
    const apart = nn.sequential(nn.linear(3), nn.tanh(), nn.linear(3));
    const { params } = tied.init(key, f32(4, 3));
    const x = input(4, 3);
    const own = params["0"];
    const tiedGrad = grad((p: typeof params) => tied.apply({ params: p, state: {} }, x).y.mul(x).sum())(params);
    const two = { "0": own, "2": own };
    const twoGrad = grad((p: typeof two) => apart.apply({ params: p, state: {} }, x).y.mul(x).sum())(two);
    expectClose(await tiedGrad["0"].weight.data(), await twoGrad["0"].weight.add(twoGrad["2"].weight).data(), 1e-6);
  });

  test("a table is used by another layer", async () => {
    const tied = nn.module({ embed: nn.embedding(5, 4) }, (l, ids) =>
      l.embed(ids).matmul(l.embed.params.weight.transpose()),
    );
    const made = tied.init(key, { shape: [2], dtype: "i32" });
    expect(made.output.shape).toEqual([2, 5]);
    expect(
      jit((p: typeof made.params, ids: Tensor) => tied.apply({ params: p, state: {} }, ids).y)(
        made.params,
        tensor([1, 2], { dtype: "i32" }),
      ).shape,
    ).toEqual([2, 5]);
  });

  test("it trains, on one device as on two, from a checkpoint too", async () => {
    const body = nn.linear(16);
    const tail = nn.module({ body, head: nn.linear(3) }, (l, x) => l.head(l.body(x)));
    const directory = mkdtempSync(join(tmpdir(), "shared-"));
    const data = bars(24, { size: 4 }).shuffle().batch(8);
    const run = async (more: Partial<TrainOptions>): Promise<number[]> => {
      const { params } = await train(
        options({ model: nn.sequential(nn.flatten(), body, nn.relu(), tail), data, dtype: "f64", epochs: 2, ...more }),
      );
      expect(paths(params)).toEqual(["1.weight", "1.bias", "3.head.weight", "3.head.bias"]);
      return (
        await Promise.all(flattenTree<Tensor>(params, isTensor).leaves.map(async (x) => [...(await x.data())]))
      ).flat();
    };
    const one = await run({});
    expectClose(await run({ mesh: mesh({ data: 2 }) }), one, 1e-9);
    const checkpoint = { directory };
    await run({ epochs: 1, checkpoint });
    expect(await run({ checkpoint, resume: true })).toEqual(one);
    rmSync(directory, { recursive: true });
  });
});

describe("mistakes", () => {
  const two = nn.linear(2);
  const wrong: readonly (readonly [string, () => unknown, RegExp])[] = [
    [
      "a shape that a residual changes",
      () => nn.residual(nn.linear(2)).init(key, f32(2, 3)),
      /^residual: adds f32\[2,2\] to its input f32\[2,3\]/,
    ],
    [
      "another way to join",
      () => nn.parallel([nn.relu()], "max" as never),
      /^parallel: combine must be sum, concat or a function, got "max"/,
    ],
    ["no layer", () => nn.parallel([3 as never], "sum"), /^parallel: layer 0 is 3, not a layer/],
    ["no branches", () => nn.parallel([], "sum"), /^parallel: has no branches/],
    [
      "a list for a record",
      () => nn.module([nn.relu()] as never, (() => 1) as never),
      /^module: takes a record of layers/,
    ],
    [
      "no layer in a module",
      () => nn.module({ a: { b: 3 as never } }, (_l, x) => x),
      /^module: 'a.b' is 3, not a layer/,
    ],
    [
      "a name with a dot",
      () => nn.module({ "a.b": nn.relu() }, (_l, x) => x),
      /called 'a.b', but names are without dots/,
    ],
    [
      "a name that every object has",
      () => nn.module({ toString: nn.relu() }, (_l, x) => x),
      /called 'toString', a name that every object has: rename it/,
    ],
    [
      "no tensor",
      () => nn.module({ a: nn.relu() }, ((_l: unknown, _x: unknown) => 3) as never).init(key, f32(1)),
      /^module: its function must give a tensor, but gave 3/,
    ],
    [
      "a layer that is not applied",
      () => nn.module({ a: nn.relu(), b: nn.relu() }, (l, x) => l.a(x)).init(key, f32(1)),
      /^module: its function does not apply the layer 'b'/,
    ],
    [
      "an error inside",
      () =>
        nn
          .module({ deep: [nn.sequential(nn.conv1d({ out: 1, kernel: 2 }))] }, (l, x) => l.deep[0](x))
          .init(key, f32(1)),
      /^layer deep.0.0 \(conv1d\): takes/,
    ],
    [
      "inputs of two widths",
      () => nn.sequential(two, nn.linear(3), two).init(key, f32(1, 2)),
      /^layer 2 \(linear\): is the layer '0' again.*weight is f32\[2,2\] there, but would have to be f32\[2,3\] here/,
    ],
    [
      "an option that nobody has",
      () =>
        nn
          .module({ a: nn.relu() }, (l, x) => l.a(x))
          .apply({ params: {}, state: {} }, zeros([1]), { mask: 1 } as never),
      /unknown option 'mask'/,
    ],
  ];

  test.each(wrong)("%s", (_name, run, message) => {
    expect(run).toThrow(message);
  });
});
