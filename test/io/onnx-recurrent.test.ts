/** ONNX's recurrent layers by loops over numbers, with the equations of https://onnx.ai/onnx/operators/onnx__LSTM.html. */
import { io, type Tensor, tensor } from "heddle";
import { expect, test } from "vitest";
import {
  batch,
  features,
  hidden,
  type Recurrent,
  recurrentModel,
  recurrentRows,
  time,
  titleOf,
  valuesOf,
} from "../onnx/recurrent-models.ts";

type Fn = (x: number) => number;
const sigmoid: Fn = (x) => 1 / (1 + Math.exp(-x));
/** Each with how many numbers it takes, and what they are where none is given. */
const formulas: { readonly [name: string]: readonly [(x: number, a: number, b: number) => number, ...number[]] } = {
  Affine: [(x, a, b) => a * x + b, NaN, NaN],
  Elu: [(x, a) => (x >= 0 ? x : a * (Math.exp(x) - 1)), 1],
  HardSigmoid: [(x, a, b) => Math.min(Math.max(a * x + b, 0), 1), 0.2, 0.5],
  LeakyRelu: [(x, a) => (x >= 0 ? x : a * x), 0.01],
  Relu: [(x) => Math.max(0, x)],
  ScaledTanh: [(x, a, b) => a * Math.tanh(b * x), NaN, NaN],
  Sigmoid: [sigmoid],
  Softplus: [(x) => Math.log(1 + Math.exp(x))],
  Softsign: [(x) => x / (1 + Math.abs(x))],
  Tanh: [Math.tanh],
  ThresholdedRelu: [(x, a) => (x > a ? x : 0), 1],
};
const usual = { RNN: ["Tanh"], GRU: ["Sigmoid", "Tanh"], LSTM: ["Sigmoid", "Tanh", "Tanh"] } as const;

function functionsOf({ op, activations = usual[op], alpha = [], beta = [] }: Recurrent): Fn[] {
  const [as, bs] = [[...alpha], [...beta]];
  return activations.map((name) => {
    const [fn, ...defaults] = formulas[name] as (typeof formulas)[string];
    const [a, b] = defaults.map((value, place) => (place === 0 ? as : bs).shift() ?? value);
    return (x) => fn(x, a as number, b as number);
  });
}

/** `[time, batch, hidden]`, flat. */
function wanted(row: Recurrent): number[] {
  const { x, W, R, B, P } = valuesOf(row);
  const [f, g, h] = functionsOf(row) as [Fn, Fn, Fn];
  const limit = row.clip ?? Infinity;
  const clip: Fn = (value) => Math.min(Math.max(value, -limit), limit);
  const half = B.length / 2;
  const outputs: number[] = new Array<number>(time * batch * hidden);
  for (let example = 0; example < batch; example++) {
    let [state, cell] = [new Array<number>(hidden).fill(0), new Array<number>(hidden).fill(0)];
    for (let step = 0; step < time; step++) {
      const at = (step * batch + example) * features;
      const dot = (weights: Float32Array, line: number, by: ArrayLike<number>): number =>
        Array.from(by).reduce((sum, value, place) => sum + value * (weights[line * by.length + place] as number), 0);
      const fromX = (line: number): number => dot(W, line, x.slice(at, at + features)) + (B[line] as number);
      const through = (line: number, by: number[]): number => dot(R, line, by) + (B[half + line] as number);
      const gate = (index: number, unit: number): number =>
        fromX(index * hidden + unit) + through(index * hidden + unit, state);
      const peep = (index: number, unit: number, by: number): number =>
        row.peepholes === true ? (P[index * hidden + unit] as number) * by : 0;
      const units = Array.from({ length: hidden }, (_unused, unit) => unit);
      if (row.op === "RNN") state = units.map((unit) => f(clip(gate(0, unit))));
      else if (row.op === "GRU") {
        const reset = units.map((unit) => f(clip(gate(1, unit))));
        const held = state.map((value, unit) => value * (reset[unit] as number));
        state = units.map((unit) => {
          const [update, line] = [f(clip(gate(0, unit))), 2 * hidden + unit];
          const inner =
            row.linearBeforeReset === true ? (reset[unit] as number) * through(line, state) : through(line, held);
          return (1 - update) * g(clip(fromX(line) + inner)) + update * (state[unit] as number);
        });
      } else {
        const next = cell.map((old, unit) => {
          const [input, forget] = [0, 2].map((index) =>
            f(clip(gate(index, unit) + peep(index === 0 ? 0 : 2, unit, old))),
          );
          return (forget as number) * old + (input as number) * g(clip(gate(3, unit)));
        });
        state = next.map((now, unit) => f(clip(gate(1, unit) + peep(1, unit, now))) * h(now));
        cell = next;
      }
      state.forEach((value, unit) => {
        outputs[(step * batch + example) * hidden + unit] = value;
      });
    }
  }
  return outputs;
}

test.each(recurrentRows.map((row) => [titleOf(row), row] as const))("%s", async (_title, row) => {
  const model = io.parseOnnx(recurrentModel(row));
  const y = model.run({ x: tensor(valuesOf(row).x, { shape: [time, batch, features] }) })["output"] as Tensor;
  expect(y.shape).toEqual([time, 1, batch, hidden]);
  const got = await y.data();
  for (const [place, value] of wanted(row).entries()) expect(Number(got[place])).toBeCloseTo(value, 4);
});

test.each<[string, Recurrent, RegExp]>([
  [
    "one of no list",
    { op: "RNN", activations: ["Swish"] },
    /activation Swish is not imported[\s\S]*affine, elu, hardsigmoid/,
  ],
  [
    "numbers that ONNX has no default of",
    { op: "RNN", activations: ["Affine"], alpha: [1] },
    /Affine has no activation_beta/,
  ],
  ["too few", { op: "LSTM", activations: ["Sigmoid", "Tanh"] }, /has 2 activations; it takes 3/],
])("activations: %s", (_title, row, said) => {
  const model = io.parseOnnx(recurrentModel(row));
  expect(() => model.run({ x: tensor(valuesOf(row).x, { shape: [time, batch, features] }) })).toThrow(said);
});
