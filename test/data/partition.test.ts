/** Rows of workers, and sizes of batches, beside what they promise. */
import { data } from "heddle";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../support/tensors.ts";

const { partition, batchSizes } = data;
const lists = (parts: readonly Int32Array[]): number[][] => parts.map((part) => [...part]);
const sorted = (parts: readonly Int32Array[]): number[] =>
  lists(parts)
    .flat()
    .sort((left, right) => left - right);

describe("partitions", () => {
  test("rows in order and in turn", () => {
    expect(lists(partition.contiguous({ rows: 7, workers: 3 }))).toEqual([
      [0, 1, 2],
      [3, 4],
      [5, 6],
    ]);
    expect(lists(partition.roundRobin({ rows: 7, workers: 3 }))).toEqual([
      [0, 3, 6],
      [1, 4],
      [2, 5],
    ]);
  });

  test.each([
    [0, 2],
    [1, 4],
    [10, 3],
    [1000, 7],
  ])("%i rows over %i workers: each row once, sizes differ by one at most", (rows, workers) => {
    const labels = Array.from({ length: rows }, (_unused, row) => (row % 10 === 0 ? 1 : 0));
    const all = Array.from({ length: rows }, (_unused, row) => row);
    for (const parts of [
      partition.contiguous({ rows, workers }),
      partition.roundRobin({ rows, workers }),
      partition.atRandom({ rows, workers, seed: 3 }),
      partition.stratified({ labels, workers }),
    ]) {
      expect(sorted(parts)).toEqual(all);
      const sizes = parts.map(({ length }) => length);
      expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
    }
  });

  test("a seed decides the random rows", () => {
    const of = (seed: number) => lists(partition.atRandom({ rows: 100, workers: 4, seed }));
    expect(of(1)).toEqual(of(1));
    expect(of(1)).not.toEqual(of(2));
  });

  test("stratified: each class is divided evenly, however the rows are ordered", () => {
    const labels = Int32Array.from({ length: 400 }, (_unused, row) => Math.floor((row / 400) ** 2 * 5));
    const parts = partition.stratified({ labels, workers: 4 });
    const skew = (rows: readonly Int32Array[]): number =>
      Math.max(
        ...[0, 1, 2, 3, 4].map((label) => {
          const counts = rows.map((part) => part.filter((row) => labels[row] === label).length);
          return Math.max(...counts) - Math.min(...counts);
        }),
      );
    expect(skew(parts)).toBeLessThanOrEqual(1);
    expect(skew(partition.contiguous({ rows: 400, workers: 4 }))).toBeGreaterThan(50);
  });

  test("overlapping: all rows, none twice in a part, others in each epoch", () => {
    const of = (epoch: number, overlap: number) =>
      partition.overlapping({ rows: 101, workers: 4, overlap, epoch, seed: 5 });
    for (const overlap of [0, 0.25, 3]) {
      const parts = of(0, overlap);
      expect(new Set(sorted(parts)).size).toBe(101);
      for (const part of parts) expect(new Set(part).size).toBe(part.length);
    }
    expect(of(0, 0.2).map(({ length }) => length)).toEqual([31, 30, 30, 30]);
    expect(lists(of(0, 0.2))).not.toEqual(lists(of(1, 0.2)));
  });

  test.each<[string, () => unknown, RegExp]>([
    ["no workers", () => partition.contiguous({ rows: 3, workers: 0 }), /workers must be an integer in \[1/],
    ["a misspelt option", () => partition.atRandom({ rows: 3, workers: 1, sead: 1 } as never), /did you mean 'seed'/],
    ["no labels", () => partition.stratified({ workers: 1 } as never), /labels/],
  ])("%s is an error", (_what, act, expected) => {
    expect(act).toThrow(expected);
  });
});

describe("batch sizes", () => {
  test("fixed and growing", () => {
    expect([0, 5].map(batchSizes.fixed(8).at)).toEqual([8, 8]);
    const growing = batchSizes.growing({ from: 8, to: 50, every: 10 });
    expect([0, 9, 10, 20, 30, 100].map(growing.at)).toEqual([8, 8, 16, 32, 50, 50]);
  });

  test("by noise: finds the noise scale of gradients of which it is known", () => {
    const random = randomFrom(11);
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const mean = [1, -2, 0.5, 0];
    // The variance of each element is 9, of all together 36; the squared length of the mean is 5.25.
    const gradient = (samples: number) => mean.map((value) => value + (3 / Math.sqrt(samples)) * normal());
    const squared = (values: readonly number[]) => values.reduce((sum, value) => sum + value * value, 0);
    const sizes = batchSizes.byNoise({ least: 2, most: 64, share: 0.002 });
    expect(sizes.at(0)).toBe(2);
    for (let step = 0; step < 4000; step++) {
      const own = Array.from({ length: 4 }, () => gradient(2));
      const all = mean.map((_unused, index) => own.reduce((sum, one) => sum + (one[index] as number), 0) / 4);
      const smallSquared = own.reduce((sum, one) => sum + squared(one), 0) / 4;
      sizes.take({ small: 2, large: 8, smallSquared, largeSquared: squared(all) });
    }
    expect(sizes.noiseScale / (36 / 5.25)).toBeGreaterThan(0.9);
    expect(sizes.noiseScale / (36 / 5.25)).toBeLessThan(1.1);
    expect(sizes.at(0)).toBe(Math.round(sizes.noiseScale));
  });

  test("hybrid: as planned, and more where the noise says so", () => {
    const noise = batchSizes.byNoise({ least: 1, most: 100 });
    const sizes = batchSizes.hybrid(batchSizes.growing({ from: 4, to: 64, every: 1 }), noise);
    expect(sizes.at(1)).toBe(8);
    // Without noise all gradients have the same length.
    sizes.take?.({ small: 2, large: 8, smallSquared: 1, largeSquared: 1 });
    expect(sizes.at(1)).toBe(8);
    for (let step = 0; step < 200; step++) sizes.take?.({ small: 2, large: 8, smallSquared: 11, largeSquared: 3.5 });
    expect(noise.noiseScale).toBeCloseTo(20, 0);
    expect(sizes.at(1)).toBe(20);
    expect(sizes.at(4)).toBe(64);
  });

  test.each([
    [16, [1, 1, 2], [6, 7, 3]],
    [4, [1, 1, 1, 100], [1, 1, 1, 1]],
    [10, [1, 1, 1, 100], [3, 3, 3, 1]],
  ])("%i samples by speed %j", (size, seconds, expected) => {
    const sizes = batchSizes.bySpeed(size, seconds);
    expect(sizes.reduce((sum, one) => sum + one, 0)).toBe(size);
    expect([...sizes].sort()).toEqual([...expected].sort());
  });
});
