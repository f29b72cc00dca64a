/** The same file on one worker and on two: the same numbers; only rank 0 writes; a callback that fails ends both. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started, withoutSpeed } from "../cli/heddle-process.ts";
import { expectClose } from "../support/close.ts";

const script = fileURLToPath(new URL("./scripts/fit.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "heddle-fit-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(workers: number, ...args: string[]): Promise<string[]> {
  const given = ["run", script, "--workers", `${workers}`, "--", ...args];
  const { stdout, stderr } = await started(given, { TMPDIR: folder }).ended;
  expect(withoutSpeed(stderr)).toBe("");
  return Array.from({ length: workers }, (_unused, rank) => new RegExp(`@${rank} (.*)`).exec(stdout)?.[1] ?? "");
}

interface Told {
  readonly history: { readonly [name: string]: number[] };
  readonly seen: number[];
  readonly digest: string;
}

describe.skipIf("error" in loadNative())("fit", { timeout: 120_000 }, () => {
  test("gives on two workers what it gives on one, and each file once", async () => {
    const [alone, both] = [join(folder, "1"), join(folder, "2")];
    const [[one = ""], [left = "", right = ""]] = [await run(1, alone), await run(2, both)];
    expect(left).toBe(right);
    const [wanted, found] = [JSON.parse(one), JSON.parse(left)] as [Told, Told];
    for (const [name, values] of Object.entries(wanted.history)) expectClose(found.history[name] ?? [], values, 1e-9);
    expectClose(found.seen, wanted.seen, 1e-9);
    expect(found.seen).toHaveLength(4);
    for (const path of ["events/train", "events/validation"]) expect(readdirSync(join(both, path))).toHaveLength(2);
    expect(readFileSync(join(both, "log.csv"), "utf8").split("\n")).toHaveLength(6);
    expect(readdirSync(both).sort()).toEqual(["best.safetensors", "events", "log.csv"]);
  });

  test("ends on both after the same step when the log of one cannot be written", async () => {
    const [left, right] = await run(2, join(folder, "full"), "0:full");
    expect(left).toMatch(/^file: csvLogger: cannot write .*log\.csv: EISDIR/);
    // Three steps an epoch, of which the second is told of at its end.
    expect(right).toBe("peerAborted: a callback of rank 0 failed, which ended the training after 6 steps");
  });
});
