/** Batches as tensors: the rows of the dataset's own order, as a model sees them. */
import { data } from "heddle";
import { expect, test } from "vitest";

const rows = data.fromArrays({
  x: {
    shape: [5, 2],
    data: Uint8Array.from({ length: 10 }, (_unused, index) => index),
    transform: { dtype: "f32", scale: 0.5, offset: 1 },
  },
  y: { shape: [5], data: Uint8Array.from([0, 1, 2, 3, 4]), transform: { dtype: "i32" } },
});

async function seen(dataset: data.Dataset, options: data.BatchesOptions = {}): Promise<{ x: number[]; y: number[] }[]> {
  const list: { x: number[]; y: number[] }[] = [];
  for await (const { x, y } of data.batches(dataset, options)) {
    expect([x.dtype, y.dtype, x.shape[0]]).toEqual(["f32", "i32", y.shape[0]]);
    list.push({ x: [...(await x.data())], y: [...(await y.data())] });
  }
  return list;
}

test("columns are transformed, and the last batch is short", async () => {
  expect(await seen(rows.batch(2))).toEqual([
    { x: [1, 1.5, 2, 2.5], y: [0, 1] },
    { x: [3, 3.5, 4, 4.5], y: [2, 3] },
    { x: [5, 5.5], y: [4] },
  ]);
});

test.each([
  { epoch: 0, seed: 0 },
  { epoch: 3, seed: 0 },
  { epoch: 3, seed: 7 },
])("the order is that of the dataset: %o", async (options) => {
  const shuffled = rows.shuffle().batch(2);
  const order = [0, 1, 2, 3, 4].map((index) => shuffled.rowAt(options.epoch, index, options.seed));
  expect((await seen(shuffled, options)).flatMap(({ y }) => y)).toEqual(order);
});

test("what is not batched, and options that there are not", async () => {
  await expect(data.batches(rows).next()).rejects.toMatchObject({ code: "data" });
  await expect(data.batches(rows.batch(2), { epochs: 1 } as never).next()).rejects.toMatchObject({ code: "option" });
});
