/** Weights by whoever wrote them, as variables of a model; what does not fit is told by what it comes from. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { io, nn, random, type Tensor, type Tensors, tensor, train, zeros } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { savedBy } from "../../src/io/safetensors.ts";
import { exportWeights } from "../../src/train/export-weights.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { fixture } from "../fixtures/fixture.ts";
import { options } from "../train/synthetic.ts";

const folder = mkdtempSync(join(tmpdir(), "load-variables-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string): string => join(folder, name);
const files = new Map(
  fixture<{ name: string; file: string }>("state-dict").map(({ name, file }) => [name, Buffer.from(file, "base64")]),
);
for (const [name, bytes] of files) writeFileSync(at(`${name}.pt`), bytes);

const net = () =>
  nn.module({ fc1: nn.linear(4), norm: nn.batchNorm(), fc2: nn.linear(2, { bias: false }) }, (l, x) =>
    l.fc2(l.norm(l.fc1(x))),
  );
const input = [2, 3];
const valuesOf = async (variables: nn.Variables): Promise<Record<string, number[]>> => {
  const both = [variables.params, variables.state].map((tree) => flattenTree<Tensor>(tree, isTensor));
  const named = both.flatMap(({ leaves, paths }) =>
    leaves.map(async (x, index): Promise<[string, number[]]> => [paths[index] as string, [...(await x.data())]]),
  );
  return Object.fromEntries(await Promise.all(named));
};
/** As the script numbers them. */
const numbered = (start: number, count: number): number[] =>
  Array.from({ length: count }, (_unused, index) => index / 8 + start);
const expected = {
  "fc1.weight": numbered(0, 12),
  "fc1.bias": numbered(1, 4),
  "norm.weight": numbered(2, 4),
  "norm.bias": numbered(3, 4),
  "fc2.weight": numbered(7, 8),
  "norm.running_mean": numbered(4, 4),
  "norm.running_var": numbered(5, 4),
  "norm.num_batches_tracked": [0],
};

describe("a file of torch.save", () => {
  test("is read by its names", async () => {
    expect(await valuesOf(await io.loadVariables(at("plain.pt"), net(), { input }))).toEqual(expected);
    const fresh = net().init(random.key(0), { shape: input, dtype: "f32" });
    expect(await valuesOf(await io.loadPyTorch(at("plain.pt"), fresh))).toEqual(expected);
  });

  test("in a checkpoint, by another prefix, in 16 bits", async () => {
    await expect(io.loadVariables(at("checkpoint.pt"), net(), { input, names: { "": "modul" } })).rejects.toThrow(
      /all names of the file begin with "module\."\n[\s\S]*hint: give the option names: \{ "": "module" \}$/,
    );
    const { params, state } = await io.loadVariables(at("checkpoint.pt"), net(), { input, names: { "": "module" } });
    expect(params.fc1.weight.dtype).toBe("f32");
    const { "norm.num_batches_tracked": tracked, ...values } = await valuesOf({ params, state });
    const { "norm.num_batches_tracked": _none, ...wanted } = expected;
    // Values of eighths are exact in 16 bits; the counter counts one batch by now.
    expect([values, tracked]).toEqual([wanted, [1]]);
    await expect(
      io.loadPyTorch(at("checkpoint.pt"), net().init(random.key(0), { shape: input, dtype: "f32" }), {
        names: { "": "module" },
      }),
    ).rejects.toThrow(
      /floats are f16 in the file and f32 here: fc1\.\{weight,bias\}[\s\S]*hint: give the option cast: true/,
    );
  });

  test("with strides, places and other dtypes", async () => {
    const range = (count: number): number[] => Array.from({ length: count }, (_unused, index) => index);
    const wanted: Tensors = {
      turned: zeros([6, 4], { dtype: "f64" }),
      part: zeros([3, 2], { dtype: "f64" }),
      scalar: zeros([], { dtype: "i32" }),
      bf16: zeros([2]),
      bool: zeros([2], { dtype: "bool" }),
      parameter: zeros([2]),
      empty: zeros([0, 3]),
    };
    const { params } = await io.loadVariables(at("odd.pt"), { params: wanted, state: {} }, { ignore: "complex" });
    expect(await valuesOf({ params, state: {} })).toEqual({
      turned: range(24).map((index) => (index % 4) * 6 + Math.floor(index / 4)),
      part: [13, 14, 17, 18, 21, 22],
      scalar: [7],
      bf16: [1.5, -2],
      bool: [1, 0],
      parameter: [1, 1],
      empty: [],
    });
    await expect(
      io.loadVariables(at("odd.pt"), { params: { complex: zeros([1]) }, state: {} }, { only: "complex" }),
    ).rejects.toThrow(/differs: "complex" is f32\[1\] here and ComplexFloatStorage\[1\] in the file/);
  });

  test("of something else is refused, and a damaged one", async () => {
    const load = (name: string) => io.loadVariables(at(name), net(), { input });
    await expect(load("module.pt")).rejects.toThrow(
      /module.pt is not a valid PyTorch file: it holds a whole module[\s\S]*torch.save\(model.state_dict\(\), path\)/,
    );
    const plain = files.get("plain") as Buffer;
    for (let cut = 50; cut < plain.length; cut += 97) {
      writeFileSync(at("cut.pt"), plain.subarray(0, cut));
      await expect(load("cut.pt")).rejects.toMatchObject({ code: "format" });
      const changed = Buffer.from(plain);
      changed[cut] = (changed[cut] as number) ^ 0x55;
      writeFileSync(at("changed.pt"), changed);
      await load("changed.pt").catch((error: { code?: string }) =>
        expect(["format", "model", "dtype"]).toContain(error.code),
      );
    }
  });
});

