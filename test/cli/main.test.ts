import { createRequire } from "node:module";
import { comm } from "heddle";
import { describe, expect, test } from "vitest";
import { type CollectiveTable, formatCollectives, isWhole, tryAll } from "../../src/cli/collectives.ts";
import { dtypeNames } from "../../src/ir/dtype.ts";
import { workerScript } from "../launch/launcher.ts";
import { heddle as heddleWith, script } from "./heddle-process.ts";

const heddle = (...args: string[]) => heddleWith(args);

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

  test("--quiet leaves what the script itself prints, and errors", () => {
    const trains = script("trains.ts");
    expect(heddle("run", "--quiet", trains, "--", "lines")).toEqual({
      status: 0,
      stdout: "before train\n",
      stderr: "",
    });
    const apart = heddle("run", "--quiet", "--workers", "2", workerScript, "--", "print:a");
    expect({ ...apart, stdout: "" }).toEqual({ status: 0, stdout: "", stderr: "" });
    expect(heddle("run", "--quiet", workerScript, "--", "throw:wrong").stderr).toContain("TypeError: wrong");
  });

  test("an error of the script is told with its place", () => {
    const { status, stderr } = heddle("run", workerScript, "--", "throw:wrong");
    expect(status).toBe(1);
    expect(stderr).toContain("TypeError: wrong");
    expect(stderr).toContain("worker.mjs:");
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

  test("a wrong result, an error and a transport that fails are failures", async () => {
    const wrong = await tryAll(async () => [[0], [0]], "a wrong place");
    const broken = await tryAll(() => Promise.reject(new Error("the link is gone")), "a broken place");
    const said = (outcomes: typeof wrong): string[] => [...outcomes.values()].flatMap(({ failures }) => failures);
    expect(said(wrong)).toHaveLength(5);
    expect(said(wrong)[0]).toBe("allGather of f32 on a wrong place: gives [[0],[0]], not [[1,2,3,2],[1,2,3,2]]");
    expect(said(broken)[0]).toMatch(/a broken place: Error: the link is gone/);
    const row = { collective: "allReduce", runs: [], undefined: [], failures: [] };
    expect(isWhole({ backends: [], rows: [row], failures: [] })).toBe(true);
    expect(isWhole({ backends: [], rows: [{ ...row, failures: ["wrong"] }], failures: [] })).toBe(false);
    expect(isWhole({ backends: [], rows: [row], failures: ["tcp: refused"] })).toBe(false);
  });

  test("tries every collective on every executor and transport", () => {
    const { status, stdout } = heddle("doctor", "--collectives", "--json");
    const table = JSON.parse(stdout) as CollectiveTable;
    const { backends, rows } = table;
    expect({ status, failures: table.failures }).toEqual({ status: 0, failures: [] });
    const names = new Set(rows.map(({ collective }) => collective));
    expect([...names].sort()).toEqual(
      Object.keys(comm)
        .filter((name) => !["connect", "perDevice", "barrier", "rank", "schedules", "size", "work"].includes(name))
        .sort(),
    );
    expect(backends.map(({ executor, transport }) => `${executor} ${transport}`)).toEqual([
      "native memory",
      "native shared",
      "native tcp",
      "native mpi",
      "reference memory",
      "switch udp",
    ]);
    for (const row of rows) {
      expect(row.failures).toEqual([]);
      row.runs.forEach((runs, index) => {
        const here = backends[index]?.missing === undefined;
        expect(here ? (runs?.length ?? 0) + row.undefined.length : runs).toBe(here ? dtypeNames.length : null);
      });
    }
    const people = formatCollectives(table);
    expect(people).toMatch(/allReduce mean +(floats +|- +){5}floats\n/);
    expect(people).toContain("Every collective gave two ranks what is due, in every dtype");
  });
});
