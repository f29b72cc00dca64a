/** @module A line search for the strong Wolfe conditions (Nocedal and Wright, "Numerical optimization", 2nd edition, section 3.5). */

/** Value and slope of a function of one number at a point. */
export interface Point {
  readonly t: number;
  readonly loss: number;
  readonly slope: number;
}

/** The constants of the two conditions: sufficient decrease and curvature. */
const [decrease, curvature] = [1e-4, 0.9];
const maxTries = 25;

/** The lowest point of the cubic through two points with their slopes (equation 3.59); NaN if there is none. */
export function cubicMinimum(a: Point, b: Point): number {
  const d1 = a.slope + b.slope - (3 * (a.loss - b.loss)) / (a.t - b.t);
  const d2 = Math.sign(b.t - a.t) * Math.sqrt(d1 * d1 - a.slope * b.slope);
  return b.t - ((b.t - a.t) * (b.slope + d2 - d1)) / (b.slope - a.slope + 2 * d2);
}

/** A number clamped to an interval; the fallback if it is not finite. */
const clamped = (t: number, low: number, high: number, fallback: number): number =>
  Number.isFinite(t) ? Math.min(Math.max(t, low), high) : fallback;

/**
 * A point along a line whose loss has fallen enough and whose slope is flat enough (algorithm 3.5). A loss that is not finite counts
 * as too high. If 25 tries find no such point, the result is the lowest point that has fallen enough, or the start; `open` says that the
 * loss still fell at the longest step.
 *
 * @param start the point t = 0, with a slope below 0
 * @param first the first t to try
 * @param minWidth the smallest width of an interval to search
 */
export async function strongWolfe<At extends Point>(
  probe: (t: number) => Promise<At>,
  start: At,
  first: number,
  minWidth: number,
): Promise<At & { readonly open: boolean }> {
  const tooHigh = ({ t, loss }: Point): boolean => !(loss <= start.loss + decrease * t * start.slope);
  const isFlat = ({ slope }: Point): boolean => Math.abs(slope) <= -curvature * start.slope;
  let tries = 0;
  /** Algorithm 3.6: `low` has fallen enough, and a flat point lies between it and `high`. */
  const zoom = async (from: At, to: At): Promise<At> => {
    let [low, high] = [from, to];
    while (tries++ < maxTries && Math.abs(high.t - low.t) > minWidth) {
      const [left, right] = [Math.min(low.t, high.t), Math.max(low.t, high.t)];
      // A tenth away from both ends, so that the interval shrinks.
      const edge = (right - left) / 10;
      const point = await probe(clamped(cubicMinimum(low, high), left + edge, right - edge, (left + right) / 2));
      if (tooHigh(point) || point.loss >= low.loss) {
        high = point;
        continue;
      }
      if (isFlat(point)) return point;
      if (point.slope * (high.t - low.t) >= 0) high = low;
      low = point;
    }
    return low;
  };
  const closed = (point: At): At & { readonly open: boolean } => ({ ...point, open: false });
  let [previous, t] = [start, first];
  while (tries++ < maxTries) {
    const point = await probe(t);
    if (tooHigh(point) || (previous.t > 0 && point.loss >= previous.loss)) return closed(await zoom(previous, point));
    if (isFlat(point)) return closed(point);
    if (point.slope >= 0) return closed(await zoom(point, previous));
    t = clamped(cubicMinimum(previous, point), point.t + (point.t - previous.t) / 100, 10 * point.t, 10 * point.t);
    previous = point;
  }
  return { ...previous, open: previous.t > 0 };
}
