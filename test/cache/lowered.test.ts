/** Lowered programs on disk: the same as lowered anew, whatever happens to the files. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { apply, type Node, opNamed, traceGraph } from "heddle/ir";
import { splitGraph } from "heddle/program";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DiskCache } from "../../src/cache/entries.ts";
import { cachedLowering } from "../../src/cache/lowered.ts";
import { userOps } from "../../src/ir/user-op.ts";
import { lowerProgram } from "../../src/lower/lower.ts";
import { goldens, planGolden } from "../golden/programs.ts";
import { lenetStep, mlpStep } from "../lower/graphs.ts";
import { bundled } from "../support/bundled.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "heddle-cache-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const entries = (of = folder): string[] => readdirSync(of).filter((name) => !name.startsWith("."));
const nothing = (): never => {
  throw new Error("computed although it is on the disk");
};
const stepOf = (step: ReturnType<typeof mlpStep>) => splitGraph(step.graph, [], step);

describe("lowered programs", () => {
  const programs = [
    ...goldens.map((golden) => [golden.name, planGolden(golden).program] as const),
    ["mlp", stepOf(mlpStep())] as const,
    ["lenet", stepOf(lenetStep())] as const,
  ];

  test.each(programs)("%s: read back as it was lowered", (_name, program) => {
    const target = { slots: 2 };
    const fresh = lowerProgram(program, target);
    const cache = new DiskCache(folder, "library");
    expect(cachedLowering(program, target, cache)).toStrictEqual(fresh);
    expect(cachedLowering(program, target, cache)).toStrictEqual(fresh);
    // Small programs have no entry by themselves.
    cache.get("this program", () => fresh);
    expect(cache.get("this program", nothing)).toStrictEqual(fresh);
  });

  test("each program and each target has an entry; small programs have none", () => {
    const cache = new DiskCache(folder, "library");
    const program = stepOf(lenetStep());
    const targets = [
      { slots: 1 },
      { slots: 2 },
      { slots: 2, overlap: "none" },
      { slots: 2, epilogues: "apart" },
    ] as const;
    for (let round = 0; round < 2; round++) {
      for (const target of targets) cachedLowering(program, target, cache);
      cachedLowering(stepOf(lenetStep("f64")), { slots: 1 }, cache);
      cachedLowering(planGolden(goldens[0]!).program, { slots: 1 }, cache);
    }
    expect(entries()).toHaveLength(targets.length + 1);
  });
});

describe("files", () => {
  const value = { text: "a", numbers: [-0, Number.POSITIVE_INFINITY, 1.5], missing: undefined };

  const damages: readonly { name: string; damage: (file: string) => void }[] = [
    { name: "empty", damage: (file) => truncateSync(file, 0) },
    { name: "cut in the checksum", damage: (file) => truncateSync(file, 20) },
    { name: "cut behind the checksum", damage: (file) => truncateSync(file, 32) },
    { name: "cut in the value", damage: (file) => truncateSync(file, readFileSync(file).length - 1) },
    {
      name: "one bit other",
      damage: (file) => {
        const content = readFileSync(file);
        content[40]! ^= 1;
        writeFileSync(file, content);
      },
    },
    { name: "longer", damage: (file) => writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from("x")])) },
    { name: "removed", damage: (file) => rmSync(file) },
    {
      name: "a folder",
      damage: (file) => {
        rmSync(file);
        mkdirSync(file);
      },
    },
  ];

  test.each(damages)("$name: computed again", ({ name, damage }) => {
    const cache = new DiskCache(folder, "library");
    expect(cache.get("key", () => value)).toStrictEqual(value);
    expect(cache.get("key", nothing)).toStrictEqual(value);
    damage(join(folder, entries()[0] as string));
    expect(cache.get("key", () => value)).toStrictEqual(value);
    if (name !== "a folder") expect(cache.get("key", nothing)).toStrictEqual(value);
    expect(entries()).toHaveLength(1);
  });

  test("a program with a user's op is lowered anew: its rule may depend on anything", () => {
    const long = traceGraph("long", [{ name: "x", type: { dtype: "f32", shape: [4, 4] } }], (x) => {
      let value = x as Node;
      for (let step = 0; step < 100; step++) value = apply(opNamed("exp"), [apply(opNamed("neg"), [value], {})], {});
      return [value];
    });
    const cache = new DiskCache(folder, "library");
    // As `defineOp` of heddle/ir notes it; other tests ask every op that is defined.
    userOps.add("neg");
    try {
      cachedLowering(splitGraph(long, []), { slots: 1 }, cache);
    } finally {
      userOps.delete("neg");
    }
    expect(entries()).toEqual([]);
    cachedLowering(splitGraph(long, []), { slots: 1 }, cache);
    expect(entries()).toHaveLength(1);
  });

  test("another library finds nothing", () => {
    new DiskCache(folder, "one").get("key", () => value);
    expect(new DiskCache(folder, "two").get("key", () => 2)).toBe(2);
    expect(new DiskCache(folder, "one").get("key", nothing)).toStrictEqual(value);
  });

  test("the folder stays within its limits, and out of the project's history", () => {
    const inner = join(folder, "a", "b");
    const cache = new DiskCache(inner, "library", { bytes: 10_000, files: 8 });
    for (let index = 0; index < 40; index++) cache.get(`${index}`, () => "x".repeat(index < 20 ? 10 : 3000));
    expect(entries(inner).length).toBeLessThanOrEqual(8);
    const bytes = entries(inner).reduce((sum, name) => sum + readFileSync(join(inner, name)).length, 0);
    expect(bytes).toBeLessThanOrEqual(10_000);
    expect(cache.get("39", nothing)).toBe("x".repeat(3000));
    expect(readFileSync(join(inner, ".gitignore"), "utf8")).toBe("*\n");
    // A folder in it is another's, and no obstacle.
    mkdirSync(join(inner, "programs"));
    for (let index = 40; index < 60; index++) cache.get(`${index}`, () => "x");
    expect(cache.get("59", nothing)).toBe("x");
    expect(entries(inner)).toContain("programs");
  });

  test("a folder that cannot be made is no error", () => {
    writeFileSync(join(folder, "file"), "");
    const cache = new DiskCache(join(folder, "file", "cache"), "library");
    expect(cache.get("key", () => value)).toStrictEqual(value);
    expect(readdirSync(folder)).toEqual(["file"]);
    // Node's recursive mkdir never returns there.
    if (process.platform === "linux") expect(new DiskCache("/proc/none/cache", "library").get("key", () => 1)).toBe(1);
  });

  test.runIf(process.getuid?.() === 0 && process.platform === "linux")("a full disk is no error", () => {
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=16k", "heddle-test", folder]).status === 0;
    // Some containers may not mount: there a device that is always full stands in for the disk.
    if (!mounted) return expect(() => writeFileSync("/dev/full", "x")).toThrow(/ENOSPC/);
    try {
      const cache = new DiskCache(folder, "library");
      expect(cache.get("large", () => "x".repeat(100_000))).toHaveLength(100_000);
      expect(entries()).toEqual([]);
      cache.get("small", () => value);
      expect(cache.get("small", nothing)).toStrictEqual(value);
    } finally {
      spawnSync("umount", [folder]);
    }
  });

  test("several processes write, read and remove at once", async () => {
    const script = bundled(new URL("scripts/many.ts", import.meta.url));
    const run = async (): Promise<[number | null, string]> => {
      const child = spawn(process.execPath, [script, folder], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      let errors = "";
      child.stderr.on("data", (chunk: Buffer) => {
        errors += chunk.toString();
      });
      const [code] = (await once(child, "close")) as [number | null];
      return [code, errors];
    };
    expect(await Promise.all([run(), run(), run()])).toEqual([0, 0, 0].map((code) => [code, ""]));
    // Files of the last writes, and no temporary one.
    expect(entries().length).toBeGreaterThan(0);
    expect(entries().filter((name) => name.includes("."))).toEqual([]);
  }, 60_000);
});
