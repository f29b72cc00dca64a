/** Values of a run that begins again: what is remembered, and what is computed anew, when, and in which order. */
import { HeddleError } from "heddle";
import { expect, test } from "vitest";
import { Lineage } from "../../../src/matrix/distributed/lineage.ts";
import { hostOf, type Stored } from "../../../src/matrix/expression.ts";

const number = (value: number) => ({ dtype: "f64" as const, shape: [1, 1], data: Float64Array.of(value) });
/** A value in blocks. */
const inBlocks = (value: number): Stored => ({ apart: { whole: () => number(value) } });
const same = (own: number): number => own;
const valueOf = (stored: Stored | undefined): number => hostOf(stored as Stored).data[0] as number;

/** Runs a chain of values in blocks, each from the one before, and their sums, which are whole; gives the last sum. */
function chain(lineage: Lineage, length: number, computed: number[]): number {
  let last: Stored | undefined;
  let sum = 0;
  for (let step = 0; step < length; step++) {
    const before = last;
    const [block, whole] = lineage.through(`step ${step}`, before === undefined ? [] : [before], () => {
      computed.push(step);
      const value = (before === undefined ? 0 : valueOf({ apart: before.apart })) + 1;
      return [inBlocks(value), { host: number(10 * value) }];
    });
    last = block;
    sum = valueOf(whole);
  }
  return sum;
}

test("what was whole is remembered, and a chain of lost blocks is computed where something new needs it", () => {
  // Longer than the stack is deep.
  const length = 30_000;
  const lineage = new Lineage(true);
  const computed: number[] = [];
  lineage.begin(4, same);
  chain(lineage, length, computed);
  expect(computed).toHaveLength(length);
  lineage.begin(3, same);
  const again: number[] = [];
  expect(chain(lineage, length, again)).toBe(10 * length);
  expect([again, lineage.fromMemory]).toEqual([[], length]);
  lineage.begin(3, same);
  expect(chain(lineage, length + 1, again)).toBe(10 * (length + 1));
  // Each step once, in order, and the new one after them.
  expect(again).toEqual(Array.from({ length: length + 1 }, (_unused, step) => step));
});

test("a read of a lost value computes it", () => {
  const lineage = new Lineage(true);
  const run = (): Stored | undefined => lineage.through("a", [], () => [inBlocks(7)])[0];
  lineage.begin(2, same);
  run();
  lineage.begin(1, same);
  expect(valueOf(run())).toBe(7);
});

test("workers take what all of them have", () => {
  const lineage = new Lineage(true);
  lineage.begin(2, same);
  chain(lineage, 5, []);
  lineage.begin(2, () => 3);
  const computed: number[] = [];
  expect(chain(lineage, 5, computed)).toBe(50);
  expect(computed).toEqual([0, 1, 2, 3, 4]);
  expect(lineage.fromMemory).toBe(3);
});

test("only what was whole counts as what came from memory", () => {
  const lineage = new Lineage(true);
  const run = (): void => {
    lineage.through("blocks", [], () => [inBlocks(1), inBlocks(2)]);
    lineage.through("both", [], () => [inBlocks(1), { host: number(3) }, { host: number(4) }, { host: number(5) }]);
  };
  lineage.begin(2, same);
  run();
  lineage.begin(2, same);
  run();
  expect(lineage.fromMemory).toBe(3);
});

test("what programs and results take beside their elements counts toward the bytes that are kept", () => {
  // All but 1 MiB of 256; nobody writes to it, so that it takes no memory.
  const large = new Float64Array((2 ** 28 - 2 ** 20) / 8);
  const [lineage, programs] = [new Lineage(true), 2_000];
  const run = (): void => {
    lineage.through("large", [], () => [{ host: { dtype: "f64", shape: [large.length, 1], data: large } }]);
    for (let at = 0; at < programs; at++) lineage.through(`${at}`, [], () => [{ host: number(at) }]);
  };
  lineage.begin(2, same);
  run();
  lineage.begin(2, same);
  run();
  expect(lineage.fromMemory).toBeGreaterThan(1_000);
  expect(lineage.fromMemory).toBeLessThan(1_500);
});

test("after the end nothing is kept, and what was is forgotten", () => {
  const lineage = new Lineage(true);
  lineage.begin(2, same);
  chain(lineage, 3, []);
  lineage.end();
  chain(lineage, 3, []);
  const computed: number[] = [];
  lineage.begin(2, same);
  chain(lineage, 3, computed);
  expect([computed, lineage.fromMemory]).toEqual([[0, 1, 2], 0]);
});

test("without a beginning again nothing is kept", () => {
  const lineage = new Lineage(false);
  for (let time = 0; time < 2; time++) {
    const computed: number[] = [];
    lineage.begin(2, same);
    chain(lineage, 3, computed);
    expect(computed).toEqual([0, 1, 2]);
  }
});

test("a run that does something else is refused", () => {
  const lineage = new Lineage(true);
  lineage.begin(2, same);
  chain(lineage, 3, []);
  lineage.begin(2, same);
  expect(() => lineage.through("another step", [], () => [])).toThrow(HeddleError);
  expect(() => lineage.through("another step", [], () => [])).toThrow(/did something else when it began again/);
});
