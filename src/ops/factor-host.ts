/** @module Factorisations of one matrix in row-major f64: the reference of the ops in `factor.ts`. */
import { range } from "../ir/shape.ts";

/** Row-major numbers. */
export type Matrix = Float64Array;

const at = (a: Matrix, index: number): number => a[index] as number;

/** L of L·Lᵀ from the lower triangle; undefined if the matrix is not positive definite. NaN stays NaN. */
export function cholesky(a: Matrix, n: number): Matrix | undefined {
  const l = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = at(a, i * n + j);
      for (let k = 0; k < j; k++) sum -= at(l, i * n + k) * at(l, j * n + k);
      if (i === j && sum <= 0) return undefined;
      l[i * n + j] = i === j ? Math.sqrt(sum) : sum / at(l, j * n + j);
    }
  }
  return l;
}

export interface Triangle {
  readonly lower: boolean;
  readonly transpose: boolean;
  readonly unit: boolean;
}

/** X of op(A)·X = B by substitution, or the position of the first zero on the diagonal. */
export function triangularSolve(a: Matrix, b: Matrix, m: number, n: number, triangle: Triangle): Matrix | number {
  const zero = triangle.unit ? undefined : range(m).find((i) => a[i * m + i] === 0);
  if (zero !== undefined) return zero;
  const x = Float64Array.from(b);
  const element = (row: number, column: number): number =>
    at(a, triangle.transpose ? column * m + row : row * m + column);
  const forward = triangle.lower !== triangle.transpose;
  for (const step of range(m)) {
    const row = forward ? step : m - 1 - step;
    const pivot = triangle.unit ? 1 : element(row, row);
    for (let column = 0; column < n; column++) {
      let sum = at(x, row * n + column);
      for (let other = forward ? 0 : row + 1; other < (forward ? row : m); other++)
        sum -= element(row, other) * at(x, other * n + column);
      x[row * n + column] = sum / pivot;
    }
  }
  return x;
}

/**
 * L below the diagonal and U in one matrix, the original row of each row after elimination with partial pivoting, and the sign
 * of that order. All numbers equal the native kernel's to the bit.
 */
export function lu(a: Matrix, n: number): [Matrix, Matrix, Matrix] {
  const work = Float64Array.from(a);
  const order = Float64Array.from(range(n));
  let sign = 1;
  for (let k = 0; k < n; k++) {
    const row = pivotRow(work, n, k);
    if (row !== k) {
      const held = work.slice(k * n, (k + 1) * n);
      work.copyWithin(k * n, row * n, (row + 1) * n);
      work.set(held, row * n);
      [order[k], order[row]] = [at(order, row), at(order, k)];
      sign = -sign;
    }
    const pivot = at(work, k * n + k);
    // A column without a pivot has only zeros below it.
    if (pivot === 0) continue;
    for (let i = k + 1; i < n; i++) {
      const factor = at(work, i * n + k) / pivot;
      work[i * n + k] = factor;
      for (let j = k + 1; j < n; j++) work[i * n + j] = at(work, i * n + j) - factor * at(work, k * n + j);
    }
  }
  return [work, order, Float64Array.of(sign)];
}

/** The row of the largest number in a column from the diagonal on: the first of equal ones, NaN above all. */
function pivotRow(a: Matrix, n: number, column: number): number {
  let best = column;
  for (let row = column + 1; row < n; row++) {
    const [x, most] = [Math.abs(at(a, row * n + column)), Math.abs(at(a, best * n + column))];
    if (x > most || (Number.isNaN(x) && !Number.isNaN(most))) best = row;
  }
  return best;
}

/**
 * Q, R and the determinant of a square Q (else 1), by Householder reflections; R has no negative number on its diagonal. All
 * numbers equal the native kernel's to the bit, since R's diagonal may hold nothing but rounding errors.
 */
