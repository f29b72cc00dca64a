import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { io, nn, random, tanh, tensor, zeros } from "heddle";
import { afterAll, expect, test } from "vitest";

const path = fileURLToPath(new URL("../../examples/from-pytorch/net.safetensors", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "heddle-state-dict-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const net = (out = 4) =>
  nn.sequential(
    nn.conv2d({ out, kernel: 3, padding: 1 }),
    nn.relu(),
    nn.maxPool2d(2),
    nn.conv2d({ out: 8, kernel: 3, strides: 2 }),
    tanh,
    nn.flatten(),
    nn.linear(10),
  );
const names = { "0": "conv1", "3": "conv2", "6": "fc" };
const ignore = (name: string): boolean => name.startsWith("example.");
const fresh = (model = net()) => model.init(random.key(0), { shape: [2, 1, 14, 14], dtype: "f32" });

test("a PyTorch model gives PyTorch's outputs", async () => {
  const variables = await io.loadPyTorch(path, fresh(), { names, ignore });
  const examples = await io.loadTensors(path);
  const { y } = net().apply(variables, examples["example.images"] as never);
  const wanted = await (examples["example.logits"] as NonNullable<(typeof examples)[string]>).data();
  const got = await y.data();
  expect(Math.max(...got.map((value, index) => Math.abs(value - (wanted[index] as number))))).toBeLessThan(1e-5);
  // Names by a function are the same.
  const again = await io.loadPyTorch(path, fresh(), {
    names: (name) => name.replace(/^\d/, (digit) => names[digit as keyof typeof names]),
    ignore,
  });
  expect(
    await net()
      .apply(again, examples["example.images"] as never)
      .y.data(),
  ).toEqual(got);
});

test("integers of another width are taken where they fit: counters of PyTorch are i64", async () => {
  const layer = nn.batchNorm();
  const variables = layer.init(random.key(0), { shape: [2, 2], dtype: "f32" });
  const file = join(folder, "counter.safetensors");
  const save = (count: bigint) =>
    io.saveTensors(file, {
      weight: tensor([1, 2]),
      bias: tensor([3, 4]),
      running_mean: tensor([5, 6]),
      running_var: tensor([7, 8]),
      num_batches_tracked: tensor(count, { dtype: "i64" }),
    });
  await save(12n);
  const loaded = await io.loadPyTorch(file, variables);
  // (x - mean) / sqrt(variance + 1e-5) * weight + bias.
  expect(await layer.apply(loaded, tensor([[5, 6]])).y.array()).toEqual([[3, 4]]);
  expect([loaded.state["num_batches_tracked"]].map(String)).toEqual([String(tensor(12, { dtype: "i32" }))]);
  await save(2n ** 31n);
  await expect(io.loadPyTorch(file, variables)).rejects.toThrow(
    /"num_batches_tracked" holds 2147483648, no value of i32/,
  );
});

test("everything that does not fit is named", async () => {
  const load = (model: ReturnType<typeof net>, options: Parameters<typeof io.loadPyTorch>[2]) =>
    io.loadPyTorch(path, fresh(model), options).then(
      () => "",
      (error: Error) => error.message,
    );
  const message = await load(net(5), { names: { "0": "conv1", "3": "conv2" } });
  expect(message).toContain(
    'differs: "0.weight" (as "conv1.weight") is f32[5,1,3,3] here and f32[4,1,3,3] in the file',
  );
  expect(message).toContain('differs: "0.bias" (as "conv1.bias") is f32[5] here and f32[4] in the file');
  expect(message).toContain('missing: "6.weight", f32[10,72]');
  expect(message).toContain('unexpected: "fc.bias" of the file has no variable here');
  expect(message).toContain('unexpected: "example.images"');
  expect(await load(net(), { names: { ...names, "3": "conv1" }, ignore })).toContain(
    '"3.weight" and "0.weight" are both "conv1.weight" of the file',
  );
});

test("tensors of a tree come back by name, tensor by tensor", async () => {
  const file = join(folder, "tree.safetensors");
  await io.saveTensors(file, { a: { weight: tensor([[1, 2]]) }, b: tensor([true]) }, { metadata: { made: "here" } });
  const opened = await io.openSafetensors(file);
  expect([...opened.entries.keys()].sort()).toEqual(["a.weight", "b"]);
  expect(opened.metadata.get("made")).toBe("here");
  expect(Array.from((await opened.read("a.weight")).data)).toEqual([1, 2]);
  const written = (tree: unknown) => io.saveTensors(join(folder, "nothing.safetensors"), tree as never);
  await expect(written(3)).rejects.toThrow(/^saveTensors: takes a tree of tensors after the path, got 3\n/);
  await expect(written({ a: [tensor(1), 3] })).rejects.toThrow(/got 3 at 'a\.1'[\s\S]*hint: make tensors of numbers/);
  await expect(written({ a: new Map() })).rejects.toMatchObject({ code: "argument" });
  await expect(io.writeNpz(join(folder, "nothing.npz"), 3 as never)).rejects.toThrow(
    /^writeNpz: takes a record .*got 3/,
  );
  expect(readdirSync(folder).filter((name) => name.startsWith("nothing"))).toEqual([]);
  await expect(opened.read("c")).rejects.toThrow(/has no tensor "c"/);
  await opened.close();
  const loaded = await io.loadTensors(file);
  expect([loaded["b"]?.dtype, loaded["a.weight"]?.shape]).toEqual(["bool", [1, 2]]);
  // Cut after it was opened.
  const cut = join(folder, "cut.safetensors");
  copyFileSync(path, cut);
  const open = await io.openSafetensors(cut);
  truncateSync(cut, 2000);
  await expect(open.read("fc.weight")).rejects.toThrow(/became shorter/);
  await open.close();
  await expect(io.openSafetensors(cut)).rejects.toThrow(/not a valid safetensors file/);
});

test("variables are saved as init gives them, whatever their type: the type of the output is no tensor of theirs", async () => {
  const file = join(folder, "variables.safetensors");
  const model = nn.module({ body: nn.linear(4) }, (layers, x) => layers.body(x));
  await io.saveTensors(file, model.init(random.key(0), { shape: [1, 8], dtype: "f32" }));
  expect(Object.keys(await io.loadTensors(file)).sort()).toEqual(["params.body.bias", "params.body.weight"]);
});

test("a changed byte of a tensor is an error that names the tensor, in whole files, parts and memory; a changed header, too", async () => {
  const file = join(folder, "flipped.safetensors");
  await io.saveTensors(file, { a: tensor([1, 2]), b: tensor([3]), empty: zeros([0]) }, { metadata: { made: "here" } });
  const whole = readFileSync(file);
  const { entries, verified, close } = await io.openSafetensors(file);
  await close();
  expect(verified).toBe(true);
  for (let at = 0; at < whole.length; at++) {
    const changed = Buffer.from(whole);
    changed.writeUInt8(changed.readUInt8(at) ^ (1 << (at % 8)), at);
    writeFileSync(file, changed);
    const name = [...entries].find(([, { offset, bytes }]) => at >= offset && at < offset + bytes)?.[0];
    const text = name === undefined ? /./ : new RegExp(`tensor "${name}" does not match its SHA-256`);
    await expect(io.loadTensors(file), `byte ${at}`).rejects.toThrow(text);
    expect(() => io.decodeSafetensors(changed, "memory"), `byte ${at}`).toThrow(text);
    // What is not read is not verified.
    if (name === "b")
      expect(Object.keys(await io.loadTensors(file, { only: (other) => other === "a" }))).toEqual(["a"]);
  }
  // Metadata that were read, digests and all, are no obstacle to other tensors.
  writeFileSync(file, whole);
  const { metadata } = await io.readSafetensors(file);
  await io.saveTensors(file, { a: tensor([4]) }, { metadata: Object.fromEntries(metadata) });
  expect((await io.readSafetensors(file)).metadata).toEqual(new Map([["made", "here"]]));
});
