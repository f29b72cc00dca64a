/** Length buckets: every sequence once, padded, in an order of seed and epoch. */
import { data } from "heddle";
import { expect, test } from "vitest";

const sequences = Array.from({ length: 23 }, (_unused, index) =>
  Array.from({ length: 1 + ((index * 7) % 9) }, (_none, place) => 100 * index + place),
);
const options = { bounds: [3, 6, 9], batch: 4, pad: -1, seed: 5 };

/** The batches of an epoch as plain data. */
const read = (buckets: data.LengthBuckets, epoch: number) =>
  [...buckets.epoch(epoch)].map(({ ids, lengths, indices }) => ({
    shape: ids.shape,
    ids: [...ids.dataSync()],
    lengths: [...lengths.dataSync()],
    indices,
  }));

test("each epoch has every sequence once, padded to the least bound that holds it", () => {
  const buckets = data.lengthBuckets(sequences, options);
  const batches = read(buckets, 0);
  expect(batches.length).toBe(buckets.batches);
  expect(batches.flatMap(({ indices }) => indices).sort((a, b) => a - b)).toEqual(sequences.map((_s, index) => index));
  for (const { shape, ids, lengths, indices } of batches) {
    const bound = options.bounds.find((one) => one >= Math.max(...lengths)) as number;
    expect(shape).toEqual([indices.length, bound]);
    const rows = indices.map((index) => sequences[index] as number[]);
    expect(lengths).toEqual(rows.map(({ length }) => length));
    expect(ids).toEqual(rows.flatMap((row) => [...row, ...new Array<number>(bound - row.length).fill(-1)]));
  }
});

test("the order depends on seed and epoch alone", () => {
  const order = (seed: number | null, epoch: number) =>
    read(data.lengthBuckets(sequences, { ...options, seed }), epoch).map(({ indices }) => indices);
  expect(order(5, 1)).toEqual(order(5, 1));
  expect(order(5, 1)).not.toEqual(order(5, 0));
  expect(order(6, 0)).not.toEqual(order(5, 0));
  const { buckets } = data.lengthBuckets(sequences, options);
  expect(order(null, 3).flat()).toEqual(buckets.flat());
});

test("short last batches are left out where that is asked for", () => {
  const all = read(data.lengthBuckets(sequences, { ...options, dropRemainder: true }), 0);
  expect(all.every(({ indices }) => indices.length === 4)).toBe(true);
});

test.each([
  [{ ...options, bounds: [3, 6] }, /sequence 1 has 8 elements, above the last bound 6/],
  [{ ...options, bounds: [6, 3] }, /bounds\[1\] must be at least 7/],
  [{ ...options, bounds: [] }, /bounds must be lengths/],
  [{ ...options, batch: 0 }, /batch must be at least 1/],
])("refuses %o", (given, message) => {
  expect(() => data.lengthBuckets(sequences, given)).toThrow(message);
});
