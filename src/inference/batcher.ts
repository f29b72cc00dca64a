/**
 * @module Computes requests that arrive separately in batches. Requests that arrive while a batch is computed form the next batch, so a
 * busy server computes many rows at once, and an idle server answers immediately.
 */

import { isTensor } from "../functions/index.ts";
import { checkFunction } from "../tensor/arguments.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { flattenTree } from "../util/tree.ts";
import { nextTurn } from "../util/turn.ts";
import { type Answer, type Asked, type Example, Inputs, rowsOf, type TensorsOf } from "./rows.ts";

/** Options of {@link batcher}. */
export interface BatcherOptions<Types> {
  /** Shape and dtype of one example, without the batch; for several inputs a tree of these. */
  readonly input: Types;
  /**
   * Sizes of batches, ascending. A batch is padded to the next size with copies of its last row, so that few shapes are compiled. The last
   * size is the largest batch. Default `[1, 8, 32]`.
   */
  readonly sizes?: readonly number[];
  /** Milliseconds that a request may wait for others while nothing is computed; default 0: requests are computed at once. */
  readonly maxWait?: number;
  /** Number of requests that may wait; further requests are refused. Default 1024. */
  readonly queue?: number;
}

/** Options of a request. */
export interface AskOptions {
  /** Cancels a request that is not computed yet: it fails with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Answers requests in batches; made by {@link batcher}. */
export interface Batcher<Types, Result> {
  /**
   * The result for one example. Requests are computed in the order in which they arrive.
   *
   * @throws HeddleError `shape`, `dtype` or `argument` for a malformed example; `unavailable` when too many requests wait or after
   * {@link close}; errors of the function for this example; the signal's reason.
   */
  predict(example: Asked<Types>, options?: AskOptions): Promise<Answer<Result>>;
  /** Computes a batch of each size, of zeros, so that no request waits for compilation. @throws errors of the function */
  warmUp(): Promise<void>;
  /** Refuses new requests, and resolves when all waiting requests are answered. */
  close(): Promise<void>;
  /** Number of requests that wait for their batch. */
  readonly waiting: number;
  /** Number of batches that were computed. */
  readonly batches: number;
}

/**
 * Gathers requests for single examples into batches for `predict`. The function takes a tensor, or a tree of tensors with the structure
 * of `input`, with the batch as first dim; it gives a tensor or a tree of tensors, with the batch as first dim. Jitted, it is compiled
 * once per size. One batch is computed at a time. If a batch fails, its halves are computed separately, down to single requests: only
 * requests that fail alone fail.
 *
 * @throws HeddleError `argument` or `option` for a value that is not a function, a malformed type, or an option out of range
 * @example batcher(model.predict, { input: { shape: [4], dtype: "f32" } }).predict([1, 2, 3, 4])
 */
export function batcher<const Types extends object, Result>(
  predict: (inputs: TensorsOf<Types>) => Result | Promise<Result>,
  options: BatcherOptions<Types>,
): Batcher<Types, Result> {
  return new Gathering(predict as (inputs: unknown) => unknown, options) as Batcher<Types, Result>;
}

interface Request {
  readonly example: Example;
  readonly since: number;
  readonly answer: (rows: unknown) => void;
  readonly fail: (error: unknown) => void;
}

class Gathering {
  batches = 0;
  private readonly compute: (inputs: unknown) => unknown;
  private readonly inputs: Inputs;
  private readonly sizes: readonly number[];
  private readonly maxWait: number;
  private readonly queue: number;
  private requests: Request[] = [];
  private working: Promise<void> | undefined;
  private closed = false;
  /** Ends `forMore`'s wait. */
  private wake: () => void = () => {};

