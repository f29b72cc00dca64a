/** Values that an op refuses while a program runs: every executor names the user's function and line, not what it is made of. */
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import {
  distribute,
  gatherNd,
  grad,
  jit,
  linalg,
  random,
  remat,
  scan,
  scatterNd,
  segmentSum,
  type Tensor,
  take,
  takeAlongDim,
  tensor,
  vmap,
  whileLoop,
} from "../../src/functions/index.ts";
import { losses, metrics, nn } from "../../src/index.ts";
import { type DType, dtypes } from "../../src/ir/dtype.ts";
import { sizeOf } from "../../src/ir/shape.ts";
import { shard } from "../../src/plan/index.ts";
import { HeddleError } from "../../src/util/errors.ts";

type Make = (values: readonly number[], shape?: readonly number[], dtype?: DType) => Tensor;

/** Line of the call below the one that noted it. */
let line = 0;
function below(): void {
  line = Number(/refusals\.test\.ts:(\d+)/.exec(new Error().stack?.split("\n")[2] ?? "")?.[1]) + 1;
}

const zeros = (count: number): number[] => new Array<number>(count).fill(0);
const ids = (make: Make, ...list: number[]): Tensor => make(list, [list.length], "i32");
const square = (make: Make, ...list: number[]): Tensor => make(list, [2, 2]);
const looked = (table: Tensor, rows: Tensor): Tensor => {
  below();
  return take(table, rows).mul(2).sum();
};
const summed = (table: Tensor, rows: Tensor): Tensor =>
  scan(
    (sum: Tensor, row: Tensor): [Tensor, Tensor] => {
      below();
      const next = sum.add(take(table, row.reshape([1])).sum());
      return [next, next];
    },
    table.sum(),
    rows,
  )[0];
const counted = (x: Tensor): Tensor => {
  const grown = (y: Tensor): Tensor => y.add(1);
  below();
  return whileLoop((y: Tensor) => y.sum().lt(9), grown, x, { maxIterations: 4 });
};
const model = (): nn.Layer => {
  below();
  const table = nn.embedding(4, 2);
  return nn.sequential(nn.sequential(table, nn.flatten()), nn.linear(3));
};
const asked = (make: Make, made: nn.Layer): readonly [(params: never, x: Tensor) => Tensor, never, Tensor] => {
  const { params, state } = made.init(random.key(0), { shape: [1, 3], dtype: "i32" });
  const own = (params as unknown as { weight: Tensor }[][])[0]?.[0]?.weight as Tensor;
  expect(own.shape).toEqual([4, 2]);
  return [
    (given, x) => made.apply({ params: given, state }, x).y.sum(),
    params as never,
    make([1, 2, 9], [1, 3], "i32"),
  ];
};

const outside = (index: number, position: number, size: number, iteration?: number): string =>
  beyond(index, position, size, iteration, 0);
/** Of a lookup by position, which counts from the end where it is negative. */
const beyond = (index: number, position: number, size: number, iteration?: number, least = -size): string =>
  `${iteration === undefined ? "" : `iteration ${iteration}: `}index ${index} at position ${position} is outside [${least}, ${size})`;
const label = "softmaxCrossEntropy: label 5 at row 1 is outside [0, 2)";
const bound = /^whileLoop 'grown' ran past maxIterations 4: /;

