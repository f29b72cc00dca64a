/** Requests in batches: who gets which row, what fails with whom, and who is refused. */
import { jit, type Tensor, tensor } from "heddle";
import { type BatcherOptions, batcher } from "heddle/inference";
import { describe, expect, test } from "vitest";

const pair = { shape: [2], dtype: "f32" } as const;

/** Sums of pairs, by a function that notes the sizes of its batches and waits until it is let go. */
function sums(options: Partial<BatcherOptions<typeof pair>> = {}) {
  const sizes: number[] = [];
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const add = jit((x: Tensor) => x.sum(1));
  const predict = async (x: Tensor): Promise<Tensor> => {
    sizes.push(x.shape[0] as number);
    await gate;
    return add(x);
  };
  return { sizes, open, served: batcher(predict, { input: pair, sizes: [1, 2, 4], ...options }) };
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
};

describe("batcher", () => {
  test("answers each request with its own row, in batches filled up to the next size", async () => {
    const { served, sizes, open } = sums();
    const first = served.predict([0, 1]);
    await turns();
    const more = [1, 2, 3, 4, 5, 6, 7].map((value) => served.predict(Float32Array.of(value, 1)));
    expect(served.waiting).toBe(7);
    open();
    const answers = await Promise.all([first, ...more]);
    expect(answers.map((row) => [...row])).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((sum) => [sum]));
    expect([sizes, served.batches, served.waiting]).toEqual([[1, 4, 4], 3, 0]);
    // An answer holds nothing of the others.
    expect(answers[3]?.buffer.byteLength).toBe(4);
  });

  test("takes and gives trees, of any dtype and nesting", async () => {
    const served = batcher(
      jit(({ ids, scale }: { ids: Tensor; scale: Tensor }) => ({
        by: [ids.cast("f32").mul(scale.reshape([-1, 1, 1]))] as const,
        long: ids.cast("i64").sum([1, 2]),
      })),
      { input: { ids: { shape: [2, 2], dtype: "u8" }, scale: { shape: [], dtype: "f16" } } },
    );
    const nested = served.predict({
      ids: [
        [1, 2],
        [3, 4],
      ],
      scale: 0.5,
    });
    const flat = served.predict({ ids: Uint8Array.of(1, 2, 3, 4), scale: 2 });
    expect(await nested).toEqual({ by: [Float32Array.of(0.5, 1, 1.5, 2)], long: BigInt64Array.of(10n) });
    expect(await flat).toEqual({ by: [Float32Array.of(2, 4, 6, 8)], long: BigInt64Array.of(10n) });
    expect(served.batches).toBe(1);
  });

  test("fails only those requests that fail alone", async () => {
    const table = tensor([10, 11, 12]);
    const served = batcher(
      jit((index: Tensor) => table.gather(index)),
      { input: { shape: [], dtype: "i32" } },
    );
    const asked = [0, 1, 2, 3, 1, 0, -7, 2].map((index) => served.predict(index));
    const settled = await Promise.allSettled(asked);
    const told = settled.map((one) => (one.status === "fulfilled" ? one.value[0] : (one.reason.code as string)));
    expect(told).toEqual([10, 11, 12, "value", 11, 10, "value", 12]);
    expect(await served.predict(1)).toEqual(Float32Array.of(11));
  });

  test("refuses what is no example before anything is computed", async () => {
    const { served, sizes } = sums();
    const wrong = [[1, 2, 3], [[1, 2]], ["a", 1], Float32Array.of(1), tensor([1, 2]), undefined];
    const settled = await Promise.allSettled(wrong.map((one) => served.predict(one as number[])));
    expect(settled.map((one) => (one as PromiseRejectedResult).reason.code)).toEqual([
      "shape",
      "shape",
      "dtype",
      "shape",
      "dtype",
      "shape",
    ]);
    const record = batcher(({ x }: { x: Tensor }) => x, { input: { x: pair } });
    await expect(record.predict([1, 2] as never)).rejects.toThrow("predict: a request is [1,2], but it should have x");
    await expect(record.predict({ x: [1] })).rejects.toThrow("predict: x: a request gives f32[2], got values of [1]");
    expect(sizes).toEqual([]);
  });

  test("says no when the queue is full, and works on when there is room", async () => {
    const { served, open } = sums({ queue: 2 });
    const first = served.predict([1, 1]);
    await turns();
    const waiting = [served.predict([2, 2]), served.predict([3, 3])];
    await expect(served.predict([4, 4])).rejects.toMatchObject({ code: "unavailable" });
    open();
    expect((await Promise.all([first, ...waiting])).map(([sum]) => sum)).toEqual([2, 4, 6]);
    expect(await served.predict([4, 4])).toEqual(Float32Array.of(8));
  });

  test("takes back what is aborted, computed or not", async () => {
    const { served, sizes, open } = sums();
    const [early, late] = [new AbortController(), new AbortController()];
    const computed = served.predict([1, 1], { signal: early.signal });
    await turns();
    const queued = served.predict([2, 2], { signal: late.signal });
    const other = served.predict([3, 3]);
    early.abort("gone");
    late.abort("gone too");
    await expect(computed).rejects.toBe("gone");
    await expect(queued).rejects.toBe("gone too");
    await expect(served.predict([4, 4], { signal: AbortSignal.abort("at once") })).rejects.toBe("at once");
    open();
    expect(await other).toEqual(Float32Array.of(6));
    expect(sizes).toEqual([1, 1]);
  });

  test("waits for others as long as it is told, or until a batch is full", async () => {
    const { served, sizes, open } = sums({ maxWait: 1e6 });
    open();
    const some = [1, 2, 3].map((value) => served.predict([value, 0]));
    await turns();
    expect(sizes).toEqual([]);
    await Promise.all([...some, served.predict([4, 0])]);
    expect(sizes).toEqual([4]);
    const short = sums({ maxWait: 1 });
    short.open();
    expect(await short.served.predict([1, 2])).toEqual(Float32Array.of(3));
  });

  test("closes when all are answered, waiting for no more", async () => {
    const { served, open } = sums({ maxWait: 1e6 });
    const asked = [1, 2].map((value) => served.predict([value, 0]));
    await turns();
    let closed = false;
    const closing = served.close().then(() => {
      closed = true;
    });
    await expect(served.predict([3, 0])).rejects.toThrow("predict: the batcher is closed");
    await turns();
    expect(closed).toBe(false);
    open();
    await Promise.all([...asked, closing]);
  });

  test("warms up by a batch of each size", async () => {
    const { served, sizes, open } = sums();
    open();
    await served.warmUp();
    expect(sizes).toEqual([1, 2, 4]);
  });

  test("names results without a batch, and options that are none", async () => {
    const input = { input: pair };
    await expect(batcher((x: Tensor) => x.sum(), input).predict([1, 2])).rejects.toThrow(
      "batcher: for a batch of 1 the function gives f32[]",
    );
    expect(() => batcher((x: Tensor) => x, { input: [2] as never })).toThrow("batcher: input is [2], not the type");
    expect(() => batcher((x: Tensor) => x, { ...input, sizes: [8, 1] })).toThrow("batcher: sizes must ascend, got ");
    expect(() => batcher((x: Tensor) => x, { ...input, queue: 0 })).toThrow("batcher: queue must be at least 1");
    const odd = { shape: [2], dtype: "f33" } as never;
    expect(() => batcher((x: Tensor) => x, { input: odd })).toThrow('batcher: input: there is no dtype "f33"');
    const asked = batcher((x: Tensor) => x, input).predict([1, 2], { signal: 5 as never });
    await expect(asked).rejects.toThrow("predict: signal must be an AbortSignal, got 5");
  });
});
