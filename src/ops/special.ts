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
