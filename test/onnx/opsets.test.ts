/** Every op of the table in every opset at which its signature changed, by models of one node and what ONNX Runtime makes of them. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { io } from "heddle";
import { afterAll, expect, test } from "vitest";
import { newestOpset, oldestOpset, onnxOps } from "../../src/adapters/onnx/ops.ts";
import { isFloat } from "../../src/ir/dtype.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-opsets-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Other numbers in each run, or in each library. */
const drawing = /^(Bernoulli|Multinomial|Random.*)$/;
const ops = onnxOps.filter((op) => !drawing.test(op));
const script = fileURLToPath(new URL("opsets.py", import.meta.url));
const { status, stderr } = spawnSync(
  process.env["HEDDLE_ONNX_PYTHON"] as string,
  [script, root, String(oldestOpset), String(newestOpset), ...ops],
  { encoding: "utf8" },
);
const names = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
const ofOp = new Map(
  ops.map((op) => [op, names.filter(({ name }) => name.startsWith(`${op}-`)).map(({ name }) => name)]),
);

/** What differs between Heddle's results and the runtime's in a folder; undefined where nothing does. */
async function differenceIn(folder: string): Promise<string | undefined> {
  const [inputs, wanted] = await Promise.all(
    ["inputs.npz", "outputs.npz"].map((name) => io.readNpz(join(folder, name))),
  );
  const model = await io.loadOnnx(join(folder, "model.onnx"));
  const tensors = Object.entries(inputs ?? {}).map(([name, host]) => [name, io.toTensor(host)]);
  const made = model.apply(Object.fromEntries(tensors));
  for (const [name, host] of Object.entries(wanted ?? {})) {
    const got = made[name];
    if (got?.dtype !== host.dtype || got.shape.join() !== host.shape.join())
      return `${name} is ${got?.dtype}[${got?.shape}], not ${host.dtype}[${host.shape}]`;
    const values = await got.data();
    const near = isFloat(host.dtype) ? 1e-4 : 0;
    const place = Array.from(host.data as ArrayLike<number>, Number).findIndex((value, index) => {
      const own = Number(values[index]);
      return !(Object.is(own, value) || Math.abs(own - value) <= near * (1 + Math.abs(value)));
    });
    if (place >= 0) return `${name}[${place}] is ${values[place]}, not ${host.data[place]}`;
  }
  return undefined;
}

test.each([...ofOp])("%s", async (_op, folders) => {
  const found: string[] = [];
  for (const name of folders) {
    const difference = await differenceIn(join(root, name)).catch((error: Error) => error.message.split("\n")[0]);
    if (difference !== undefined) found.push(`${name}: ${difference}`);
  }
  expect(found).toEqual([]);
});

test("what there is no result of", () => {
  expect([status, stderr]).toEqual([0, ""]);
  const skipped = JSON.parse(readFileSync(join(root, "skipped.json"), "utf8")) as object;
  // A Scan of opset 8 has a batch of its own, which is refused by name; of the others ONNX Runtime has no kernels.
  const without = ["DequantizeLinear-28-0", "QuantizeLinear-28-0", "RoiAlign-22-0", "RoiAlign-28-0", "Scan-8-0"];
  expect(Object.keys(skipped)).toEqual([...without, "SwiGLU-28-0", "Swish-28-0"]);
});
