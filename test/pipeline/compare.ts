/** Trains by a pipeline and on one device, and says how far apart they are. */

import { distribute, meshOf, type Tensor } from "../../src/functions/index.ts";
import { replicated, shardedOn } from "../../src/plan/index.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import {
  compiled,
  type Network,
  optimizers,
  type PipelineChoice,
  type Precision,
  single,
  type Trained,
  train,
} from "./networks.ts";

const runtimes: Runtime[] = [];

export function closeAll(): void {
  for (const runtime of runtimes) runtime.close();
}

/** The largest difference relative to the largest value; infinite when the sizes differ. */
export function apart(one: ArrayLike<number>, other: ArrayLike<number>): number {
  if (one.length !== other.length) return Infinity;
  let difference = 0;
  let size = Number.MIN_VALUE;
  for (let index = 0; index < one.length; index++) {
    const [left, right] = [one[index] as number, other[index] as number];
    if (Number.isNaN(left) || Number.isNaN(right)) return Infinity;
    difference = Math.max(difference, Math.abs(left - right));
    size = Math.max(size, Math.abs(left));
  }
  return difference / size;
}

export const farthest = (one: Trained["params"], other: Trained["params"]): number =>
  Math.max(...Object.keys(one).map((name) => apart(one[name] as ArrayLike<number>, other[name] as ArrayLike<number>)));

type OptimizerName = "momentum" | "adam";

const made = (name: OptimizerName) => optimizers()[name] as ReturnType<typeof optimizers>[string];

export async function pipelined(
  network: Network,
  optimizer: OptimizerName,
  dtype: Precision,
  steps: number,
  choice: PipelineChoice,
): Promise<Trained> {
  const { runtime, pipeline } = compiled(network, made(optimizer), dtype, choice);
  runtimes.push(runtime);
  const mesh = meshOf(runtime);
  const split = mesh.axes.some(({ name }) => name === "data") ? shardedOn(mesh, { data: 0 }) : replicated(mesh);
  const put = async (x: Tensor, isBatch: boolean): Promise<Tensor> =>
    distribute(runtime, await x.data(), x, isBatch ? split : replicated(mesh));
  return train(pipeline.run, network, made(optimizer), dtype, steps, put);
}

export async function whole(
  network: Network,
  optimizer: OptimizerName,
  dtype: Precision,
  steps: number,
  executor: "reference" | "native" = "reference",
): Promise<Trained> {
  const { runtime, step } = single(network, made(optimizer), dtype, executor);
  runtimes.push(runtime);
  return train(step.run, network, made(optimizer), dtype, steps);
}
