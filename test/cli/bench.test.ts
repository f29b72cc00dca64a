/** `heddle bench collectives`: what it measures and prints; never how fast it is. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { formatMeasured, type Measured } from "../../src/cli/bench.ts";
import { loadNative } from "../../src/executors/native/binding.ts";
import { partOf } from "../support/sample.ts";
import { heddle, started } from "./heddle-process.ts";

const all = ["allReduce", "reduceScatter", "allGather", "allToAll", "gather", "scatter", "broadcast", "reduce"];
const collectives = partOf(all, 3);

describe.skipIf("error" in loadNative())("heddle bench collectives", () => {
  test("measures each collective and size, in programs and as calls, over both transports", () => {
    const { status, stdout, stderr } = heddle([
      ...["bench", "collectives", "--workers", "2", "--collectives", collectives.join(), "--sizes", "4,4096"],
      ...["--rounds", "1", "--milliseconds", "1", "--peers", "heddle", "--json"],
    ]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const { measured, missing } = JSON.parse(stdout) as { measured: Measured[]; missing: unknown[] };
    expect(missing).toEqual([]);
    const names = ["heddle shared", "heddle call shared", "heddle tcp", "heddle call tcp"];
    const due = names.flatMap((name) =>
      collectives.flatMap((one) => [4, 4096].map((size) => `${name} ${one} ${size}`)),
    );
    expect(measured.map(({ name, collective, bytes }) => `${name} ${collective} ${bytes}`).sort()).toEqual(due.sort());
    for (const { collective, bytes, seconds, algorithm, bus } of measured) {
      expect(algorithm * seconds).toBeCloseTo(bytes, 6);
      // With two ranks an all-reduce sends the whole once, a broadcast and a reduction too, and the others half of it.
      expect(bus / algorithm).toBeCloseTo(["allReduce", "broadcast", "reduce"].includes(collective) ? 1 : 0.5, 12);
    }
  }, 120_000);

  test.each([
    [["--collectives", "allReduc"], /no collective 'allReduc'.*\n?.*did you mean 'allReduce'/],
    [["--sizes", "3"], /--sizes takes whole numbers of bytes from 4 on/],
    [["--peers", "nccl"], /no peer 'nccl'/],
  ])("refuses %j", (flags, message) => {
    const { status, stderr } = heddle(["bench", "collectives", ...flags]);
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(message) });
  });
});

test("a signal ends it, and leaves no folder behind", async () => {
  const parent = mkdtempSync(join(tmpdir(), "heddle-bench-test-"));
  const own = (): string[] => readdirSync(parent).filter((name) => name.startsWith("heddle-bench-"));
  const flags = ["--peers", "heddle", "--milliseconds", "60000"];
  const { child, ended } = started(["bench", "collectives", ...flags], { TMPDIR: parent });
  await expect.poll(own, { timeout: 60_000, interval: 20 }).toHaveLength(1);
  child.kill("SIGTERM");
  expect((await ended).status).toBe(null);
  expect(own()).toEqual([]);
  rmSync(parent, { recursive: true, force: true });
}, 90_000);

test("a table has the sizes in order, and says what was not measured and why", () => {
  const one = { collective: "allReduce", seconds: 1e-5, algorithm: 4e8, bus: 4e8 };
  const measured = [
    { ...one, bytes: 4096, name: "heddle shared" },
    { ...one, bytes: 4, name: "heddle shared" },
    { ...one, bytes: 4, name: "gloo tcp" },
  ];
  expect(formatMeasured(measured, [{ name: "mpi", missing: "there is no mpicc" }], 2)).toBe(
    [
      "allReduce, 2 workers",
      "   size                    time  alg GB/s  bus GB/s",
      "    4 B  heddle shared  10.0 us      0.40      0.40",
      "         gloo tcp       10.0 us      0.40      0.40",
      "4.10 KB  heddle shared  10.0 us      0.40      0.40",
      "",
      "mpi was not measured: there is no mpicc",
    ].join("\n"),
  );
});