export function qr(a: Matrix, m: number, n: number): [Matrix, Matrix, Matrix] {
  const k = Math.min(m, n);
  const work = Float64Array.from(a);
  const q = new Float64Array(m * k);
  for (let i = 0; i < k; i++) q[i * k + i] = 1;
  const reflectors: { readonly v: Matrix; readonly tau: number }[] = [];
  let sign = 1;
  for (let j = 0; j < k; j++) {
    const v = Float64Array.from({ length: m - j }, (_unused, i) => at(work, (j + i) * n + j));
    // Scaled to sizes near 1, whose squares neither overflow nor vanish, by a power of 2, which changes no digit.
    const largest = v.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const scale = 2 ** -Math.max(Math.min(Math.floor(Math.log2(largest)), 1022), -1023);
    if (largest > 0 && Number.isFinite(largest)) for (let i = 0; i < m - j; i++) v[i] = at(v, i) * scale;
    let rest = 0;
    for (let i = 1; i < m - j; i++) rest += at(v, i) * at(v, i);
    let tau = 0;
    if (rest > 0) {
      const [first, norm] = [at(v, 0), Math.sqrt(at(v, 0) * at(v, 0) + rest)];
      v[0] = first + (first < 0 || Object.is(first, -0) ? -norm : norm);
      tau = 2 / (at(v, 0) * at(v, 0) + rest);
      reflect(work, n, j, v, tau);
      sign = -sign;
    }
    reflectors.push({ v, tau });
  }
  for (let j = k - 1; j >= 0; j--) {
    const { v, tau } = reflectors[j] as (typeof reflectors)[number];
    if (tau !== 0) reflect(q, k, j, v, tau);
  }
  const r = new Float64Array(k * n);
  for (let i = 0; i < k; i++) {
    const flip = at(work, i * n + i) < 0 ? -1 : 1;
    sign *= flip;
    for (let j = i; j < n; j++) r[i * n + j] = flip * at(work, i * n + j);
    for (let row = 0; row < m; row++) q[row * k + i] = flip * at(q, row * k + i);
  }
  return [q, r, Float64Array.of(m === n ? sign : 1)];
}

/** I - tau·v·vᵀ applied to the rows from `from` on of a matrix of `n` columns. */
function reflect(a: Matrix, n: number, from: number, v: Matrix, tau: number): void {
  const dots = new Float64Array(n);
  v.forEach((x, row) => {
    for (let column = 0; column < n; column++) dots[column] = at(dots, column) + x * at(a, (from + row) * n + column);
  });
  v.forEach((x, row) => {
    const factor = tau * x;
    for (let column = 0; column < n; column++) {
      const offset = (from + row) * n + column;
      a[offset] = at(a, offset) - factor * at(dots, column);
    }
  });
}

/** Column `to` as a unit vector that is orthogonal to the columns before it; there are fewer such columns than rows. */
function complete(q: Matrix, rows: number, columns: number, to: number): void {
  const before = range(to);
  // Start from the unit vector with the smallest projection onto the columns before.
  const taken = range(rows).map((row) => before.reduce((sum, column) => sum + at(q, row * columns + column) ** 2, 0));
  q[taken.indexOf(Math.min(...taken)) * columns + to] = 1;
  // Orthogonalised twice, because the first pass leaves rounding errors.
  for (const column of [...before, ...before]) {
    const dot = range(rows).reduce((sum, row) => sum + at(q, row * columns + column) * at(q, row * columns + to), 0);
    for (let row = 0; row < rows; row++)
      q[row * columns + to] = at(q, row * columns + to) - dot * at(q, row * columns + column);
  }
  const norm = Math.sqrt(range(rows).reduce((sum, row) => sum + at(q, row * columns + to) ** 2, 0));
  for (let row = 0; row < rows; row++) q[row * columns + to] = at(q, row * columns + to) / norm;
}

/** Whether a matrix has numbers that are not finite, and so no decomposition. */
const undefinedIn = (a: Matrix): boolean => a.some((x) => !Number.isFinite(x));
const noNumbers = (size: number): Matrix => new Float64Array(size).fill(Number.NaN);

/** -1 where the first component that is no less than 0.3 of the largest in size is negative, else 1. */
function direction(components: readonly number[]): number {
  const largest = Math.max(...components.map(Math.abs));
  return (components.find((x) => Math.abs(x) >= 0.3 * largest) ?? 0) < 0 ? -1 : 1;
}

/** The rotation of two columns that makes them orthogonal in the metric of (alpha, beta, gamma); the tangent is Rutishauser's. */
function rotation(alpha: number, beta: number, gamma: number): [number, number] {
  const zeta = (beta - alpha) / (2 * gamma);
  const t = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.hypot(1, zeta));
  const c = 1 / Math.hypot(1, t);
  return [c, c * t];
}

function rotate(a: Matrix, n: number, rows: number, p: number, q: number, [c, s]: [number, number]): void {
  for (let row = 0; row < rows; row++) {
    const [x, y] = [at(a, row * n + p), at(a, row * n + q)];
    a[row * n + p] = c * x - s * y;
    a[row * n + q] = s * x + c * y;
  }
}

const sweeps = 60;

