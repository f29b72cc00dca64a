import { inspect } from "node:util";
import { grad, type Tensor, tensor } from "heddle";
import {
  aggregate,
  binary,
  cholesky,
  concatenate,
  cumulative,
  dense,
  det,
  diag,
  eigh,
  entries,
  evaluate,
  eye,
  flip,
  gradient,
  inv,
  lu,
  type Matrix,
  matrix,
  matrixPrograms,
  ones,
  qr,
  rand,
  seq,
  solve,
  svd,
  table,
  triangle,
  unary,
  where,
  zeros,
} from "heddle/matrix";
import { expect, test } from "vitest";

const a = (): Matrix =>
  matrix([
    [4, 1, -2],
    [1, 3, 0],
    [-2, 0, 5],
  ]);
const x = (): Matrix =>
  matrix([
    [1, -2],
    [0, 3],
    [5, 4],
  ]);
const near = (actual: Matrix, expected: readonly (readonly number[])[]): void => {
  const rows = actual.arraySync();
  expect(actual.shape).toEqual([expected.length, expected[0]?.length ?? 0]);
  rows.forEach((row, i) => {
    row.forEach((value, j) => {
      const wanted = expected[i]?.[j] as number;
      if (Number.isNaN(wanted)) expect(value).toBeNaN();
      else expect(value).toBeCloseTo(wanted, 10);
    });
  });
};

const rows: readonly (readonly [string, () => Matrix, readonly (readonly number[])[]])[] = [
  [
    "add a row",
    () => x().add(matrix([[10, 20]])),
    [
      [11, 18],
      [10, 23],
      [15, 24],
    ],
  ],
  [
    "a number on the left",
    () => binary("sub", 1, x()),
    [
      [0, 3],
      [1, -2],
      [-4, -3],
    ],
  ],
  [
    "pow",
    () => x().pow(2),
    [
      [1, 4],
      [0, 9],
      [25, 16],
    ],
  ],
  [
    "mod of negatives",
    () => binary("mod", x(), 3),
    [
      [1, 1],
      [0, 0],
      [2, 1],
    ],
  ],
  [
    "compare",
    () => binary("gt", x(), 0),
    [
      [1, 0],
      [0, 1],
      [1, 1],
    ],
  ],
  [
    "matmul",
    () => x().T.matmul(x()),
    [
      [26, 18],
      [18, 29],
    ],
  ],
  ["sum", () => x().sum(), [[11]]],
  ["sums of columns", () => x().sum(0), [[6, 5]]],
  ["means of rows", () => x().mean(1), [[-0.5], [1.5], [4.5]]],
  ["variance", () => x().var(0, { ddof: 1 }), [[7, 31 / 3]]],
  ["largest", () => aggregate("max", x(), 0), [[5, 4]]],
  ["where largest", () => x().argmax(0), [[2, 2]]],
  [
    "cumsum",
    () => cumulative("cumsum", x(), 0),
    [
      [1, -2],
      [1, 1],
      [6, 5],
    ],
  ],
  ["slice", () => x().slice([1, 3], [1, 2]), [[3], [4]]],
  [
    "update",
    () => x().update(matrix([[7, 8]]), 1, 0),
    [
      [1, -2],
      [7, 8],
      [5, 4],
    ],
  ],
  [
    "take",
    () => x().take([2, 0]),
    [
      [5, 4],
      [1, -2],
    ],
  ],
  ["take columns", () => x().take([1], 1), [[-2], [3], [4]]],
  [
    "concatenate",
    () => concatenate([x(), ones(3, 1)], 1),
    [
      [1, -2, 1],
      [0, 3, 1],
      [5, 4, 1],
    ],
  ],
  [
    "flip",
    () => flip(x()),
    [
      [5, 4],
      [0, 3],
      [1, -2],
    ],
  ],
  [
    "reshape",
    () => x().reshape(2, 3),
    [
      [1, -2, 0],
      [3, 5, 4],
    ],
  ],
  [
    "diag",
    () => diag(diag(a())),
    [
      [4, 0, 0],
      [0, 3, 0],
      [0, 0, 5],
    ],
  ],
  [
    "triangle",
    () => triangle(a(), "upper", 1),
    [
      [0, 1, -2],
      [0, 0, 0],
      [0, 0, 0],
    ],
  ],
  ["seq keeps a last number off by rounding", () => seq(0, 0.3, 0.1), [[0], [0.1], [0.2], [0.3]]],
  [
    "where",
    () => where(binary("gt", x(), 0), x(), 0),
    [
      [1, 0],
      [0, 3],
      [5, 4],
    ],
  ],
  [
    "table",
    () => table(ones(3, 1), [0, 1, 1], [0, 1, 1], [2, 2]),
    [
      [1, 0],
      [0, 2],
    ],
  ],
  ["solve", () => a().matmul(solve(a(), x())), x().arraySync()],
  ["inv", () => a().matmul(inv(a())), eye(3).arraySync()],
  ["cholesky", () => cholesky(a()).matmul(cholesky(a()).T), a().arraySync()],
  ["det", () => det(a()), [[43]]],
  ["eigh", () => eigh(a()).vectors.mul(eigh(a()).values.T).matmul(eigh(a()).vectors.T), a().arraySync()],
  ["svd", () => svd(x()).u.mul(svd(x()).s.T).matmul(svd(x()).v.T), x().arraySync()],
  ["qr", () => qr(x()).q.matmul(qr(x()).r), x().arraySync()],
  [
    "lu",
    () =>
      lu(a())
        .p.matmul(a())
        .sub(lu(a()).l.matmul(lu(a()).u)),
    eye(3).mul(0).arraySync(),
  ],
  [
    "rounding keeps what lies just below a half, and odd numbers above 2^52",
    () => unary("roundHalfUp", matrix([0.49999999999999994, 4503599627370497])),
    [[0], [4503599627370497]],
  ],
  ["means of no rows", () => x().slice([0, 0]).mean(0), [[Number.NaN, Number.NaN]]],
  [
    "extremes of no rows",
    () => unary("sign", concatenate([x().slice([0, 0]).min(0), x().slice([0, 0]).max(0)])),
    [
      [1, 1],
      [-1, -1],
    ],
  ],
  ["variance of no elements", () => x().slice([0, 0]).var(undefined, { ddof: 1 }), [[Number.NaN]]],
  ["round", () => unary("roundHalfUp", matrix([0.5, -0.5, 1.5, 2.5])), [[1], [0], [2], [3]]],
];

