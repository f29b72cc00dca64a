import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test, vi } from "vitest";
import { namedVariables } from "../../src/launch/environment.ts";
import { readEnvironment, unknownVariables } from "../../src/util/settings.ts";

describe("the environment", () => {
  test("says nothing by default, and an empty variable says nothing", () => {
    const nothing = readEnvironment({});
    expect(nothing).toMatchObject({ executor: undefined, isa: undefined, resume: false, epoch: 0, world: 1 });
    expect(readEnvironment({ HEDDLE_ISA: "", HEDDLE_THREADS: "", WORLD_SIZE: "" })).toEqual(nothing);
  });

  test.each([
    [{ HEDDLE_EXECUTOR: "reference" }, { executor: "reference" }],
    [{ HEDDLE_EXECUTOR: "auto" }, { executor: undefined }],
    [{ HEDDLE_NATIVE: "off" }, { native: "off" }],
    [{ HEDDLE_ISA: "avx2" }, { isa: "avx2" }],
    [{ HEDDLE_THREADS: "12" }, { threads: 12 }],
    [{ HEDDLE_OVERLAP: "off" }, { overlap: "off" }],
    [{ HEDDLE_TRANSPORT: "tcp" }, { transport: "tcp" }],
    [{ HEDDLE_RESUME: "0" }, { resume: false }],
    [{ HEDDLE_QUIET: "1" }, { quiet: true }],
    [{ HEDDLE_MESH: "data=2:1,model=2" }, { mesh: "data=2:1,model=2" }],
    [{ HEDDLE_PLAN: "data=8,model=4" }, { plan: "data=8,model=4" }],
    [
      { WORLD_SIZE: "4", RANK: "3", MASTER_PORT: "99" },
      { world: 4, rank: 3, port: 99 },
    ],
  ])("%o", (variables, says) => {
    expect(readEnvironment(variables)).toMatchObject(says);
  });

  test.each([
    ["HEDDLE_ISA", "AVX2", /it can be scalar, avx2, avx512, avx512vnni, avx512bf16 or amx, or unset/],
    ["HEDDLE_TRANSPORT", "ucx", /it can be auto, tcp, shared, mpi or checked, or unset/],
    ["HEDDLE_THREADS", "-1", /a whole number from 1 to 1024/],
    ["HEDDLE_THREADS", "1e2", /a whole number/],
    ["HEDDLE_PLAN", "data", /a mesh such as data=2/],
    ["HEDDLE_EPOCH", "0.5", /a whole number/],
    ["WORLD_SIZE", "two", /a whole number/],
    ["RANK", "-1", /a whole number/],
    ["MASTER_PORT", "65536", /a whole number from 0 to 65535/],
  ])("%s=%s is refused by name with the legal values", (name, value, legal) => {
    expect(() => readEnvironment({ [name]: value })).toThrow(`the environment variable ${name} is '${value}'`);
    expect(() => readEnvironment({ [name]: value })).toThrow(legal);
  });

  test("names that nothing reads are told, and secrets are not", () => {
    expect(unknownVariables({ HEDDLE_THRAEDS: "2", HEDDLE_ISA: "avx2", PATH: "/" })).toEqual([
      "the environment variable HEDDLE_THRAEDS means nothing; did you mean HEDDLE_THREADS?",
    ]);
    expect(namedVariables({ HEDDLE_SECRET: "abc", HEDDLE_ISA: "avx2", PATH: "/" })).toEqual([
      "HEDDLE_ISA=avx2",
      "HEDDLE_SECRET=…",
    ]);
  });

  test("a misspelt name is a warning, once", async () => {
    // A copy of its own, which has not warned of anything.
    const fresh = "../../src/util/settings.ts?fresh";
    const { warnOfUnknown } = (await import(fresh)) as typeof import("../../src/util/settings.ts");
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
    vi.stubEnv("HEDDLE_THREDS", "2");
    for (let round = 0; round < 2; round++) warnOfUnknown();
    expect(warn.mock.calls).toEqual([
      [
        "the environment variable HEDDLE_THREDS means nothing; did you mean HEDDLE_THREADS?",
        { type: "HeddleWarning", code: "HEDDLE_ENVIRONMENT" },
      ],
    ]);
    warn.mockRestore();
    vi.unstubAllEnvs();
  });

  test("is read in one place; the launcher hands it on whole", () => {
    const source = fileURLToPath(new URL("../../src/", import.meta.url));
    const readers = readdirSync(source, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && readFileSync(`${source}${name}`, "utf8").includes("process.env"))
      .sort();
    expect(readers).toEqual(["launch/local.ts", "util/settings.ts"]);
  });
});
