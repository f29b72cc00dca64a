/** Files that cannot be read, or that are of another kind, by every function that reads some. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HeddleError, io, keras, nn } from "heddle";
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

test("what is no path", async () => {
  await expect(io.readNpy(undefined as never)).rejects.toThrow(/^readNpy: takes the path of a file, got undefined/);
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
