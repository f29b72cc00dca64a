/** @module Heddle's peer for operations that are not compiled. */
import { type Tensor, tensor } from "heddle";
import type { EagerOperation, EagerSizes } from "../kinds/index.ts";
import { readTensors, timed } from "./heddle-data.ts";
import type { Peer, Spec } from "./link.ts";

/** A step of a linear regression of x by itself, from weights y. */
function regression(x: Tensor, weights: Tensor, count: number): Tensor {
  const [rows, columns] = x.shape as [number, number];
  let w = weights;
  let b = weights.slice([0, 0], [1, columns]).reshape([columns]);
  for (let step = 0; step < count; step++) {
    const error = x.matmul(w).add(b).sub(x);
    w = w.sub(
      x
        .transpose()
        .matmul(error)
        .mul(2 / rows)
        .mul(0.01),
    );
    b = b.sub(
      error
        .sum(0)
        .mul(2 / rows)
        .mul(0.01),
    );
  }
  return w.add(b);
}

const repeated =
  (operation: (x: Tensor, y: Tensor) => Tensor) =>
  (x: Tensor, y: Tensor, count: number): Tensor => {
    let result = operation(x, y);
    const isChained = String(result.shape) === String(x.shape);
    for (let done = 1; done < count; done++) result = operation(isChained ? result : x, y);
    return result;
  };

/** Twenty operations, the next of which can take what this one gives. */
function chainOf(x: Tensor, y: Tensor): Tensor {
  const a = x.add(y).mul(0.5).tanh().sub(y).relu().add(1).sqrt();
  const b = a
    .matmul(y)
    .mul(1 / 16)
    .sigmoid()
    .transpose()
    .softmax();
  const c = b.mul(y).exp().log();
  const d = c.sub(c.sum(1, { keepDims: true }));
  return d.mul(d).add(x).mul(0.5);
}

const eagerOperations: Readonly<Record<EagerOperation, (x: Tensor, y: Tensor, count: number) => Tensor>> = {
  add: repeated((x, y) => x.add(y)),
  scale: repeated((x) => x.mul(0.5)),
  sum: repeated((x) => x.sum()),
  matmul: repeated((x, y) => x.matmul(y)),
  softmax: repeated((x) => x.softmax()),
  slice: repeated((x) => x.slice([2, 0], [4, x.shape[1] as number])),
  chain: repeated(chainOf),
  step: regression,
  xty: repeated((x, y) => x.transpose().matmul(y)),
};

export function eager(spec: Spec): Peer {
  // Eager tensors on the device of this process, as in users' programs.
  const place = (values: Float32Array | Int32Array, shape: readonly number[]): Tensor => tensor(values, { shape });
  const [x, y] = readTensors(spec, place, place).inputs as [Tensor, Tensor];
  const { operation, count } = spec.sizes as EagerSizes;
  const run = eagerOperations[operation];
  return {
    versions: {},
    async check() {
      return Array.from(await run(x, y, 3).data(), Number);
    },
    steps: (steps) =>
      timed(steps, 2, () => {
        const results = run(x, y, count);
        return async () => (await results.data())[0] as number;
      }),
  };
}
