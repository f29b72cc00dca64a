/** Runs whose sums a switch makes: every collective in every dtype (a twelfth of the calls where a part is run), and trainings, while packets are lost. */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { started, withoutSpeed } from "../cli/heddle-process.ts";
import { triedCases } from "../comm/scripts/cases.ts";
import { missing } from "../native/evaluate.ts";
import { expectClose } from "../support/close.ts";
import { isWhole } from "../support/sample.ts";

const collectives = fileURLToPath(new URL("../comm/scripts/all.ts", import.meta.url));
const training = fileURLToPath(new URL("../train/scripts/run.ts", import.meta.url));

/** What workers print, and how many packets their switch has lost. */
async function through(
  flags: readonly string[],
  workers: number,
  command: readonly string[],
): Promise<{ stdout: string; lost: number }> {
  const one = started(["switch", "--workers", String(workers), ...flags]);
  let said = "";
  one.child.stdout?.on("data", (text: string) => {
    said += text;
  });
  await one.until(" slots for ");
  const [, address] = /switch: (127\S+), /.exec(said) as unknown as [string, string];
  try {
    const [script, ...args] = command as [string, ...string[]];
    const ran = await started(["run", script, "--workers", String(workers), ...args], {
      HEDDLE_SWITCH: address,
      HEDDLE_THREADS: "1",
    }).ended;
    expect({ status: ran.status, stderr: withoutSpeed(ran.stderr) }).toEqual({ status: 0, stderr: "" });
    one.child.kill("SIGTERM");
    const { stdout } = await one.ended;
    return { stdout: ran.stdout, lost: Number(/(\d+) were lost/.exec(stdout)?.[1]) };
  } finally {
    if (one.child.exitCode === null) {
      one.child.kill();
      await once(one.child, "close");
    }
  }
}

describe.skipIf(missing !== undefined)("runs", { timeout: 240_000 }, () => {
  test.each([
    [2, ["--slots", "8", "--drop", "0.1", "--duplicate", "0.05", "--reorder", "0.1", "--seed", "1"]],
    [4, ["--drop", "0.01", "--seed", "2"]],
  ])("every collective in every dtype between %i workers, %o", async (workers, flags) => {
    const every = isWhole() ? 1 : 12;
    const { stdout, lost } = await through(flags, workers, [collectives, "--", String(every)]);
    const said = [...stdout.matchAll(/RESULT (\{.*\})/g)].map(
      (match) => JSON.parse(match[1] as string) as { tried: number; wrong: string[] },
    );
    expect(said).toHaveLength(workers);
    const { length } = triedCases(workers);
    expect(length).toBeGreaterThan(500);
    for (const { wrong, tried } of said) {
      expect(wrong).toEqual([]);
      expect(tried).toBe(Math.ceil(length / every));
    }
    expect(lost).toBeGreaterThan(0);
  });

  test("a training in which half of all packets are lost is that of two devices, within the bound of the sums", async () => {
    const settings = { epochs: 1, dtype: "f64", axes: { data: 2 } };
    const lossesOf = (stdout: string): number[] =>
      (JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) as string) as { losses: number[] }).losses;
    const { stdout } = await through(["--drop", "0.5", "--seed", "3"], 2, [training, "--", JSON.stringify(settings)]);
    const plain = await started(["run", training, "--workers", "1", "--", JSON.stringify(settings)]).ended;
    expectClose(lossesOf(stdout), lossesOf(plain.stdout), 1e-6);
  });
});
