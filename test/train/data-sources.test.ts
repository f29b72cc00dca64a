import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { data, losses, nn, optim, type Tensor, train } from "heddle";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "heddle-train-data-"));
afterAll(() => rmSync(folder, { recursive: true }));

const rows = 60;
const x = Float32Array.from({ length: 2 * rows }, (_value, at) => Math.sin(at));
const y = Float32Array.from({ length: rows }, (_value, row) => 2 * (x[2 * row] as number) - (x[2 * row + 1] as number));
const records = data.fromGenerator(
  () => Array.from({ length: rows }, (_row, at) => ({ x: x.slice(2 * at, 2 * at + 2), y: y.slice(at, at + 1) })),
  { length: rows },
);

function inFiles(): data.Dataset {
  const columns = Object.entries({ x, y }).map(([name, values]) => {
    const path = join(folder, name);
    writeFileSync(path, values);
    const where = { shape: [rows, values.length / rows], dtype: "f32" as const, start: 0 };
    return data.columnFromRanges({ name, ...where, transform: undefined }, data.fileRanges("test", path, where));
  });
  return data.fromColumns("files", columns);
}

async function trained(dataset: data.Dataset, dataMemory?: number) {
  const result = await train({
    model: nn.linear(1),
    data: dataset,
    loss: losses.mse,
    optimizer: optim.adam({ learningRate: 0.05 }),
    epochs: 3,
    report: "silent",
    ...(dataMemory === undefined ? {} : { dataMemory }),
  });
  return [...(await (result.params["weight"] as Tensor).data()), ...result.history.map(({ loss }) => loss)];
}

const memory = (): data.Dataset =>
  data.fromArrays({ x: { shape: [rows, 2], data: x }, y: { shape: [rows, 1], data: y } });

test("memory, files, kept or read by their rows, and what is stored: the same bits", async () => {
  const expected = await trained(memory().shuffle().batch(8));
  expect(await trained(memory().shuffle().batch(8), 0)).toEqual(expected);
  expect(await trained(inFiles().shuffle().batch(8))).toEqual(expected);
  expect(await trained(inFiles().shuffle().batch(8), 0)).toEqual(expected);
  // y fits, x does not.
  expect(await trained(inFiles().shuffle().batch(8), 600)).toEqual(expected);
  expect(await trained((await data.stored(records, join(folder, "stored"))).shuffle().batch(8))).toEqual(expected);
  expect(await trained((await data.streamed(await records.load())).shuffle().batch(8))).toEqual(expected);
});

test("a stream that is shuffled: each epoch has its own order, and columns agree, whatever the memory", async () => {
  const shuffled = records.shuffle({ window: 25 });
  const orders = await Promise.all(
    [0, 1, 2].map(async (epoch) => {
      const order: number[] = [];
      for await (const row of shuffled.read({ epoch })) order.push(y.indexOf(row.y[0] as number));
      return order;
    }),
  );
  // The same training by hand: an epoch at a time, in the order of the stream.
  const seen: number[] = [];
  const stream = await data.streamed(
    shuffled.map((row, { epoch, index }) => {
      if (y[(orders[epoch] as number[])[index] as number] !== row.y[0]) seen.push(index);
      return row;
    }),
  );
  const all = await trained(stream.batch(8), 2 ** 20);
  expect(all).toEqual(await trained(stream.batch(8), 0));
  expect(seen).toEqual([]);
  // A linear function is learned from rows that agree; with columns of different orders the loss would stay.
  expect(all.at(-1)).toBeLessThan((all.at(-3) as number) * 0.8);
});

test("a run that resumes in the middle of a stream goes on with the same bits", async () => {
  const stream = async (): Promise<data.Dataset> => (await data.streamed(records.shuffle({ window: 25 }))).batch(8);
  const options = {
    model: nn.linear(1),
    loss: losses.mse,
    optimizer: optim.adam({ learningRate: 0.05 }),
    report: "silent" as const,
  };
  const whole = await train({ ...options, data: await stream(), epochs: 2 });
  const checkpoint = { directory: join(folder, "checkpoints"), every: 5 };
  const stop = new Error("stop");
  const stopping = train({
    ...options,
    data: await stream(),
    epochs: 2,
    checkpoint,
    callbacks: {
      onStep: ({ step }) => {
        if (step === 10) throw stop;
      },
    },
  });
  await expect(stopping).rejects.toThrow("stop");
  const resumed = await train({ ...options, data: await stream(), epochs: 2, checkpoint, resume: true });
  expect(await (resumed.params["weight"] as Tensor).data()).toEqual(await (whole.params["weight"] as Tensor).data());
});
