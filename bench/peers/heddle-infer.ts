/** @module Heddle's peer for inference: a jitted function of one batch, its result awaited or read at once. */
import { jit, type Tensor, tensor } from "heddle";
import type { InferSizes } from "../kinds/index.ts";
import { readTensors, type Tree, timed } from "./heddle-data.ts";
import { classifier } from "./heddle-networks.ts";
import type { Peer, Spec } from "./link.ts";

const place = (values: Float32Array | Int32Array, shape: readonly number[]): Tensor => tensor(values, { shape });

/** The function, and what it takes; `x` of the batch. */
export function network(spec: Spec): { fn: (params: Tree, x: Tensor) => Tensor; params: Tree; x: Tensor } {
  const { params, inputs } = readTensors(spec, place, place);
  const layers = classifier((spec.sizes as InferSizes).network, false);
  const fn = (variables: Tree, x: Tensor): Tensor => layers.apply({ params: variables, state: {} }, x).y;
  return { fn, params, x: inputs[0] as Tensor };
}

export function inference(spec: Spec): Peer {
  const { fn, params, x } = network(spec);
  const run = jit(fn);
  const sync = spec.peer === "heddle-sync";
  return {
    versions: {},
    async check() {
      return Array.from(await run(params, x).data(), Number);
    },
    steps: (count) =>
      timed(count, 1, () => {
        const y = run(params, x);
        if (sync) {
          const first = y.dataSync()[0] as number;
          y.dispose();
          return () => first;
        }
        return async () => {
          const first = (await y.data())[0] as number;
          y.dispose();
          return first;
        };
      }),
  };
}
