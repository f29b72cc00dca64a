/** Small cases of what users of other frameworks reported, that are no rows of an op (those are in test/ops/rows/reports.ts). */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { grad, HeddleError, jit, keras, linalg, nn, type Tensor, tensor } from "heddle";
import { afterAll, expect, test } from "vitest";
import { expectClose } from "../support/close.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-reports-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("jax-js#84: the gradient of an inverse", async () => {
  const a = tensor(
    [
      [2, 1],
      [1, 3],
    ],
    { dtype: "f64" },
  );
  const slope = grad((x: Tensor) => linalg.inverse(x).sum())(a);
  expectClose(await slope.data(), [-0.16, -0.08, -0.08, -0.04], 1e-12);
});

test("mljs/matrix#203: singular values of a wide matrix of rank 1", async () => {
  const { u, s, vt } = linalg.svd(
    tensor(
      [
        [1, 2, 3, 4],
        [2, 4, 6, 8],
      ],
      { dtype: "f64" },
    ),
  );
  expectClose(await s.data(), [Math.sqrt(150), 0], 1e-12);
  expect([u.shape, vt.shape]).toEqual([
    [2, 2],
    [2, 4],
  ]);
});

test("an item of several elements is told of the line that asks, wherever it is awaited", async () => {
  const line = (error: unknown): number => Number(/reports\.test\.ts:(\d+)/.exec((error as Error).message)?.[1]);
  const here = line(new HeddleError("internal", "here"));
  const asked = tensor([1, 2]).item();
  const told = await asked.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(line(told)).toBe(here + 1);
});

test("tfjs#897: a compiled function gives the same answer twice", async () => {
  const double = jit((x: Tensor) => x.mul(2));
  const x = tensor([1, 2]);
  expect([await double(x).data(), await double(x).data()].map((y) => [...y])).toEqual([
    [2, 4],
    [2, 4],
  ]);
});

test("tfjs#7865: a model without weights is saved and read", async () => {
  const made = () => keras.model(nn.sequential(nn.flatten()), { seed: 0 });
  const x = tensor([
    [
      [1, 2],
      [3, 4],
    ],
  ]);
  const first = made();
  expect([...(await (await first.predict(x)).data())]).toEqual([1, 2, 3, 4]);
  await first.saveWeights(join(folder, "none.safetensors"));
  const second = made();
  await second.loadWeights(join(folder, "none.safetensors"));
  expect([...(await (await second.predict(x)).data())]).toEqual([1, 2, 3, 4]);
});
