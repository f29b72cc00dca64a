/** Values that are split in hard ways, over two processes: the same answers as on one device. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { HostTensor } from "../../src/ir/index.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { mesh } from "../../src/plan/index.ts";
import { loadNative } from "../../src/runtime/native/binding.ts";
import { planFunction } from "../../src/tensor/index.ts";
import { difference } from "../support/tensors.ts";
import { cases, type ShardedCase } from "./scripts/sharded-cases.ts";

const command = fileURLToPath(new URL("../cli/heddle.ts", import.meta.url));
const script = fileURLToPath(new URL("./scripts/sharded.ts", import.meta.url));

interface Said {
  readonly rank: number;
  readonly results?: number[][];
  readonly error?: string;
  readonly table?: number[];
}

/** What each of two workers says. */
async function onTwoProcesses(name: string): Promise<Said[]> {
  const child = spawn(process.execPath, ["--import", "tsx", command, "run", script, "--workers", "2", "--", name], {
    env: { ...process.env, NO_COLOR: "1", HEDDLE_THREADS: "1", NODE_OPTIONS: "--conditions=heddle-source" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
  await new Promise((resolve) => child.once("close", resolve));
  const said = [...text.matchAll(/RESULT (\{.*\})/g)].map((match) => JSON.parse(match[1] as string) as Said);
  if (said.length !== 2) throw new Error(text);
  return said.sort((one, other) => one.rank - other.rank);
}

const onOneDevice = ({ inputs, step }: ShardedCase): HostTensor[] =>
  evaluateGraph(planFunction(step, inputs, mesh({}), { name: "whole" }).graph, inputs);

describe.skipIf("error" in loadNative())("two processes", () => {
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
    for (const { error } of said) expect(error).toMatch(/index 13 at position \d+ is outside \[0, 13\)/);
    expect(said.flatMap((one) => one.table ?? [])).toEqual(table);
  }, 60_000);
});
