/** Values that are split in hard ways, over two processes: the same answers as on one device. */
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { planFunction } from "../../src/functions/index.ts";
import type { HostTensor } from "../../src/ir/index.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { mesh } from "../../src/plan/index.ts";
import { started } from "../cli/heddle-process.ts";
import { difference } from "../support/tensors.ts";
import { cases, type ShardedCase } from "./scripts/sharded-cases.ts";

const scriptNamed = (name: string): string => fileURLToPath(new URL(`./scripts/${name}`, import.meta.url));

interface Said {
  readonly rank: number;
  readonly results?: number[][];
  readonly error?: string;
  readonly table?: number[];
  readonly flops?: number;
}

/** What each of two workers says. */
async function onTwoProcesses(name: string, script = "sharded.ts"): Promise<Said[]> {
  const { stdout, stderr } = await started(["run", scriptNamed(script), "--workers", "2", "--", name], {
    HEDDLE_THREADS: "1",
  }).ended;
  const text = stdout + stderr;
  const said = [...text.matchAll(/RESULT (\{.*\})/g)].map((match) => JSON.parse(match[1] as string) as Said);
  if (said.length !== 2) throw new Error(text);
  return said.sort((one, other) => one.rank - other.rank);
}

const onOneDevice = ({ inputs, step }: ShardedCase): HostTensor[] =>
  evaluateGraph(planFunction(step, inputs, mesh({}), { name: "whole" }).graph, inputs);

describe.skipIf("error" in loadNative())("two processes", () => {
  test("plan by the machine of rank 0", async () => {
    expect((await onTwoProcesses("", "machine.mjs")).map(({ flops }) => flops)).toEqual([1e9, 1e9]);
  }, 60_000);

  test.each(["lookup", "uneven", "shares", "halo"])(
    "%s",
    async (name) => {
      const expected = onOneDevice(cases[name] as ShardedCase);
      for (const { results, error } of await onTwoProcesses(name)) {
        expect(error).toBeUndefined();
        expected.forEach((one, index) => {
          expect(difference(results?.[index] as number[], one.data, 1e-12), `result ${index}`).toBeUndefined();
        });
      }
    },
    60_000,
  );

  test("an id outside the table is an error that names it, and each worker's rows stay as they were", async () => {
    const { inputs } = cases["wrong id"] as ShardedCase;
    const table = [...(inputs[0] as HostTensor).data];
    const said = await onTwoProcesses("wrong id");
    for (const { error } of said) expect(error).toMatch(/index 13 at position \d+ is outside \[(?:-13|0), 13\)/);
    expect(said.flatMap((one) => one.table ?? [])).toEqual(table);
  }, 60_000);
});
