/** What of a call makes a compiled function trace anew, right after another call. */
import { expect, test } from "vitest";
import { jit, tensor } from "../../src/index.ts";

const x = () => tensor([1, 2, 3, 4]);
const shared = new Map([["factor", 2]]);

/** Arguments of two calls in turn, and whether the second is another program. */
const cases: readonly (readonly [what: string, first: () => unknown[], second: () => unknown[], traces: number])[] = [
  ["other contents", () => [x()], () => [tensor([5, 6, 7, 8])], 1],
  ["another shape", () => [x()], () => [tensor([1, 2])], 2],
  ["another dtype", () => [x()], () => [x().cast("f64")], 2],
  ["another number", () => [x(), 2], () => [x(), 3], 2],
  ["the same number", () => [x(), 2], () => [x(), 2], 1],
  ["a tensor for a number", () => [x(), 2], () => [x(), tensor(2)], 2],
  ["a number for a tensor", () => [x(), tensor(2)], () => [x(), 2], 2],
  ["an argument more", () => [x()], () => [x(), 2], 2],
  ["an argument less", () => [x(), 2], () => [x()], 2],
  ["a field more", () => [{ x: x() }], () => [{ x: x(), y: x() }], 2],
  ["another field", () => [{ x: x() }], () => [{ y: x() }], 2],
  ["fields in another order", () => [{ x: x(), y: x() }], () => [{ y: x(), x: x() }], 2],
  ["an item more", () => [[x()]], () => [[x(), x()]], 2],
  ["a list for a record", () => [[x()]], () => [{ 0: x() }], 2],
  ["a new object in each call", () => [x(), new Map()], () => [x(), new Map()], 4],
  ["the same object", () => [x(), shared], () => [x(), shared], 1],
  ["not a number", () => [x(), Number.NaN], () => [x(), Number.NaN], 1],
];

test.each(cases)("%s", async (_what, first, second, traces) => {
  let count = 0;
  const sumOfAll = (value: unknown): unknown[] =>
    typeof value === "object" && value !== null && !(value instanceof Map) && !("dtype" in value)
      ? Object.values(value).flatMap(sumOfAll)
      : [value];
  const fn = (...inputs: unknown[]) => {
    count++;
    const parts = sumOfAll(inputs).filter((part) => typeof part === "number" || (part as { dtype?: string }).dtype);
    return (parts as ReturnType<typeof x>[]).reduce(
      (sum, part) => tensor(0).add(part).sum().cast("f32").add(sum),
      tensor(0),
    );
  };
  const compiled = jit(fn);
  for (const inputs of [first(), second(), first(), second()]) {
    const expected = await fn(...inputs).item();
    count--;
    expect(await compiled(...inputs).item()).toEqual(expected);
  }
  expect(count).toBe(traces);
});
