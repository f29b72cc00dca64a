import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import {
  latestCheckpoint,
  listCheckpoints,
  loadCheckpoint,
  saveCheckpoint,
  tensorsUnder,
} from "../../src/checkpoints/index.ts";
import { checkpointFileName } from "../../src/io/checkpoint-name.ts";
import { type CommitFile, type CommitFiles, nodeFiles, removeStaleTemporaries } from "../../src/io/commit.ts";
import { encodeSafetensors, readSafetensors, saveSafetensors } from "../../src/io/safetensors.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { expectWhole, stateOfStep } from "./file-state.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-checkpoint-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let folder = "";
beforeEach(() => {
  folder = join(mkdtempSync(join(root, "run-")), "checkpoints");
});

const steps = async (): Promise<number[]> => (await listCheckpoints(folder)).map((entry) => entry.step);

describe("saving and loading", () => {
  test("what is saved is loaded", async () => {
    const saved = await saveCheckpoint(folder, stateOfStep(468));
    expect(basename(saved.path)).toBe("step-00000468.safetensors");
    expect(saved).toEqual({ path: saved.path, bytes: readFileSync(saved.path).length, removed: [], warnings: [] });
    expectWhole(await loadCheckpoint(saved.path), 468);
    const { checkpoint, warnings } = await latestCheckpoint(folder);
    expectWhole(checkpoint, 468);
    expect(checkpoint?.library).toMatch(/^\d+\.\d+\.\d+/);
    expect(warnings).toEqual([]);
  });

  test("format 1, whose hash is of the whole file, is read and verified", async () => {
    const path = join(root, "format-1.safetensors");
    const whole = readFileSync(new URL("../fixtures/checkpoint-format-1.safetensors", import.meta.url));
    writeFileSync(path, whole);
    expectWhole(await loadCheckpoint(path), 2);
    for (let position = 0; position < whole.length; position++) {
      const changed = Buffer.from(whole);
      changed.writeUInt8(changed.readUInt8(position) ^ (1 << (position % 8)), position);
      writeFileSync(path, changed);
      await expect(loadCheckpoint(path), `byte ${position}`).rejects.toThrow(HeddleError);
    }
  });

  test("it is a safetensors file like any other", async () => {
    const { path } = await saveCheckpoint(folder, stateOfStep(3));
    const read = await readSafetensors(path, { only: (name) => name.startsWith("params/") });
    expect([...read.tensors.keys()]).toEqual(["params/linear.weight"]);
    expect(read.verified).toBe(true);
    expect([...read.metadata.keys()]).toEqual(["heddle.checkpoint"]);
    expect(JSON.parse(read.metadata.get("heddle.checkpoint") ?? "")).toMatchObject({ format: 2, step: 3, seed: 17 });
  });

  test("the same state gives the same bytes", async () => {
    const first = readFileSync((await saveCheckpoint(folder, stateOfStep(5))).path);
    expect(readFileSync((await saveCheckpoint(folder, stateOfStep(5))).path)).toEqual(first);
  });

  test("tensors by group", () => {
    expect([...tensorsUnder(stateOfStep(1).tensors, "optimizer/").keys()]).toEqual(["linear.weight/momentum"]);
  });

  test("no folder, and an empty one, hold none", async () => {
    expect(await latestCheckpoint(folder)).toEqual({ checkpoint: undefined, warnings: [] });
    mkdirSync(folder);
    expect(await latestCheckpoint(folder)).toEqual({ checkpoint: undefined, warnings: [] });
  });

  test.each([
    [undefined, [5, 4, 3]],
    [1, [5]],
    [Infinity, [5, 4, 3, 2, 1]],
  ])("keep %s", async (keep, left) => {
    const removed: string[] = [];
    for (let step = 1; step <= 5; step++) {
      removed.push(...(await saveCheckpoint(folder, stateOfStep(step), keep === undefined ? {} : { keep })).removed);
    }
    expect(await steps()).toEqual(left);
    expect(removed.length).toBe(5 - left.length);
  });

  test("a new run in the folder of an old one removes none of the old one's and says so", async () => {
    await saveCheckpoint(folder, stateOfStep(900), { keep: 1 });
    const { removed, warnings } = await saveCheckpoint(folder, stateOfStep(10), { keep: 1 });
    expect(removed).toEqual([]);
    expect(warnings).toEqual([expect.stringMatching(/has checkpoints of later steps than 10, up to 900/)]);
    expect(await steps()).toEqual([900, 10]);
  });

  test("that old ones cannot be removed does not fail the save", async () => {
    const files = { ...nodeFiles, list: () => Promise.reject(new Error("no permission")) };
    const { warnings } = await saveCheckpoint(folder, stateOfStep(1), { files });
    expect(warnings).toEqual([expect.stringMatching(/cannot remove old checkpoints .*: no permission/)]);
    expect(await steps()).toEqual([1]);
  });

  test.each<[string, object, RegExp]>([
    ["negative step", { step: -1 }, /its step is -1/],
    ["fractional seed", { seed: 0.5 }, /its seed is 0\.5/],
    ["key that is no word", { key: [-1] }, /32-bit words/],
    ["no position", { position: { epoch: 1 } }, /not \{ epoch, step \}/],
    ["NaN in extra", { extra: { best: Number.NaN } }, /extra "best" is NaN/],
  ])("refuses %s", async (_name, change, message) => {
    await expect(saveCheckpoint(folder, { ...stateOfStep(1), ...change })).rejects.toThrow(message);
    expect(existsSync(folder)).toBe(false);
  });

  test("refuses a bad keep and a bad run id", async () => {
    await expect(saveCheckpoint(folder, stateOfStep(1), { keep: 0 })).rejects.toThrow(/keep must be/);
    await expect(saveCheckpoint(folder, stateOfStep(1), { runId: "../x" })).rejects.toThrow(/run id "\.\.\/x"/);
  });
});

