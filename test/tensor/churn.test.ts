import { afterEach, describe, expect, test, vi } from "vitest";
import { jit, ones, type Tensor, tensor, zeros } from "../../src/functions/index.ts";

describe("a function that is compiled over and over says so once", () => {
  const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
  afterEach(() => warn.mockClear());
  const told = (): string[] => warn.mock.calls.map(([message]) => String(message));

  const cases: readonly (readonly [what: string, run: (index: number) => void, message: RegExp])[] = [
    [
      "the dim of an argument in a tree",
      (
        (step) => (index: number) =>
          step({ x: ones([index + 1, 2]) })
      )(jit(({ x }: { x: Tensor }) => x, { name: "step" })),
      /^step \(made at .*churn\.test\.ts:\d+:\d+\) has been compiled 8 times, because dim 0 of argument 0 \('x'\) keeps changing: 1, 2, 3, 4, 5, 6, 7, 8\. Pad it/,
    ],
    [
      "a number",
      (
        (scale) => (index: number) =>
          scale(tensor(1), index)
      )(
        jit(function scale(x: Tensor, by: number) {
          return x.mul(by);
        }),
      ),
      /^scale .* because argument 1 keeps changing: 0, 1, .*: pass tensor\(x\) instead/,
    ],
  ];
  test.each(cases)("%s", (_what, run, message) => {
    for (let index = 0; index < 7; index++) run(index);
    expect(told()).toEqual([]);
    for (let index = 7; index < 20; index++) run(index);
    expect(told()).toHaveLength(1);
    expect(told()[0]).toMatch(message);
  });

  test("not one whose calls differ in several places, or that is called with what it knows", () => {
    const both = jit((x: Tensor, y: Tensor) => [x, y]);
    for (let index = 0; index < 12; index++) both(zeros([index]), zeros([index + 1]));
    const same = jit((x: Tensor) => x);
    for (let index = 0; index < 40; index++) same(zeros([index % 7]));
    expect(told()).toEqual([]);
  });
});
