/** @module A line search for Wolfe's strong conditions (Nocedal and Wright, "Numerical optimization", 2nd edition, section 3.5). */

/** A function of one number, at one: its value and its slope. */
export interface Point {
  readonly t: number;
  readonly loss: number;
  readonly slope: number;
}

/** How much of what the first slope promises the loss must fall by, and to which share of it the slope. */
const [decrease, curvature] = [1e-4, 0.9];
const mostTries = 25;

/** The lowest point of the cubic through two points with their slopes (equation 3.59); NaN where there is none. */
export function cubicMinimum(a: Point, b: Point): number {
  const d1 = a.slope + b.slope - (3 * (a.loss - b.loss)) / (a.t - b.t);
  const d2 = Math.sign(b.t - a.t) * Math.sqrt(d1 * d1 - a.slope * b.slope);
  return b.t - ((b.t - a.t) * (b.slope + d2 - d1)) / (b.slope - a.slope + 2 * d2);
}

/** The number in an interval; where it is none, the given one. */
const inside = (t: number, low: number, high: number, otherwise: number): number =>
  Number.isFinite(t) ? Math.min(Math.max(t, low), high) : otherwise;

/**
 * A point along a line whose loss has fallen enough and whose slope is flat enough (algorithm 3.5). A loss that is not finite counts
 * as too high. Where none is found in 25 tries, it is the lowest one that has fallen enough, or the start; `open` where it fell on at the
 * longest of them.
 *
 * @param start t = 0, with a slope below 0
 * @param first the first t that is tried
 * @param least the least width of an interval that is looked into
 */
export async function strongWolfe<At extends Point>(
  probe: (t: number) => Promise<At>,
  start: At,
  first: number,
  least: number,
): Promise<At & { readonly open: boolean }> {
  const tooHigh = ({ t, loss }: Point): boolean => !(loss <= start.loss + decrease * t * start.slope);
  const isFlat = ({ slope }: Point): boolean => Math.abs(slope) <= -curvature * start.slope;
  let tries = 0;
  /** Algorithm 3.6: `low` has fallen enough, and a flat point lies between it and `high`. */
  const zoom = async (from: At, to: At): Promise<At> => {
    let [low, high] = [from, to];
    while (tries++ < mostTries && Math.abs(high.t - low.t) > least) {
      const [left, right] = [Math.min(low.t, high.t), Math.max(low.t, high.t)];
      // A tenth away from both ends, so that the interval shrinks.
      const edge = (right - left) / 10;
      const at = await probe(inside(cubicMinimum(low, high), left + edge, right - edge, (left + right) / 2));
      if (tooHigh(at) || at.loss >= low.loss) {
        high = at;
        continue;
      }
      if (isFlat(at)) return at;
      if (at.slope * (high.t - low.t) >= 0) high = low;
      low = at;
    }
    return low;
  };
  const closed = (at: At): At & { readonly open: boolean } => ({ ...at, open: false });
  let [before, t] = [start, first];
  while (tries++ < mostTries) {
    const at = await probe(t);
    if (tooHigh(at) || (before.t > 0 && at.loss >= before.loss)) return closed(await zoom(before, at));
    if (isFlat(at)) return closed(at);
    if (at.slope >= 0) return closed(await zoom(at, before));
    t = inside(cubicMinimum(before, at), at.t + (at.t - before.t) / 100, 10 * at.t, 10 * at.t);
    before = at;
  }
  return { ...before, open: before.t > 0 };
}
