/** 10^8 equal numbers, where one running sum of f32 stops growing at 2^24 of them. */
import { jit, segmentSum, type Tensor, take, tensor, vjp, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { missing } from "./evaluate.ts";
import { error, longSums, values } from "./sums.ts";

const count = 1e8;

describe.skipIf(missing !== undefined)("the sum of 10^8 equal numbers", () => {
  test.each([1, 0.1, 3e30])("of %s in f32", async (value) => {
    const all = tensor(value).broadcastTo([count]);
    const whole = jit((x: Tensor) => x.sum());
    for (const sum of [
      all.sum(),
      whole(all),
      all
        .reshape([10, count / 10])
        .sum(1)
        .sum(),
    ]) {
      const relative = ((await sum.data())[0] as number) / (Math.fround(value) * count) - 1;
      // Runs in lanes of equal parts, joined to totals that keep what is lost.
      expect(Math.abs(relative)).toBeLessThan(1e-6);
    }
  });
});

describe.skipIf(missing !== undefined)("more than 2^24 equal numbers by index", () => {
  const many = 2 ** 24 + 2 ** 20 + 6;
  const ones = tensor(1).broadcastTo([many]);
  const evenly = tensor(0, { dtype: "i32" }).broadcastTo([many]);

  test("segmentSum", async () => {
    expect([...(await segmentSum(ones, evenly, 3).data())]).toEqual([many, 0, 0]);
  });

  test("the gradient of a lookup", async () => {
    const { pullback } = vjp((table: Tensor) => take(table, evenly), zeros([2]));
    expect([...(await pullback(ones)[0].data())]).toEqual([many, 0]);
  });
});

describe.skipIf(missing !== undefined).each(["f32", "bf16"] as const)("sums in %s beside exact ones", (dtype) => {
  test.each(longSums.map((sum) => [sum.title, sum] as const))("%s", async (_title, sum) => {
    expect(await error(sum, values("equal", 1e5), dtype)).toBeLessThan(1);
  });
});

describe.skipIf(missing !== undefined)("the sum of 10^7 equal numbers", () => {
  test.each(["all elements", "columns", "dot of vectors"])("%s", async (title) => {
    for (const sum of longSums.filter((one) => one.title === title))
      expect(await error(sum, values("equal", 1e7), "f32")).toBeLessThan(1);
  });
});
