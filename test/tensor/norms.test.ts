/** Norms and what is made of them at zeros and at the ends of f32, against PyTorch (test/fixtures/norms.py). */
import { concat, grad, jit, linalg, losses, optim, type Tensor, tensor } from "heddle";
import { expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";
import { partOf } from "../support/sample.ts";

interface Case {
  readonly of: keyof typeof made;
  readonly title: string;
  readonly inputs: readonly (readonly number[][])[];
  readonly options: unknown;
  readonly value: readonly number[];
  readonly grads: readonly (readonly number[])[];
}

type Of = (xs: readonly Tensor[], options: never) => Tensor;

const treeOf = (xs: readonly Tensor[]): { [name: string]: Tensor } =>
  Object.fromEntries(xs.map((x, index) => [`x${index}`, x]));

const made = {
  norm: ([x], p: number) => linalg.norm(x as Tensor, { p, dims: -1 }),
  matrixNorm: ([x], kind: "fro" | "nuc" | number) => linalg.matrixNorm(x as Tensor, kind),
  globalNorm: (xs, norm: number) => optim.globalNorm(treeOf(xs), { norm }),
  clipByGlobalNorm: (xs, norm: number) => {
    const { grads } = optim.clipByGlobalNorm(treeOf(xs), 1, { norm });
    return concat(
      Object.values(grads).map((x) => x.reshape([x.size])),
      0,
    );
  },
  tripletMargin: ([anchor, positive, negative], [p, margin]: readonly [number, number]) =>
    losses.tripletMargin(anchor as Tensor, positive as Tensor, negative as Tensor, {
      p,
      margin,
      epsilon: 0,
      reduction: "none",
    }),
} satisfies Record<string, Of>;

/** To the largest number of a result; numbers below f32's may be 0. */
function expectNear(what: string, found: ArrayLike<number>, expected: readonly number[], tolerance: number): void {
  expect(found.length, what).toBe(expected.length);
  const size = Math.max(...expected.map(Math.abs));
  expected.forEach((right, at) => {
    const near = Math.abs((found[at] as number) - right) <= tolerance * size + 1e-37;
    if (!near) expect.soft(found[at], `${what} at ${at} of ${found}`).toBe(right);
  });
}

const cases = fixture<Case>("norms");
const groups = [...new Set(cases.map((one) => `${one.of}, ${one.title}`))];

test.each(groups.map((name, group) => [name, group] as const))("%s", async (name, group) => {
  const own = cases.filter((one) => `${one.of}, ${one.title}` === name);
  // In one dtype or the other.
  for (const dtype of partOf(["f32", "f64"] as const, 2, group)) {
    const all = jit((...xs: Tensor[]) => {
      let at = 0;
      return own.map((one) => {
        const inputs = one.inputs.map(() => xs[at++] as Tensor);
        const fn = made[one.of] as Of;
        const value = fn(inputs, one.options as never);
        const slopes = inputs.map((x, place) =>
          grad((changed: Tensor) => fn(inputs.with(place, changed), one.options as never).sum())(x),
        );
        return { value, slopes };
      });
    });
    const found = all(...own.flatMap(({ inputs }) => inputs.map((rows) => tensor(rows as number[][], { dtype }))));
    const tolerance = dtype === "f32" ? 2e-6 : 1e-8;
    for (const [index, { value, slopes }] of found.entries()) {
      const one = own[index] as Case;
      const what = `${JSON.stringify(one.options)} in ${dtype}`;
      expectNear(what, await value.data(), one.value, tolerance);
      for (const [place, slope] of slopes.entries())
        expectNear(`${what}, by ${place}`, await slope.data(), one.grads[place] as number[], tolerance);
    }
  }
});
