/** Optimizers against PyTorch's documented formulas, written down once more in plain numbers. */
import { optim, type Tensor, type Tensors, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { expectClose } from "../support/close.ts";

const steps = 50;
const size = 4;
const initial = Float64Array.of(0.5, -1.25, 2, 0.001);
const tree = (values: Float64Array): { layer: { weight: Tensor } } => ({
  layer: { weight: tensor(values.slice(), { shape: [size] }) },
});

/** A gradient with signs, scales and zeros that change. */
const gradientAt = (step: number, parameters: Float64Array): Float64Array =>
  parameters.map((p, index) =>
    index === 3 && step % 3 === 0 ? 0 : p * (index + 1) + Math.sin(step + index) * 10 ** (index - 2),
  );

type Update = (g: number, p: number, memory: Record<string, number>, t: number, lr: number) => number;

/** PyTorch's documentation of each optimizer, element by element; t counts from 1. */
const formulas = {
  sgd:
    ({ momentum = 0, dampening = 0, nesterov = false, weightDecay = 0 }): Update =>
    (gradient, p, memory, t, lr) => {
      let g = gradient + weightDecay * p;
      if (momentum !== 0) {
        memory["b"] = t > 1 ? momentum * (memory["b"] as number) + (1 - dampening) * g : g;
        g = nesterov ? g + momentum * (memory["b"] as number) : (memory["b"] as number);
      }
      return p - lr * g;
    },
  adam:
    ({
      betas: [b1, b2] = [0.9, 0.999],
      epsilon = 1e-8,
      weightDecay = 0,
      decoupled = false,
    }: {
      betas?: [number, number];
      epsilon?: number;
      weightDecay?: number;
      decoupled?: boolean;
    }): Update =>
    (gradient, parameter, memory, t, lr) => {
      const p = decoupled ? parameter - lr * weightDecay * parameter : parameter;
      const g = decoupled ? gradient : gradient + weightDecay * parameter;
      memory["m"] = b1 * (memory["m"] ?? 0) + (1 - b1) * g;
      memory["v"] = b2 * (memory["v"] ?? 0) + (1 - b2) * g * g;
      const m = memory["m"] / (1 - b1 ** t);
      const v = memory["v"] / (1 - b2 ** t);
      return p - (lr * m) / (Math.sqrt(v) + epsilon);
    },
  adagrad:
    ({ learningRateDecay = 0, weightDecay = 0, initialAccumulator = 0, epsilon = 1e-10 }): Update =>
    (gradient, p, memory, t, lr) => {
      const g = gradient + weightDecay * p;
      memory["s"] = (memory["s"] ?? initialAccumulator) + g * g;
      return p - ((lr / (1 + (t - 1) * learningRateDecay)) * g) / (Math.sqrt(memory["s"]) + epsilon);
    },
  rmsProp:
    ({ alpha = 0.99, epsilon = 1e-8, weightDecay = 0, momentum = 0, centered = false }): Update =>
    (gradient, p, memory, _t, lr) => {
      const g = gradient + weightDecay * p;
      memory["v"] = alpha * (memory["v"] ?? 0) + (1 - alpha) * g * g;
      let v = memory["v"];
      if (centered) {
        memory["a"] = alpha * (memory["a"] ?? 0) + (1 - alpha) * g;
        v -= memory["a"] ** 2;
      }
      if (momentum === 0) return p - (lr * g) / (Math.sqrt(v) + epsilon);
      memory["b"] = momentum * (memory["b"] ?? 0) + g / (Math.sqrt(v) + epsilon);
      return p - lr * memory["b"];
    },
};

function reference(rule: Update, rate: (step: number) => number): Float64Array {
  const p = initial.slice();
  const memories = Array.from({ length: size }, (): Record<string, number> => ({}));
  for (let step = 0; step < steps; step++) {
    const g = gradientAt(step, p);
    for (let i = 0; i < size; i++)
      p[i] = rule(g[i] as number, p[i] as number, memories[i] as Record<string, number>, step + 1, rate(step));
  }
  return p;
}

/** With numbers for step and rate, or with scalar tensors as a compiled step has them. */
async function run(optimizer: optim.Optimizer, traced: boolean): Promise<Float64Array> {
  let params = tree(initial);
  let state = optimizer.init(params);
  for (let step = 0; step < steps; step++) {
    const values = (await params.layer.weight.data()) as Float64Array;
    const rate = optim.learningRateAt(optimizer, step);
    const options = traced
      ? { step: tensor(step, { dtype: "i32" }), learningRate: tensor(rate, { dtype: "f64" }) }
      : { step };
    ({ params, state } = optimizer.update(tree(gradientAt(step, values)), state, params, options));
  }
  return (await params.layer.weight.data()) as Float64Array;
}

const rate = 0.01;
const cases: [string, optim.Optimizer, Update][] = [
  ["sgd", optim.sgd({ learningRate: rate }), formulas.sgd({})],
  ["sgd, weight decay", optim.sgd({ learningRate: rate, weightDecay: 0.1 }), formulas.sgd({ weightDecay: 0.1 })],
  ["sgd, momentum", optim.sgd({ learningRate: rate, momentum: 0.9 }), formulas.sgd({ momentum: 0.9 })],
  [
    "sgd, momentum with dampening",
    optim.sgd({ learningRate: rate, momentum: 0.9, dampening: 0.3, weightDecay: 0.01 }),
    formulas.sgd({ momentum: 0.9, dampening: 0.3, weightDecay: 0.01 }),
  ],
  [
    "sgd, nesterov",
    optim.sgd({ learningRate: rate, momentum: 0.9, nesterov: true, weightDecay: 0.01 }),
    formulas.sgd({ momentum: 0.9, nesterov: true, weightDecay: 0.01 }),
  ],
  ["adam", optim.adam({ learningRate: rate }), formulas.adam({})],
  [
    "adam, all options",
    optim.adam({ learningRate: rate, betas: [0.8, 0.99], epsilon: 1e-4, weightDecay: 0.1 }),
    formulas.adam({ betas: [0.8, 0.99], epsilon: 1e-4, weightDecay: 0.1 }),
  ],
  ["adamW", optim.adamW({ learningRate: rate }), formulas.adam({ weightDecay: 0.01, decoupled: true })],
  ["adagrad", optim.adagrad({ learningRate: rate }), formulas.adagrad({})],
  [
    "adagrad, all options",
    optim.adagrad({
      learningRate: rate,
      learningRateDecay: 0.1,
      weightDecay: 0.1,
      initialAccumulator: 0.5,
      epsilon: 1e-3,
    }),
    formulas.adagrad({ learningRateDecay: 0.1, weightDecay: 0.1, initialAccumulator: 0.5, epsilon: 1e-3 }),
  ],
  ["rmsProp", optim.rmsProp({ learningRate: rate }), formulas.rmsProp({})],
  [
    "rmsProp, all options",
    optim.rmsProp({ learningRate: rate, alpha: 0.9, epsilon: 1e-2, weightDecay: 0.1, momentum: 0.5, centered: true }),
    formulas.rmsProp({ alpha: 0.9, epsilon: 1e-2, weightDecay: 0.1, momentum: 0.5, centered: true }),
  ],
];

describe.each(cases)("%s", (_name, optimizer, formula) => {
  const expected = reference(formula, () => rate);
  test.each([
    ["numbers", false],
    ["scalar tensors", true],
  ] as const)("with %s for step and rate", async (_kind, traced) => {
    const found = await run(optimizer, traced);
    expectClose(found, expected, 1e-11);
  });
});

test("a schedule is asked for every step", async () => {
  const schedule = (step: number): number => 0.02 / (1 + step);
  const found = await run(optim.sgd({ learningRate: schedule, momentum: 0.9 }), true);
  const expected = reference(formulas.sgd({ momentum: 0.9 }), schedule);
  expectClose(found, expected, 1e-11);
});

test("adam's bias correction is exact in f32 at the first steps", async () => {
  const params = { w: tensor([1]) };
  const optimizer = optim.adam({ learningRate: 0.1, epsilon: 0 });
  const options = { step: tensor(0, { dtype: "i32" }), learningRate: tensor(0.1) };
  const { params: updated } = optimizer.update({ w: tensor([0.5]) }, optimizer.init(params), params, options);
  // The first step is the learning rate itself, whatever the gradient.
  expect(await updated.w.item()).toBeCloseTo(0.9, 6);
});

test("the state is a tree beside the parameters", () => {
  const params = tree(initial);
  const state = optim.rmsProp({ learningRate: 1, momentum: 0.5, centered: true }).init(params);
  expect(Object.keys(state)).toEqual(["squareAvg", "gradAvg", "momentumBuffer"]);
  expect(Object.keys((state["squareAvg"] as Tensors)["layer"] as object)).toEqual(["weight"]);
  expect(optim.sgd({ learningRate: 1 }).init(params)).toEqual({});
});

test("errors", () => {
  expect(() => optim.sgd({ learningRate: -1 })).toThrow(/sgd: learningRate must be at least 0, got -1/);
  expect(() => optim.sgd({ learningRate: 1, nesterov: true })).toThrow(/nesterov needs a momentum/);
  expect(() => optim.sgd({ learningRate: 1, momentun: 0.9 } as never)).toThrow(/did you mean 'momentum'/);
  expect(() => optim.adam({ learningRate: 1, betas: [0.9, 1] })).toThrow(/betas must be in \[0, 1\), got 1/);
  const scheduled = optim.sgd({ learningRate: () => Number.NaN });
  expect(() => optim.learningRateAt(scheduled, 3)).toThrow(/gives learning rate NaN at step 3/);
  const params = tree(initial);
  expect(() => scheduled.update(params, {}, params, { step: tensor(0, { dtype: "i32" }) })).toThrow(
    /pass \{ step, learningRate \}/,
  );
  const other = { layer: { bias: tensor([1]) } };
  expect(() => optim.sgd({ learningRate: 1 }).update(other as never, {}, params, { step: 0 })).toThrow(
    /no tensor where the parameters have 'layer.weight'/,
  );
});