/** Eigenvalues, ascending, and vectors as columns, of the symmetric matrix in the lower triangle: Jacobi's method. */
export function eigh(a: Matrix, n: number): [Matrix, Matrix] {
  if (undefinedIn(a)) return [noNumbers(n), noNumbers(n * n)];
  const work = Float64Array.from({ length: n * n }, (_unused, index) => {
    const [i, j] = [Math.floor(index / n), index % n];
    return at(a, Math.max(i, j) * n + Math.min(i, j));
  });
  const vectors = new Float64Array(n * n);
  for (let i = 0; i < n; i++) vectors[i * n + i] = 1;
  for (let sweep = 0, done = false; sweep < sweeps && !done; sweep++) {
    done = true;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) {
        const gamma = at(work, p * n + q);
        if (Math.abs(gamma) <= 1e-18 * Math.hypot(at(work, p * n + p), at(work, q * n + q)) || gamma === 0) continue;
        done = false;
        const turn = rotation(at(work, p * n + p), at(work, q * n + q), gamma);
        rotate(work, n, n, p, q, turn);
        for (let column = 0; column < n; column++) {
          const [x, y] = [at(work, p * n + column), at(work, q * n + column)];
          work[p * n + column] = turn[0] * x - turn[1] * y;
          work[q * n + column] = turn[1] * x + turn[0] * y;
        }
        rotate(vectors, n, n, p, q, turn);
      }
    }
  }
  const order = range(n).sort((i, j) => at(work, i * n + i) - at(work, j * n + j));
  const out = new Float64Array(n * n);
  order.forEach((from, to) => {
    const column = range(n).map((row) => at(vectors, row * n + from));
    const sign = direction(column);
    column.forEach((x, row) => {
      out[row * n + to] = sign * x;
    });
  });
  return [Float64Array.from(order, (i) => at(work, i * n + i)), out];
}

const transposed = (a: Matrix, m: number, n: number): Matrix =>
  Float64Array.from({ length: m * n }, (_unused, index) => at(a, (index % m) * n + Math.floor(index / m)));

/** U, singular values, descending, and Vᵀ: Hestenes' one-sided Jacobi method. */
export function svd(a: Matrix, m: number, n: number): [Matrix, Matrix, Matrix] {
  const k = Math.min(m, n);
  if (undefinedIn(a)) return [noNumbers(m * k), noNumbers(k), noNumbers(k * n)];
  const [tall, wide] = [Math.max(m, n), k];
  const work = m < n ? transposed(a, m, n) : Float64Array.from(a);
  const turns = new Float64Array(k * k);
  for (let i = 0; i < k; i++) turns[i * k + i] = 1;
  const dot = (p: number, q: number): number => {
    let sum = 0;
    for (let row = 0; row < tall; row++) sum += at(work, row * wide + p) * at(work, row * wide + q);
    return sum;
  };
  for (let sweep = 0, done = false; sweep < sweeps && !done; sweep++) {
    done = true;
    for (let p = 0; p < k; p++) {
      for (let q = p + 1; q < k; q++) {
        const [alpha, beta, gamma] = [dot(p, p), dot(q, q), dot(p, q)];
        if (Math.abs(gamma) <= 1e-17 * Math.sqrt(alpha * beta) || gamma === 0) continue;
        done = false;
        const turn = rotation(alpha, beta, gamma);
        rotate(work, wide, tall, p, q, turn);
        rotate(turns, k, k, p, q, turn);
      }
    }
  }
  const sizes = range(k).map((column) => Math.sqrt(dot(column, column)));
  const order = range(k).sort((i, j) => (sizes[j] as number) - (sizes[i] as number));
  const values = Float64Array.from(order, (i) => sizes[i] as number);
  const [long, short] = [new Float64Array(tall * k), new Float64Array(k * k)];
  order.forEach((from, to) => {
    const size = sizes[from] as number;
    for (let row = 0; row < tall; row++) long[row * k + to] = size === 0 ? 0 : at(work, row * wide + from) / size;
    if (size === 0) complete(long, tall, k, to);
    for (let row = 0; row < k; row++) short[row * k + to] = at(turns, row * k + from);
  });
  const [u, v] = m < n ? [short, long] : [long, short];
  const [rows, columns] = [u.length / k, v.length / k];
  for (let column = 0; column < k; column++) {
    const sign = direction(range(rows).map((row) => at(u, row * k + column)));
    for (let row = 0; row < rows; row++) u[row * k + column] = sign * at(u, row * k + column);
    for (let row = 0; row < columns; row++) v[row * k + column] = sign * at(v, row * k + column);
  }
  return [u, values, transposed(v, columns, k)];
}
