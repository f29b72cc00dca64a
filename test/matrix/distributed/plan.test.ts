/** How workers compute programs together: the operators that are chosen, and the bytes that they send, against formulas written out here. */
import { entries, Matrix, matrix, rand, unary, where } from "heddle/matrix";
import { random } from "heddle/tensor";
import { describe, expect, test } from "vitest";
import { machineFor } from "../../../src/cost/index.ts";
import { randomRows } from "../../../src/functions/index.ts";
import { blockLengths, blockStart, type Form, localSize } from "../../../src/matrix/distributed/layout.ts";
import { type PlanTogether, planTogether } from "../../../src/matrix/distributed/plan.ts";
import { storedExpression } from "../../../src/matrix/expression.ts";
import { conductedBy, programOf, sizeOfMatrix } from "../../../src/matrix/programs.ts";

/** A plan of programs whose inputs lie as `forms` says; others are whole. */
function planned(results: readonly Matrix[], forms: ReadonlyMap<Matrix, Form>, size = 4, rank = 0): PlanTogether {
  const { program, leaves } = programOf(results.map(({ expression }) => expression));
  const formOf = new Map([...forms].map(([{ expression }, form]) => [expression, form]));
  const given = leaves.map((leaf, index) => ({
    size: sizeOfMatrix(program.types[index] as never),
    forms: [formOf.get(leaf) ?? "whole"] as Form[],
  }));
  const isCut = ([rows, columns]: readonly [number, number]): boolean => 8 * rows * columns > 65_536 && rows >= 64;
  return planTogether(
    program,
    given,
    { place: { rank, size }, machine: machineFor(size), wholeBytes: 65_536, isCut },
    () => {},
  );
}

/** A matrix of this size, whose elements no plan reads. */
const given = (rows: number, columns: number): Matrix => {
  const apart = {
    whole: () => {
      throw new Error("a plan reads no elements");
    },
  };
  return Matrix.of(storedExpression({ apart }, [rows, columns]));
};

const x = given(10_000, 20);
const tall = given(10_000, 30);
const column = given(10_000, 1);
const v = given(20, 1);
const wide = given(20, 9_000);
const square = given(1_000, 1_000);
const other = given(1_000, 1_000);
const long = given(100, 20_000);
const short = given(20_000, 100);
const thin = given(1_000, 3);

const inRows = (...matrices: readonly Matrix[]): Map<Matrix, Form> => new Map(matrices.map((one) => [one, 0]));
const P = 4;

/** Name, results, inputs in blocks, the operators that are not views, the bytes that all workers send, how the results lie. */
const rows: readonly [
  string,
  readonly Matrix[],
  ReadonlyMap<Matrix, Form>,
  readonly string[],
  number,
  readonly Form[],
][] = [
  ["a broadcast of what is whole sends nothing", [x.matmul(v)], inRows(x), ["mapmm"], 0, [0]],
  ["Xᵀ X: a sum over the blocks", [x.T.matmul(x)], inRows(x), ["tsmm"], 2 * 8 * 20 * 20 * (P - 1), ["whole"]],
  [
    "Xᵀ(Xv): one pass over own rows",
    [x.T.matmul(x.matmul(v))],
    inRows(x),
    ["mapmm", "mapmmchain"],
    2 * 8 * 20 * (P - 1),
    ["whole"],
  ],
  [
    "Xᵀ(w∘(Xv) - y)",
    [x.T.matmul(column.mul(x.matmul(v)).sub(column))],
    inRows(x, column),
    ["mapmm", "cellwise", "cellwise", "mapmmchain"],
    2 * 8 * 20 * (P - 1),
    ["whole"],
  ],
  [
    "rows of both are on one worker",
    [x.T.matmul(tall)],
    inRows(x, tall),
    ["zipmm"],
    2 * 8 * 20 * 30 * (P - 1),
    ["whole"],
  ],
  ["a whole column beside blocks is cut", [x.mul(column)], inRows(x), ["cellwise"], 0, [0]],
  ["a left operand that is whole", [v.T.matmul(wide)], new Map<Matrix, Form>([[wide, 1]]), ["local", "mapmm"], 0, [1]],
  ["a sum", [x.sum()], inRows(x), ["sum over blocks"], 2 * 8 * (P - 1), ["whole"]],
  ["means of columns", [x.mean(0)], inRows(x), ["mean over blocks"], 2 * 8 * 20 * (P - 1), ["whole"]],
  ["sums of rows", [x.sum(1)], inRows(x), ["sum of blocks"], 0, [0]],
  [
    "the smaller operand is gathered",
    [square.matmul(thin)],
    inRows(square, thin),
    ["mapmm"],
    8 * 1_000 * 3 * (P - 1),
    [0],
  ],
  [
    "a long common side: outer products of blocks, and a sum of the small result",
    [long.matmul(short)],
    inRows(long, short),
    ["cpmm"],
    // The left is turned from rows to columns: a quarter of it stays. Then the sum of 100x100, of which each worker keeps its rows.
    8 * 100 * 20_000 * 0.75 + 8 * 100 * 100 * (P - 1),
    [0],
  ],
  [
    "two large squares: the right one is gathered",
    [square.matmul(other)],
    inRows(square, other),
    ["mapmm"],
    8 * 1e6 * (P - 1),
    [0],
  ],
  [
    "what has no way in blocks is gathered",
    [x.reshape(20, 10_000)],
    inRows(x),
    ["local"],
    8 * 10_000 * 20 * (P - 1),
    ["whole"],
  ],
  ["rows at positions", [x.take([5, 9_999])], inRows(x), ["rows of blocks"], 2 * 8 * 2 * 20 * (P - 1), ["whole"]],
  [
    "a value in two ways is changed once",
    [column.T.matmul(x), unary("exp", column.T.matmul(x))],
    inRows(x, column),
    ["zipmm", "local"],
    2 * 8 * 20 * (P - 1),
    ["whole", "whole"],
  ],
];