test("what train, saveTensors, keras and npz write is read alike, and a folder of checkpoints", async () => {
  const model = nn.sequential(nn.flatten(), nn.linear(8), nn.batchNorm(), nn.linear(3));
  const directory = at("checkpoints");
  const result = await train(options({ model, checkpoint: { directory } }));
  const wanted = await valuesOf(result);
  const host = await exportWeights(result);
  await savedBy("test", at("weights.safetensors"), host);
  await io.writeNpz(at("weights.npz"), Object.fromEntries(host));
  await io.saveTensors(at("groups.safetensors"), { params: result.params, state: result.state });
  const written = ["weights.safetensors", "weights.npz", "groups.safetensors"].map(at);
  for (const path of [directory, result.checkpoint as string, ...written]) {
    const variables = await io.loadVariables(path, model, { input: [1, 1, 8, 8] });
    expect([path, await valuesOf(variables)]).toEqual([path, wanted]);
  }
  await expect(io.loadVariables(folder, model, { input: [1, 1, 8, 8] })).rejects.toThrow(
    /cannot read .*: it is a folder\n[\s\S]*no checkpoints in it/,
  );
});

test("a layer in several places is found by any of its names; a part is read into what is given", async () => {
  const body = nn.linear(3);
  const model = nn.module({ a: body, b: nn.sequential(body), c: nn.linear(1) }, (l, x) => l.c(l.b(l.a(x))));
  const { params } = model.init(random.key(1), { shape: [1, 3], dtype: "f32" });
  const own = await valuesOf({ params, state: {} });
  const save = (tree: Tensors) => io.saveTensors(at("shared.safetensors"), tree);
  const load = (more: io.LoadVariablesOptions = {}) =>
    io.loadVariables(at("shared.safetensors"), model, { input: [1, 3], ...more });
  for (const tree of [
    params,
    { b: { "0": params.a }, c: params.c },
    { a: params.a, b: { "0": params.a }, c: params.c },
  ]) {
    await save(tree as Tensors);
    expect(await valuesOf(await load())).toEqual(own);
  }
  await save({ a: params.a, other: params.c });
  const part = await valuesOf(await load({ only: "a" }));
  expect(part["a.weight"]).toEqual(own["a.weight"]);
  expect(part["c.weight"]).not.toEqual(own["c.weight"]);
});

