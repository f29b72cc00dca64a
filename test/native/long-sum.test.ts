/** 10^8 equal numbers, where one running sum of f32 stops growing at 2^24 of them. */
import { jit, type Tensor, tensor } from "heddle";
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
