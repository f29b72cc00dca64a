/** @module Builtins that aggregate all elements, rows or columns. */

import {
  type AggregateName,
  type Axis,
  aggregate,
  binary,
  cumulative,
  dense,
  diag,
  full,
  type Matrix,
  unary,
  where,
} from "../../matrix/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin } from "../builtin.ts";
import { constantsOf, double, int, Scalar } from "../values.ts";

const of = (matrix: Matrix): Scalar => new Scalar("double", matrix);

builtin("sum", "X", "the sum of all elements: a scalar", (args) => of(args.matrix("X").sum()));
builtin("mean avg", "X weights?", "the mean of all elements, which may have weights: a scalar", (args) => {
  const x = args.matrix("X");
  if (!args.has("weights")) return of(x.mean());
  const weights = args.matrix("weights");
  return of(x.mul(weights).sum().div(weights.sum()));
});
builtin("prod", "X", "the product of all elements: a scalar", (args) => of(args.matrix("X").prod()));
builtin("trace", "X", "the sum of the diagonal: a scalar", (args) => {
  const x = args.matrix("X");
  if (x.rows !== x.columns) throw new HeddleError("shape", `trace: takes a square matrix, got ${x.rows}x${x.columns}`);
  return of(x.size <= 1 ? x.sum() : diag(x).sum());
});

const countUp = (count: number): Matrix =>
  dense(
    Float64Array.from({ length: count }, (_unused, index) => index),
    count,
    1,
  );

/** Sample variances divide by the number of elements less one. */
const sample = { ddof: 1 } as const;

builtin("var", "X", "the sample variance of all elements: a scalar", (args) =>
  of(args.matrix("X").var(undefined, sample)),
);
builtin("sd", "X", "the sample standard deviation of all elements: a scalar", (args) =>
  of(args.matrix("X").std(undefined, sample)),
);

for (const [word, axis, size] of [
  ["row", 1, "nrow(X) x 1"],
  ["col", 0, "1 x ncol(X)"],
] as const satisfies readonly (readonly [string, Axis, string])[]) {
  const over = (name: string, doc: string, apply: (x: Matrix) => Matrix): void =>
    builtin(`${word}${name}`, "X", `${doc} of each ${axis === 1 ? "row" : "column"}: ${size}`, (args) =>
      apply(args.matrix("X")),
    );
  for (const [name, apply] of [
    ["Sums", "sum"],
    ["Means", "mean"],
    ["Mins", "min"],
    ["Maxs", "max"],
    ["Prods", "prod"],
  ] as const satisfies readonly (readonly [string, AggregateName])[])
    over(name, apply, (x) => aggregate(apply, x, axis));
  over("Vars", "the sample variance", (x) => x.var(axis, sample));
  over("Sds", "the sample standard deviation", (x) => x.std(axis, sample));
  if (axis === 0) continue;
  over("IndexMax", "the position, from 1, of the last largest element", (x) => lastPosition(x, "max"));
  over("IndexMin", "the position, from 1, of the last smallest element", (x) => lastPosition(x, "min"));
}
builtin("rowIndexMaxs", "X", "as rowIndexMax: nrow(X) x 1", (args) => lastPosition(args.matrix("X"), "max"));

/** Of equal extremes SystemDS takes the last. Elements that are NaN do not count; of a row without others the position is NaN. */
function lastPosition(x: Matrix, name: "min" | "max"): Matrix {
  if (x.columns === 0) return full(x.rows, 1, Number.NaN);
  const odd = unary("isnan", x);
  const numbers = where(odd, name === "max" ? -Infinity : Infinity, x);
  const isExtreme = binary("eq", numbers, aggregate(name, numbers, 1)).mul(unary("not", odd));
  const positions = aggregate("max", isExtreme.mul(countUp(x.columns).add(1).T), 1);
  return where(positions, positions, Number.NaN);
}

for (const name of ["cumsum", "cumprod", "cummin", "cummax"] as const)
  builtin(name, "X", "the aggregate of each column down to each row: the size of X", (args) =>
    cumulative(name, args.matrix("X"), 0),
  );
builtin("rowcumsum", "X", "sums along each row: the size of X", (args) => cumulative("cumsum", args.matrix("X"), 1));

builtin("cumsumprod", "X", "of two columns a, b: c[i] = a[i] + b[i] * c[i-1], nrow(X) x 1", (args) => {
  const x = args.matrix("X");
  const [data, last] = [constantsOf("cumsumprod", x), { value: 0 }];
  const sums = Float64Array.from({ length: x.rows }, (_unused, row) => {
    last.value = (data[2 * row] as number) + (data[2 * row + 1] as number) * last.value;
    return last.value;
  });
  return dense(sums, x.rows, 1);
});

builtin(
  "moment centralMoment",
  "X weights? order?",
  "the central moment of a column, of an order: a scalar",
  (args) => {
    const x = args.matrix("X");
    const isWeighted = args.all.length > 2;
    const order = isWeighted ? args.number("order") : args.number(args.has("weights") ? "weights" : "order");
    if (!isWeighted) return of(unary("abs", x.mul(0)).add(x.sub(x.mean()).pow(order)).mean());
    const weights = args.matrix("weights");
    const mean = x.mul(weights).sum().div(weights.sum());
    return of(x.sub(mean).pow(order).mul(weights).sum().div(weights.sum()));
  },
);

