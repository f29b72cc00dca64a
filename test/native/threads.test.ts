/** Many who compute at once: requests of one thread, threads of one process, two copies of the package. */
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import type * as Heddle from "heddle";
import { jit, type Tensor, tensor } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { missing } from "./evaluate.ts";
import { trained } from "./threads-work.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe.skipIf(missing !== undefined)("who computes at once", () => {
  test("200 requests that are awaited together get each its own answer", async () => {
    const score = jit((x: Tensor) => x.mul(2).exp().sum());
    const request = async (value: number): Promise<number> => {
      const eager = tensor([value, 1]).mul(3).sum();
      const compiled = score(tensor([value / 100, 0]));
      return (await eager.item()) + (await compiled.item());
    };
    const answers = await Promise.all(Array.from({ length: 200 }, (_unused, value) => request(value)));
    answers.forEach((answer, value) => {
      expect(answer).toBeCloseTo(3 * value + 3 + Math.exp(value / 50) + 1, 3);
    });
  });

  test("three threads train beside this one, to the same bits", async () => {
    // Threads take no loader from the command line on all Nodes that are supported.
    const work = new URL("threads-work.ts", import.meta.url).href;
    const script = `
      const { parentPort } = require("node:worker_threads");
      import("tsx/esm/api")
        .then(({ register }) => register())
        .then(() => import(${JSON.stringify(work)}))
        .then(({ trained }) => trained())
        .then((weights) => parentPort.postMessage(weights));`;
    const answers = Array.from({ length: 3 }, async () => {
      const worker = new Worker(script, { eval: true });
      const [weights] = (await once(worker, "message")) as [number[]];
      await worker.terminate();
      return weights;
    });
    const own = await trained();
    for (const weights of await Promise.all(answers)) expect(weights).toEqual(own);
  }, 120_000);
});

describe("two copies of the package", () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-copy-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  test("both compute; a tensor of the other is refused by name", async () => {
    const filter = (path: string): boolean => !path.endsWith(".d.ts");
    for (const name of ["dist", "package.json"])
      cpSync(join(root, name), join(folder, name), { recursive: true, filter });
    for (const name of ["node_modules", "native"]) symlinkSync(join(root, name), join(folder, name));
    const load = (path: string): Promise<typeof Heddle> =>
      import(/* @vite-ignore */ pathToFileURL(join(path, "dist", "index.js")).href) as Promise<typeof Heddle>;
    const [first, second] = await Promise.all([load(root), load(folder)]);
    expect(first.Tensor).not.toBe(second.Tensor);
    const values = await Promise.all(
      [first, second].map((copy) =>
        copy
          .grad((x: Tensor) => x.pow(2).sum())(copy.tensor([1, 2]))
          .data(),
      ),
    );
    expect(values.map((list) => [...list])).toEqual([
      [2, 4],
      [2, 4],
    ]);
    // In turns, as the copies share the native core.
    const scaled = (copy: typeof Heddle, x: Heddle.Tensor, scale: number): Heddle.Tensor =>
      copy.mul(copy.add(x, 1), scale);
    let [left, right] = [first.tensor([1, 2]), second.tensor([3])];
    for (let turn = 0; turn < 3; turn++) [left, right] = [scaled(first, left, 2), scaled(second, right, 10)];
    expect([...left.dataSync(), ...right.dataSync()]).toEqual([22, 30, 4110]);
    expect(() => first.add(first.tensor([1]), second.tensor([2]))).toThrow(
      "add: operand 1 is a tensor of another copy of Heddle",
    );
  });
});
