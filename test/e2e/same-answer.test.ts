import { describe, expect, test } from "vitest";
import { missing } from "../native/evaluate.ts";
import { finished, workload } from "./command.ts";

const losses = (output: string): Map<number, number> =>
  new Map([...output.matchAll(/step (\d+) loss (\S+)/g)].map((match) => [Number(match[1]), Number(match[2])]));
const digest = (output: string): string | undefined => /digest (\d+)/.exec(output)?.[1];

const run = async (workers: number, options: object): Promise<string> => {
  const { status, output } = await finished([
    "run",
    workload,
    "--workers",
    String(workers),
    "--threads",
    "1",
    "--",
    JSON.stringify(options),
  ]);
  expect(status, output).toBe(0);
  return output;
};

describe.skipIf(missing !== undefined)("same answer", () => {
  test("one worker and two, a convnet with dropout in f64: losses within 1e-9 over 200 steps", async () => {
    const options = { epochs: 25, convnet: true, dtype: "f64" };
    const [one, two] = [losses(await run(1, options)), losses(await run(2, options))];
    expect(one.size).toBe(9);
    expect(one.has(199)).toBe(true);
    for (const [step, loss] of one)
      expect(Math.abs((two.get(step) as number) - loss) / Math.abs(loss), `step ${step}`).toBeLessThan(1e-9);
  }, 120_000);

  test("two workers and two virtual devices in one process: the same bits", async () => {
    const options = { epochs: 5, convnet: true };
    const two = await run(2, options);
    const virtual = await run(1, { ...options, devices: 2 });
    expect(digest(two)).toBeDefined();
    expect(digest(virtual)).toBe(digest(two));
    expect(losses(virtual)).toEqual(losses(two));
  }, 120_000);
});
