/** Iterative programs whose workers are killed come to the results of undisturbed ones, without a checkpoint. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { iterate } from "../../src/train/iterate.ts";
import { finished } from "../e2e/command.ts";

const example = (name: string): string => fileURLToPath(new URL(`../../examples/${name}.ts`, import.meta.url));

/** The last line, and the number of workers and of compensations. */
async function outcome(name: string, flags: readonly string[], fault: string) {
  const args = ["run", example(name), ...flags, "--threads", "1", "--", fault];
  const { status, output } = await finished(args);
  expect({ status, output }).toEqual({ status: 0, output });
  const [, workers, , compensations] = /(\d+) workers?, (\d+) iterations, (\d+) compensations/.exec(output) ?? [];
  // Rank 0 may be another worker than the first.
  const result = output
    .trimEnd()
    .split("\n")
    .at(-1)
    ?.replace(/^\[rank \d\] /, "");
  return { result, workers: Number(workers), rebuilt: Number(compensations) };
}

test.each(["pagerank", "kmeans", "als"])("%s", async (name) => {
  const alone = await outcome(name, [], "");
  expect(alone).toMatchObject({ workers: 1, rebuilt: 0 });
  const killed = await outcome(name, ["--workers", "1:3"], "1@1");
  expect(killed).toEqual({ result: alone.result, workers: 2, rebuilt: 1 });
});

test("a lost worker is replaced", async () => {
  const alone = await outcome("pagerank", [], "");
  const { result, rebuilt } = await outcome("pagerank", ["--workers", "2:2", "--restarts", "1"], "0@4");
  expect({ result, rebuilt }).toEqual({ result: alone.result, rebuilt: 1 });
});

test("in one process it is a loop; arguments are checked", async () => {
  const count = {
    iterations: 5,
    initial: () => ({ x: Float64Array.of(1) }),
    step: ({ x }: { x: Float64Array }) => ({ part: { x: x.map((value) => 2 * value) } }),
    compensate: () => ({ x: Float64Array.of(0) }),
  };
  const { part, iteration, compensations } = await iterate<{ x: Float64Array }>(count);
  expect([part.x[0], iteration, compensations]).toEqual([32, 5, 0]);
  const done = await iterate<{ x: Float64Array }>({ ...count, step: (part) => ({ part, done: true }) });
  expect([done.part.x[0], done.iteration]).toEqual([1, 1]);
  await expect(iterate({ ...count, iterations: -1 } as never)).rejects.toThrow(/iterations/);
  await expect(iterate({ ...count, step: 3 } as never)).rejects.toThrow(/iterate: step must be a function, got 3/);
  await expect(iterate({ ...count, steps: 3 } as never)).rejects.toThrow(/steps/);
});
