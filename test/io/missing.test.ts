/** Files that cannot be read, or that are of another kind, by every function that reads some. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HeddleError, io, jit, keras, nn, type Tensor, tensor, zeros } from "heddle";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "heddle-missing-"));
afterAll(() => rmSync(folder, { recursive: true }));
const caffe = fileURLToPath(new URL("../../examples/caffe/", import.meta.url));
const variables = { params: {}, state: {} };

const readers: { readonly [name: string]: (path: string) => Promise<unknown> } = {
  readNpy: (path) => io.readNpy(path),
  readNpz: (path) => io.readNpz(path),
  readSafetensors: (path) => io.readSafetensors(path),
  openSafetensors: (path) => io.openSafetensors(path),
  loadTensors: (path) => io.loadTensors(path),
  loadPyTorch: (path) => io.loadPyTorch(path, variables),
  loadVariables: (path) => io.loadVariables(path, variables),
  loadModel: (path) => io.loadModel(path),
  "loadModel: of keras": (path) => keras.loadModel(path),
  loadOnnx: (path) => io.loadOnnx(path),
  loadCaffe: (path) => io.loadCaffe(path),
  "loadCaffe: the network": (net) => io.loadCaffe(`${caffe}lenet_solver.prototxt`, { net }),
  loadWeights: (path) => keras.model(nn.linear(1)).loadWeights(path),
};

const wrong: readonly (readonly [what: string, path: string, said: string])[] = [
  ["no file", join(folder, "none"), "no such file"],
  ["a folder", folder, "it is a folder"],
  ["a file in a file", join(fileURLToPath(import.meta.url), "none"), "a part of its path is a file"],
];

const rows = Object.entries(readers).flatMap(([name, read]) =>
  wrong.map(([what, path, said]) => [`${name}: ${what}`, name.split(":")[0] as string, read, path, said] as const),
);

test.each(rows)("%s", async (_title, name, read, path, said) => {
  const error = await read(path).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(HeddleError);
  expect(error).toMatchObject({ code: "file", plain: `${name}: cannot read ${path}: ${said}` });
});

const x = tensor([1]);
const writers: { readonly [name: string]: (path: string) => Promise<unknown> } = {
  writeNpy: (path) => io.writeNpy(path, x),
  writeNpz: (path) => io.writeNpz(path, { x }),
  saveSafetensors: (path) =>
    io.saveSafetensors(path, new Map([["x", { dtype: "f32", shape: [1], data: Float32Array.of(1) }]])),
  saveTensors: (path) => io.saveTensors(path, { x }),
  saveOnnx: (path) => io.saveOnnx(path, ({ x }: { x: Tensor }) => ({ y: x.add(1) }), { x }),
  saveWeights: async (path) => {
    const model = keras.model(nn.linear(1));
    model.compile({ optimizer: "sgd", loss: "mse" });
    await model.predict(zeros([1, 1]));
    await model.saveWeights(path);
  },
};

test.each(Object.entries(writers))("%s to where there is no file", async (name, write) => {
  const before = readdirSync(folder);
  for (const [path, said] of [
    [folder, "it is a folder"],
    [join(fileURLToPath(import.meta.url), "none"), "a part of its path is a file"],
    [join(fileURLToPath(import.meta.url), "none", "none"), "a part of its path is a file"],
    // Node's recursive mkdir never returns here.
    ...(process.platform === "linux" ? [["/proc/none/x", "no folder can be made there"] as const] : []),
  ] as const) {
    const error = await write(path).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(HeddleError);
    expect(error).toMatchObject({ code: "file", plain: `${name}: cannot write ${path}: ${said}` });
  }
  expect(readdirSync(folder)).toEqual(before);
});

test.each(Object.entries({ ...readers, ...writers }))("%s without a path", async (title, use) => {
  const name = title.split(":")[0];
  await expect(use("")).rejects.toThrow(`${name}: takes the path of a file, got ""`);
  // A network may be left out: the solver names one.
  if (title === name)
    await expect(use(undefined as never)).rejects.toThrow(`${name}: takes the path of a file, got undefined`);
});

test("a tree that contains itself", async () => {
  const tree: { [key: string]: unknown } = { x };
  tree["list"] = [{ tree }];
  await expect(io.saveTensors(join(folder, "x"), tree as never)).rejects.toThrow(
    /^saveTensors: "list.0.tree" contains itself[\s\S]*missing\.test\.ts/,
  );
  expect(() => jit((given: { x: Tensor }) => given.x)(tree as never)).toThrow(/"0.list.0.tree" contains itself/);
  // The same tree in two places has an end.
  expect(jit((given: { a: { x: Tensor }; b: { x: Tensor } }) => given.a.x)({ a: { x }, b: { x } }).shape).toEqual([1]);
});

test("a network in the place of a solver, and the other way round", async () => {
  const [solver, net] = [`${caffe}lenet_solver.prototxt`, `${caffe}lenet_train_test.prototxt`];
  await expect(io.loadCaffe(net)).rejects.toThrow(
    /lenet_train_test.*: this is a network, not a solver\n[\s\S]*the solver/,
  );
  await expect(io.loadCaffe(solver, { net: solver })).rejects.toThrow(/: this is a solver, not a network\n[\s\S]*net/);
  // A solver that lacks a field is one all the same.
  writeFileSync(join(folder, "solver.prototxt"), "base_lr: 0.1\n");
  await expect(io.loadCaffe(join(folder, "solver.prototxt"))).rejects.toThrow(/needs the field max_iter/);
});