test.each(rows)("%s", (_name, make, expected) => {
  near(make(), expected);
});

test("a program is compiled for its structure and sizes, not for the numbers in it", () => {
  const before = matrixPrograms().length;
  for (const scale of [2, 3, 4, 5, 6])
    near(
      x()
        .mul(scale)
        .slice([scale % 2, 3])
        .sum(),
      [[scale * (scale % 2 ? 12 : 11)]],
    );
  // Slices of two and of three rows.
  expect(matrixPrograms().length - before).toBe(2);
});

test("a program says dtypes and sizes of inputs, and the size of each result", () => {
  ones(7, 11).mul(2).sum(1).dataSync();
  const { inputs, text } = matrixPrograms().at(-1) as { inputs: string; text: string };
  expect(inputs).toBe("f64 1x1, f64 1x1");
  expect(text).toBe('2 = fill(0) 7x11\n3 = mul(2,1) 7x11\n4 = sum{"over":"rows"}(3) 7x1');
});

test("the interpreter of the first runs and the compiled program agree", () => {
  const values = Array.from({ length: 6 }, (_unused, run) =>
    unary("sigmoid", rand(5, 4, { seed: 7 }).sub(run * 0))
      .sum()
      .itemSync(),
  );
  for (const value of values) expect(value).toBeCloseTo(values[0] as number, 12);
});

test("entries stay entries through transposes, multiples and sums, and give the products of the dense matrix", () => {
  const sparse = entries([2, 3, 1], [0, 2, 2], [1, 0, 0], [3, 2]);
  near(sparse, [
    [0, 2],
    [0, 0],
    [4, 0],
  ]);
  expect([sparse.format, sparse.T.format, sparse.T.mul(3).format, sparse.nonzeros]).toEqual([
    "entries",
    "entries",
    "entries",
    3,
  ]);
  near(sparse.T.mul(3), [
    [0, 0, 12],
    [6, 0, 0],
  ]);
  near(
    sparse.matmul(
      matrix([
        [1, 2],
        [3, 4],
      ]),
    ),
    [
      [6, 8],
      [0, 0],
      [4, 8],
    ],
  );
  near(sparse.sum(1), [[2], [0], [4]]);
  near(sparse.sum(0), [[4, 2]]);
  near(sparse.add(1), [
    [1, 3],
    [1, 1],
    [5, 1],
  ]);
});

