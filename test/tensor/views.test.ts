import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import {
  concat,
  distribute,
  expandDims,
  jit,
  moveDim,
  split,
  squeeze,
  type Tensor,
} from "../../src/functions/index.ts";
import { type DType, dtypes } from "../../src/ir/dtype.ts";
import { type Shape, sizeOf } from "../../src/ir/shape.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import { memory } from "../../src/runtime/registry.ts";
import { HeddleError } from "../../src/util/errors.ts";

/** Expressions of views, of x f32[4,6,5]. */
const rows: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  "a transposition": (x) => x.transpose(),
  "some dims in another order": (x) => x.transpose([0, 2, 1]),
  "a transposition of a transposition": (x) => x.transpose([1, 2, 0]).transpose([2, 0, 1]),
  "two that cancel": (x) => x.transpose([1, 2, 0]).transpose([2, 0, 1]).add(1),
  "a reshape": (x) => x.reshape([6, -1]),
  "a reshape of a transposition": (x) => x.transpose().reshape([10, 12]),
  "a transposition of a reshape": (x) => x.reshape([24, 5]).transpose(),
  rows: (x) => x.slice([1, 0, 0], [3, 6, 5]),
  "a part of a row": (x) => x.slice([3, 2, 0], [4, 5, 5]),
  "rows of rows": (x) => x.slice([1, 0, 0], [4, 6, 5]).slice([1, 0, 0], [2, 6, 5]),
  columns: (x) => x.slice([0, 0, 1], [4, 6, 3]),
  "every other row": (x) => x.slice([0, 0, 0], [4, 6, 5], [2, 1, 1]),
  "the first row of a transposition": (x) => x.transpose().slice([0, 0, 0], [1, 6, 4]),
  "rows, transposed": (x) => x.slice([1, 0, 0], [3, 6, 5]).transpose([2, 1, 0]),
  nothing: (x) => x.slice([4, 0, 0], [4, 6, 5]),
  "a part of nothing": (x) => x.slice([4, 0, 0], [4, 6, 5]).slice([0, 1, 2], [0, 3, 5]),
  "nothing, transposed": (x) => x.slice([4, 0, 0], [4, 6, 5]).transpose(),
  flat: (x) => x.reshape([-1]),
  "dims of one element": (x) => squeeze(expandDims(x, 1).transpose([1, 0, 2, 3])),
  "a moved dim": (x) => moveDim(x, 0, 2),
  "parts, joined again": (x) => concat(split(x, 2, 0).reverse(), 0),
  "the same dtype": (x) => x.cast("f32"),
  "a product": (x) =>
    x
      .reshape([24, 5])
      .transpose()
      .matmul(x.reshape([24, 5])),
  "a sum": (x) => x.transpose().sum(0),
  "two views": (x) => x.transpose().mul(x.transpose().slice([0, 0, 0], [1, 6, 4])),
  "a softmax": (x) => x.transpose([2, 0, 1]).softmax(),
  "16 bits": (x) => x.cast("bf16").slice([1, 0, 0], [2, 6, 5]).transpose(),
  "bytes from an odd place": (x) => x.gt(0).reshape([120]).slice([7], [40]).not(),
  integers: (x) => x.cast("i64").reshape([120]).slice([7], [40]).neg(),
};

const numbers = (shape: Shape, dtype: DType = "f32") =>
  dtypes[dtype].create(Array.from({ length: sizeOf(shape) }, (_unused, at) => Math.round(50 * Math.sin(at))));

const take = (x: Tensor, row: number): Tensor => x.slice([row, 0], [row + 1, 4]);