test.each(rows)("%s", (_name, results, forms, operators, bytes, layouts) => {
  const plan = planned(results, forms);
  expect(plan.operators.filter((name) => name !== "transpose")).toEqual(operators);
  expect(plan.bytes).toBe(bytes);
  expect(plan.forms).toEqual(layouts);
  const told = plan.lines.reduce((sum, line) => sum + (line.bytes ?? 0), 0);
  expect(told).toBe(bytes);
});

describe("a pass goes over the rows of all its values on every worker, or there is none", () => {
  const even = [given(10_000, 30), given(10_000, 30)] as const;
  const odd = [given(9_999, 30), given(9_999, 60)] as const;
  const thirds = [given(14_999, 30), given(15_000, 30)] as const;
  const whole = given(5_000, 1);
  // The blocks of 2 workers have 4095 and 4096 rows, so that one of them is square.
  const nearSquare = given(8_191, 4_095);
  const sums = (of: readonly Matrix[]): Matrix[] => of.map((one) => one.sum(0));
  const cases: readonly [string, readonly Matrix[], readonly Matrix[], number, number][] = [
    ["equal lengths", sums(even), even, 2, 1],
    ["equal lengths, and blocks that differ", sums(odd), odd, 2, 1],
    ["a row less", sums([odd[0], even[0]]), [odd[0], even[0]], 2, 0],
    ["a row more", sums([even[0], odd[0]]), [odd[0], even[0]], 2, 0],
    ["a row less on one of 3 workers", sums(thirds), thirds, 3, 0],
    ["a whole matrix as long as the longest block", sums([odd[1], whole]), [odd[1]], 2, 0],
    ["a whole matrix as long as every block", sums([...even, whole]), even, 2, 1],
    ["a block that is square on one worker", sums([where(nearSquare, nearSquare, 0), nearSquare]), [nearSquare], 2, 0],
  ];
  test.each(cases)("%s", (_name, results, inBlocks, workers, passes) => {
    const { program } = programOf(results.map(({ expression }) => expression));
    const leaves = program.types.map((type) => sizeOfMatrix(type) ?? ([0, 0] as const));
    for (let rank = 0; rank < workers; rank++) {
      const { stages, steps, inputs } = planned(results, inRows(...inBlocks), workers, rank);
      const given = inputs.map(({ leaf, form }) => localSize(leaves[leaf] as never, form, { rank, size: workers }));
      const sizes = [...given, ...steps.map(({ size }) => size)];
      const found = stages.flatMap(({ pass }) => pass ?? []);
      expect(found).toHaveLength(passes);
      for (const { length, stacks } of found) for (const stack of stacks) expect(sizes[stack]?.[0]).toBe(length);
      // Every step is computed, after its operands.
      const ready = new Set(inputs.keys());
      for (const value of stages.flatMap(({ values, pass }) => [...values, ...(pass?.values ?? [])])) {
        const operands = steps[value - inputs.length]?.operands ?? [];
        expect(operands.filter((operand) => !ready.has(operand))).toEqual([]);
        ready.add(value);
      }
      expect(ready.size).toBe(sizes.length);
    }
  });
});

describe("a matrix of entries is whole on each worker, and never made dense", () => {
  const side = 100_000;
  const sparse = entries([1, 2, 3], [0, 5, 99_999], [1, 2, 99_999], [side, side]);
  const narrow = given(side, 1);
  const broad = given(side, 50);
  const cases: readonly [string, Matrix, readonly Matrix[], readonly string[], Form][] = [
    ["times a column", sparse.matmul(narrow), [], ["local", "local"], "whole"],
    ["both transposed", narrow.T.matmul(sparse.T), [], ["transpose", "local", "local"], "whole"],
    ["times blocks of rows, which become whole", sparse.matmul(narrow), [narrow], ["local", "local"], "whole"],
    ["blocks of rows times entries", broad.T.matmul(sparse), [broad], ["transpose", "local", "mapmm"], 0],
    ["times blocks of many columns", sparse.matmul(broad), [broad], ["local", "mapmm"], 1],
    ["times what its product gives", sparse.matmul(sparse.matmul(narrow)), [], ["local", "local", "local"], "whole"],
  ];
  test.each(cases)("%s", (_name, result, inBlocks, operators, form) => {
    const plan = planned([result], inRows(...inBlocks));
    const sizes = plan.steps.map(({ operator, size }) => [operator.name, 8 * size[0] * size[1]] as const);
    // Of all steps only the one that keeps the entries has as many elements as the matrix.
    expect(sizes.filter(([, bytes]) => bytes > 1e9).map(([name]) => name)).toEqual(["entries"]);
    expect(plan.operators).toEqual(operators);
    expect(plan.forms).toEqual([form]);
  });
});