describe("damage", () => {
  test("every cut of the newest is noticed, and the one before is taken", async () => {
    await saveCheckpoint(folder, stateOfStep(1));
    const { path } = await saveCheckpoint(folder, stateOfStep(2));
    const whole = readFileSync(path);
    for (let length = 0; length < whole.length; length += length < 16 ? 1 : 7) {
      writeFileSync(path, whole.subarray(0, length));
      const { checkpoint, warnings } = await latestCheckpoint(folder);
      expectWhole(checkpoint, 1);
      expect(warnings).toEqual([
        expect.stringMatching(/step-00000002\.safetensors is not a .*; taking the checkpoint before it/),
      ]);
    }
  });

  test("every changed byte is noticed", async () => {
    const { path } = await saveCheckpoint(folder, stateOfStep(2));
    const whole = readFileSync(path);
    for (let position = 0; position < whole.length; position++) {
      const changed = Buffer.from(whole);
      changed.writeUInt8(changed.readUInt8(position) ^ (1 << (position % 8)), position);
      writeFileSync(path, changed);
      const error: unknown = await loadCheckpoint(path).catch((reason: unknown) => reason);
      expect(error, `byte ${position}`).toBeInstanceOf(HeddleError);
      expect((error as HeddleError).code, `byte ${position}`).toMatch(/^(format|dtype|checkpoint)$/);
    }
  });

  test("when all are damaged it is an error, not a new start", async () => {
    for (const step of [1, 2]) writeFileSync((await saveCheckpoint(folder, stateOfStep(step))).path, "broken");
    await expect(latestCheckpoint(folder)).rejects.toThrow(
      /none of the 2 checkpoints in .* can be read:\n {2}\S+step-\d+\.safetensors [^\n]+\n {2}\S+step-\d+\.safetensors [^\n]+\n/,
    );
  });

  test("one from a newer Heddle is an error, not a fall back", async () => {
    await saveCheckpoint(folder, stateOfStep(1));
    const info = JSON.stringify({ format: 3, library: "9.0.0" });
    const metadata = new Map([["heddle.checkpoint", info]]);
    await saveSafetensors(join(folder, checkpointFileName(2)), new Map(), { metadata });
    await expect(latestCheckpoint(folder)).rejects.toThrow(
      /checkpoint format 3, this Heddle .* reads up to 2\n(?:.*\n)?.*9\.0\.0/,
    );
  });

  test("other safetensors files and missing ones", async () => {
    mkdirSync(folder);
    const path = join(folder, "model.safetensors");
    writeFileSync(path, encodeSafetensors(new Map()));
    await expect(loadCheckpoint(path)).rejects.toThrow(/was not written by Heddle/);
    await expect(loadCheckpoint(join(folder, "none"))).rejects.toThrow(
      /cannot read the checkpoint .*none: no such file/,
    );
    await expect(loadCheckpoint(path, { signal: AbortSignal.abort(new Error("stop")) })).rejects.toThrow("stop");
  });
});

