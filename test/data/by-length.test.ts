/** Rows in batches by the length of their sequences: every row once, cut to its bound, in an order of seed and epoch; what is refused. */
import { data } from "heddle";
import { describe, expect, test } from "vitest";

const count = 40;
const sequences = Array.from({ length: count }, (_row, row) =>
  Array.from({ length: (row * 11) % 9 }, (_value, at) => 100 * row + at),
);
const y = { shape: [count], data: Int32Array.from(sequences.keys()) };
const bounds = [2, 5, 8];
const rows = data.fromArrays({ x: data.padded(sequences, { pad: -1 }), y });

/** The rows of each batch of an epoch. */
const order = (dataset: data.Dataset, epoch = 0, seed = 0): number[][] =>
  Array.from({ length: dataset.batchesPerEpoch }, (_batch, step) => [...dataset.batchRows(epoch, step, { seed }).rows]);

const sorted = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);

describe("batches", () => {
  test.each([1, 3, 4, 40, 100])("of %i rows have every row once, in the first bound that holds it", async (size) => {
    const dataset = rows.shuffle().batchByLength(size, { bounds });
    const seen: number[] = [];
    for await (const { x, y } of data.batches(dataset, { epoch: 1 })) {
      const own = [...(await y.data())];
      seen.push(...own);
      const bound = x.shape[1] as number;
      const values = [...(await x.data())];
      expect(values).toEqual(
        own.flatMap((row) => {
          const sequence = sequences[row] as number[];
          expect(bound).toBe(bounds.find((one) => one >= sequence.length));
          return [...sequence, ...new Array<number>(bound - sequence.length).fill(-1)];
        }),
      );
    }
    expect(sorted(seen)).toEqual([...sequences.keys()]);
  });

  test("are those of lengthBuckets", async () => {
    const buckets = data.lengthBuckets(sequences, { bounds, batch: 4, seed: 5 });
    expect(order(rows.shuffle({ seed: 5 }).batchByLength(4, { bounds }), 2)).toEqual(
      [...buckets.epoch(2)].map(({ indices }) => [...indices]),
    );
  });

  test("have an order of seed and epoch alone, and ranks share each of them", () => {
    const dataset = rows.shuffle().batchByLength(4, { bounds });
    expect(order(dataset, 1, 7)).toEqual(order(dataset, 1, 7));
    expect(order(dataset, 1, 7)).not.toEqual(order(dataset, 2, 7));
    expect(order(dataset, 1, 7)).not.toEqual(order(dataset, 1, 8));
    const fixed = rows.shuffle({ reshuffle: false, seed: 1 }).batchByLength(4, { bounds });
    expect(order(fixed, 0)).toEqual(order(fixed, 3));
    for (let step = 0; step < dataset.batchesPerEpoch; step++) {
      const parts = [0, 1, 2].flatMap((rank) => [...dataset.batchRows(0, step, { rank, ranks: 3 }).local]);
      expect(parts).toEqual([...dataset.batchRows(0, step).rows]);
    }
  });

  test("follow each other bucket after bucket without a shuffle, and take their rows from those that are left", () => {
    const whole = order(rows.batchByLength(4, { bounds }));
    const buckets = whole.map((batch) => {
      const longest = Math.max(...batch.map((row) => (sequences[row] as number[]).length));
      return bounds.findIndex((bound) => longest <= bound);
    });
    expect(buckets).toEqual(sorted(buckets));
    const part = rows.skip(5).take(20).shuffle().batchByLength(4, { bounds });
    expect(sorted(order(part, 3).flat())).toEqual(Array.from({ length: 20 }, (_row, index) => index + 5));
    const held = rows.shuffle({ reshuffle: false, seed: 2 });
    const both = [held.take(13), held.skip(13)].map((half) => order(half.shuffle().batchByLength(4, { bounds }), 1));
    expect(sorted(both.flat(2))).toEqual([...sequences.keys()]);
  });

  test("that are short are left out where that is asked for", () => {
    const dataset = rows.shuffle().batchByLength(4, { bounds, dropRemainder: true });
    expect(order(dataset).every(({ length }) => length === 4)).toBe(true);
    expect(dataset.batchForms).toEqual([8, 5, 2].map((length) => ({ rows: 4, length })));
    expect(dataset.batchSizes).toEqual([4]);
  });
});

test("records give padded columns with their lengths", async () => {
  const records = data.fromRows(sequences.slice(1, 5).map((x, row) => ({ x, y: row })));
  const dataset = await data.toDataset(records, { pad: -1, dtypes: { x: "i32" } });
  const { shape, lengths } = dataset.columns.get("x") as data.Column;
  expect([shape, [...(lengths ?? [])]]).toEqual([
    [4, 8],
    [2, 4, 6, 8],
  ]);
  expect(dataset.columns.get("y")?.lengths).toBeUndefined();
  expect(dataset.batchByLength(2, { bounds: [4, 8] }).batchesPerEpoch).toBe(2);
  await expect(data.toDataset(records)).rejects.toThrow(/x/);
});

test.each<[string, () => unknown, RegExp]>([
  [
    "a sequence above the last bound",
    () => rows.batchByLength(4, { bounds: [2, 5] }),
    /sequence \d+ has [678] elements/,
  ],
  ["a bound beyond the padding", () => rows.batchByLength(4, { bounds: [2, 9] }), /last bound is 9.*padded to 8/],
  ["no lengths", () => data.fromArrays({ y }).batchByLength(4, { bounds }), /no column of arrays has lengths/],
  ["bounds that fall", () => rows.batchByLength(4, { bounds: [5, 2] }), /bounds\[1\] must be at least 6/],
  ["no bounds", () => rows.batchByLength(4, {} as never), /bounds must be lengths/],
  ["an option that is not there", () => rows.batchByLength(4, { bounds, pad: 0 } as never), /pad/],
  ["batches of batches", () => rows.batch(2).batchByLength(4, { bounds }), /after batch/],
  ["no whole batch", () => rows.batchByLength(64, { bounds, dropRemainder: true }), /no whole batch of 64/],
  [
    "rows that depend on the seed of the training",
    () => rows.shuffle({ reshuffle: false }).take(9).batchByLength(4, { bounds }),
    /depends on the seed/,
  ],
  [
    "too few lengths",
    () => data.fromArrays({ x: { shape: [2, 3], data: new Int32Array(6), lengths: [1] } }),
    /1 lengths/,
  ],
  [
    "a length that is too large",
    () => data.fromArrays({ x: { shape: [1, 3], data: [1, 2, 3], lengths: [4] } }),
    /row 0 is 4/,
  ],
  ["lengths of scalars", () => data.fromArrays({ x: { shape: [1], data: [1], lengths: [1] } }), /lengths/],
  ["padded: a longer sequence", () => data.padded([[1, 2, 3]], { length: 2 }), /sequence 0 has 3 elements/],
  ["padded: no sequences", () => data.padded(3 as never), /takes an array of arrays/],
])("refuses %s", (_name, make, says) => {
  expect(make).toThrow(says);
});
