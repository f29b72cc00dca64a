/** Optimizers against PyTorch, and where it has none, the formula of the paper (test/fixtures/optimizers.py). */
import { jit, mesh, optim, type Tensor, type Tensors, tensor } from "heddle";
import { lowerProgram, printLowered } from "heddle/lower";
import { describe, expect, test } from "vitest";
import { evalShape, planFunction } from "../../src/functions/index.ts";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

type Name = "adam" | "sgd" | "rmsProp";
type DTypeName = "f32" | "f64";
type Values = { readonly [name: string]: readonly number[] };

interface Case {
  /** A function of `optim`. */
  readonly optimizer: Name;
  readonly options: Parameters<typeof optim.adam>[0] & { readonly decayMask?: unknown };
  readonly f32: Values;
  readonly f64: Values;
}

const cases = fixture<Case>("optimizers");
const steps = 50;
const shapes: { readonly [name: string]: readonly number[] } = { weight: [3, 4], bias: [4], scale: [] };
const names = Object.keys(shapes);
const sizeOf = (name: string): number => (shapes[name] as readonly number[]).reduce((size, dim) => size * dim, 1);

const make = ({ optimizer, options }: Case): optim.Optimizer =>
  optim[optimizer](options.decayMask === undefined ? options : { ...options, decayMask: optim.weightsOnly });

const title = ({ optimizer, options }: Case): string => `${optimizer} ${JSON.stringify(options)}`;

/** As test/fixtures/optimizers.py begins. */
const initial = (): { [name: string]: Float64Array } =>
  Object.fromEntries(
    names.map((name, place) => [
      name,
      Float64Array.from({ length: sizeOf(name) }, (_unused, i) => Math.cos(3 * place + i) * 1.5),
    ]),
  );

const gradientAt = (step: number, place: number, values: ArrayLike<number>): Float64Array =>
  Float64Array.from(values, (p, i) =>
    i % 4 === 3 && step % 3 === 0 ? 0 : p * ((i % 3) + 1) + Math.sin(step + i + place) * 10 ** ((i % 4) - 2),
  );

const tree = (values: { readonly [name: string]: Float64Array }, dtype: DTypeName): Record<string, Tensor> =>
  Object.fromEntries(
    names.map((name) => [name, tensor(values[name] as Float64Array, { shape: shapes[name] as number[], dtype })]),
  );

const read = async (params: Record<string, Tensor>): Promise<{ [name: string]: Float64Array }> =>
  Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, Float64Array.from(await (params[name] as Tensor).data())])),
  );

/** With numbers for step and rate, or with scalar tensors in one compiled program. */
async function run(optimizer: optim.Optimizer, dtype: DTypeName, traced: boolean) {
  let params = tree(initial(), dtype);
  let state = optimizer.init(params);
  const compiled = jit((g: Record<string, Tensor>, s: Tensors, p: Record<string, Tensor>, step: Tensor, rate: Tensor) =>
    optimizer.update(g, s, p, { step, learningRate: rate }),
  );
  for (let step = 0; step < steps; step++) {
    const values = await read(params);
    const gradients = names.map((name, place) => [name, gradientAt(step, place, values[name] as Float64Array)]);
    const grads = tree(Object.fromEntries(gradients), dtype);
    const rate = optim.learningRateAt(optimizer, step);
    const updated = traced
      ? compiled(grads, state, params, tensor(step, { dtype: "i32" }), tensor(rate, { dtype }))
      : optimizer.update(grads, state, params, { step });
    ({ params, state } = updated);
  }
  return read(params);
}

/** L-BFGS divides by differences of gradients, which jump here: roundings become large. */
const amplified = (one: Case): boolean => (one.optimizer as string) === "lbfgs";

describe.each(cases.map((one) => ({ name: title(one), one })))("$name", ({ one }) => {
  const runs = [
    ["f64", true, 1e-10, 1e-9],
    ["f64", false, 1e-10, 1e-9],
    // Of the same steps in f32, where each framework rounds in its own order.
    ["f32", true, 2e-5, 1e-5],
  ] as const;
  // Full steps of L-BFGS in f32 part ways by more than a tolerance could say.
  const full = amplified(one) && (one.options.learningRate as number) > 0.1;
  test.each(runs.filter(([dtype]) => !full || dtype === "f64"))(
    "in %s, compiled: %s",
    async (dtype, traced, tolerance, wide) => {
      const found = await run(make(one), dtype, traced);
      for (const name of names)
        expectClose(
          found[name] as Float64Array,
          one[dtype][name] as readonly number[],
          amplified(one) ? wide : tolerance,
        );
    },
  );
});

