/**
 * Factors of a matrix by alternating least squares, without a checkpoint: each worker has some rows of both factors. When a worker is lost, its rows
 * are drawn anew, and the iteration comes to factors with the same small error.
 *
 *     npx heddle run examples/als.ts --workers 1:3              # error below 1e-6; 3 s
 *     npx heddle run examples/als.ts --workers 1:3 -- 1@2       # the same, though rank 1 kills itself in iteration 2
 */
import { comm, iterate, tensor } from "heddle";

const [rows, columns, factors] = [48, 36, 3] as const;
const ridge = 1e-9;
/** Numbers from -0.5 to 0.5 that look random, and are the same on every worker. */
const drawn = (count: number, seed: number): Float64Array =>
  Float64Array.from({ length: count }, (_unused, index) => {
    const large = Math.sin(index + 1000 * seed) * 43_758.5453;
    return large - Math.floor(large) - 0.5;
  });
const [left, right] = [drawn(rows * factors, 1), drawn(columns * factors, 2)];
const dot = (one: Float64Array, at: number, other: Float64Array, to: number): number => {
  let sum = 0;
  for (let factor = 0; factor < factors; factor++)
    sum += (one[at * factors + factor] as number) * (other[to * factors + factor] as number);
  return sum;
};
/** An entry of the matrix; a third of them is not known. */
const matrix = (row: number, column: number): number | undefined =>
  (drawn(1, row * columns + column + 10)[0] as number) > 1 / 6 ? undefined : dot(left, row, right, column);
const [victim, when] = (process.argv[2] ?? "").split("@");

const bounds = (count: number, rank: number, size: number): [number, number] => [
  Math.floor((count * rank) / size),
  Math.floor((count * (rank + 1)) / size),
];

/** The row whose products with the rows of `known` are nearest to `values`: the solution of the normal equations by elimination. */
function solve(known: Float64Array, values: readonly (number | undefined)[]): number[] {
  const system = Array.from({ length: factors }, (_row, i) =>
    Array.from({ length: factors + 1 }, (_column, j) =>
      values.reduce<number>(
        (sum, value, at) =>
          value === undefined
            ? sum
            : sum + (known[at * factors + i] as number) * (j === factors ? value : (known[at * factors + j] as number)),
        i === j ? ridge : 0,
      ),
    ),
  );
  for (const [i, pivot] of system.entries())
    for (const [k, row] of system.entries()) {
      if (k === i) continue;
      const factor = (row[i] as number) / (pivot[i] as number);
      for (const [j, value] of pivot.entries()) row[j] = (row[j] as number) - factor * value;
    }
  return system.map((row, i) => (row[factors] as number) / (row[i] as number));
}

const { rank, size, iteration, compensations, part } = await iterate<{
  u: Float64Array;
  v: Float64Array;
  error: Float64Array;
}>({
  iterations: 500,
  initial: ({ rank, size }) => ({
    u: drawn(rows * factors, 3).slice(...cut(rows, rank, size)),
    v: drawn(columns * factors, 4).slice(...cut(columns, rank, size)),
    error: Float64Array.of(Infinity),
  }),
  step: async ({ v }, { rank, size, runtime, iteration }) => {
    if (process.env["HEDDLE_EPOCH"] === "0" && `${rank}` === victim && `${iteration}` === when)
      process.kill(process.pid, "SIGKILL");
    /** All rows of a factor, of which this worker has some. */
    const whole = async (own: Float64Array, count: number): Promise<Float64Array> => {
      const padded = new Float64Array(count * factors);
      padded.set(own, bounds(count, rank, size)[0] * factors);
      return (await comm.allReduce(tensor([...padded], { dtype: "f64" }), { runtime }).data()) as Float64Array;
    };
    const fitted = (
      known: Float64Array,
      count: number,
      entries: (index: number) => (number | undefined)[],
    ): Float64Array => {
      const [first, end] = bounds(count, rank, size);
      const own = Array.from({ length: end - first }, (_unused, index) => solve(known, entries(first + index)));
      return Float64Array.from(own.flat());
    };
    const all = <Value>(count: number, of: (index: number) => Value): Value[] =>
      Array.from({ length: count }, (_unused, index) => of(index));
    const u = fitted(await whole(v, columns), rows, (row) => all(columns, (column) => matrix(row, column)));
    const wholeU = await whole(u, rows);
    const next = fitted(wholeU, columns, (column) => all(rows, (row) => matrix(row, column)));
    const wholeV = await whole(next, columns);
    const wrongs = all(rows, (row) =>
      all(columns, (column) => (matrix(row, column) ?? 0) - dot(wholeU, row, wholeV, column)),
    );
    // Of the entries that are known.
    const known = wrongs.flatMap((line, row) => line.filter((_wrong, column) => matrix(row, column) !== undefined));
    const error = Math.sqrt(known.reduce((sum, wrong) => sum + wrong ** 2, 0) / known.length);
    return { part: { u, v: next, error: Float64Array.of(error) }, done: error < 1e-6 };
  },
  compensate: ({ parts }, { rank, size }) => {
    // Other numbers than at the start: the lost rows were not those.
    const [u, v] = [drawn(rows * factors, 5), drawn(columns * factors, 6)];
    for (const [old, left] of parts.entries()) {
      if (left === undefined) continue;
      u.set(left.u, bounds(rows, old, parts.length)[0] * factors);
      v.set(left.v, bounds(columns, old, parts.length)[0] * factors);
    }
    return {
      u: u.slice(...cut(rows, rank, size)),
      v: v.slice(...cut(columns, rank, size)),
      error: Float64Array.of(Infinity),
    };
  },
});

/** Where a worker's rows of a factor are among all. */
function cut(count: number, rank: number, size: number): [number, number] {
  const [first, end] = bounds(count, rank, size);
  return [first * factors, end * factors];
}

if (rank === 0) {
  console.log(`${size} workers, ${iteration} iterations, ${compensations} compensations`);
  console.log(`error ${(part.error[0] as number) < 1e-6 ? "below" : "above"} 1e-6`);
}
