/** Tensors that a model keeps in other files: where they may lie, and what stands there instead. */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { io, type Tensor, tensor } from "heddle";
import { afterAll, expect, test } from "vitest";
import type { GraphProto, TensorProto } from "../../src/adapters/onnx/messages.ts";
import { model, node, port } from "./onnx-models.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-external-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Two floats that lie elsewhere. */
const elsewhere = (name: string, fields: { readonly [key: string]: string }): TensorProto => ({
  name,
  dims: [2],
  dataType: 1,
  dataLocation: 1,
  externalData: Object.entries(fields).map(([key, value]) => ({ key, value })),
});

const added = (weight: TensorProto): Uint8Array =>
  model({ input: [port("x", 1, 2)], node: [node("Add", ["x", "w"], ["y"])], initializer: [weight] });

const inside = join(folder, "model");
mkdirSync(inside);
const eight = Float32Array.of(9, 2, 3, 4, 5, 6, 7, 8);
writeFileSync(join(inside, "w.bin"), eight);
writeFileSync(
  join(inside, "v.bin"),
  eight.map((value) => 10 * value),
);
writeFileSync(join(folder, "secret.bin"), new Uint8Array(16));
symlinkSync(join(folder, "secret.bin"), join(inside, "link.bin"));
symlinkSync("w.bin", join(inside, "own-link.bin"));

/** What the model at a path adds to zeros. */
async function valuesOf(path: string): Promise<number[]> {
  const net = await io.loadOnnx(path);
  return Array.from(await (net.run({ x: tensor([0, 0]) })["y"] as Tensor).data()) as number[];
}

function load(location: string, more: { readonly [key: string]: string } = {}): Promise<number[]> {
  writeFileSync(join(inside, "net.onnx"), added(elsewhere("w", { location, ...more })));
  return valuesOf(join(inside, "net.onnx"));
}

test.each<[{ offset?: string; length?: string }, number[]]>([
  [{ offset: "4", length: "8" }, [2, 3]],
  [{ offset: "4" }, [2, 3]],
  [{ offset: "8", length: "0" }, [3, 4]],
  [{ offset: "", length: "" }, [9, 2]],
  [{}, [9, 2]],
])("%j is read", async (fields, wanted) => {
  expect(await load("w.bin", fields)).toEqual(wanted);
  expect(await load("own-link.bin", fields)).toEqual(wanted);
});

