/** The cache of compiled functions: what it keeps, and what it drops. */
import { expect, test } from "vitest";
import { type Tensor, tensor } from "../../src/index.ts";
import { Cache } from "../../src/tensor/cache.ts";

/** Asks for entries in turn, and gives those that had to be made. */
function made(cache: Cache<string>, owner: object, asked: readonly string[]): string[] {
  const names: string[] = [];
  for (const name of asked) {
    const make = (): string => {
      names.push(name);
      return name;
    };
    expect(cache.of(owner, name, make)).toBe(name);
  }
  return names;
}

test.each([
  ["keeps as many as the limit", ["a", "b", "c", "a", "b", "c"], ["a", "b", "c"]],
  ["drops the oldest that was not used", ["a", "b", "c", "d", "b", "c", "a"], ["a", "b", "c", "d", "a"]],
  ["spares what was used", ["a", "b", "c", "a", "d", "a", "c", "b"], ["a", "b", "c", "d", "b"]],
  ["drops something where all were used", ["a", "b", "c", "a", "b", "c", "d", "b", "c", "d"], ["a", "b", "c", "d"]],
  ["finds what was dropped and made again", ["a", "b", "c", "d", "a", "a"], ["a", "b", "c", "d", "a"]],
])("%s", (_what, asked, expected) => {
  expect(made(new Cache<string>(3), {}, asked)).toEqual(expected);
});

test("owners, names and numbers are apart", () => {
  const cache = new Cache<number>(8);
  const owners = [{}, {}];
  const keys = owners.flatMap((owner) =>
    ["a", "b"].flatMap((name) => [0, 1].map((number) => ({ owner, name, number }))),
  );
  const ask = (fresh: number): number[] =>
    keys.map(({ owner, name, number }, index) => cache.of(owner, name, () => fresh + index, number));
  expect(ask(0)).toEqual(keys.map((_key, index) => index));
  expect(ask(100)).toEqual(keys.map((_key, index) => index));
});

test("calls that differ in static arguments alone, one after another", () => {
  const x = tensor([
    [1, 2, 3],
    [4, 5, 6],
  ]);
  const start = [0, 0];
  const from = (column: number, limit: number): Tensor => {
    start[1] = column;
    return x.slice(start, [1, limit]);
  };
  const calls: readonly [call: () => Tensor, expected: unknown][] = [
    [() => from(0, 2), [[1, 2]]],
    // The list of the call before, changed.
    [() => from(1, 2), [[2]]],
    [() => x.sum([0]), [5, 7, 9]],
    [() => x.sum([0, 1]), 21],
    [() => x.sum(1), [6, 15]],
    [() => x.sum(), 21],
    [() => x.sum(1, { keepDims: true }), [[6], [15]]],
    [() => x.sum(1, { dtype: "i32" }), [6, 15]],
    [() => x.pow(2).sum(-1), [14, 77]],
  ];
  for (const [call, expected] of [...calls, ...calls.toReversed()]) expect(call().arraySync()).toEqual(expected);
});
