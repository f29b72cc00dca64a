/** @module Heddle's peer for inference: a jitted function of one batch, its result awaited or read at once. */
import { jit, type Tensor, tensor } from "heddle";
import type { InferSizes, Int8Sizes } from "../kinds/index.ts";
import { readTensors, type Tree, timed } from "./heddle-data.ts";
import { applyQuantised, quantised } from "./heddle-int8.ts";
import { classifier } from "./heddle-networks.ts";
import { digest, type Peer, type Spec } from "./link.ts";

const place = (values: Float32Array | Int32Array, shape: readonly number[]): Tensor => tensor(values, { shape });

/** A function, and what it takes; `x` of the batch. */
interface Network {
  readonly fn: (params: Tree, x: Tensor) => Tensor;
  readonly params: Tree;
  readonly x: Tensor;
}

/** The network in f32. */
export function network(spec: Spec): Network {
  const { params, inputs } = readTensors(spec, place, place);
  const layers = classifier((spec.sizes as InferSizes | Int8Sizes).network, false);
  const fn = (variables: Tree, x: Tensor): Tensor => layers.apply({ params: variables, state: {} }, x).y;
  return { fn, params, x: inputs[0] as Tensor };
}

function quantisedNetwork(spec: Spec): Network {
  const { network: sizes } = spec.sizes as Int8Sizes;
  const { params, x } = network(spec);
  return { fn: (variables, x) => applyQuantised(sizes, variables, x), params: quantised(params), x };
}

export function inference(spec: Spec): Peer {
  const isQuantised = spec.sizes.kind === "int8";
  const { fn, params, x } = isQuantised ? quantisedNetwork(spec) : network(spec);
  const run = jit(fn);
  const sync = spec.peer === "heddle-sync";
  return {
    versions: {},
    async check() {
      const y = await run(params, x).data();
      return isQuantised ? [digest(y)] : Array.from(y, Number);
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
