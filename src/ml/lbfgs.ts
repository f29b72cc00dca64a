/**
 * @module L-BFGS over few parameters, whose loss and gradient come from a pass over many examples: the history stays on the host, so that a
 * step is one matrix program. `optim.minimize` compiles the steps, too, which pays for parameters by the million.
 */

import { strongWolfe } from "../optim/wolfe.ts";
import type { Iterated, IterationOptions } from "./model.ts";

/** A function's value and gradient at parameters. */
export type LossAt = (parameters: Float64Array) => { readonly loss: number; readonly gradient: Float64Array };

const dot = (x: Float64Array, y: Float64Array): number =>
  x.reduce((sum, value, at) => sum + value * (y[at] as number), 0);
const plus = (x: Float64Array, scale: number, y: Float64Array): Float64Array =>
  x.map((value, at) => value + scale * (y[at] as number));
const largest = (x: Float64Array): number => x.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

interface Pair {
  readonly step: Float64Array;
  readonly change: Float64Array;
  readonly curvature: number;
}

/** Steps that are remembered. */
const memory = 10;

/** The two loops of Nocedal (1980): minus the inverse Hessian times the gradient. */
function directionOf(pairs: readonly Pair[], gradient: Float64Array): Float64Array {
  let direction: Float64Array = gradient.map((value) => -value);
  const scales = pairs.map(() => 0);
  for (let at = pairs.length - 1; at >= 0; at--) {
    const { step, change, curvature } = pairs[at] as Pair;
    scales[at] = dot(step, direction) / curvature;
    direction = plus(direction, -(scales[at] as number), change);
  }
  const last = pairs.at(-1);
  if (last !== undefined)
    direction = direction.map((value) => (value * last.curvature) / dot(last.change, last.change));
  for (const [at, { step, change, curvature }] of pairs.entries())
    direction = plus(direction, (scales[at] as number) - dot(change, direction) / curvature, step);
  return direction;
}

/** The parameters of the least loss, and how the steps ended: they converge when no element of the gradient exceeds the tolerance. */
export async function leastLoss(
  lossAt: LossAt,
  start: Float64Array,
  { tolerance, maxIterations }: IterationOptions,
): Promise<{ readonly parameters: Float64Array } & Iterated> {
  let parameters = start;
  let { loss, gradient } = lossAt(parameters);
  const pairs: Pair[] = [];
  let iterations = 0;
  for (; iterations < maxIterations && largest(gradient) > tolerance; iterations++) {
    const direction = directionOf(pairs, gradient);
    const slope = dot(direction, gradient);
    if (!(slope < 0)) break;
    const from = parameters;
    const probe = async (t: number) => {
      const point = plus(from, t, direction);
      const found = lossAt(point);
      return { ...found, t, slope: dot(found.gradient, direction), point };
    };
    const first = pairs.length === 0 ? Math.min(1, 1 / largest(gradient)) : 1;
    const best = await strongWolfe(probe, { t: 0, loss, slope, gradient, point: from }, first, 1e-12);
    if (best.t === 0) break;
    const change = plus(best.gradient, -1, gradient);
    const step = plus(best.point, -1, from);
    const curvature = dot(step, change);
    if (curvature > 0) pairs.push({ step, change, curvature });
    if (pairs.length > memory) pairs.shift();
    [parameters, loss, gradient] = [best.point, best.loss, best.gradient];
  }
  return { parameters, iterations, converged: largest(gradient) <= tolerance };
}