test("small values are not cut for their own sake, and large ones are made in blocks", () => {
  expect(planned([rand(10, 10, { seed: 1 }).add(1)], new Map()).forms).toEqual(["whole"]);
  const large = planned([rand(100_000, 3, { seed: 1 })], new Map());
  expect([large.operators, large.forms, large.bytes]).toEqual([["rand"], [0], 0]);
});

describe("the plan is the cheapest by the bytes of the formulas", () => {
  const sides = [64, 500, 4_000, 40_000];
  const cases = sides
    .flatMap((m) => sides.flatMap((k) => sides.map((n) => [m, k, n] as const)))
    .filter(([m, k, n]) => m * k + k * n + m * n < 2e7);
  test.each(cases)("%i x %i times %i", (m, k, n) => {
    const [a, b] = [given(m, k), given(k, n)];
    const { operators, bytes } = planned([a.matmul(b)], inRows(a, b));
    const turned = (rows: number, columns: number): number =>
      8 *
      (rows * columns -
        blockLengths(rows, P).reduce((sum, length, at) => sum + length * (blockLengths(columns, P)[at] as number), 0));
    const result = 8 * m * n > 65_536 ? 8 * m * n * (P - 1) : 2 * 8 * m * n * (P - 1);
    const ways: Readonly<Record<string, number>> = {
      mapmm: Math.min(8 * k * n * (P - 1), 8 * m * k * (P - 1) + turned(k, n)),
      cpmm: turned(m, k) + result,
    };
    const machine = machineFor(P);
    // Where bytes decide: what a message costs, and the operations of a product by one worker, are less.
    const least = Math.min(...Object.values(ways));
    if (operators[0] === "local") {
      const work = (2 * m * k * n) / machine.flops;
      expect(work).toBeLessThan(1e-3 + least / P / machine.bandwidth + 12 * machine.latency);
    } else expect(bytes).toBeLessThanOrEqual(least * 1.01 + P * machine.bandwidth * 12 * machine.latency);
  });
});

test("blocks cover a side, and equal sides are cut at equal places", () => {
  for (const length of [64, 65, 1003, 4097])
    for (const size of [1, 2, 3, 4, 7]) {
      const lengths = blockLengths(length, size);
      expect(lengths.reduce((sum, one) => sum + one, 0)).toBe(length);
      expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(1);
      lengths.forEach((one, rank) => {
        expect(blockStart(length, rank + 1, size) - blockStart(length, rank, size)).toBe(one);
      });
    }
});

test.each(["uniform", "normal"] as const)(
  "rows of random numbers are those of the whole matrix: %s",
  (distribution) => {
    const key = random.key(2 ** 40 + 3);
    const whole = random[distribution](key, [37, 5], { dtype: "f64" }).dataSync() as Float64Array;
    for (const [from, to] of [
      [0, 37],
      [1, 2],
      [9, 30],
    ] as const) {
      const rows = randomRows(key, [to - from, 5], distribution, { from, of: 37 }).dataSync() as Float64Array;
      // The last bit of a logarithm or a cosine depends on whether vectors or single numbers are computed.
      rows.forEach((value, index) => {
        expect(Math.abs(value - (whole[5 * from + index] as number))).toBeLessThan(1e-14);
      });
    }
  },
);

test("equal subexpressions are one step", () => {
  const [data, weights] = [
    matrix([
      [1, 2],
      [3, 4],
    ]),
    matrix([[5], [6]]),
  ];
  const loss = data
    .matmul(weights)
    .sum()
    .add(unary("exp", data.matmul(weights)).sum());
  const { program } = programOf([loss.expression]);
  expect(program.text.match(/matmul/g)).toHaveLength(1);
  expect(loss.itemSync()).toBeCloseTo(17 + 39 + Math.exp(17) + Math.exp(39), -5);
});

test("a program that each worker runs by itself is the compiled one from the first run on", () => {
  const sum = (by: number): Matrix =>
    matrix([[1, 2, by]])
      .mul(by)
      .sum();
  const program = programOf([sum(3).expression]).program;
  try {
    conductedBy({ size: 2, run: () => undefined });
    expect(sum(5).itemSync()).toBe(40);
    expect([program.runs, program.compiles]).toEqual([1, 1]);
  } finally {
    conductedBy(undefined);
  }
});