describe("temporaries", () => {
  test("the launcher is told of each, and when it is gone", async () => {
    const told: [string, boolean, boolean][] = [];
    const onTemporary = (path: string, done: boolean): void => void told.push([path, done, existsSync(path)]);
    const { path } = await saveCheckpoint(folder, stateOfStep(1), { onTemporary, runId: "run-7" });
    expect(told.map(([, done, exists]) => [done, exists])).toEqual([
      [false, false],
      [true, false],
    ]);
    expect(told[0]?.[0]).toMatch(new RegExp(`^${path}\\.tmp-run-7-[0-9a-f]{8}-${process.pid}$`));
    expect(told[1]?.[0]).toBe(told[0]?.[0]);
  });

  test("those of dead processes are removed, those of living ones and other files stay", async () => {
    await saveCheckpoint(folder, stateOfStep(1));
    let own = "";
    const onTemporary = (path: string): void => {
      own = path;
    };
    await saveCheckpoint(folder, stateOfStep(2), { onTemporary });
    const tag = /-([0-9a-f]{8})-\d+$/.exec(own)?.[1] as string;
    const other = tag === "00000000" ? "11111111" : "00000000";
    const dead = execFileSync(process.execPath, ["-p", "process.pid"], { encoding: "utf8" }).trim();
    const name = `${checkpointFileName(3)}.tmp-a-b`;
    const gone = [
      ...[`${name}-${tag}-${dead}`, `${name}-${tag}-${process.pid}`, `${name}-${other}-1`],
      `write-test.tmp-a-b-${tag}-${dead}`,
    ];
    const stay = [
      `${name}-${tag}-${process.ppid}`,
      `${name}-${other}-2`,
      `notes.tmp-a-${tag}-${dead}`,
      `${name}`,
      "step-1.safetensors",
    ];
    for (const file of [...gone, ...stay]) writeFileSync(join(folder, file), "half");
    utimesSync(join(folder, gone[2] as string), 0, 0);
    expect((await latestCheckpoint(folder, { clean: false })).checkpoint?.step).toBe(2);
    expect(readdirSync(folder).length).toBe(11);
    expect((await latestCheckpoint(folder)).checkpoint?.step).toBe(2);
    expect(readdirSync(folder).sort()).toEqual([checkpointFileName(1), checkpointFileName(2), ...stay].sort());
    // Where nobody else writes, a living process with the writer's number is another one.
    const only = (file: string): boolean => file.startsWith("step-");
    expect(await removeStaleTemporaries(folder, { alone: true, only })).toEqual([
      join(folder, `${name}-${tag}-${process.ppid}`),
    ]);
    expect(await removeStaleTemporaries(folder, { staleAfter: -1 })).toHaveLength(2);
  });

  test("an abort in the middle leaves the previous checkpoint and nothing else", async () => {
    await saveCheckpoint(folder, stateOfStep(1));
    const controller = new AbortController();
    const files = faulty((operation) => {
      if (operation === "write") controller.abort(new Error("stop"));
    });
    await expect(saveCheckpoint(folder, stateOfStep(2), { files, signal: controller.signal })).rejects.toThrow("stop");
    expect(readdirSync(folder)).toEqual([checkpointFileName(1)]);
  });

  test("the same file is not written twice at once", async () => {
    const results = await Promise.allSettled([
      saveCheckpoint(folder, stateOfStep(1)),
      saveCheckpoint(folder, stateOfStep(1)),
    ]);
    expect(results.map((result) => result.status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(readdirSync(folder)).toEqual([checkpointFileName(1)]);
  });
});

/** The real file system with a hook before each operation. */
function faulty(before: (operation: string) => void): CommitFiles {
  const wrap =
    <Arguments extends unknown[], Result>(name: string, call: (...values: Arguments) => Promise<Result>) =>
    async (...values: Arguments): Promise<Result> => {
      before(name);
      return call(...values);
    };
  return {
    makeFolder: wrap("makeFolder", nodeFiles.makeFolder),
    list: wrap("list", nodeFiles.list),
    async create(path): Promise<CommitFile> {
      before("create");
      const file = await nodeFiles.create(path);
      return { write: wrap("write", file.write), sync: wrap("sync", file.sync), close: () => file.close() };
    },
    rename: wrap("rename", nodeFiles.rename),
    remove: wrap("remove", nodeFiles.remove),
    syncFolder: wrap("syncFolder", nodeFiles.syncFolder),
    freeBytes: wrap("freeBytes", nodeFiles.freeBytes),
    age: nodeFiles.age,
  };
}

describe("disk full", () => {
  const enospc = (): Error => Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });

  test.each(["create", "write", "sync", "rename", "makeFolder"])("at %s", async (operation) => {
    await saveCheckpoint(folder, stateOfStep(1));
    const files = faulty((name) => {
      if (name === operation) throw enospc();
    });
    const error: unknown = await saveCheckpoint(folder, stateOfStep(2), { files }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(HeddleError);
    expect((error as HeddleError).code).toBe("disk");
    expect((error as HeddleError).message).toMatch(
      /cannot write .*step-00000002.safetensors: it takes \d+ B, .* free in/,
    );
    expect(readdirSync(folder)).toEqual([checkpointFileName(1)]);
  });

  test("a file that may not become so large is told with the limit", async () => {
    const files = faulty((name) => {
      if (name === "write") throw Object.assign(new Error("EFBIG: file too large, write"), { code: "EFBIG" });
    });
    const saved = saveCheckpoint(folder, stateOfStep(2), { files });
    await expect(saved).rejects.toThrow(
      /cannot write .*safetensors: \d+ B are more than a file may have here[\s\S]*ulimit -f/,
    );
  });

  test("what cannot fit is refused before it is begun", async () => {
    const told: string[] = [];
    const files = { ...nodeFiles, freeBytes: () => Promise.resolve(10) };
    await expect(
      saveCheckpoint(folder, stateOfStep(1), { files, onTemporary: (path) => void told.push(path) }),
    ).rejects.toThrow(/it takes \d+ B, 10 B are free/);
    expect(told).toEqual([]);
  });

  const tiny = mkdtempSync(join(root, "tiny-"));
  const mounted = mountTiny(tiny);
  afterAll(() => {
    if (mounted) execFileSync("umount", [tiny]);
  });
  test.skipIf(!mounted)("on a real file system of one megabyte", async () => {
    const inside = join(tiny, "checkpoints");
    await saveCheckpoint(inside, stateOfStep(1, 100_000));
    for (const files of [nodeFiles, { ...nodeFiles, freeBytes: () => Promise.resolve(undefined) }]) {
      await expect(saveCheckpoint(inside, stateOfStep(2, 200_000), { files })).rejects.toThrow(/it takes 800\.\d KB/);
      expect(readdirSync(inside)).toEqual([checkpointFileName(1)]);
    }
    expectWhole((await latestCheckpoint(inside)).checkpoint, 1, 100_000);
  });
});

/** Mounts a file system of 1 MB; false where that is not allowed. */
function mountTiny(path: string): boolean {
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", path], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/**
 * A disk in memory that forgets on a power cut: what files held after the last sync, and names after the last sync of
 * the folder, may be there or not.
 */
class ForgetfulDisk implements CommitFiles {
  names = new Map<string, { live: Buffer; durable: Buffer }>();
  durableNames = new Map(this.names);
  operations = 0;
  /** The operation, counted from 0, at which the power is cut: it and all later ones fail. */
  cutAt = Infinity;

  #step(): void {
    if (this.operations++ >= this.cutAt) throw new Error("power cut");
  }
  async makeFolder(): Promise<void> {}
  async list(): Promise<string[]> {
    return [...this.names.keys()].map((path) => basename(path));
  }
  async create(path: string): Promise<CommitFile> {
    this.#step();
    const file = { live: Buffer.alloc(0), durable: Buffer.alloc(0) };
    this.names.set(path, file);
    return {
      write: async (bytes, position) => {
        this.#step();
        const live = Buffer.alloc(Math.max(file.live.length, position + bytes.length));
        file.live.copy(live);
        live.set(bytes, position);
        file.live = live;
      },
      sync: async () => {
        this.#step();
        file.durable = Buffer.from(file.live);
      },
      close: async () => {},
    };
  }
  async rename(from: string, to: string): Promise<void> {
    this.#step();
    const file = this.names.get(from);
    if (file === undefined) throw new Error(`no ${from}`);
    this.names.set(to, file);
    this.names.delete(from);
  }
  async remove(path: string): Promise<void> {
    this.#step();
    this.names.delete(path);
  }
  async syncFolder(): Promise<void> {
    this.#step();
    this.durableNames = new Map(this.names);
  }
  async freeBytes(): Promise<undefined> {}
  async age(): Promise<number> {
    return 0;
  }

  /** Writes out one state in which the disk may be found. */
  found(namesKept: boolean, contentKept: boolean): string {
    const directory = mkdtempSync(join(root, "found-"));
    for (const [path, { live, durable }] of namesKept ? this.names : this.durableNames) {
      writeFileSync(join(directory, basename(path)), contentKept ? live : durable);
    }
    return directory;
  }
}

describe("power cut", () => {
  const saveTwice = async (disk: ForgetfulDisk, next: number): Promise<{ first: boolean; second: boolean }> => {
    const save = (step: number): Promise<boolean> =>
      saveCheckpoint(folder, stateOfStep(step), { files: disk, keep: 1 }).then(
        () => true,
        () => false,
      );
    return { first: await save(1), second: await save(next) };
  };

  test.each([
    ["the previous checkpoint or the new one, whole", 2],
    ["a checkpoint whole that is written again", 1],
  ])("at every operation leaves %s", async (_name, next) => {
    const whole = new ForgetfulDisk();
    expect(await saveTwice(whole, next)).toEqual({ first: true, second: true });
    expect(whole.operations).toBeGreaterThan(15);
    for (let cutAt = 0; cutAt <= whole.operations; cutAt++) {
      const disk = new ForgetfulDisk();
      disk.cutAt = cutAt;
      const saved = await saveTwice(disk, next);
      for (const names of [true, false]) {
        for (const content of [true, false]) {
          const { checkpoint, warnings } = await latestCheckpoint(disk.found(names, content));
          const what = `cut at ${cutAt}, names ${names}, content ${content}`;
          expect(warnings, what).toEqual([]);
          const step = checkpoint?.step ?? 0;
          expect(step, what).toBeGreaterThanOrEqual(saved.second ? next : saved.first ? 1 : 0);
          if (checkpoint !== undefined) expectWhole(checkpoint, step);
        }
      }
    }
  });

  test("a process that dies at every operation, seen on the real disk", async () => {
    let total = 0;
    await saveCheckpoint(folder, stateOfStep(1), { files: faulty(() => total++) });
    const first = join(folder, checkpointFileName(1));
    for (let dieAt = 0; dieAt <= total; dieAt++) {
      const directory = mkdtempSync(join(root, "die-"));
      copyFileSync(first, join(directory, checkpointFileName(1)));
      let operations = 0;
      const files = faulty(() => {
        if (operations++ >= dieAt) throw new Error("killed");
      });
      const saved = await saveCheckpoint(directory, stateOfStep(2), { files }).catch(() => undefined);
      const { checkpoint, warnings } = await latestCheckpoint(directory);
      expect(warnings).toEqual([]);
      expectWhole(checkpoint, saved === undefined ? (checkpoint?.step ?? 0) : 2);
      expect(readdirSync(directory).every((name) => /^step-0000000[12]\.safetensors$/.test(name))).toBe(true);
    }
  });
});
