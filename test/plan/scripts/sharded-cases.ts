/** Steps over values that are split in hard ways, for one device and for several processes. */
import { type Mesh, mesh } from "heddle";
import type { HostTensor } from "heddle/ir";
import { call } from "heddle/ops";
import { gather, matmul, mean, mul, sub, sum, Tensor, tanh, valueAndGrad } from "heddle/tensor";
import { randomFrom } from "../../support/tensors.ts";

export interface ShardedCase {
  readonly mesh: Mesh;
  /** Layout of each input, as text. */
  readonly layouts: readonly string[];
  readonly inputs: readonly HostTensor[];
  /** Value, then gradients by the first arguments. */
  readonly step: (...inputs: Tensor[]) => Tensor[];
}

const random = randomFrom(3);
const floats = (...shape: number[]): HostTensor => ({
  dtype: "f64",
  shape,
  data: Float64Array.from({ length: shape.reduce((size, dim) => size * dim, 1) }, () => random() * 2 - 1),
});
const ids = (...values: number[]): HostTensor => ({
  dtype: "i32",
  shape: [values.length],
  data: Int32Array.from(values),
});

function lookup(table: Tensor, weights: Tensor, where: Tensor): Tensor[] {
  const loss = (params: readonly Tensor[]): Tensor =>
    mean(tanh(matmul(gather(params[0] as Tensor, where), params[1] as Tensor)));
  const { value, grad } = valueAndGrad(loss)([table, weights]);
  return [value, sub(table, mul(grad[0] as Tensor, 0.5)), grad[1] as Tensor];
}

function dense(weights: Tensor, batch: Tensor): Tensor[] {
  const { value, grad } = valueAndGrad((params: Tensor) => mean(tanh(matmul(batch, params))))(weights);
  return [value, grad];
}

function convolved(weights: Tensor, images: Tensor): Tensor[] {
  const conv = (x: Tensor, w: Tensor): Tensor =>
    Tensor.ofNode(
      call("conv", [x.node, w.node], {
        layout: "b01f,01io->b01f",
        strides: [2, 1],
        padding: [
          [1, 1],
          [1, 1],
        ],
        inputDilation: [1, 1],
        kernelDilation: [1, 1],
      }),
    );
  const loss = (both: readonly Tensor[]): Tensor => sum(tanh(conv(both[1] as Tensor, both[0] as Tensor)));
  const { value, grad } = valueAndGrad(loss)([weights, images]);
  return [value, ...grad];
}

const two = mesh({ data: 2 });
const table = floats(13, 4);
export const cases: { readonly [name: string]: ShardedCase } = {
  lookup: {
    mesh: two,
    layouts: ["S(0)", "R", "S(0)"],
    inputs: [table, floats(4, 3), ids(12, 0, 3, 3, 7, 12, 1, 6)],
    step: lookup as ShardedCase["step"],
  },
  "wrong id": {
    mesh: two,
    layouts: ["S(0)", "R", "S(0)"],
    inputs: [table, floats(4, 3), ids(12, 0, 3, 3, 7, 13, 1, 6)],
    step: lookup as ShardedCase["step"],
  },
  uneven: {
    mesh: two,
    layouts: ["R", "S(0)"],
    inputs: [floats(5, 3), floats(7, 5)],
    step: dense as ShardedCase["step"],
  },
  shares: {
    mesh: mesh({ data: 2 }, { shares: { data: [2, 1] } }),
    layouts: ["R", "S(0)"],
    inputs: [floats(5, 3), floats(9, 5)],
    step: dense as ShardedCase["step"],
  },
  halo: {
    mesh: two,
    layouts: ["R", "S(1)"],
    inputs: [floats(3, 3, 2, 4), floats(2, 9, 5, 2)],
    step: convolved as ShardedCase["step"],
  },
};