/** Kernels of a compiled update of one matrix, without those of scalars. */
function kernels(optimizer: optim.Optimizer): string[] {
  const weight = { shape: [6, 4], dtype: "f32" as const };
  const params = { w: weight };
  const state = evalShape((w) => optimizer.init({ w }), weight);
  const update = (g: Tensors, kept: Tensors, p: Tensors, step: Tensor, learningRate: Tensor) =>
    optimizer.update(g, kept, p, { step, learningRate });
  const scalars = [
    { shape: [], dtype: "i32" as const },
    { shape: [], dtype: "f32" as const },
  ];
  const { program } = planFunction(update, [params, state, params, ...scalars], mesh({ data: 1 }), { name: "update" });
  return printLowered(lowerProgram(program, { slots: 1 }))
    .trimEnd()
    .split("\n")
    .filter((line) => line.includes("[6,4]") || line.includes("[24]"));
}

test.each(
  cases.filter(({ optimizer }) => !["lamb", "adafactor", "lbfgs"].includes(optimizer)).map((one) => [title(one), one]),
)("%s is one kernel per parameter", (_title, one) => {
  expect(kernels(make(one as Case))).toHaveLength(1);
});

test("a schedule is asked for every step", async () => {
  const schedule = (step: number): number => 0.02 / (1 + step);
  const optimizer = optim.sgd({ learningRate: schedule });
  const found = await run(optimizer, "f64", true);
  const expected = initial();
  for (let step = 0; step < steps; step++) {
    names.forEach((name, place) => {
      const values = expected[name] as Float64Array;
      const gradient = gradientAt(step, place, values);
      expected[name] = values.map((value, index) => value - schedule(step) * (gradient[index] as number));
    });
  }
  for (const name of names) expectClose(found[name] as Float64Array, expected[name] as Float64Array, 1e-11);
});

test("adam's bias correction is exact in f32 at the first steps", async () => {
  const params = { w: tensor([1]) };
  const optimizer = optim.adam({ learningRate: 0.1, epsilon: 0 });
  const options = { step: tensor(0, { dtype: "i32" }), learningRate: tensor(0.1) };
  const { params: updated } = optimizer.update({ w: tensor([0.5]) }, optimizer.init(params), params, options);
  // The first step is the learning rate itself, whatever the gradient.
  expect(await updated.w.item()).toBeCloseTo(0.9, 6);
});

test.each([1e-25, 1e25])("adafactor's steps are relative to parameters of %d, in f32 as in f64", async (size) => {
  const stepped = async (dtype: "f32" | "f64"): Promise<number[]> => {
    const optimizer = optim.adafactor({ learningRate: 0.5, epsilons: [undefined, 0] });
    const params = { w: tensor([size, -2 * size, size / 2], { dtype }) };
    const grads = { w: tensor([0.5, 2, -1], { dtype }) };
    const { params: updated } = optimizer.update(grads, optimizer.init(params), params, { step: 0 });
    return [...(await updated.w.data())].map((value) => Number(value) / size);
  };
  expectClose(await stepped("f32"), await stepped("f64"), 1e-6);
});

test("the state is a tree beside the parameters", () => {
  const params = { layer: tree(initial(), "f64") };
  const shapesOf = (slot: unknown): unknown =>
    Object.fromEntries(
      Object.entries((slot as { layer: object }).layer).map(([name, x]) => [name, (x as Tensor).shape]),
    );
  const state = optim.rmsProp({ learningRate: 1, momentum: 0.5, centered: true }).init(params);
  expect(Object.keys(state)).toEqual(["squareAvg", "gradAvg", "momentumBuffer"]);
  expect(shapesOf(state["squareAvg"])).toEqual(shapes);
  expect(optim.sgd({ learningRate: 1 }).init(params)).toEqual({});
  const factors = optim.adafactor({ learningRate: 1 }).init(params);
  expect(shapesOf(factors["rowVar"])).toEqual({ weight: [3, 1], bias: undefined, scale: undefined });
  expect(shapesOf(factors["colVar"])).toEqual({ weight: [1, 4], bias: undefined, scale: undefined });
  expect(shapesOf(factors["variance"])).toEqual({ weight: undefined, bias: [4], scale: [] });
});

