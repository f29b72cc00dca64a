/** Every op, forwards and backwards, against PyTorch and NumPy (test/fixtures/ops_*.py), eagerly and compiled. */
import { cond, cummax, cummin, cumprod, cumsum, customGradient, customJvp, flip, full, jit, linalg, logcumsumexp, matmul, maximum, minimum, nn, remat, round, scan, sin, sparse, type Tensor, vjp, whileLoop } from "heddle";
import { describe, expect, test } from "vitest";
import { type Composed, callOf, differences, type OpCase, opCases, tensorOf, weightsOf } from "../support/op-cases.ts";

type Running = (x: Tensor, dim: number) => Tensor;
const back =
  (running: Running) =>
  (x: Tensor): Tensor =>
    flip(running(flip(x, 1), 1), 1);

const composed = {
  full: () => full([2, 3], -1.5),
  embeddingBag: (weight: Tensor, ids: Tensor, mode: "sum" | "mean" | "max") =>
    nn.embeddingBag(4, 3, { mode, dtype: "f64" }).apply({ params: { weight }, state: {} }, ids).y,
  sparseProduct: (values: Tensor, rows: Tensor, columns: Tensor, y: Tensor) =>
    matmul(sparse(values, rows, columns, [3, 4]), y),
  largestRow: (x: Tensor) => linalg.matrixNorm(x, Infinity),
  scan: (carry: Tensor, xs: Tensor, weight: Tensor, reverse: boolean) =>
    scan(
      (held: Tensor, x: Tensor) => {
        const next = matmul(held, weight).add(x).tanh();
        return [next, next.mul(2)] as const;
      },
      carry,
      xs,
      { reverse },
    ),
  while: (x: Tensor, by: Tensor) =>
    whileLoop(
      (y: Tensor) => y.lt(100),
      (y: Tensor) => y.mul(by),
      x,
      { maxIterations: 8 },
    ),
  cond: (x: Tensor, y: Tensor) =>
    cond(
      x.sum().gt(0),
      (a: Tensor, b: Tensor) => sin(a).mul(b),
      (a: Tensor, b: Tensor) => a.exp().add(b.mul(b)),
      x,
      y,
    ),
  remat: remat((x: Tensor) => sin(x.exp()).mul(x)),
  clipped: customGradient(
    (x: Tensor) => x.mul(1),
    ({ cotangent }) => [cotangent.maximum(-0.5).minimum(0.5)],
  ),
  straight: customJvp(
    (x: Tensor) => round(x),
    ({ tangents: [dx] }) => dx.mul(3),
  ),
  clamp: (x: Tensor, low: Tensor, high: Tensor) => minimum(maximum(x, low), high),
  cumsumBack: back(cumsum),
  cumprodBack: back(cumprod),
  cummaxBack: back(cummax),
  cumminBack: back(cummin),
  logcumsumexpBack: back(logcumsumexp),
} as unknown as Composed;

const files = ["ops-scalar", "ops-reduce", "ops-move", "ops-product"] as const;

async function compared(
  one: OpCase,
  mode: string,
  results: readonly Tensor[],
  slopes: readonly Tensor[],
): Promise<string[]> {
  const types = results.map(({ dtype, shape }) => ({ dtype, shape }));
  expect(types).toEqual(one.outputs.map(({ dtype, shape }) => ({ dtype, shape })));
  const found: string[] = [];
  for (const [at, expected] of one.outputs.entries()) {
    const data = await (results[at] as Tensor).data();
    found.push(...differences(`${mode}, result ${at}`, data, expected, { exact: one.exact, zeros: true }));
  }
  for (const [at, slope] of slopes.entries()) {
    const data = one.gradients?.[at] as number[];
    const expected = { dtype: "f64", shape: slope.shape, data } as const;
    found.push(
      ...differences(`${mode}, gradient ${at}`, await slope.data(), expected, { exact: false, zeros: false }),
    );
  }
  return found;
}

describe.each(files)("%s", (file) => {
  test.each(opCases(file).map((one) => [one.title, one] as const))("%s", async (_title, one) => {
    const call = callOf(one, composed);
    const inputs = one.inputs.map(tensorOf);
    const by = one.inputs.flatMap(({ dtype }, place) => (dtype === "f64" ? [place] : []));
    const all = (...given: Tensor[]): Tensor[] => {
      if (one.gradients === undefined) return call(...given);
      const fixed = (...floats: Tensor[]): Tensor[] =>
        call(...given.map((input, place) => (by.includes(place) ? (floats[by.indexOf(place)] as Tensor) : input)));
      const { value, pullback } = vjp(fixed, ...by.map((place) => given[place] as Tensor));
      const weights = one.outputs.flatMap((y, k) => (y.dtype === "f64" ? [weightsOf(y, k)] : []));
      return [...value, ...pullback(value.map((y, k) => (y.dtype === "f64" ? (weights.shift() as Tensor) : y)))];
    };
    const eager = all(...inputs);
    const compiled = jit((...given: Tensor[]) => all(...given))(...inputs);
    const count = one.outputs.length;
    expect([
      ...(await compared(one, "eager", eager.slice(0, count), eager.slice(count))),
      ...(await compared(one, "compiled", compiled.slice(0, count), compiled.slice(count))),
    ]).toEqual([]);
  });
});
