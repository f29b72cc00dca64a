/** Layers that have others inside, in mixed precision: parameters of norms reach them as they are, those of products rounded. */
import { isTensor, nn, random, type Tensor, type Tensors, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import type { Node } from "../../src/ir/node.ts";
import { topological, usersOf } from "../../src/ir/walk.ts";
import { Tensor as TensorOfNode } from "../../src/tensor/tensor.ts";
import { traceFunction } from "../../src/tensor/tracing.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";

const key = random.key(1);
const type = { shape: [2, 3, 4], dtype: "f32" } as const;
const options = { heads: 2, feedForward: 8, dropout: 0 };

/** Of each parameter, the dtypes to which what an application makes of it is cast first. */
function castsOf(params: Tensors, apply: (params: Tensors, x: Tensor) => Tensor) {
  const { leaves, paths, shape } = flattenTree<Tensor>(params, isTensor);
  const specs = [...leaves, type].map(({ dtype, shape: sizes }, at) => ({
    name: `x${at}`,
    type: { dtype, shape: sizes },
  }));
  const { graph } = traceFunction("apply", specs, (nodes) => {
    const given = nodes.map(TensorOfNode.ofNode);
    return [apply(unflattenTree(shape, given.slice(0, -1)) as Tensors, given.at(-1) as Tensor).node];
  });
  const users = usersOf(topological(graph.outputs));
  return {
    dtype: graph.outputs[0]?.dtype,
    casts: paths.map((path, at) => {
      const own = users.get(graph.inputs[at] as Node) ?? [];
      return [path, [...new Set(own.filter(({ op }) => op.name === "cast").map(({ dtype }) => dtype))]] as const;
    }),
  };
}

const decoder = nn.transformerDecoderLayer(options);
const memory = tensor([[[1, 2, 3, 4]], [[5, 6, 7, 8]]]);
const layers: readonly (readonly [string, Pick<nn.Layer, "init">, (params: Tensors, x: Tensor) => Tensor])[] = [
  ...[
    nn.transformerEncoderLayer(options),
    nn.decoderBlock(options),
    nn.transformerEncoder({ ...options, layers: 2, preNorm: true, norm: "rms" }),
  ].map(
    (layer) =>
      [
        layer.kind,
        layer,
        (params: Tensors, x: Tensor) => nn.applyLayer(layer, { params, state: {} }, x, { precision: "bf16" }).y,
      ] as const,
  ),
  [decoder.kind, decoder, (params, x) => decoder.decode({ params, state: {} }, x, memory, { precision: "bf16" })],
];

describe.each(layers)("%s", (_kind, layer, apply) => {
  test("norms get their parameters in f32", () => {
    const { params } = layer.init(key, type);
    const { casts, dtype } = castsOf(params, apply);
    expect(dtype).toBe("bf16");
    for (const [path, dtypes] of casts) expect([path, dtypes]).toEqual([path, /norm/.test(path) ? [] : ["bf16"]]);
  });
});

test("a rematerialised norm takes its parameters as they are", () => {
  const layer = nn.remat(nn.layerNorm());
  // Not a bf16: it would be 1.
  const params = { weight: tensor([1 + 2 ** -12, 1, 1, 1]), bias: tensor([0, 0, 0, 2 ** -12 - 1]) };
  const x = random.normal(random.key(2), [1, 4]).cast("bf16").cast("f32");
  const [exact, mixed] = ([undefined, "bf16"] as const).map((precision) => [
    ...nn.applyLayer(layer, { params, state: {} }, x, { precision }).y.dataSync(),
  ]);
  expect(mixed).toEqual(exact);
});

test("values are those of f32 but for rounding", () => {
  const layer = nn.transformerEncoder({ ...options, layers: 2, preNorm: true });
  const variables = layer.init(key, type);
  const x = random.normal(random.key(2), type.shape);
  const [exact, rounded] = [undefined, "bf16" as const].map((precision) =>
    nn.applyLayer(layer, variables, x, { precision }).y.cast("f32").dataSync(),
  ) as unknown as readonly [ArrayLike<number>, ArrayLike<number>];
  for (let at = 0; at < exact.length; at++)
    expect(Math.abs((rounded[at] as number) - (exact[at] as number))).toBeLessThan(0.05);
});
