/** @module Normal numbers far from their mean, where the distribution function rounds to 1. */
import { expm1, full, log, log1p, type Tensor } from "../functions/index.ts";

/** Distance from the mean, in standard deviations, from which the functions below are exact. */
export const TAIL = 3;

/** Levels of the continued fraction and Newton steps that reach the precision of a dtype from {@link TAIL} on. */
const digits = { f32: { levels: 8, steps: 3 }, f64: { levels: 60, steps: 5 } } as const;

/**
 * How far standard normal numbers between `low` and `high` are from `low`, in the order of the uniform numbers `u` in [0, 1):
 * the inverse of their distribution function, to the last digits of the dtype.
 *
 * With Mills' ratio R = (1 - Φ) / φ the distance d from a solves d (2a + d) / 2 - log(R(a + d) / R(a)) = t, where
 * t = -log(1 - u P) and P is the probability of a number below `high`, given that it is above `low`. Newton's steps (the derivative is
 * 1 / R) start from R as 1 / x, as in G. Marsaglia, Generating a variable from the tail of the normal distribution, 1964.
 *
 * @param u of dtype f32 or f64, any shape
 * @param low at least {@link TAIL}
 * @param high at least `low`
 */
export function beyond(u: Tensor, low: number, high: number): Tensor {
  const { levels, steps } = digits[u.dtype as keyof typeof digits];
  const ratio = (x: Tensor): Tensor => mills(x, levels);
  const [start, end] = [low, high].map((bound) => ratio(full([], bound, { dtype: u.dtype }))) as [Tensor, Tensor];
  const share = expm1(log(end.div(start)).sub(((high - low) / 2) * (high + low)));
  const t = log1p(u.mul(share)).neg();
  let distance = t.mul(2).div(
    t
      .mul(2)
      .add(low * low)
      .sqrt()
      .add(low),
  );
  for (let step = 0; step < steps; step++) {
    const ratioHere = ratio(distance.add(low));
    const beyond = distance.mul(distance.mul(0.5).add(low)).sub(log(ratioHere.div(start)));
    distance = distance.sub(beyond.sub(t).mul(ratioHere));
  }
  return distance;
}

/** Mills' ratio by Laplace's continued fraction 1/(x+1/(x+2/(x+...))) (Abramowitz and Stegun, 26.2.14). */
function mills(x: Tensor, levels: number): Tensor {
  let rest = x;
  for (let level = levels; level > 0; level--) rest = x.add(full([], level, { dtype: x.dtype }).div(rest));
  return full([], 1, { dtype: x.dtype }).div(rest);
}