test("a loop of the user: linear regression by conjugate gradient", async () => {
  const data = rand(50, 4, { seed: 3, distribution: "normal" });
  const truth = matrix([1, -2, 0.5, 3]);
  const y = data.matmul(truth);
  let w = ones(4, 1).mul(0);
  let r = data.T.matmul(y).mul(-1);
  let p = r.mul(-1);
  let norm = r.pow(2).sum();
  evaluate(r, p, norm);
  const made = new Set<number>();
  for (let step = 0; step < 20 && (await norm.item()) > 1e-18; step++) {
    const q = data.T.matmul(data.matmul(p));
    const rate = norm.div(p.mul(q).sum());
    w = w.add(rate.mul(p));
    r = r.add(rate.mul(q));
    const before = norm;
    norm = r.pow(2).sum();
    p = norm.div(before).mul(p).sub(r);
    evaluate(w, r, p, norm);
    made.add(matrixPrograms().length);
  }
  near(w, truth.arraySync());
  // The first step takes a lazy zero; all others run one program.
  expect(made.size).toBeLessThanOrEqual(2);
});

test("gradients: of matrices, through loops that read values, and within grad of tensors", () => {
  const features = matrix([
    [1, 2],
    [-1, 0.5],
    [0.3, -2],
  ]);
  const loss = (w: Matrix): Matrix => {
    let value = features.matmul(w);
    while (value.sum().itemSync() < 10) value = value.mul(1.5).add(w.sum());
    return unary("sigmoid", value).pow(2).sum();
  };
  const w = matrix([0.7, 0.4]);
  const { value, gradients } = gradient(loss, [w]);
  expect(value.itemSync()).toBeCloseTo(loss(w).itemSync(), 12);
  const eps = 1e-6;
  for (const index of [0, 1]) {
    const moved = (by: number): number => {
      const data = Float64Array.from(w.dataSync());
      data[index] = (data[index] as number) + by;
      return loss(dense(data, 2, 1)).itemSync();
    };
    expect(gradients[0]?.dataSync()[index]).toBeCloseTo((moved(eps) - moved(-eps)) / (2 * eps), 6);
  }
  const slope = grad((t: Tensor) => matrix(t).pow(3).sum().tensor().reshape([]))(tensor([1, 2], { dtype: "f64" }));
  expect([...slope.dataSync()]).toEqual([3, 12]);
});

test.each([
  ["matmul: 3x2 and 3x2 do not fit", () => x().matmul(x())],
  ["add: 3x2 and 3x3 do not fit", () => x().add(a())],
  ["slice: rows 1 to 4 are outside of 0 to 3", () => x().slice([1, 4])],
  ["det: takes a square matrix, got 3x2", () => det(x())],
  ["argmax: there are no elements in 0x2", () => x().slice([0, 0]).argmax(0)],
  ["sum: the axis is 0 (down the rows) or 1 (along the rows), got 2", () => ones(2, 2).sum(2 as never)],
  ["cumsum: the axis is 0", () => ones(2, 2).cumsum(-1 as never)],
  ["take: the axis is 0", () => ones(2, 2).take([0], 2 as never)],
  ["concatenate: the axis is 0", () => concatenate([ones(2, 2)], 2 as never)],
  ["table: columns 2 to 3 are outside of 0 to 2", () => table(ones(1, 1), [0], [2], [2, 2])],
  ["table: 2 weights, 1 rows, 1 columns", () => table(ones(2, 1), [0], [0], [2, 2])],
  ["a matrix of 1000000x1000000 takes 8.00 TB", () => ones(1e6, 1e6).mul(2).sum().itemSync()],
  ["HEDDLE_MEMORY", () => rand(1e6, 1e6, { seed: 1 }).sum().itemSync()],
  ['takes a matrix or a number, got "a"', () => binary("add", x(), "a" as never)],
  [
    "singular",
    () =>
      solve(
        matrix([
          [1, 2],
          [2, 4],
        ]),
        matrix([1, 2]),
      ).dataSync(),
  ],
])("%s", (message, run) => {
  expect(run).toThrow(message);
});

const places = [
  [2, 0, 1],
  [-3, 0, 3],
  [4, 2, 0],
  [0.5, 2, 3],
] as const;
const someEntries = (list: readonly (readonly [number, number, number])[] = places): Matrix =>
  entries(
    list.map(([value]) => value),
    list.map(([, row]) => row),
    list.map(([, , column]) => column),
    [3, 4],
  );
const left = (): Matrix => rand(3, 2, { seed: 1 });
const right = (): Matrix => rand(2, 4, { seed: 2 });

