/** All sums beside exact ones, at all lengths: what long-sum.test.ts has some of. */
import { describe, expect, test } from "vitest";
import { missing } from "./evaluate.ts";
import { error, longSums, values } from "./sums.ts";

describe.skipIf(missing !== undefined).each([1e4, 1e6, 1e7])("sums of %s numbers", (n) => {
  for (const kind of ["equal", "different"] as const) {
    const x = values(kind, n);
    test.each(longSums.filter(({ most }) => n <= (most ?? n)).map((sum) => [sum.title, sum] as const))(
      `${kind}: %s`,
      async (_title, sum) => {
        for (const dtype of ["f32", "bf16"] as const) expect(await error(sum, x, dtype), dtype).toBeLessThan(1);
      },
    );
  }
});
