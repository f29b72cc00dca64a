/** @module Scalar functions that JavaScript lacks. */

/** Rounds to the nearest integer, halves to even; keeps the sign of zero. */
export function roundHalfEven(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  if (rest === 0.5) return below % 2 === 0 ? below || 0 * x : below + 1 || 0 * x;
  return rest < 0.5 ? below || 0 * x : below + 1 || 0 * x;
}

const sqrtPi = Math.sqrt(Math.PI);

/** The error function: its Taylor series near 0, a continued fraction for erfc elsewhere (Abramowitz & Stegun 7.1.5, 7.1.14). */
export function erf(x: number): number {
  if (Number.isNaN(x) || x === 0) return x;
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    let term = x;
    let total = x;
    for (let n = 1; n < 100; n++) {
      term *= (-x * x) / n;
      const next = term / (2 * n + 1);
      total += next;
      if (Math.abs(next) < 1e-17 * Math.abs(total)) break;
    }
    return (2 / sqrtPi) * total;
  }
  let fraction = 0;
  for (let n = 80; n >= 1; n--) fraction = n / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / (sqrtPi * (a + fraction)));
}

/** Bernoulli's numbers B2, B4, … B24. */
export const bernoulli: readonly number[] = [
  1 / 6,
  -1 / 30,
  1 / 42,
  -1 / 30,
  5 / 66,
  -691 / 2730,
  7 / 6,
  -3617 / 510,
  43867 / 798,
  -174611 / 330,
  854513 / 138,
  -236364091 / 2730,
];

/** 1 - erf(x): from 1/2 on by a continued fraction, with as many terms as x needs. */
export function erfc(x: number): number {
  if (!(x >= 0.5)) return 1 - erf(x);
  if (x > 30) return 0;
  let fraction = 0;
  for (let n = Math.ceil(60 + 400 / (x * x)); n >= 1; n--) fraction = n / 2 / (x + fraction);
  return Math.exp(-x * x) / (sqrtPi * (x + fraction));
}

/** The inverse of erf: S. Winitzki's formula, then Halley's steps, on erfc where erf is near 1. */
export function erfInv(x: number): number {
  const a = Math.abs(x);
  if (x === 0 || Number.isNaN(x)) return x;
  if (a >= 1) return a > 1 ? Number.NaN : Math.sign(x) * Infinity;
  const rest = 1 - a;
  const w = -Math.log(rest * (1 + a));
  const half = 2 / (Math.PI * 0.147) - w / 2;
  let y = Math.sqrt(Math.max(0, Math.sqrt(half * half + w / 0.147) - half));
  for (let step = 0; step < 4; step++) {
    const error = a < 0.5 ? erf(y) - a : rest - erfc(y);
    y -= error / ((2 / sqrtPi) * Math.exp(-y * y) + y * error);
  }
  return Math.sign(x) * y;
}

/** log|gamma(x)|: Stirling's series beyond 10, recurrence up to 10, reflection below 1/2 (Abramowitz & Stegun 6.1.17, 6.1.40). */
export function lgamma(x: number): number {
  if (Math.abs(x) === Infinity) return Infinity;
  if (x < 0.5) {
    // The distance to the nearest integer keeps its digits near 0.
    const part = Math.abs(x - Math.round(x));
    if (part === 0) return Infinity;
    return Math.log(Math.PI / Math.sin(Math.PI * part)) - lgamma(1 - x);
  }
  let z = x;
  let product = 1;
  for (; z < 10; z++) product *= z;
  const series = bernoulli.slice(0, 8).reduce((sum, b, index) => {
    const k = 2 * (index + 1);
    return sum + b / (k * (k - 1) * z ** (k - 1));
  }, 0);
  return (z - 0.5) * Math.log(z) - z + 0.5 * Math.log(2 * Math.PI) + series - Math.log(product);
}

/** The derivative of lgamma (Abramowitz & Stegun 6.3.5, 6.3.7, 6.3.18). */
export function digamma(x: number): number {
  if (x === 0) return -1 / x;
  if (x < 0) {
    // x - round(x) is exact: a small distance to the nearest integer keeps its digits.
    const part = x - Math.round(x);
    if (part === 0 || x === -Infinity) return Number.NaN;
    return digamma(1 - x) - Math.PI / Math.tan(Math.PI * part);
  }
  if (x === Infinity) return x;
  let z = x;
  let sum = 0;
  for (; z < 10; z++) sum -= 1 / z;
  const series = bernoulli
    .slice(0, 8)
    .reduce((total, b, index) => total + b / (2 * (index + 1) * z ** (2 * index + 2)), 0);
  return sum + Math.log(z) - 0.5 / z - series;
}

/** The derivative of order n of digamma: (-1)^(n+1) n! zeta(n + 1, x) (Abramowitz & Stegun 6.4.10). */
export function polygamma(n: number, x: number): number {
  if (n === 0) return digamma(x);
  if (n < 0 || n > 170 || !Number.isInteger(n) || Number.isNaN(x) || x === -Infinity) return Number.NaN;
  let factorial = 1;
  for (let k = 2; k <= n; k++) factorial *= k;
  return (n % 2 === 0 ? -1 : 1) * factorial * zeta(n + 1, x);
}

/** Hurwitz's zeta function for whole s from 2 on, by Euler and Maclaurin's sum. */
function zeta(s: number, q: number): number {
  if (q <= 0 && Math.floor(q) === q) return s % 2 === 0 ? Infinity : Number.NaN;
  if (q === Infinity) return 0;
  // Far below 0, only the terms near 0 count.
  let a = q < -1e5 ? q - Math.floor(q) - 1e5 : q;
  let sum = 0;
  // The series converges where a is well above s.
  for (; a < 12 + s; a++) sum += a ** -s;
  const power = a ** -s;
  sum += (a * power) / (s - 1) + 0.5 * power;
  let factor = (s * power) / a;
  let factorial = 1;
  bernoulli.forEach((b, index) => {
    const k = 2 * (index + 1);
    factorial *= (k - 1) * k;
    sum += (b * factor) / factorial;
    factor *= ((s + k - 1) * (s + k)) / (a * a);
  });
  return sum;
}
