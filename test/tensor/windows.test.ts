/** Convolutions, pooling, cumulative ops, indexing and arranging against PyTorch (test/fixtures/windows.py). */
import * as heddle from "heddle";
import { jit, type Tensor, tensor, vjp } from "heddle";
import { describe, expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

interface Case {
  readonly call: string;
  readonly shapes: readonly number[][];
  readonly arguments: readonly unknown[];
  readonly indices?: readonly never[];
  readonly shape: readonly number[];
  readonly y: readonly number[];
  readonly gradients: readonly (readonly number[])[];
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
const made = (shape: readonly number[], value: (index: number) => number): Tensor =>
  tensor(
    Array.from({ length: sizeOf(shape) }, (_unused, index) => value(index)),
    { dtype: "f64" },
  ).reshape(shape);

type Call = (...operands: unknown[]) => Tensor;

describe("as PyTorch", () => {
  const titled = fixture<Case>("windows").map((one, at) => {
    const texts = [JSON.stringify(one.shapes), JSON.stringify(one.arguments)];
    return [`${at} ${one.call} of ${texts.join(" by ")}`, one] as const;
  });
  test.each(titled)("%s", async (_title, one) => {
    const fn = (heddle as unknown as { readonly [name: string]: Call })[one.call] as Call;
    const floats = one.shapes.map((shape, k) => made(shape, (index) => Math.sin(7 * index + k) * 2));
    const indices = (one.indices ?? []).map((values) => tensor(values, { dtype: "i32" }));
    // Indices come second, as in Heddle's own order.
    const apply = (...inputs: Tensor[]): Tensor => fn(inputs[0], ...indices, ...inputs.slice(1), ...one.arguments);
    const run = jit((dy: Tensor, ...inputs: Tensor[]) => {
      const { value, pullback } = vjp(apply, ...inputs);
      return [value, ...pullback(dy)];
    });
    const [y, ...gradients] = run(made(one.shape, Math.cos), ...floats) as [Tensor, ...Tensor[]];
    expect(y.shape).toEqual(one.shape);
    expectClose(await y.data(), one.y, 1e-12);
    for (const [at, expected] of one.gradients.entries())
      expectClose(await (gradients[at] as Tensor).data(), expected, 1e-11);
  });
});
