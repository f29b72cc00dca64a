/** Training by the `heddle` command: processes, signals, plans, resumed runs. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started, withoutSpeed } from "../cli/heddle-process.ts";
import { expectClose } from "../support/close.ts";
import { isWhole, partOf } from "../support/sample.ts";

const script = fileURLToPath(new URL("./scripts/run.ts", import.meta.url));
const native = !("error" in loadNative());

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-process-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

interface Told {
  readonly losses: number[];
  readonly accuracy: number;
  readonly steps: number;
  readonly hash: string;
}

async function trained(workers: number, settings: object, ...flags: string[]): Promise<Told> {
  const { status, stdout, stderr } = await started([
    "run",
    script,
    "--workers",
    String(workers),
    ...flags,
    "--",
    JSON.stringify(settings),
  ]).ended;
  expect({ status, stderr: withoutSpeed(stderr) }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) as string) as Told;
}

describe.skipIf(!native)("a loop of one's own", () => {
  const script = fileURLToPath(new URL("./scripts/own.ts", import.meta.url));
  const run = async (...args: string[]): Promise<string> => {
    const { status, stdout, stderr } = await started(["run", script, ...args]).ended;
    expect({ status, stderr: withoutSpeed(stderr) }).toEqual({ status: 0, stderr: "" });
    return stdout;
  };

  test("two workers give the bits of two devices in one process, and save the same file", async () => {
    const [virtual, real] = [join(directory, "virtual"), join(directory, "real")];
    const told = await run("--", "2", virtual);
    expect(JSON.parse(told)).toMatchObject({ losses: { length: 8 }, outputs: 1 });
    expect(await run("--workers", "2", "--", "", real)).toBe(told);
    expect(readFileSync(real)).toEqual(readFileSync(virtual));
  });
});

describe("heddle plan", () => {
  test("prints five lines and the plan, and trains nothing", async () => {
    const { status, stdout } = await started(["plan", script, "--mesh", "data=2", "--", '{"epochs":1}'], {
      HEDDLE_NATIVE: "off",
    }).ended;
    expect(status).toBe(0);
    const lines = stdout.split("\n");
    expect(lines[0]).toMatch(/^plan +for 2 devices, mesh data=2; nothing is run$/);
    expect(lines[3]).toMatch(/^memory +[\d.]+ KB predicted on each device/);
    expect(stdout).toMatch(/^ +batch\.x +u8\[16,1,8,8\] +S\(0\) +512 B$/m);
    expect(stdout).toContain("allReduce");
    expect(stdout).not.toContain("epoch");
  });

  test("of more devices than a batch has rows", async () => {
    const { status, stdout } = await started(["plan", script, "--mesh", "data=64", "--", '{"epochs":1}']).ended;
    expect(status).toBe(0);
    expect(stdout).toContain("sharded    nothing");
    expect(stdout).toMatch(/^unused +axis data=64: .*too few for 64 devices/m);
  });
});

describe.skipIf(!native)("pipelines", { timeout: 120_000 }, () => {
  test("give the same bits in one process and in two, and the numbers of a training without stages", async () => {
    const whole = await trained(1, { epochs: 3 });
    const virtual = await trained(1, { epochs: 3, pipeline: true });
    const two = await trained(2, { epochs: 3, pipeline: true });
    expect(two).toEqual(virtual);
    expectClose(two.losses, whole.losses, 1e-9);
    expect(two.accuracy).toBe(whole.accuracy);
  });

  test("times pipelines: stages and data over four workers", async () => {
    const whole = await trained(1, { epochs: 1 });
    const four = await trained(4, { epochs: 1, pipeline: true });
    expectClose(four.losses, whole.losses, 1e-9);
  });

  test("are planned: stages, schedule, bytes", async () => {
    const settings = JSON.stringify({ epochs: 1, pipeline: true });
    const { status, stdout } = await started(["plan", script, "--mesh", "stage=2", "--", settings]).ended;
    expect(status).toBe(0);
    expect(stdout).toMatch(/^stage 0 on rank 0: .*params\.0\.weight/m);
    expect(stdout).toContain("rank 1  .   1F0 1B0 = 1F1 1B1");
    expect(stdout).toMatch(/^sent per step: rank 0 [\d.]+ KB, rank 1 [\d.]+ KB$/m);
  });

  test("of other stages than there are workers are refused", async () => {
    const settings = JSON.stringify({ epochs: 1, pipeline: true });
    const { status, stderr } = await started(["run", script, "--workers", "3", "--", settings]).ended;
    expect(status).not.toBe(0);
    expect(stderr).toContain("3 workers do not make pipelines of 2 ranks");
  });

  test("end on both sides when a stage dies", async () => {
    const settings = JSON.stringify({ epochs: 1000, pipeline: true, dies: 1, slow: 5 });
    const { status, stderr } = await started(["run", script, "--workers", "2", "--", settings]).ended;
    expect(status).not.toBe(0);
    expect(stderr).toMatch(/rank 1 ended with exit status 9/);
    expect(stderr).toMatch(
      /then rank 0 failed .*rank 1 closed its connection during transfer f64 x \d+ '(1B\d|update\.\d)'/,
    );
  });
});

describe("signals", () => {
  test.each(["SIGINT", "SIGTERM"] as const)(
    "%s ends a run within a second, with nothing half written",
    async (signal) => {
      const settings = { epochs: 1000, directory, slow: 5 };
      const { child, ended, until } = started([
        "run",
        script,
        "--executor",
        "reference",
        "--",
        JSON.stringify(settings),
      ]);
      await until("under way");
      const sent = performance.now();
      child.kill(signal);
      const { status } = await ended;
      expect(performance.now() - sent).toBeLessThan(2000);
      expect(status).toBe(signal === "SIGINT" ? 130 : 143);
      expect(readdirSync(directory).filter((name) => name.includes(".tmp"))).toEqual([]);
    },
  );
});

describe.skipIf(!native)("several processes", { timeout: 120_000 }, () => {
  // Four steps an epoch.
  const settings = { epochs: isWhole() ? 50 : 10 };

  test("two workers give what one gives, to 1e-9 over 200 steps (40 of a part), and the same bits each time", async () => {
    const [one, two, again] = [await trained(1, settings), await trained(2, settings), await trained(2, settings)];
    expect(one.losses).toHaveLength(4 * settings.epochs);
    expectClose(two.losses, one.losses, 1e-9, 0);
    expect(two.accuracy).toBe(one.accuracy);
    expect(again).toEqual(two);
  });

  const spread: [string, { [axis: string]: number }, string | undefined][] = [
    ["data parallel", { data: 2 }, undefined],
    ["tensor parallel", { model: 2 }, "dense"],
    ["fully sharded", { data: 2 }, "all"],
    ["tensor parallel times data", { data: 2, model: 2 }, "dense"],
  ];
  test.each(partOf(spread, 2, 1))(
    "%s: virtual devices in one process give the bits of as many processes",
    async (_what, axes, layout) => {
      const devices = Object.values(axes).reduce((product, size) => product * size, 1);
      const settings = { epochs: 4, dtype: "f32", axes, layout };
      const [apart, virtual] = [await trained(devices, settings), await trained(1, settings)];
      expect(virtual).toEqual(apart);
    },
  );

  test("a resumed run of two workers gives the bits of one that was never interrupted", async () => {
    const whole = await trained(2, { epochs: 12 });
    const { child, ended, until } = started([
      "run",
      script,
      "--workers",
      "2",
      "--",
      JSON.stringify({ epochs: 12, directory, slow: 20 }),
    ]);
    await until("under way");
    child.kill("SIGINT");
    expect((await ended).status).toBe(130);
    expect(existsSync(directory) && readdirSync(directory).some((name) => name.endsWith(".safetensors"))).toBe(true);
    const resumed = await trained(2, { epochs: 12, directory }, "--resume");
    expect(resumed.losses.length).toBeLessThan(48);
    expect({ hash: resumed.hash, steps: resumed.steps, accuracy: resumed.accuracy }).toEqual({
      hash: whole.hash,
      steps: whole.steps,
      accuracy: whole.accuracy,
    });
  });

  test.each([
    ["batch", /rank 0: data: batchSize 16\n/, /rank 1: data: batchSize 8\n/],
    // The same shapes, and so the same program: rank 1 would train on other images, or at another pace, without a word.
    [
      "data",
      /rank 0: data: contents of column "x" [0-9a-f]{16}\n/,
      /rank 1: data: contents of column "x" [0-9a-f]{16}\n/,
    ],
    ["schedule", /rank 0: learning rate of step 3: 0\.05\n/, /rank 1: learning rate of step 3: 0\.025\n/],
  ])("two ranks that differ in their %s are told so, with both sides", async (odd, rank0, rank1) => {
    const options = JSON.stringify({ epochs: 1, odd });
    const { status, stderr } = await started(["run", script, "--workers", "2", "--", options]).ended;
    expect(status).toBe(1);
    expect(stderr).toMatch(/ranks \d and \d run different programs:\n/);
    expect(stderr).toMatch(rank0);
    expect(stderr).toMatch(rank1);
  });

  test("a NaN ends all of them with status 1", async () => {
    const { status, stderr } = await started(["run", script, "--workers", "2", "--", '{"epochs":4,"rate":1e200}'])
      .ended;
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /the loss is (NaN|-?Infinity) at step \d+ \(epoch \d of 4, batch \d\), with learning rate 1e\+200/,
    );
  });
});
