/**
 * @module Elastic averaging (Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", 2015): workers train copies of their
 * own; after every so many local steps a worker and the server's copy move towards each other by a share of their distance.
 */
import { HeddleError } from "../../util/errors.ts";
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The elastic-averaging policy. No worker waits for another; the server adds what a worker pushes. */
export function elasticAveraging(period: number, elasticity: number): Policy {
  const spec = `elastic-averaging:${period}:${elasticity}`;
  if (!(elasticity > 0 && elasticity <= 1))
    throw new HeddleError("option", `policy '${spec}': the share must be above 0 and at most 1`);
  const rule = { fetchEvery: period, pushEvery: period, local: true, carries: "difference", elasticity } as const;
  return { spec, worker: { ...plainWorker, ...rule }, merging: "sum", mayBegin: () => true };
}

/**
 * One exchange: moves the worker's values towards the server's, and gives what the server adds to its own. The sum of both stays as it
 * is.
 */
export function elasticExchange<Values extends Float32Array | Float64Array>(
  local: Values,
  server: Values,
  elasticity: number,
): Values {
  if (local.length !== server.length)
    throw new HeddleError("shape", `elasticExchange: ${local.length} values and ${server.length}`);
  const moved = local.slice() as Values;
  for (const [index, value] of local.entries()) {
    moved[index] = elasticity * (value - (server[index] as number));
    local[index] = value - (moved[index] as number);
  }
  return moved;
}

registerPolicy({
  name: "elastic-averaging",
  doc: "workers train copies of their own, which are drawn to the server's after each PERIOD steps; no worker waits",
  numbers: [
    { name: "PERIOD", doc: "local steps between two exchanges", least: 1 },
    { name: "SHARE", doc: "the share of the distance that each side moves", fraction: true, default: 0.1 },
  ],
  make: (period, elasticity) => elasticAveraging(period as number, elasticity as number),
});