const rows: readonly (readonly [what: string, run: (make: Make) => Tensor, said: string | RegExp])[] = [
  ["an op by itself", (make) => looked(make([1, 2, 3]), ids(make, 0, 3)), `take: ${beyond(3, 1, 3)}`],
  ["under jit", (make) => jit(looked)(make([1, 2, 3]), ids(make, 0, 3)), `take: ${beyond(3, 1, 3)}`],
  ["under grad", (make) => grad(looked)(make([1, 2, 3]), ids(make, -4)), `take: ${beyond(-4, 0, 3)}`],
  [
    "under vmap in jit",
    (make) => {
      const each = (table: Tensor, rows: Tensor): Tensor => vmap((row: Tensor) => looked(table, row))(rows);
      return jit(each)(make([1, 2, 3]), make([0, 1, 2, 7], [2, 2], "i32"));
    },
    `take: ${beyond(7, 3, 3)}`,
  ],
  [
    "what is made of a gather",
    (make) =>
      jit((x: Tensor, rows: Tensor) => {
        below();
        return takeAlongDim(x, rows, 0).add(1);
      })(make([1, 2, 3]), ids(make, 4)),
    `takeAlongDim: ${beyond(4, 0, 3)}`,
  ],
  [
    "a segment that is not there",
    (make) =>
      jit((x: Tensor, rows: Tensor) => {
        below();
        return segmentSum(x, rows, 2);
      })(make([1, 2]), ids(make, 0, 2)),
    `segmentSum: ${outside(2, 1, 2)}`,
  ],
  ["in a loop", (make) => summed(make([1, 2]), ids(make, 0, 1, 2)), `take: ${beyond(2, 0, 2, 2)}`],
  ["in a loop under jit", (make) => jit(summed)(make([1, 2]), ids(make, 0, 5)), `take: ${beyond(5, 0, 2, 1)}`],
  ["in the gradient of a loop", (make) => grad(summed)(make([1, 2]), ids(make, 5)), `take: ${beyond(5, 0, 2, 0)}`],
  ["a loop that does not end", (make) => counted(make([0])), bound],
  ["a loop under jit", (make) => jit(counted)(make([0])), bound],
  ["a loop under grad", (make) => grad((x: Tensor) => counted(x).sum())(make([0])), bound],
  [
    "a matrix that is not positive definite",
    (make) =>
      jit((x: Tensor) => {
        below();
        return linalg.cholesky(x).sum();
      })(square(make, 1, 2, 2, 1)),
    "cholesky: the matrix is not positive definite",
  ],
  [
    "a singular matrix",
    (make) =>
      jit((x: Tensor) => {
        below();
        return linalg.inverse(x).sum();
      })(square(make, 0, 0, 0, 0)),
    "inverse: the matrix is singular: pivot 0 is 0",
  ],
  [
    "integers by zero, among others",
    (make) =>
      jit((x: Tensor, y: Tensor) => {
        const more = x.add(1);
        below();
        return more.div(y).mul(3);
      })(ids(make, 1, 2), ids(make, 1, 0)),
    "div: integer division by zero (i32)",
  ],
  [
    "a remainder after a quotient and a composite",
    (make) =>
      jit((x: Tensor, y: Tensor) => {
        const more = x.relu().div(y.add(1));
        below();
        return more.rem(y);
      })(ids(make, 1, 2), ids(make, 1, 0)),
    "rem: integer remainder by zero (i32)",
  ],
  ...[0, 1, 2].map(
    (at) =>
      [
        `quotient ${at} of several in one group`,
        (make: Make) =>
          jit((x: Tensor, y: Tensor, z: Tensor, w: Tensor) => {
            const lines: number[] = [];
            const noted = (value: Tensor): Tensor => {
              lines.push(line);
              return value;
            };
            below();
            const one = noted(x.div(y));
            below();
            const two = noted(x.rem(z).add(one));
            below();
            const three = noted(two.div(w));
            line = lines[at] as number;
            return three.add(two).add(one);
          })(
            ids(make, 1, 2),
            ...([0, 1, 2].map((other) => ids(make, 1, other === at ? 0 : 1)) as [Tensor, Tensor, Tensor]),
          ),
        at === 1 ? "rem: integer remainder by zero (i32)" : "div: integer division by zero (i32)",
      ] as const,
  ),
  [
    "a label under grad",
    (make) =>
      grad((x: Tensor, labels: Tensor) => {
        below();
        return losses.softmaxCrossEntropy(x, labels);
      })(square(make, 1, 2, 3, 4), ids(make, 0, 5)),
    label,
  ],
  [
    "a loss that is made of others",
    (make) =>
      jit((x: Tensor, labels: Tensor) => {
        below();
        return losses.ctc(x, labels);
      })(make(zeros(12), [2, 3, 2]), make([1, -1, 1, 3], [2, 2], "i32")),
    "ctc: label 3, number 1 of sequence 1, is outside [0, 2)",
  ],
  [
    "the gradient of a loss that is computed again",
    (make) => {
      const labels = ids(make, 0, 5);
      const loss = remat((x: Tensor): Tensor => {
        below();
        return losses.nll(x, labels);
      });
      return jit(grad(loss))(square(make, 1, 2, 3, 4));
    },
    "nll: label 5 at row 1 is outside [0, 2)",
  ],
  [
    "the gradient of another, twice around it",
    (make) => {
      const labels = ids(make, 0, 5);
      const loss = remat((x: Tensor): Tensor => {
        below();
        return losses.softmaxCrossEntropy(x, labels);
      });
      return grad(remat((x: Tensor) => loss(x.mul(2))))(square(make, 1, 2, 3, 4));
    },
    label,
  ],
  [
    "several indices each",
    (make) => {
      below();
      return gatherNd(square(make, 1, 2, 3, 4), make([0, 0, 1, 2], [2, 2], "i32"));
    },
    "gatherNd: indices [1, 2] at position 1 are outside [2,2]",
  ],
  [
    "several indices each, under jit",
    (make) =>
      jit((x: Tensor, at: Tensor) => {
        below();
        return scatterNd(x, at, x.sum(0));
      })(square(make, 1, 2, 3, 4), make([0, -3, 1, 1], [2, 2], "i32")),
    "scatterNd: indices at position 0 are outside [2,2]",
  ],
  ...(
    [
      ["beyond the ids", [0, 5], "offsets[1] is 5, but there are 3 ids"],
      ["below 0", [0, -2], "offsets[1] is -2"],
      ["that begin too late", [2, 2], "offsets do not begin at 0: id 0 is before the first bag"],
    ] as const
  ).map(
    ([what, offsets, said]) =>
      [
        `bags ${what}`,
        (make: Make) =>
          jit((table: Tensor, given: Tensor, places: Tensor) => {
            below();
            return nn.functional.embeddingBag(given, table, { offsets: places });
          })(square(make, 1, 2, 3, 4), ids(make, 0, 1, 1), ids(make, ...offsets)),
        `embeddingBag: ${said}`,
      ] as const,
  ),
  [
    "a class of a confusion matrix under jit",
    (make) =>
      jit((labels: Tensor, answers: Tensor) => {
        below();
        return metrics.confusionMatrix(labels, answers, 2);
      })(ids(make, 0, 1), ids(make, 0, 5)),
    "confusionMatrix: element 1 of the answers is 5, outside [0, 2)",
  ],
  [
    "a layer of a model",
    (make) => {
      const [apply, params, x] = asked(make, model());
      return jit(apply)(params, x);
    },
    `layer 0.0 (embedding): ${outside(9, 2, 4)}`,
  ],
  [
    "a layer of a model by itself",
    (make) => {
      const [apply, params, x] = asked(make, model());
      return apply(params, x);
    },
    `layer 0.0 (embedding): ${outside(9, 2, 4)}`,
  ],
];

