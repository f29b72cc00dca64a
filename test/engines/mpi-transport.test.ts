/** MPI as a transport: every collective in every dtype under `mpiexec`, the bits of a training, errors, and a worker's death. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Desk, type Ended } from "./desk.ts";

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const everything = pathOf("../comm/scripts/all.ts");
const workload = pathOf("../e2e/workload.ts");
const waiting = pathOf("./scripts/endless.ts");

const folder = pathOf("../../.heddle/mpi");
const libraries = join(folder, "lib");
const file = existsSync(libraries)
  ? readdirSync(libraries).find((name) => /^libmpi_abi\.so\.\d+$/.test(name))
  : undefined;
const library = join(libraries, file ?? "");
const lacks = file === undefined ? " (there is no MPICH 5 in .heddle/mpi, into which this suite installs it)" : "";

/** A library of MPI that is older than the ABI. */
const old = [
  "/usr/lib/x86_64-linux-gnu/libmpi.so.40",
  "/usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40",
  "/usr/lib/x86_64-linux-gnu/libmpich.so.12",
].find((path) => existsSync(path));

describe.skipIf(lacks !== "")(`MPI carries the data${lacks}`, () => {
  let desk: Desk;
  beforeAll(() => {
    desk = new Desk();
  });
  afterEach(() => desk.clear());
  afterAll(() => desk?.dispose());

  const variables = {
    PATH: `${join(folder, "bin")}:${process.env["PATH"]}`,
    HEDDLE_TRANSPORT: "mpi",
    HEDDLE_THREADS: "1",
    HEDDLE_TIMEOUT: "30",
  };
  const heddle = (args: readonly string[], more: Record<string, string> = {}): Promise<Ended> =>
    desk.start([process.execPath, "bin/heddle.js", ...args], { ...variables, ...more }).ended;
  const run = (flags: readonly string[], script: string, args: readonly string[] = [], more = {}): Promise<Ended> =>
    heddle(["run", script, ...flags, "--", ...args], more);

  test.each([1, 2, 4])("every collective in every dtype, %i ranks", async (workers) => {
    const { stdout, stderr } = await run(["--with", "mpi", "-n", String(workers)], everything);
    const said = [...stdout.matchAll(/RESULT (\{.*\})/g)].map((match) => JSON.parse(match[1] as string));
    expect(said.length, stdout + stderr).toBe(workers);
    for (const { wrong, tried } of said) {
      expect(wrong).toEqual([]);
      expect(tried).toBeGreaterThan(500);
    }
  });

  test("a training has the bits that it has over other transports", async () => {
    const { status, stdout, stderr } = await run(["--with", "mpi", "-n", "2"], workload, [
      JSON.stringify({ epochs: 2 }),
    ]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain("digest 821675179\n");
  });

  test("two ranks of one process", async () => {
    const { status, stdout } = await heddle(["doctor", "--collectives", "--json"], { HEDDLE_MPI: library });
    const { backends, failures } = JSON.parse(stdout);
    expect({ status, failures }).toEqual({ status: 0, failures: [] });
    expect(backends).toContainEqual(expect.not.objectContaining({ transport: "mpi", missing: expect.anything() }));
  });

  test("a worker's death ends the others with an error that names it", async () => {
    const { status, stdout, stderr } = await run(["--with", "mpi", "-n", "2"], waiting);
    expect(status).not.toBe(0);
    expect(stdout + stderr).toMatch(/rank 1 .*SIGKILL/);
  });

  test.each([
    [
      "without a library",
      "/nowhere/libmpi_abi.so",
      /no MPI library with the standard ABI.*pip install mpich.*HEDDLE_MPI/,
    ],
    ["with an older MPI", old, /has not the standard ABI of MPI 5.*pip install mpich/],
  ])("%s the error says what to install", async (_what, path, message) => {
    if (path === undefined) return;
    const { status, stdout, stderr } = await run(["-n", "2"], everything, [], { HEDDLE_MPI: path });
    expect(status).not.toBe(0);
    expect((stdout + stderr).replaceAll(/\s+/g, " ")).toMatch(message);
  });

  test("workers that mpiexec has not started are refused", async () => {
    const { status, stdout, stderr } = await run(["-n", "2"], everything);
    expect(status).not.toBe(0);
    expect((stdout + stderr).replaceAll(/\s+/g, " ")).toMatch(
      /rank [01] is not in this process's MPI job, which has 1 process.*started by the mpiexec that belongs to/,
    );
  });
});