describe("what does not fit", () => {
  const layers = 12;
  const deep = () =>
    nn.module(
      { blocks: Array.from({ length: layers }, () => nn.sequential(nn.linear(4), nn.tanh())), head: nn.linear(2) },
      (l, x) => l.head(l.blocks.reduce((y, block) => block(y), x)),
    );
  const write = async (change: (name: string, x: Tensor) => readonly [string, Tensor]): Promise<string> => {
    const { params } = deep().init(random.key(0), { shape: [1, 3], dtype: "f32" });
    const flat = flattenTree<Tensor>(params, isTensor);
    const host = new Map<string, io.HostTensor>();
    for (const [index, path] of flat.paths.entries()) {
      const [name, x] = change(path, flat.leaves[index] as Tensor);
      host.set(name, await io.toHost(x));
    }
    await io.saveSafetensors(at("deep.safetensors"), host);
    return io.loadVariables(at("deep.safetensors"), deep(), { input: [1, 3] }).then(
      () => "",
      (error: Error) => error.message,
    );
  };
  const cases: readonly (readonly [string, (name: string, x: Tensor) => readonly [string, Tensor], RegExp])[] = [
    [
      "a prefix",
      (name, x) => [`module.${name}`, x],
      /does not fit the model:\n {2}all names of the file begin with "module\."\n[\s\S]*hint: give the option names: \{ "": "module" \}$/,
    ],
    [
      "layers of another name",
      (name, x) => [name.replace(/^blocks\.(\d+)\.0/, "encoder.$1.fc"), x],
      /12 layers have another name in the file, by the shapes: \{ "blocks.0.0": "encoder.0.fc", /,
    ],
    [
      "a head of another name",
      (name, x) => [name.replace(/^head/, "classifier"), x],
      /a layer has another name in the file, by the shapes: \{ "head": "classifier" \}/,
    ],
    [
      "weights as Keras keeps them",
      (name, x) => [name, x.shape.length === 2 ? x.transpose() : x],
      /2 weights are \[…, in, out\], as Keras and JAX keep them: blocks\.0\.0\.weight, head\.weight\n[\s\S]*transpose: "\*\*\.weight"/,
    ],
    [
      "nothing of it",
      (name, x) => [`${name}.x.y`, x.reshape([-1])],
      /missing: 26 variables, blocks\.\{0-11\}\.0\.\{weight,bias\}, head\.\{weight,bias\}\n {2}unexpected: 26 entries of the file have no variable here, /,
    ],
    [
      "integers for floats",
      (name, x) => [name, name === "head.bias" ? x.cast("i32") : x],
      /differs: "head.bias" is f32\[2\] here and i32\[2\] in the file\n[\s\S]*hint: save them in the dtypes of the model/,
    ],
    [
      "another width",
      (name, x) => [name, name === "head.bias" ? zeros([5]) : x],
      /differs: "head.bias" is f32\[2\] here and f32\[5\] in the file\n[\s\S]*hint: give the model the sizes/,
    ],
  ];

  test.each(cases)("%s is told", async (_name, change, message) => {
    const told = await write(change);
    expect(told).toMatch(message);
    expect(told.length).toBeLessThan(1500);
  });

  test("and the hints help", async () => {
    expect(await write((name, x) => [name, x.shape.length === 2 ? x.transpose() : x])).not.toBe("");
    const turned = await io.loadVariables(at("deep.safetensors"), deep(), { input: [1, 3], transpose: "**.weight" });
    expect(turned.params.head.weight.shape).toEqual([2, 4]);
    await io.saveTensors(at("conv.safetensors"), {
      weight: tensor(
        Float32Array.from({ length: 24 }, (_u, index) => index),
        { shape: [1, 2, 3, 4] },
      ),
      bias: zeros([4]),
    });
    const conv = await io.loadVariables(at("conv.safetensors"), nn.conv2d({ out: 4, kernel: [1, 2] }), {
      input: [1, 3, 5, 5],
      transpose: "weight",
    });
    expect([...(await conv.params.weight.data())].slice(0, 6)).toEqual([0, 12, 4, 16, 8, 20]);
  });

  const wrong: readonly (readonly [string, io.LoadVariablesOptions, RegExp])[] = [
    ["no input", {}, /^loadVariables: the shape of the input of this module is not known[\s\S]*input: \[1, 784\]/],
    [
      "a prefix of none",
      { input, names: { fc7: "x" } },
      /^loadVariables: names has "fc7", which no variable of the model is called or begins with/,
    ],
    ["another prefix than the file's", { input, names: { "": "module" } }, /hint: leave out the option names$/],
    ["no name", { input, names: (() => undefined) as never }, /^names: gives undefined for "/],
    ["a pattern of none", { input, only: "fc7" }, /^loadVariables: only: "fc7" matches none of the names/],
    ["a transpose of none", { input, transpose: "fc7" }, /^loadVariables: transpose: "fc7" matches none/],
  ];
  test.each(wrong)("%s is refused", async (_name, more, message) => {
    await expect(io.loadVariables(at("plain.pt"), net(), more)).rejects.toThrow(message);
  });
});
