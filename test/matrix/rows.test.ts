// Programs over many rows: which of them pass over blocks of rows, and that what they give is what their steps give one by one.

import {
  binary,
  concatenate,
  dense,
  entries,
  evaluate,
  gradient,
  type Matrix,
  matrixPrograms,
  ones,
  rand,
  seq,
  unary,
  zeros,
} from "heddle/matrix";
import { expect, test } from "vitest";

// A prime, so that the last rows fill no block.
const rows = 20_011;
const columns = 17;
const made = (height: number, width: number, seed: number): Matrix => {
  const value = rand(height, width, { seed, distribution: "normal" });
  evaluate(value);
  return value;
};
const x = made(rows, columns, 1);
const y = made(rows, 1, 2);
const v = made(columns, 1, 3);
const centres = made(5, columns, 4);
const tall = made(8_000, 80, 5);

/** Each value is computed by itself, so that there is nothing to pass over together. */
type Step = (value: Matrix) => Matrix;
const alone: Step = (value) => {
  evaluate(value);
  return value;
};
const together: Step = (value) => value;

const softmaxLoss = (step: Step): Matrix[] => {
  const scores = step(x.matmul(centres.T));
  const shifted = step(scores.sub(step(scores.max(1))));
  const powers = step(unary("exp", shifted));
  const slope = step(powers.div(step(powers.sum(1))));
  return [x.T.matmul(slope), slope.sum(0), unary("log", step(powers.sum(1))).sum()];
};
const nearest = (step: Step): Matrix[] => {
  const far = step(centres.matmul(x.T).mul(-2).add(centres.mul(centres).sum(1)));
  const member = step(binary("eq", far, step(far.min(0))));
  return [member.matmul(x), member.sum(1)];
};

/** Programs, and how many passes each of them has. */
const programs: readonly (readonly [name: string, passes: number, results: (step: Step) => Matrix[]])[] = [
  ["Xᵀ(Xv)", 1, (step) => [x.T.matmul(step(x.matmul(v)))]],
  ["Xᵀ(y∘(Xv))", 1, (step) => [x.T.matmul(step(step(x.matmul(v)).mul(y)))]],
  [
    "Xᵀ(Xv - y), its norm, and what follows",
    1,
    (step) => {
      const left = step(step(x.matmul(v)).sub(y));
      const moments = step(x.T.matmul(left));
      return [moments.mul(2).add(v), left.pow(2).sum().add(moments.sum())];
    },
  ],
  ["softmax, its gradient and loss", 1, softmaxLoss],
  ["sums by the nearest centre", 1, nearest],
  [
    "a sum that the next pass needs",
    2,
    (step) => {
      const first = step(x.T.matmul(step(x.matmul(v))));
      return [x.T.matmul(step(x.matmul(first)))];
    },
  ],
  ["two numbers of rows", 2, (step) => [x.T.matmul(step(x.matmul(v))), tall.T.matmul(step(tall.matmul(ones(80, 1))))]],
  [
    "rows that are asked for themselves",
    0,
    (step) => {
      const scores = step(x.matmul(v));
      return [scores, x.T.matmul(scores)];
    },
  ],
  ["a row that depends on those before it", 0, (step) => [x.T.matmul(step(step(x.matmul(v)).cumsum(0)))]],
  ["a maximum over the rows", 0, (step) => [step(x.matmul(v)).max(0), step(x.mul(2)).max()]],
  ["one product", 0, () => [x.T.matmul(y)]],
  ["a sum that is larger than a block", 0, (step) => [tall.T.matmul(step(tall.mul(2)))]],
  [
    "few rows",
    0,
    () => {
      const few = x.slice([0, 1000]);
      return [few.T.matmul(few.matmul(v))];
    },
  ],
  [
    "blocks side by side",
    0,
    (step) => [step(concatenate([x, y], 1)).sum(0), concatenate([zeros(rows, 1), step(seq(1, rows))], 1)],
  ],
];

test.each(programs.map(([name, passes, results]) => ({ name, passes, results })))(
  "$name: $passes",
  ({ passes, results }) => {
    const wanted = results(alone).map((result) => result.dataSync());
    const before = new Set(matrixPrograms());
    const found = results(together);
    evaluate(...found);
    const program = matrixPrograms().filter((known) => !before.has(known));
    expect(program.flatMap((known) => known.passes)).toHaveLength(passes);
    found.forEach((result, index) => {
      const scale = Math.max(...(wanted[index] as Float64Array).map(Math.abs));
      for (const [at, value] of result.dataSync().entries())
        expect(Math.abs(value - (wanted[index]?.[at] as number))).toBeLessThan(1e-11 * (1 + scale));
    });
  },
);

test("a pass is told by the numbers of the program's text", () => {
  const w = made(columns, 1, 6);
  const before = new Set(matrixPrograms());
  evaluate(x.T.matmul(x.matmul(w)).div(3));
  const [program] = matrixPrograms().filter((known) => !before.has(known));
  // The program of Xᵀ(Xv) may be older; its text is the same.
  if (program !== undefined) {
    expect(program.passes).toEqual([`3 4 5 in blocks of the ${rows} rows of 0, summed up to 5`]);
    expect(program.text.split("\n")[2]).toMatch(/^5 = matmul\(3,4\)/);
  }
});

test("NaN and infinities of a row go where they go without blocks", () => {
  const data = x.dataSync().slice();
  data[5 * columns] = Number.NaN;
  const bad = dense(data, rows, columns);
  const result = bad.T.matmul(bad.matmul(v)).dataSync();
  expect(result.every(Number.isNaN)).toBe(true);
});

test("entries stay entries", () => {
  const at = Int32Array.from({ length: rows }, (_unused, row) => row);
  const to = Int32Array.from({ length: rows }, (_unused, row) => row % 300);
  const s = entries(y.dataSync(), at, to, [rows, 300]);
  const before = new Set(matrixPrograms());
  const w = ones(300, 1);
  evaluate(s.T.matmul(s.matmul(w)));
  expect(
    matrixPrograms()
      .filter((known) => !before.has(known))
      .flatMap(({ passes }) => passes),
  ).toEqual([]);
});

test("the gradient of what passes over blocks is that of the formula", () => {
  const { value, gradients } = gradient((w: Matrix) => x.matmul(w).sub(y).pow(2).sum(), [v]);
  const left = x.matmul(v).sub(y);
  expect(value.itemSync()).toBeCloseTo(left.pow(2).sum().itemSync(), 6);
  const wanted = x.T.matmul(alone(left)).mul(2).dataSync();
  for (const [at, found] of (gradients[0] as Matrix).dataSync().entries())
    expect(found / (wanted[at] as number)).toBeCloseTo(1, 9);
});