builtin("cov", "X Y weights?", "the sample covariance of two columns: a scalar", (args) => {
  const [x, y] = [args.matrix("X"), args.matrix("Y")];
  const weights = args.has("weights") ? args.matrix("weights") : x.mul(0).add(1);
  const total = weights.sum();
  const centred = (z: Matrix): Matrix => z.sub(z.mul(weights).sum().div(total));
  if (x.size === 0) return double(Number.NaN);
  return of(centred(x).mul(centred(y)).mul(weights).sum().div(total.sub(1)));
});

builtin("countDistinct countDistinctApprox", "X", "the number of different elements: a scalar", (args) =>
  int(new Set(args.matrix("X").dataSync()).size),
);

builtin(
  "quantile",
  "X weights? p?",
  "the value below which a share p of a column lies: a scalar, or as many rows as p",
  (args) => {
    const isWeighted = args.all.length > 2;
    const name = isWeighted || args.has("p") || !args.has("weights") ? "p" : "weights";
    const [x, shares] = [args.matrix("X"), args.matrix(name)];
    const sorted = sortedWith(x, isWeighted ? args.matrix("weights") : undefined);
    const isOne = args.value(name) instanceof Scalar;
    const result = quantiles(x, sorted, shares.dataSync(), isOne);
    return isOne ? double(result) : result;
  },
);
builtin("median", "X weights?", "the middle element of a column: a scalar", (args) => {
  const x = args.matrix("X");
  return double(quantiles(x, sortedWith(x, weightsOf(args)), [0.5], true));
});
builtin(
  "interQuartileMean",
  "X weights?",
  "the mean of the elements between the quartiles of a column: a scalar",
  (args) => {
    const x = args.matrix("X");
    const weights = weightsOf(args);
    if (weights !== undefined) constantsOf("interQuartileMean", weights);
    return double(interQuartileMean(x, sortedWith(x, weights)));
  },
);

const weightsOf = (args: Args): Matrix | undefined => (args.has("weights") ? args.matrix("weights") : undefined);

/** Positions of elements in the order of the elements, with their weights. Results take the elements, so that they have gradients. */
type Weighted = readonly (readonly [position: number, weight: number])[];

function sortedWith(x: Matrix, weights?: Matrix): Weighted {
  const [data, by] = [x.dataSync(), weights?.dataSync()];
  return Array.from(data, (_value, index) => [index, by?.[index] ?? 1] as const)
    .filter(([, weight]) => weight > 0)
    .sort(([a], [b]) => (data[a] as number) - (data[b] as number));
}

const takeAll = (x: Matrix, positions: readonly number[]): Matrix => x.reshape(x.size, 1).take(positions);

const totalOf = (sorted: Weighted): number => sorted.reduce((sum, [, weight]) => sum + weight, 0);

/** The position of the element at which the weights so far reach a count. */
function elementAt(sorted: Weighted, count: number): number {
  let reached = 0;
  for (const [position, weight] of sorted) {
    reached += weight;
    if (reached >= count) return position;
  }
  return (sorted.at(-1) as Weighted[number])[0];
}

/** X[ceil(p n)]; for one share and an even number of elements the mean of it and the next one, as in SystemDS 3.4. NaN of no elements. */
function quantiles(x: Matrix, sorted: Weighted, shares: ArrayLike<number>, isOne: boolean): Matrix {
  if (sorted.length === 0) return full(shares.length, 1, Number.NaN);
  const total = totalOf(sorted);
  const at = Array.from(shares, (share) => Math.max(1, Math.ceil(share * total)));
  const low = at.map((count) => elementAt(sorted, count));
  const high = at.map((count) =>
    isOne && total % 2 === 0 && count < total ? elementAt(sorted, count + 1) : undefined,
  );
  const first = takeAll(x, low);
  if (high.every((position) => position === undefined)) return first;
  // Of one element the mean is half of twice the element, which is exact.
  return first
    .add(
      takeAll(
        x,
        high.map((position, index) => position ?? (low[index] as number)),
      ),
    )
    .div(2);
}

function interQuartileMean(x: Matrix, sorted: Weighted): Matrix {
  if (sorted.length === 0) return full(1, 1, Number.NaN);
  const total = totalOf(sorted);
  const [low, high] = [0.25 * total, 0.75 * total];
  let reached = 0;
  const inside = sorted.map(([position, weight]) => {
    const share = Math.min(reached + weight, high) - Math.max(reached, low);
    reached += weight;
    return [position, share] as const;
  });
  const kept = inside.filter(([, share]) => share > 0);
  const shares = dense(
    Float64Array.from(kept, ([, share]) => share),
    kept.length,
    1,
  );
  return takeAll(
    x,
    kept.map(([position]) => position),
  )
    .mul(shares)
    .sum()
    .div(high - low);
}
