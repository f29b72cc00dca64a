/** @module Functions of records on worker threads, named by module, so that nothing but records crosses between threads. */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import type { Outcome, RecordMoment, RemoteFunction } from "./apply.ts";

/** Options of {@link onWorkers}. */
export interface WorkerOptions {
  /** The name of the function among the module's exports; default `"default"`. */
  readonly name?: string;
  /** Number of threads; default one less than the cores, at least one. */
  readonly workers?: number;
}

/** What a thread answers. */
interface Answer {
  readonly id: number;
  readonly outcomes?: readonly Outcome<unknown>[];
  readonly failure?: string;
}

// As text: this module imports nothing late, its threads do.
const load = "import";
/** What a thread runs: it imports the module, and calls its function for each record. */
const program = `
import { parentPort, workerData } from "node:worker_threads";
const textOf = (error) => (error instanceof Error ? error.message : String(error));
let fn;
let failure;
try {
  fn = (await ${load}(workerData.module))[workerData.name];
  if (typeof fn !== "function") failure = "it has no function " + workerData.name;
} catch (error) {
  failure = textOf(error);
}
parentPort.on("message", async ({ id, rows, moments }) => {
  if (failure !== undefined) return parentPort.postMessage({ id, failure });
  const outcomes = [];
  for (let index = 0; index < rows.length; index++) {
    try {
      outcomes.push({ value: await fn(rows[index], moments[index]) });
    } catch (error) {
      outcomes.push({ error: textOf(error) });
    }
  }
  try {
    parentPort.postMessage({ id, outcomes });
  } catch (error) {
    parentPort.postMessage({ id, failure: "a result cannot be sent: " + textOf(error) });
  }
});
`;

interface Thread {
  readonly worker: Worker;
  /** Calls that are under way, by number. */
  readonly waiting: Map<number, { resolve(answer: Answer): void; reject(error: unknown): void }>;
}

/**
 * A function of a module that `map`, `filter` and `flatMap` call on worker threads. Records come back in their order, whatever the number
 * of threads. Threads start with the first record, and do not keep the process alive.
 *
 * @param module its URL, such as `new URL("./features.ts", import.meta.url)`
 * @throws HeddleError `data` when the module cannot be loaded, or lacks the function, at the first record
 */
export function onWorkers<Row extends object, Result>(
  module: URL | string,
  options: WorkerOptions = {},
): RemoteFunction<Row, Result> {
  checkOptions("onWorkers", options, ["name", "workers"]);
  const { name = "default", workers = Math.max(1, availableParallelism() - 1) } = options;
  checkInteger("onWorkers", "workers", workers, 1, 256);
  const threads: Thread[] = [];
  let calls = 0;
  const failed = (problem: string, cause?: unknown): HeddleError =>
    new HeddleError("data", `onWorkers: ${String(module)}: ${problem}`, cause === undefined ? {} : { cause });
  const start = (): Thread => {
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`), {
      workerData: { module: String(module), name },
    });
    worker.unref();
    const thread: Thread = { worker, waiting: new Map() };
    const end = (error: unknown): void => {
      threads.splice(threads.indexOf(thread), 1);
      for (const { reject } of thread.waiting.values()) reject(error);
      thread.waiting.clear();
    };
    worker.on("message", (answer: Answer) => {
      thread.waiting.get(answer.id)?.resolve(answer);
      thread.waiting.delete(answer.id);
      if (thread.waiting.size === 0) worker.unref();
    });
    worker.on("error", (error) => end(failed(error instanceof Error ? error.message : String(error), error)));
    worker.on("exit", (status) => end(failed(`a thread ended with status ${status}`)));
    return thread;
  };
  return {
    parallel: workers * 2,
    async call(rows: readonly Row[], moments: readonly RecordMoment[]) {
      if (threads.length < workers) threads.push(start());
      // The thread with the fewest calls under way takes this one.
      const thread = threads.reduce((least, other) => (other.waiting.size < least.waiting.size ? other : least));
      const id = calls++;
      const answer = await new Promise<Answer>((resolve, reject) => {
        thread.waiting.set(id, { resolve, reject });
        thread.worker.ref();
        thread.worker.postMessage({ id, rows, moments });
      });
      if (answer.outcomes === undefined) throw failed(answer.failure ?? "no answer");
      return answer.outcomes as readonly Outcome<Result>[];
    },
  };
}
