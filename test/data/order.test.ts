import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { order, shardSizes } from "../../src/data/order.ts";
import { philox4x32 } from "../../src/util/philox.ts";

const positions = (seed: number, epoch: number, length: number, ordinal = 0): number[] => {
  const { at } = order(seed, epoch, length, ordinal);
  return Array.from({ length }, (_unused, index) => at(index));
};

/** Sum of (observed - expected)² / expected. */
const chiSquare = (counts: readonly number[]): number => {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
};

/** Far outside what a fair draw gives: five standard deviations above the mean of the chi-square distribution. */
const unlikely = (freedom: number): number => freedom + 5 * Math.sqrt(2 * freedom);

describe("philox", () => {
  // The known answers of the authors' Random123 library, file kat_vectors.
  test.each([
    [
      [0, 0, 0, 0],
      [0, 0],
      [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
    ],
    [Array(4).fill(0xffffffff), Array(2).fill(0xffffffff), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]],
    [
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xa4093822, 0x299f31d0],
      [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    ],
  ])("counter %j, key %j", (counter, key, words) => {
    expect(philox4x32(counter as [number, number, number, number], key as [number, number])).toEqual(words);
  });
});

describe("order", () => {
  test("is a permutation for every seed, epoch and length", () => {
    const seed = fc.maxSafeNat();
    fc.assert(
      fc.property(seed, fc.nat(), fc.nat({ max: 3000 }), (seed, epoch, length) => {
        expect(positions(seed, epoch, length).sort((left, right) => left - right)).toEqual(
          Array.from({ length }, (_unused, index) => index),
        );
      }),
      { numRuns: 60 },
    );
  });

  test.each([0, 1, 2, 3, 255, 256, 257, 60_000, 65_536, 65_537])("length %i is covered exactly", (length) => {
    expect(new Set(positions(3, 1, length)).size).toBe(length);
  });

  test("the largest length is served without being made", () => {
    const { at } = order(1, 0, 2 ** 31 - 1);
    const rows = Array.from({ length: 1000 }, (_unused, index) => at(2 ** 31 - 2 - index));
    expect(new Set(rows).size).toBe(1000);
    expect(rows.every((row) => row >= 0 && row < 2 ** 31 - 1)).toBe(true);
  });

  // Pinned: a run resumed with a newer Heddle must go on in the same order.
  test("never changes", () => {
    expect(positions(0, 0, 10)).toEqual([5, 4, 0, 8, 7, 2, 3, 6, 1, 9]);
    expect(positions(2 ** 40 + 7, 2 ** 33 + 1, 10)).toEqual([4, 6, 0, 5, 7, 1, 3, 8, 9, 2]);
    expect([0, 1, 59_999].map(order(42, 3, 60_000).at)).toEqual([57853, 44172, 28729]);
  });

  test("depends on every bit of seed, on the epoch and on the ordinal", () => {
    const orders = [
      positions(5, 0, 100),
      positions(5 + 2 ** 32, 0, 100),
      positions(5, 1, 100),
      positions(5, 2 ** 32, 100),
      positions(5, 0, 100, 1),
    ];
    expect(new Set(orders.map(String)).size).toBe(orders.length);
  });

  test.each([2, 3, 4, 5])("all orders of %i rows are equally likely", (length) => {
    const factorial = [1, 1, 2, 6, 24, 120][length] as number;
    const counts = new Map<string, number>();
    for (let epoch = 0; epoch < factorial * 200; epoch++) {
      const key = positions(11, epoch, length).join();
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    expect(counts.size).toBe(factorial);
    expect(chiSquare([...counts.values()])).toBeLessThan(unlikely(factorial - 1));
  });

  test("rows are spread evenly over positions, and neighbours are unrelated", () => {
    const length = 1000;
    const cells = 20;
    const place = Array.from({ length: cells * cells }, () => 0);
    const gap = Array.from({ length: cells }, () => 0);
    for (let epoch = 0; epoch < 100; epoch++) {
      const rows = positions(17, epoch, length);
      rows.forEach((row, index) => {
        const cell = Math.floor((index * cells) / length) * cells + Math.floor((row * cells) / length);
        place[cell] = (place[cell] as number) + 1;
        const next = rows[(index + 1) % length] as number;
        const distance = Math.floor((((next - row + length) % length) * cells) / length);
        gap[distance] = (gap[distance] as number) + 1;
      });
    }
    expect(chiSquare(place)).toBeLessThan(unlikely(cells * cells - 1));
    expect(chiSquare(gap)).toBeLessThan(unlikely(cells - 1));
  });

  test.each([
    [-1, 0, 5, "seed"],
    [1.5, 0, 5, "seed"],
    [0, -1, 5, "epoch"],
    [0, 0, 2 ** 48 + 1, "length"],
  ])("refuses seed %d, epoch %d, length %d", (seed, epoch, length, word) => {
    expect(() => order(seed, epoch, length)).toThrow(word);
  });

  test("refuses an index outside", () => {
    expect(() => order(0, 0, 5).at(5)).toThrow("row 5 is not in [0, 5)");
  });
});

describe("shardSizes", () => {
  test.each([
    [128, 2, [64, 64]],
    [96, 5, [20, 19, 19, 19, 19]],
    [2, 4, [1, 1, 0, 0]],
    [0, 2, [0, 0]],
  ])("%i rows over %i ranks", (count, ranks, sizes) => {
    expect(shardSizes(count, ranks)).toEqual(sizes);
  });
});
