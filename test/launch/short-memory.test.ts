/** A launcher that is short of address space ends by itself, and blames nothing else. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const script = fileURLToPath(new URL("./scripts/worker.mjs", import.meta.url));

/** Ends with status 124 after a minute. */
const run = (kilobytes: number): { status: number | null; stderr: string } =>
  spawnSync(
    "bash",
    ["-c", `ulimit -v ${kilobytes} && exec timeout 60 "$@"`, "bash"].concat(
      [process.execPath, "bin/heddle.js", "run", script, "--workers", "2"],
      ["--", "join"],
    ),
    { cwd: root, encoding: "utf8", env: { ...process.env, NO_COLOR: "1" } },
  );

// Which limit is too low for the next thing that the launcher needs, depends on the versions of all: the range has some of each.
test.skipIf("error" in loadNative()).each([860, 890, 900, 904, 906, 908, 910, 914])(
  "%i MB",
  (megabytes) => {
    const { status, stderr } = run(megabytes * 1000);
    expect(status).not.toBe(124);
    expect(stderr).not.toMatch(/is the network up|another program may use/);
    if (/could not start .* thread/.test(stderr)) expect(stderr).toContain("number of threads is limited");
  },
  70_000,
);