  constructor(compute: (inputs: unknown) => unknown, options: BatcherOptions<unknown>) {
    checkFunction("batcher", compute);
    checkOptions("batcher", options, ["input", "sizes", "maxWait", "queue"]);
    const { input, sizes = [1, 8, 32], maxWait = 0, queue = 1024 } = options;
    this.compute = compute;
    this.inputs = new Inputs(input);
    checkSizes(sizes);
    checkNumber("batcher", "maxWait", maxWait, 0);
    checkInteger("batcher", "queue", queue, 1);
    [this.sizes, this.maxWait, this.queue] = [[...sizes], maxWait, queue];
  }

  get waiting(): number {
    return this.requests.length;
  }

  async predict(values: unknown, options: AskOptions = {}): Promise<unknown> {
    checkOptions("predict", options, ["signal"]);
    const { signal } = options;
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw new HeddleError("argument", `predict: signal must be an AbortSignal, got ${shown(signal)}`);
    signal?.throwIfAborted();
    const example = this.inputs.example(values);
    if (this.closed) throw new HeddleError("unavailable", "predict: the batcher is closed");
    if (this.waiting >= this.queue)
      throw new HeddleError("unavailable", `predict: ${this.waiting} requests wait already`, {
        hint: "answer 503, so that the client tries again; the option queue of batcher limits the waiting requests",
      });
    let takeBack = (): void => {};
    try {
      return await new Promise((answer, fail) => {
        const request = { example, since: performance.now(), answer, fail };
        takeBack = () => {
          this.requests = this.requests.filter((waiting) => waiting !== request);
          fail(signal?.reason);
        };
        signal?.addEventListener("abort", takeBack);
        this.requests.push(request);
        if (this.waiting >= this.largest) this.wake();
        this.working ??= this.work();
      });
    } finally {
      signal?.removeEventListener("abort", takeBack);
    }
  }

  async warmUp(): Promise<void> {
    for (const size of this.sizes) await this.rows([this.inputs.zeros()], size);
  }

  async close(): Promise<void> {
    this.closed = true;
    this.wake();
    await this.working;
  }

  private get largest(): number {
    return this.sizes.at(-1) as number;
  }

  private async work(): Promise<void> {
    do {
      // First read the requests that have arrived.
      await nextTurn();
      await this.forMore();
      const batch = this.requests.splice(0, this.largest);
      if (batch.length > 0) await this.answer(batch);
    } while (this.waiting > 0);
    this.working = undefined;
  }

  /** Waits until a batch is full, or the oldest request has waited long enough. */
  private async forMore(): Promise<void> {
    const oldest = this.requests[0]?.since ?? 0;
    const remaining = this.maxWait - (performance.now() - oldest);
    if (remaining <= 0 || this.closed || this.waiting >= this.largest || this.waiting === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, remaining);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private async answer(batch: readonly Request[]): Promise<void> {
    try {
      const size = this.sizes.find((batchSize) => batchSize >= batch.length) as number;
      const examples = batch.map(({ example }) => example);
      this.batches++;
      const rows = await this.rows(examples, size);
      for (const [index, { answer }] of batch.entries()) answer(rows[index]);
    } catch (error) {
      if (batch.length === 1) return batch[0]?.fail(error);
      const half = Math.ceil(batch.length / 2);
      await this.answer(batch.slice(0, half));
      await this.answer(batch.slice(half));
    }
  }

  private async rows(examples: readonly Example[], size: number): Promise<unknown[]> {
    const inputs = this.inputs.batch(examples, size);
    try {
      return await rowsOf(await this.compute(inputs), size, examples.length);
    } finally {
      for (const tensor of flattenTree(inputs, isTensor).leaves) tensor.dispose();
    }
  }
}

function checkSizes(sizes: readonly number[]): void {
  if (!Array.isArray(sizes) || sizes.length === 0)
    throw new HeddleError("option", `batcher: sizes must be numbers such as [1, 8, 32], got ${shown(sizes)}`);
  sizes.forEach((size, index) => {
    checkInteger("batcher", `sizes[${index}]`, size, 1);
    if (index > 0 && size <= (sizes[index - 1] as number))
      throw new HeddleError("option", `batcher: sizes must ascend, got ${shown(sizes)}`);
  });
}