test("a gradient that is NaN does not hide", async () => {
  for (const one of cases) {
    const optimizer = make(one);
    const params = { w: tensor([1, 2]) };
    const grads = { w: tensor([Number.NaN, 1]) };
    const { params: updated } = optimizer.update(grads, optimizer.init(params), params, { step: 0 });
    expect((await updated.w.data())[0], title(one)).toBeNaN();
  }
});

test("errors", () => {
  expect(() => optim.sgd({ learningRate: -1 })).toThrow(/sgd: learningRate must be at least 0, got -1/);
  expect(() => optim.sgd({ learningRate: 1, nesterov: true })).toThrow(/nesterov needs a momentum/);
  expect(() => optim.sgd({ learningRate: 1, momentun: 0.9 } as never)).toThrow(/did you mean 'momentum'/);
  expect(() => optim.adam({ learningRate: 1, betas: [0.9, 1] })).toThrow(/betas must be in \[0, 1\), got 1/);
  expect(() => optim.adam({ learningRate: 1, betas: [0.9] as never })).toThrow(/adam: betas must be two numbers/);
  expect(() => optim.adamW({ learningRate: 1, decayMask: [3] as never })).toThrow(
    /adamW: decayMask must be a pattern, or a function of a parameter/,
  );
  expect(() => optim.lion({ learningRate: 1, weightDecay: -1 })).toThrow(
    /lion: weightDecay must be at least 0, got -1/,
  );
  expect(() => optim.lion({ learningRate: 1, epsilon: 1 } as never)).toThrow(/lion: unknown option 'epsilon'/);
  expect(() => optim.rprop({ learningRate: () => 1 })).toThrow(/rprop: learningRate must be a number/);
  const scheduled = optim.sgd({ learningRate: () => Number.NaN });
  expect(() => optim.learningRateAt(scheduled, 3)).toThrow(/gives learning rate NaN at step 3/);
  const params = { layer: { weight: tensor([1, 2]) } };
  expect(() => scheduled.update(params, {}, params, { step: tensor(0, { dtype: "i32" }) })).toThrow(
    /pass \{ step, learningRate \}/,
  );
  const other = { layer: { bias: tensor([1]) } };
  expect(() => optim.sgd({ learningRate: 1 }).update(other as never, {}, params, { step: 0 })).toThrow(
    /no tensor where the parameters have 'layer.weight'/,
  );
  expect(() => optim.adam({ learningRate: 1 }).update(params, {}, params, { step: 0 })).toThrow(
    /the state 'expAvg' has no tensor where the parameters have 'layer.weight'/,
  );
});

test("groups update as an optimizer of each group does", async () => {
  const params = { a: { w: tensor([[1, 2]]) }, b: { w: tensor([3]), c: tensor([4]) } };
  const grads = { a: { w: tensor([[0.1, -0.2]]) }, b: { w: tensor([0.3]), c: tensor([0.4]) } };
  const [first, second] = [
    optim.adam({ learningRate: 0.1 }),
    optim.sgd({ learningRate: (step) => 0.5 / (step + 1), momentum: 0.9 }),
  ];
  const both = optim.groups({ a: first, "b.w": second, b: null });
  let [state, own, other] = [both.init(params), first.init({ a: params.a }), second.init({ b: { w: params.b.w } })];
  let [now, a, b]: [typeof params, { a: typeof params.a }, { b: { w: Tensor } }] = [
    params,
    { a: params.a },
    { b: { w: params.b.w } },
  ];
  for (let step = 0; step < 3; step++) {
    ({ params: now, state } = both.update(grads, state, now, { step }));
    ({ params: a, state: own } = first.update({ a: grads.a }, own, a, { step }));
    ({ params: b, state: other } = second.update({ b: { w: grads.b.w } }, other, b, { step }));
  }
  expect(await now.a.w.array()).toEqual(await a.a.w.array());
  expect(await now.b.w.array()).toEqual(await b.b.w.array());
  expect(now.b.c).toBe(params.b.c);
  // Rates from outside: a vector of one for each group, or one for all.
  const rates = (learningRate: Tensor | number) =>
    both.update(grads, both.init(params), params, { step: 0, learningRate }).params.b.w.array();
  expect([await rates(tensor([0.1, 0.5])), await rates(0.5)]).toEqual([[2.8499999046325684], [2.8499999046325684]]);
  expect(() => rates(tensor([0.1]))).toThrow(/^groups: 1 learning rates for 2 groups/);
});