test("nothing outside of the folder, and nothing that is no file, is read", async () => {
  for (const location of ["../secret.bin", join(folder, "secret.bin"), "link.bin", "a/../../secret.bin", "", "w\0.bin"])
    await expect(load(location)).rejects.toThrow(/not within the model's folder/);
  await expect(load("w.bin", { offset: "28", length: "8" })).rejects.toThrow(/bytes 28 to 36 of a file of 32/);
  await expect(load("w.bin", { length: "16" })).rejects.toThrow(/has 16 bytes, but float\[2\] takes 8/);
  await expect(load("w.bin", { offset: "-4" })).rejects.toThrow(/has offset "-4", which is not a number of bytes/);
  await expect(load("w.bin", { offset: "1e400" })).rejects.toThrow(/has offset "1e400"/);
  await expect(load("gone.bin")).rejects.toThrow(/cannot read .*gone\.bin: no such file/);
  writeFileSync(join(inside, "pointer.bin"), "version https://git-lfs.github.com/spec/v1\n");
  await expect(load("pointer.bin", { offset: "400" })).rejects.toThrow(
    /pointer\.bin is not .*: it is a pointer of Git LFS/,
  );
  await expect(io.loadOnnx("net\0.onnx")).rejects.toThrow(/loadOnnx: takes the path of a file, got "net\\u0000\.onnx"/);
  mkdirSync(join(inside, "sub"));
  await expect(load("sub")).rejects.toThrow(/cannot read .*sub: it is a folder/);
});

test.skipIf(process.platform === "win32")("a pipe that nobody writes to is not waited for", async () => {
  execFileSync("mkfifo", [join(inside, "pipe")]);
  await expect(load("pipe")).rejects.toThrow(/cannot read .*pipe: it is a pipe or a device/);
});

test("tensors of attributes, of graphs within and of functions, in several files", async () => {
  const constant = (name: string, location: string, offset: string) =>
    node("Constant", [], [name], [{ name: "value", t: elsewhere(name, { location, offset }), type: 4 }]);
  const branch: GraphProto = {
    node: [constant("c", "v.bin", "0"), node("Sum", ["c", "held", "a"], ["z"])],
    initializer: [elsewhere("held", { location: "w.bin", offset: "16" })],
    input: [],
    output: [{ name: "z" }],
  };
  const graph = {
    input: [port("x", 1, 2)],
    node: [
      constant("a", "w.bin", "4"),
      constant("unused", "gone.bin", "0"),
      node("ReduceSum", ["x"], ["s"], [{ name: "keepdims", i: 0, type: 2 }]),
      node("Cast", ["s"], ["no"], [{ name: "to", i: 9, type: 2 }]),
      node(
        "If",
        ["no"],
        ["z"],
        ["then_branch", "else_branch"].map((name) => ({ name, g: branch, type: 5 })),
      ),
      { ...node("Shifted", ["z"], ["y"]), domain: "own" },
    ],
  };
  const shifted = {
    name: "Shifted",
    domain: "own",
    input: ["p"],
    output: ["q"],
    node: [constant("by", "v.bin", "8"), node("Add", ["p", "by"], ["q"])],
    opsetImport: [{ version: 18 }],
    attributeProto: [],
  };
  writeFileSync(join(inside, "parts.onnx"), model(graph, 18, { functions: [shifted] }));
  // a = [2, 3], held = [5, 6], c = [90, 20], by = [30, 40].
  expect(await valuesOf(join(inside, "parts.onnx"))).toEqual([127, 69]);
});

test("a hub's cache: links into a folder of blobs, data beside the link or beside what it leads to", async () => {
  const [cache, snapshot] = [join(folder, "hub"), join(folder, "hub", "snapshots", "r", "onnx")];
  mkdirSync(join(cache, "blobs"), { recursive: true });
  mkdirSync(snapshot, { recursive: true });
  writeFileSync(join(cache, "blobs", "a1"), added(elsewhere("w", { location: "data/model.onnx_data" })));
  writeFileSync(join(cache, "blobs", "b2"), eight);
  symlinkSync("../../../blobs/a1", join(snapshot, "model.onnx"));
  mkdirSync(join(snapshot, "data"));
  const [link, path] = [join(snapshot, "data", "model.onnx_data"), join(snapshot, "model.onnx")];
  symlinkSync("../../../../blobs/b2", link);
  expect(await valuesOf(path)).toEqual([9, 2]);
  rmSync(link);
  symlinkSync(join(folder, "secret.bin"), link);
  await expect(valuesOf(path)).rejects.toThrow(/not within the model's folder/);
  rmSync(link);
  await expect(valuesOf(path)).rejects.toThrow(/no such file/);
  mkdirSync(join(cache, "blobs", "data"));
  renameSync(join(cache, "blobs", "b2"), join(cache, "blobs", "data", "model.onnx_data"));
  expect(await valuesOf(path)).toEqual([9, 2]);
});

test("offsets beyond 2^31 and 2^32", async () => {
  const path = join(inside, "sparse.bin");
  const offsets = [2 ** 31 + 8, 2 ** 32 + 16];
  writeFileSync(path, "");
  truncateSync(path, 2 ** 32 + 64);
  const file = openSync(path, "r+");
  for (const [index, offset] of offsets.entries()) writeSync(file, Float32Array.of(index + 1, 7), 0, 8, offset);
  closeSync(file);
  for (const [index, offset] of offsets.entries())
    expect(await load("sparse.bin", { offset: String(offset) })).toEqual([index + 1, 7]);
  await expect(load("sparse.bin", { offset: String(2 ** 33) })).rejects.toThrow(/of a file of 4294967360/);
  rmSync(path);
});