/** What the first executor says, as data: the other one says the same. */
const faults = new Map<string, unknown>();

describe.each(["reference", "native"] as const)("%s", (executor) => {
  const unavailable = executor === "native" && "error" in loadNative();
  test.skipIf(unavailable).each(rows)("%s", async (what, run, said) => {
    const runtime = localRuntime({ executor });
    const make: Make = (values, shape = [values.length], dtype = "f32") => {
      const data = dtypes[dtype].create(sizeOf(shape));
      data.set(values as never);
      return distribute(runtime, data, { shape, dtype }, []);
    };
    let caught: unknown;
    try {
      await run(make).data();
    } catch (error) {
      caught = error;
    } finally {
      runtime.close();
    }
    expect(caught).toBeInstanceOf(HeddleError);
    const { code, plain, where, fault } = caught as HeddleError;
    if (!faults.has(what)) faults.set(what, fault);
    expect(fault).toEqual(faults.get(what));
    expect(fault?.kind).toBeDefined();
    if (typeof said === "string") expect(plain).toBe(said);
    else expect(plain).toMatch(said);
    expect(code).toBe("value");
    expect(where).toMatch(new RegExp(`refusals\\.test\\.ts:${line}:\\d+$`));
  });

  test.skipIf(unavailable).each([
    [2, 2],
    [1, 2, 2],
  ])("lstsq of dependent columns points to pinv: [%i, %i, …]", async (...shape) => {
    const runtime = localRuntime({ executor });
    const a = distribute(runtime, new Float32Array(4), { shape, dtype: "f32" }, []);
    const solved = async () => linalg.lstsq(a, a).data();
    await expect(solved).rejects.toThrow(/^lstsq: .* is singular: pivot \d is 0[\s\S]*pinv\(a\)\.matmul\(b\)/);
    runtime.close();
  });

  test.skipIf(unavailable).each<[string, (x: Tensor) => Tensor, number[], DType]>([
    ["index 9 at position 1 is outside [-2, 2)", (x) => take(tensor([1, 2]), x), [0, 0, 0, 9], "i32"],
    [
      "matrix 1 of the batch is not positive definite",
      (x) => linalg.cholesky(x.reshape([4, 1, 1])),
      [1, 1, 1, -1],
      "f32",
    ],
  ])("of a part, says whose rows it counts: %s", async (says, fn, values, dtype) => {
    const runtime = localRuntime({ executor, axes: [{ name: "data", size: 2 }] });
    const x = distribute(
      runtime,
      dtypes[dtype].create(4).map((_zero, index) => values[index] as never),
      { shape: [4], dtype },
      [shard(0)],
    );
    await expect(async () => jit(fn)(x).data()).rejects.toThrow(`${says} (counted on device 1 of 2)`);
    runtime.close();
  });
});
