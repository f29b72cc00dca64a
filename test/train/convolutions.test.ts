/** Training of networks with convolutions of one and three spatial dims: native code, as compiled, against the reference. */
import { add, data, losses, mul, nn, random, type Tensor, type Tensors, type TrainOptions, train } from "heddle";
import { describe, expect, test } from "vitest";
import { mesh } from "../../src/plan/index.ts";
import { missing } from "../native/evaluate.ts";
import { options } from "./synthetic.ts";

const count = 12;

/** Rows of waves of this shape, with a label each or with waves of another shape as what is to be found. */
function waves(shape: readonly number[], target?: readonly number[]): data.Dataset {
  const numbers = (sizes: readonly number[]): Float32Array =>
    Float32Array.from({ length: count * sizes.reduce((a, b) => a * b, 1) }, (_unused, index) => Math.sin(0.37 * index));
  const y =
    target === undefined
      ? { shape: [count], data: Int32Array.from({ length: count }, (_unused, index) => index % 3) }
      : { shape: [count, ...target], data: numbers(target) };
  return data.fromArrays({ x: { shape: [count, ...shape], data: numbers(shape) }, y }).batch(4);
}

/** A stack of dilated convolutions, tanh gated by sigmoid, with a residual to the next and a skip to the end of each. */
function waveNet(channels: number, dilations: readonly number[], out: number): nn.Layer {
  const conv = (kernel: number, dilation: number, to: number): nn.Layer =>
    nn.conv1d({ out: to, kernel, dilation, padding: "same" });
  const blocks = dilations.map((dilation) => ({
    filter: conv(3, dilation, channels),
    gate: conv(3, dilation, channels),
    residual: conv(1, 1, channels),
    skip: conv(1, 1, channels),
  }));
  const named: readonly (readonly [string, nn.Layer])[] = [
    ["begin", conv(1, 1, channels)],
    ...blocks.flatMap((block, at) => Object.entries(block).map(([name, layer]) => [`${at}.${name}`, layer] as const)),
    ["end", conv(1, 1, out)],
  ];
  return {
    kind: "waveNet",
    init: (key, input) => {
      const inner = { dtype: input.dtype, shape: [input.shape[0] as number, channels, input.shape[2] as number] };
      const made = named.map(([name, layer], at) => {
        const own = layer.init(random.foldIn(key, at), name === "begin" ? input : inner);
        return [name, own] as const;
      });
      const params = Object.fromEntries(made.map(([name, own]) => [name, own.params])) as Tensors;
      return { params, state: {}, output: (made[made.length - 1] as (typeof made)[number])[1].output };
    },
    apply: ({ params }, x) => {
      const run = (name: string, value: Tensor): Tensor => {
        const layer = named.find(([own]) => own === name)?.[1] as nn.Layer;
        return layer.apply({ params: (params as Record<string, Tensors>)[name] as Tensors, state: {} }, value).y;
      };
      let value = run("begin", x);
      const skips = blocks.map((_block, at) => {
        const gated = mul(run(`${at}.filter`, value).tanh(), run(`${at}.gate`, value).sigmoid());
        value = add(value, run(`${at}.residual`, gated));
        return run(`${at}.skip`, gated);
      });
      return { y: run("end", skips.reduce(add).relu()), state: {} };
    },
  };
}

const networks: readonly (readonly [string, Partial<TrainOptions>])[] = [
  [
    "one dim, gated and with dropout",
    {
      model: nn.sequential(
        nn.conv1d({ out: 6, kernel: 3 }),
        nn.glu(1),
        nn.relu(),
        nn.maxPool1d(2),
        nn.dropout(0.25),
        nn.flatten(),
        nn.linear(3),
      ),
      data: waves([2, 10]),
    },
  ],
  [
    "one dim, there and back",
    {
      model: nn.sequential(
        nn.conv1d({ out: 4, kernel: 3, strides: 2 }),
        nn.relu(),
        nn.convTranspose1d({ out: 2, kernel: 3, strides: 2 }),
      ),
      data: waves([2, 9], [2, 9]),
      loss: losses.mse,
      metrics: {},
    },
  ],
  ["WaveNet blocks", { model: waveNet(4, [1, 2, 4], 1), data: waves([1, 12], [1, 12]), loss: losses.mse, metrics: {} }],
  [
    "three dims",
    {
      model: nn.sequential(
        nn.conv3d({ out: 3, kernel: 2 }),
        nn.relu(),
        nn.avgPool3d(2),
        nn.conv3d({ out: 2, kernel: 1 }),
        nn.flatten(),
        nn.linear(3),
      ),
      data: waves([1, 5, 5, 3]),
    },
  ],
];

describe.skipIf(missing !== undefined)("networks of convolutions train", () => {
  test.each(networks)("%s", async (_name, network) => {
    const run = async (executor: "native" | "reference", devices: number): Promise<number[]> => {
      const found: number[] = [];
      const callbacks = { onStep: ({ loss }: { loss: number }) => void found.push(loss) };
      const where = { executor, mesh: mesh({ data: devices }), dtype: "f64" as const };
      await train(options({ ...network, ...where, callbacks, epochs: 4 }));
      return found;
    };
    const [expected, one, two] = [await run("reference", 1), await run("native", 1), await run("native", 2)];
    expect(expected.at(-1)).toBeLessThan(expected[0] as number);
    expected.forEach((loss, step) => {
      expect(Math.abs((one[step] as number) - loss)).toBeLessThanOrEqual(1e-9 * loss);
      expect(Math.abs((two[step] as number) - loss)).toBeLessThanOrEqual(1e-9 * loss);
    });
  });
});
