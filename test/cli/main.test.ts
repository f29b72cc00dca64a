import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { workerScript } from "../launch/launcher.ts";

const command = fileURLToPath(new URL("./heddle.ts", import.meta.url));

/** Runs the command from its sources. */
function heddle(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--import", "tsx", command, ...args], {
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });
  return { status, stdout, stderr };
}

describe("heddle", () => {
  test("--help and --version", () => {
    const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };
    expect(heddle("--version")).toEqual({ status: 0, stdout: `${version}\n`, stderr: "" });
    const { status, stdout } = heddle("--help");
    expect(status).toBe(0);
    for (const name of ["run", "plan", "profile", "doctor", "Examples:"]) expect(stdout).toContain(name);
  });

  test("nothing at all shows the help, with status 2", () => {
    const { status, stdout } = heddle();
    expect(status).toBe(2);
    expect(stdout).toContain("Usage: heddle");
  });

  test.each([
    { args: ["rum", "x.ts"], says: /unknown command 'rum'.*Did you mean run\?/s },
    { args: ["run", workerScript, "--worker", "2"], says: /unknown option '--worker'.*Did you mean --workers\?/s },
    { args: ["run", workerScript, "--workers", "two"], says: /It must be a whole number from 1 to 1024/ },
    { args: ["run", workerScript, "--workers", "0"], says: /It must be a whole number/ },
    { args: ["run", workerScript, "--executor", "gpu"], says: /Allowed choices are native, reference/ },
    { args: ["run"], says: /missing required argument 'file'/ },
    { args: ["run", "no/such/file.ts"], says: /^heddle: there is no file no\/such\/file\.ts/ },
    { args: ["plan", workerScript], says: /required option '-m, --mesh <axes>' not specified/ },
    { args: ["plan", workerScript, "--mesh", "data"], says: /such as data=2/ },
    { args: ["plan", workerScript, "--mesh", "data=0"], says: /such as data=2/ },
    { args: ["plan", workerScript, "--mesh", "data=2,data=2"], says: /a name of its own/ },
    { args: ["plan", "gone.ts", "--mesh", "data=2"], says: /there is no file gone\.ts/ },
    { args: ["doctor", "--jsn"], says: /Did you mean --json\?/ },
  ])("$args is refused with status 2", ({ args, says }) => {
    const { status, stdout, stderr } = heddle(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(says);
  });
});

describe("heddle run", () => {
  test("passes on arguments after --, settings and the script's status", () => {
    const flags = ["--threads", "3", "--executor", "reference", "--resume", "--timeout", "9"];
    const names = "HEDDLE_THREADS,HEDDLE_EXECUTOR,HEDDLE_RESUME,HEDDLE_TIMEOUT,WORLD_SIZE";
    const { status, stdout, stderr } = heddle("run", workerScript, ...flags, "--", `env:${names}`, "exit:5");
    expect(stdout.split("\n").slice(0, 5)).toEqual([
      "HEDDLE_THREADS=3",
      "HEDDLE_EXECUTOR=reference",
      "HEDDLE_RESUME=1",
      "HEDDLE_TIMEOUT=9",
      "WORLD_SIZE=1",
    ]);
    expect({ status, stderr }).toEqual({ status: 5, stderr: "heddle: the script ended with exit status 5\n" });
  });

  test("an error of the script is told with its place", () => {
    const { status, stderr } = heddle("run", workerScript, "--", "throw:wrong");
    expect(status).toBe(1);
    expect(stderr).toContain("TypeError: wrong");
    expect(stderr).toContain("worker.mjs:");
  });
});

describe("heddle plan", () => {
  test("runs the file with the mesh to plan for", () => {
    const { status, stdout } = heddle("plan", workerScript, "--mesh", "data=2, model=4", "--", "env:HEDDLE_PLAN");
    expect({ status, stdout }).toEqual({ status: 0, stdout: "HEDDLE_PLAN=data=2,model=4\n" });
  });
});

describe("heddle doctor", () => {
  test("says what there is, for machines", () => {
    const { status, stdout } = heddle("doctor", "--json");
    const diagnosis = JSON.parse(stdout) as { problems: string[]; cores: { usable: number }; loopback: unknown };
    expect(diagnosis).toMatchObject({ node: { version: process.version }, loopback: { ok: true } });
    expect(diagnosis.cores.usable).toBeGreaterThan(0);
    expect(status).toBe(diagnosis.problems.length === 0 ? 0 : 1);
  });

  test("says what there is, for people", () => {
    const { stdout } = heddle("doctor");
    for (const word of ["Node", "cores", "memory", "disk", "native core", "loopback ports"]) {
      expect(stdout).toContain(word);
    }
  });
});
