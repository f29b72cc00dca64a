/** Every op, forwards and backwards, against PyTorch and NumPy (test/fixtures/ops_*.py), eagerly and compiled. */
import { jit, maximum, minimum, type Tensor, vjp } from "heddle";
import { describe, expect, test } from "vitest";
import { type Composed, callOf, differences, type OpCase, opCases, tensorOf, weightsOf } from "../support/op-cases.ts";

const composed: Composed = {
  clamp: ((x: Tensor, low: Tensor, high: Tensor) => minimum(maximum(x, low), high)) as never,
};

const files = ["ops-scalar"] as const;

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
