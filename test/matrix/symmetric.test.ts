// Products of a matrix and its own transpose: the half that is copied has the bits that it has in a product of two matrices.

import { jit, matmul, type Tensor, tensor, transpose } from "heddle";
import { expect, test } from "vitest";

function numbers(length: number, seed: number): Float64Array {
  const made = new Float64Array(length);
  for (let at = 0; at < length; at++) made[at] = Math.fround(Math.sin(seed + at * 1.7) * 3);
  return made;
}

const gram = jit((x: Tensor, y: Tensor) => matmul(transpose(x), y));
const outer = jit((x: Tensor, y: Tensor) => matmul(x, transpose(y)));
const ownGram = jit((x: Tensor) => matmul(transpose(x), x));
const ownOuter = jit((x: Tensor) => matmul(x, transpose(x)));

/** The first place where two results differ; -1 if there is none. */
function firstDifference(found: ArrayLike<unknown>, wanted: ArrayLike<unknown>): number {
  for (let at = 0; at < Math.max(found.length, wanted.length); at++) if (!Object.is(found[at], wanted[at])) return at;
  return -1;
}

// Below the least size, at it, of few and many tiles; sums of one block, of several, and of pieces on several threads.
const sizes = [31, 32, 100, 257].flatMap((columns) =>
  [1, 300, 4200, 9000].filter((rows) => columns * rows < 10 ** 6).map((rows) => ({ rows, columns })),
);

test.each(sizes.flatMap((size) => (["f32", "f64"] as const).map((dtype) => ({ ...size, dtype }))))(
  "$dtype[$rows, $columns]",
  ({ rows, columns, dtype }) => {
    const shape = [rows, columns];
    const data = numbers(rows * columns, rows);
    const [x, copy] = [0, 1].map(() => tensor(data, { shape, dtype })) as [never, never];
    const [found, wanted] = [ownGram(x).dataSync(), gram(x, copy).dataSync()];
    expect(firstDifference(found, wanted)).toBe(-1);
    // A diagonal element is a sum of squares, computed here by itself.
    const last = columns - 1;
    let sum = 0;
    for (let row = 0; row < rows; row++) sum += (data[row * columns + last] as number) ** 2;
    expect((found[columns * columns - 1] as number) / sum).toBeCloseTo(1, dtype === "f32" ? 4 : 11);
    const [x2, y2] = [0, 1].map(() => tensor(data, { shape: [columns, rows], dtype })) as [never, never];
    expect(firstDifference(ownOuter(x2).dataSync(), outer(x2, y2).dataSync())).toBe(-1);
  },
);

test("a batch, and a product into columns", () => {
  const [x, copy] = [0, 1].map(() => tensor(numbers(3 * 70 * 40, 1), { shape: [3, 70, 40] })) as [never, never];
  const batched = (a: Tensor, b: Tensor): readonly Tensor[] => {
    const product = matmul(transpose(a, [0, 2, 1]), b);
    return [product, transpose(product, [0, 2, 1])];
  };
  const [found, wanted] = [jit((a: Tensor) => batched(a, a))(x), jit(batched)(x, copy)];
  expect(found[0]?.dataSync()).toEqual(wanted[0]?.dataSync());
  expect(found[1]?.dataSync()).toEqual(wanted[1]?.dataSync());
});