/** Functions of a matrix of entries, and whether the result keeps them: when each place is there once, and when some are there twice. */
const ofEntries: readonly (readonly [string, (x: Matrix) => Matrix, boolean, boolean])[] = [
  ["a multiple", (x) => x.mul(2), true, true],
  ["a product with a column", (x) => matrix([1, 2, 3]).mul(x), true, true],
  ["a product with a row", (x) => x.mul(matrix([[1, -2, 3, 4]])), true, true],
  ["a product with a matrix", (x) => x.mul(rand(3, 4, { seed: 5 })), true, true],
  ["a sampled product", (x) => x.mul(left().matmul(right())), true, true],
  ["a sampled product with a transpose", (x) => x.mul(left().matmul(rand(4, 2, { seed: 3 }).T)), true, true],
  ["a sampled product, transposed", (x) => x.T.mul(right().T.matmul(left().T)), true, true],
  ["a product with itself", (x) => x.mul(x), true, false],
  ["a square", (x) => x.pow(2), true, false],
  ["signs", (x) => unary("sign", x), true, false],
  ["minus", (x) => unary("neg", x), true, true],
  ["a sum of the same places", (x) => x.add(x.mul(left().matmul(right()))), true, true],
  ["a sum of other places", (x) => x.add(someEntries([[1, 1, 1]])), false, false],
  ["a function that takes 0 to 1", (x) => unary("exp", x), false, false],
  ["a quotient", (x) => x.div(2), false, false],
  ["a sum with a number", (x) => x.add(1), false, false],
];
test.each(ofEntries)("of entries: %s", (_name, fn, once, twice) => {
  const whole = (x: Matrix): Matrix => matrix(x.arraySync());
  for (const [x, isKept] of [
    [someEntries(), once],
    [someEntries([...places, [7, 0, 3], [1, 0, 1]]), twice],
  ] as const) {
    const result = fn(x);
    expect(result.format).toBe(isKept ? "entries" : "dense");
    near(result, fn(whole(x)).arraySync());
    near(result.sum(1), fn(whole(x)).sum(1).arraySync());
  }
});

test("the loss of a factorization over entries makes no dense matrix", () => {
  // 10 million rows and columns: the elements would not fit.
  const n = 10_000_000;
  const x = entries([3, 5], [0, n - 1], [n - 1, 2], [n, n]);
  const [u, v] = [zeros(n, 1).add(2), zeros(1, n).add(0.5)];
  const error = x.sub(x.mul(1 / 3).mul(u.matmul(v)));
  expect(error.format).toBe("entries");
  expect(error.pow(2).sum().itemSync()).toBeCloseTo((3 - 1) ** 2 + (5 - 5 / 3) ** 2, 10);
});

test("the gradient of a sampled product", () => {
  const x = someEntries();
  const loss = (u: Matrix, v: Matrix): Matrix => x.mul(u.matmul(v)).sum();
  const { gradients } = gradient(loss, [left(), right()]);
  const dense = matrix(x.arraySync());
  near(gradients[0] as Matrix, dense.matmul(right().T).arraySync());
  near(gradients[1] as Matrix, left().T.matmul(dense).arraySync());
});

test("a matrix shows what is there, and computes nothing to be shown", () => {
  const x = matrix([
    [1, 2.5],
    [3, 4],
  ]);
  expect(inspect(x)).toBe("Matrix(2x2) [[1, 2.5],\n             [3, 4]]");
  const product = x.matmul(x);
  expect(inspect({ product })).toContain("Matrix(2x2) (matmul, not computed yet)");
  expect(product.isComputed).toBe(false);
  evaluate(product);
  expect(inspect(product)).toMatch(/^Matrix\(2x2\) (\[\[8\.5, 12\.5\],\n {13}\[15, 23\.5\]\]|\(being computed)/);
  expect(inspect(someEntries())).toBe("Matrix(3x4, entries)");
  expect(inspect(zeros(0, 3))).toMatch(/^Matrix\(0x3\)/);
});

test.each<[string, () => unknown, RegExp]>([
  [
    "a shape of one number",
    () => entries([1], [0], [0], 2 as never),
    /entries: shape must be \[rows, columns\], got 2/,
  ],
  [
    "a shape of a table",
    () => table(ones(1, 1), [0], [0], [2] as never),
    /table: shape must be \[rows, columns\], got \[2\]/,
  ],
  ["the inverse of what is not square", () => inv(ones(2, 3)), /^inv: takes a square matrix, got 2x3/],
])("%s is an error", (_name, run, message) => {
  expect(run).toThrow(message);
});
