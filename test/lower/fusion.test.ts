import { type DType, type Node, type Shape, traceGraph } from "heddle/ir";
import { type LoweredProgram, lowerProgram, printLowered } from "heddle/lower";
import { splitGraph } from "heddle/program";
import { describe, expect, test } from "vitest";
import * as ops from "../support/nodes.ts";
import { lenetStep, mlpStep } from "./graphs.ts";

function lowered(
  shapes: readonly Shape[],
  body: (...inputs: Node[]) => readonly Node[],
  dtype: DType = "f32",
): LoweredProgram {
  const specs = shapes.map((shape, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  return lowerProgram(splitGraph(traceGraph("test", specs, body), []), { slots: 2 });
}

const lines = (program: LoweredProgram): string[] => printLowered(program).trimEnd().split("\n").slice(1);

test("an elementwise chain is one call, with strided inputs for views and constants in registers", () => {
  const program = lowered([[4, 8], [8], [8, 4]], (x, bias, y) => [
    ops.tanh(ops.add(ops.add(x as Node, bias as Node), ops.mul(ops.transpose(y as Node), 2))),
  ]);
  expect(lines(program)).toEqual(["0 fused add+mul+add+tanh [4,8] f32 f32(0,1) f32(1,4) -> f32"]);
  expect(program.arenaBytes).toBe(0);
});

test("a value that is read through a view ends its group", () => {
  const program = lowered([[4, 4]], (x) => {
    const y = ops.exp(x as Node);
    return [ops.add(y, ops.transpose(y))];
  });
  expect(lines(program)).toEqual(["0 fused exp [4,4] f32 -> f32", "1 fused add [4,4] f32 f32(1,4) -> f32"]);
});

test("no path leaves a group and comes back into it", () => {
  const program = lowered([[4, 4]], (x) => {
    const y = ops.exp(x as Node);
    return [ops.div(y, ops.sum(y, 1, { keepDims: true }))];
  });
  expect(lines(program)).toEqual([
    "0 fused exp [4,4] f32 -> f32",
    "1 reduce sum f32[4,4] -> f32[4]",
    "2 fused div [4,4] f32 f32(1,0) -> f32",
  ]);
});

test("a group has several outputs", () => {
  const program = lowered([[4], [4]], (x, y) => {
    const moved = ops.add(ops.mul(x as Node, 0.9), y as Node);
    return [moved, ops.sub(y as Node, ops.mul(moved, 0.1))];
  });
  expect(lines(program)).toEqual(["0 fused mul+add+mul+sub [4] f32 f32 -> f32 f32"]);
});

test("a reshape that strides cannot express is a copy", () => {
  const program = lowered([[4, 6]], (x) => [ops.exp(ops.reshape(ops.transpose(x as Node), [24]))]);
  expect(lines(program)).toEqual(["0 fused copy [6,4] f32(1,6) -> f32", "1 fused exp [24] f32 -> f32"]);
});

test("groups are bounded in instructions and inputs", () => {
  const specs = Array.from({ length: 40 }, (): Shape => [16]);
  const program = lowered(specs, (...inputs) => [inputs.reduce((total, input) => ops.add(total, input))]);
  for (const step of program.json.steps) expect((step["in"] as unknown[]).length).toBeLessThanOrEqual(16);
  expect(program.json.steps.length).toBe(3);
});

test("momentum updates are one call per parameter", () => {
  for (const [step, parameters] of [
    [mlpStep(), 4],
    [lenetStep(), 8],
  ] as const) {
    const program = lowerProgram(splitGraph(step.graph, [], step), { slots: 2 });
    expect(lines(program).filter((line) => line.includes("fused mul+add+mul+sub")).length).toBe(parameters);
  }
});

test("an output that is a value of a group and a constant are written where they belong", () => {
  const program = lowered([[2]], (x) => [
    ops.full("f32", [3], 7),
    x as Node,
    ops.transpose(ops.reshape(ops.exp(x as Node), [1, 2])),
  ]);
  expect(lines(program)).toEqual([
    "0 fused exp [2] f32 -> f32",
    "1 fused const [3] -> f32",
    "2 fused copy [2] f32 -> f32",
  ]);
});

test("what only a later group reads is computed there, if that stores less", () => {
  const tanh = lowered(
    [
      [4, 4],
      [4, 4],
    ],
    (x, w) => {
      const y = ops.tanh(ops.matmul(x as Node, w as Node));
      const z = ops.matmul(y, w as Node);
      return [z, ops.mul(z, ops.sub(1, ops.mul(y, y)))];
    },
  );
  // One minus the square is made from y, which the product needs anyway.
  expect(lines(tanh)).toEqual([
    "0 dot f32[1,4,4] f32[1,4,4] -> f32[1,4,4]",
    "1 fused tanh [4,4] f32 -> f32*",
    "2 dot f32[1,4,4] f32[1,4,4] -> f32[1,4,4]",
    "3 fused mul+sub+mul [4,4] f32 f32 -> f32",
  ]);
  const relu = lowered(
    [
      [4, 4],
      [4, 4],
    ],
    (x, w) => {
      const sum = ops.add(ops.matmul(x as Node, w as Node), 1);
      const z = ops.matmul(ops.maximum(sum, 0), w as Node);
      return [z, ops.select(ops.gt(sum, 0), z, 0)];
    },
  );
  // The truth values are smaller than what they are made from.
  expect(lines(relu)[1]).toBe("1 fused add+max+gt [4,4] f32 -> f32* bool");
});

describe("what two groups need", () => {
  /** Fused calls of a product, a function of its result, a product behind it, and what the last result is multiplied by. */
  const between = (of: (x: Node) => readonly [Node, ...Node[]], dtype: DType = "f32", rows = 4) =>
    lines(
      lowered(
        [
          [rows, 4],
          [4, 4],
        ],
        (x, w) => {
          const [y, ...factors] = of(ops.matmul(x as Node, w as Node));
          const z = ops.matmul(y, w as Node);
          return [z, factors.reduce((product, factor) => ops.mul(product, factor), z)];
        },
        dtype,
      ),
    ).filter((line) => line.includes("fused"));

  const square = (x: Node): Node => ops.mul(x, x);

  test("is computed in both, if it is cheap and less is stored", () => {
    // Besides x, its square would have to be stored.
    expect(between((x) => [ops.exp(square(x)), x, square(x)])).toEqual([
      "1 fused mul+exp [4,4] f32 -> f32",
      "3 fused mul+mul+mul [4,4] f32 f32 -> f32",
    ]);
    // Of the three values that tanh gives, the tanh alone is stored.
    expect(
      between((x) => {
        const tanh = ops.tanh(ops.mul(x, ops.add(square(x), 1)));
        return [ops.mul(x, ops.add(tanh, 1)), ops.add(tanh, 1), ops.sub(1, square(tanh))];
      }),
    ).toEqual([
      "1 fused mul+add+mul+tanh+add+mul [4,4] f32 -> f32* f32",
      "3 fused add+mul+mul+sub+mul [4,4] f32 f32 -> f32",
    ]);
  });

  test("is computed in both, if it is a function and larger than a cache", () => {
    // Only x is stored beside what the product reads: not its exponential, nor the tanh of a longer chain.
    expect(between((x) => [ops.add(ops.exp(x), x), x, ops.exp(x)], "f32", 1 << 17)).toEqual([
      "1 fused exp+add [131072,4] f32 -> f32",
      "3 fused exp+mul+mul [131072,4] f32 f32 -> f32",
    ]);
    expect(
      between(
        (x) => {
          const tanh = ops.tanh(ops.mul(x, ops.add(square(x), 1)));
          return [ops.mul(x, ops.add(tanh, 1)), ops.add(tanh, 1), ops.sub(1, square(tanh)), x];
        },
        "f32",
        1 << 17,
      ).map((line) => line.replace(/^\d+ fused \S+/, "")),
    ).toEqual([" [131072,4] f32 -> f32", " [131072,4] f32 f32 -> f32"]);
    // Twenty operations are more than reading a value takes.
    expect(between((x) => [ops.add(ops.softplus(x), x), x, ops.softplus(x)], "f32", 1 << 17)).toEqual([
      "1 fused softplus+add [131072,4] f32 -> f32 f32",
      "3 fused mul+mul [131072,4] f32 f32 f32 -> f32",
    ]);
  });

  test("is stored, if it is not cheap, or if nothing is gained", () => {
    expect(between((x) => [ops.add(ops.exp(x), x), x, ops.exp(x)])).toEqual([
      "1 fused exp+add [4,4] f32 -> f32 f32",
      "3 fused mul+mul [4,4] f32 f32 f32 -> f32",
    ]);
    expect(between((x) => [ops.exp(square(x)), square(x)])).toEqual([
      "1 fused mul+exp [4,4] f32 -> f32* f32",
      "3 fused mul [4,4] f32 f32 -> f32",
    ]);
  });

  test("is computed once, if the arithmetic may be refused", () => {
    expect(between((x) => [square(ops.div(x, 3)), x, ops.div(x, 3)], "i32")).toEqual([
      "1 fused div+mul [4,4] i32 -> i32 i32",
      "3 fused mul+mul [4,4] i32 i32 i32 -> i32",
    ]);
  });
});

test("the same program gives the same text", () => {
  const texts = [1, 2].map(() => {
    const step = lenetStep();
    return lowerProgram(splitGraph(step.graph, [], step), { slots: 2 }).text;
  });
  expect(texts[0]).toBe(texts[1]);
});

test("softmax is one call: three walks over each row", () => {
  const program = lowered([[128, 40]], (x) => [ops.softmax(x as Node)]);
  expect(lines(program)).toEqual(["0 fusedRows max+sub+exp+sum+div [128,40] f32 -> f32"]);
});

test("what is computed before a fold and after it joins it, values of the rows too", () => {
  const norm = (x: Node, gain: Node): Node => {
    const centred = ops.sub(x, ops.mean(x, -1, { keepDims: true }));
    const spread = ops.mean(ops.mul(centred, centred), -1, { keepDims: true });
    return ops.mul(ops.mul(centred, ops.rsqrt(ops.add(spread, 1e-5))), gain);
  };
  const program = lowered([[4, 6, 32], [32]], (x, gain) => [norm(ops.exp(x as Node), gain as Node)]);
  expect(lines(program)).toEqual([
    "0 fusedRows exp+sum+div+sub+mul+sum+div+add+rsqrt+mul+mul [4,6,32] f32 f32(0,0,1) -> f32",
  ]);
});

test("the index of the largest of what is computed takes two walks in one call", () => {
  const program = lowered([[16, 10]], (x) => [ops.argMax(ops.exp(x as Node), 1)]);
  expect(lines(program)).toEqual(["0 fusedRows exp+max+eq+ne+or+iota+select+min [16,10] f32 -> i32[16]"]);
  const columns = lowered([[16, 10]], (x) => [ops.argMax(ops.exp(x as Node), 0)]);
  expect(lines(columns).at(-1)).toMatch(/^\d argMax/);
});

test("sums over the outer dims are columns, folded while their values are made", () => {
  const program = lowered(
    [
      [128, 512],
      [128, 512],
    ],
    (x, y) => {
      const z = ops.mul(x as Node, y as Node);
      return [z, ops.sum(z, 0)];
    },
  );
  expect(lines(program)).toEqual(["0 fusedColumns mul+sum [128,512] f32 f32 -> f32 f32[512]"]);
});

test("folds alone, long rows, narrow rows and transposed reads keep their own kernels", () => {
  const alone = lowered([[64, 64]], (x) => [ops.sum(x as Node, 1)]);
  expect(lines(alone)).toEqual(["0 reduce sum f32[64,64] -> f32[64]"]);
  const long = lowered([[2, 20000]], (x) => [ops.sum(ops.exp(x as Node), 1)]);
  expect(lines(long)).toEqual(["0 fused exp [2,20000] f32 -> f32", "1 reduce sum f32[2,20000] -> f32[2]"]);
  const narrow = lowered([[100, 3]], (x) => [ops.sum(ops.exp(x as Node), 1)]);
  expect(lines(narrow).length).toBe(2);
  const across = lowered([[64, 64]], (x) => {
    const y = ops.exp(x as Node);
    return [ops.sum(ops.mul(y, ops.transpose(y)), 1)];
  });
  expect(lines(across)).toEqual([
    "0 fused exp [64,64] f32 -> f32",
    "1 fused mul [64,64] f32 f32(1,64) -> f32",
    "2 reduce sum f32[64,64] -> f32[64]",
  ]);
});

test("both ends of all elements are those of rows, found by the walk that makes the rows", () => {
  const ends = (shape: Shape): string[] =>
    lines(lowered([shape], (x) => ((y) => [y, ops.min(y), ops.max(y)])(ops.exp(x as Node))));
  expect(ends([128, 512])).toEqual([
    "0 fusedRows exp+min+max [128,512] f32 -> f32 f32[128] f32[128]",
    "1 reduce min f32[128] -> f32[]",
    "2 reduce max f32[128] -> f32[]",
  ]);
  // Short rows have too many ends; few elements are folded at once.
  expect(ends([4096, 64]).slice(1)).toEqual([
    "1 reduce min f32[4096,64] -> f32[]",
    "2 reduce max f32[4096,64] -> f32[]",
  ]);
  expect(ends([32, 512])).toEqual(["0 fusedRows exp+min+max [16384] f32 -> f32 f32[] f32[]"]);
});

test("a result that goes through another kernel and back does not close a circle", () => {
  const program = lowered([[32, 32]], (x) => {
    const y = ops.exp(x as Node);
    const rows = ops.sum(y, 1);
    const back = ops.matmul(ops.reshape(rows, [1, 32]), y);
    return [ops.add(y, ops.broadcastInDim(ops.reshape(back, [32]), [32, 32], [0]))];
  });
  expect(lines(program).map((line) => line.split(" ").slice(1, 3).join(" "))).toEqual([
    "fusedRows exp+sum",
    expect.stringMatching(/^dot/),
    "fused add",
  ]);
});
