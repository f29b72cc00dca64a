/** 10^8 equal numbers, where one running sum of f32 stops growing at 2^24 of them. */
import { jit, segmentSum, type Tensor, take, tensor, vjp, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { missing } from "./evaluate.ts";

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
      // Lanes of equal parts, added pairwise: about log2(10^8) roundings after those of a lane.
      expect(Math.abs(relative)).toBeLessThan(1e-5);
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