describe.each(["reference", "native"] as const)("%s", (executor) => {
  const unavailable = executor === "native" && "error" in loadNative();
  const run = async (body: (make: (shape: Shape) => Tensor, runtime: Runtime) => Promise<void>): Promise<void> => {
    const runtime = localRuntime({ executor });
    try {
      await body((shape) => distribute(runtime, numbers(shape), { shape, dtype: "f32" }, []), runtime);
    } finally {
      runtime.close();
    }
  };

  test.skipIf(unavailable).each(Object.entries(rows))("eager gives what jit gives: %s", (_name, row) =>
    run(async (make) => {
      const x = make([4, 6, 5]);
      const [eager, compiled] = [row(x), jit(row)(x)];
      expect(eager.shape).toEqual(compiled.shape);
      expect(eager.dtype).toBe(compiled.dtype);
      expect(await eager.array()).toEqual(await compiled.array());
    }),
  );

  test.skipIf(unavailable)("rows and other shapes take no memory, and no program", () =>
    run(async (make) => {
      const x = make([1000, 4]);
      const before = memory().liveBuffers;
      const views = Array.from({ length: 1000 }, (_unused, row) => take(x, row).reshape([2, 2]));
      // Fewer, when the collector has run.
      expect(memory().liveBuffers).toBeLessThanOrEqual(before);
      expect(await views[999]?.array()).toEqual(await take(x, 999).reshape([2, 2]).array());
    }),
  );

  test.skipIf(unavailable)("a view outlives its operand, and the operand its views", () =>
    run(async (make) => {
      const x = make([3, 4]);
      const [whole, row, other] = [await x.array(), take(x, 1), take(x, 2)];
      const turned = x.transpose();
      x.dispose();
      other.dispose();
      expect(() => x.add(1)).toThrow("disposed");
      expect(() => other.add(1)).toThrow("disposed");
      expect(await row.array()).toEqual([(whole as number[][])[1]]);
      expect(await turned.transpose().array()).toEqual(whole);
      turned.dispose();
      expect(() => turned.data()).toThrow("disposed");
    }),
  );

  test.skipIf(unavailable)("what is donated is not seen by views, nor views by it", () =>
    run(async (make) => {
      const x = make([3, 4]);
      const whole = await x.array();
      const step = jit((w: Tensor) => w.mul(0).abs(), { donate: [0] });
      const [turned, row, flat] = [x.transpose(), take(x, 1), x.reshape([12])];
      expect(await step(flat).array()).toEqual(Array(12).fill(0));
      expect(await step(x).array()).toEqual(Array(3).fill([0, 0, 0, 0]));
      expect(() => x.data()).toThrow("donated");
      expect(await step(row).array()).toEqual([[0, 0, 0, 0]]);
      expect(await turned.transpose().array()).toEqual(whole);
      expect(await step(turned).array()).toEqual(Array(4).fill([0, 0, 0]));
    }),
  );

  test.skipIf(unavailable)("an argument and a view of it, donated in one call", () =>
    run(async (make) => {
      const x = make([3, 4]);
      const sum = await x.add(x.reshape([3, 4])).array();
      const step = jit((w: Tensor, v: Tensor) => w.add(v.reshape([3, 4])), { donate: [0] });
      expect(await step(x, x.reshape([4, 3])).array()).toEqual(sum);
    }),
  );

  test.skipIf(unavailable)("a transposition that is read again and again", () =>
    run(async (make) => {
      const x = make([3, 4]);
      const turned = x.transpose();
      const first = await turned.matmul(x).array();
      for (let count = 0; count < 12; count++) expect(await turned.matmul(x).array()).toEqual(first);
    }),
  );

  test.skipIf(unavailable)("views of what a queued run makes", () =>
    run(async (make) => {
      const x = make([512, 512]);
      const y = x.matmul(x);
      const [row, turned] = [y.slice([7, 0], [8, 512]), y.transpose()];
      const [reads, late] = [row.data(), turned.slice([0, 7], [512, 8]).reshape([1, 512])];
      row.dispose();
      expect(await late.data()).toEqual(await reads);
      expect(late.dataSync()).toEqual((await y.data()).subarray(7 * 512, 8 * 512));
    }),
  );

  test.skipIf(unavailable)("views of what a run could not make tell its error", () =>
    run(async (make) => {
      // Long enough to be queued.
      const zeros = make([2 ** 21])
        .cast("i32")
        .mul(0);
      let caught: unknown;
      try {
        await zeros
          .div(zeros)
          .reshape([2 ** 20, 2])
          .transpose()
          .slice([0, 0], [1, 4])
          .data();
      } catch (error) {
        caught = error;
      }
      expect(caught).toBeInstanceOf(HeddleError);
      expect((caught as HeddleError).message).toContain("div: integer division by zero");
      expect((caught as HeddleError).where).toMatch(/views\.test\.ts:\d+:\d+$/);
    }),
  );

  test.skipIf(unavailable)("shapes that do not fit are told at the call", () =>
    run(async (make) => {
      const x = make([3, 4]);
      expect(() => x.reshape([5])).toThrow("reshape: f32[3,4] has 12 elements");
      expect(() => x.transpose([0, 0])).toThrow("is not an order");
      expect(() => x.slice([0, 0], [4, 4])).toThrow("slice: ");
      expect(() => x.transpose().matmul(x.transpose())).toThrow("matmul: ");
    }),
  );
});
