/** One writer to a folder of checkpoints. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type FolderLock, lockFolder } from "../../src/checkpoints/lock.ts";

let root = "";
let folder = "";
const open: FolderLock[] = [];
const children: ChildProcess[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "heddle-lock-"));
  folder = join(root, "run");
});
afterEach(() => {
  for (const lock of open.splice(0)) lock.release();
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

const take = async (path = folder, patience = 0): Promise<FolderLock> => {
  const lock = await lockFolder(path, { patience });
  open.push(lock);
  return lock;
};

test("a folder that cannot be made is an error that names it", async () => {
  writeFileSync(join(root, "file"), "");
  const path = join(root, "file", "run");
  await expect(take(path)).rejects.toThrow(`checkpoints cannot be written to ${path}: `);
});

test("what a process left that was killed while it took the lock is removed; what a living one has stays", async () => {
  mkdirSync(folder);
  for (const name of [`lock.json.${2 ** 22 + 1}-0.tmp`, `lock.json.${process.ppid}-0.tmp`, "other.tmp"])
    writeFileSync(join(folder, name), "");
  await take();
  expect(readdirSync(folder).sort()).toEqual(["lock.json", `lock.json.${process.ppid}-0.tmp`, "other.tmp"]);
});

// Node's recursive mkdir never returns here.
test.runIf(process.platform === "linux")("a folder that the system refuses is an error, too", async () => {
  await expect(take("/proc/none/run")).rejects.toThrow("checkpoints cannot be written to /proc/none/run: ");
});

describe.skipIf(process.platform !== "linux")("a folder", () => {
  const held = (who: string): string => `another run writes its checkpoints to ${folder}: ${who}`;

  test("is made, taken, refused to a second by any path, given free", async () => {
    const lock = await take();
    expect(lock.exclusive).toBe(true);
    expect(readdirSync(folder)).toEqual(["lock.json"]);
    symlinkSync(folder, join(root, "link"));
    for (const path of [folder, `${folder}/../run`]) {
      await expect(take(path)).rejects.toThrow(held("another training of this process"));
    }
    await expect(take(join(root, "link"))).rejects.toThrow("another training of this process");
    await take(join(root, "other"));
    lock.release();
    lock.release();
    expect(readdirSync(folder)).toEqual([]);
    await take();
  });

  /** A lock as the process of another host or container has it. */
  function foreign(pid = process.pid): void {
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      join(folder, "lock.json"),
      JSON.stringify({ token: "t", host: "far", pid, among: "other 1", started: "1" }),
    );
  }

  test("held elsewhere is refused at the next sign of life", async () => {
    foreign(77);
    const beats = setInterval(() => utimesSync(join(folder, "lock.json"), new Date(), new Date()), 200);
    await expect(lockFolder(folder)).rejects.toThrow(held("process 77 on host far"));
    clearInterval(beats);
  });

  test("held elsewhere without a sign of life is taken", async () => {
    foreign();
    open.push(await lockFolder(folder, { staleAfter: 300 }));
    expect(readFileSync(join(folder, "lock.json"), "utf8")).toContain(`"pid":${process.pid}`);
  });

  test.each([
    ["a malformed file", "not JSON"],
    ["another process of the number", JSON.stringify({ token: "t", host: "h", pid: 1, among: "", started: "0" })],
  ])("held by %s is taken after a while", async (_name, text) => {
    mkdirSync(folder);
    writeFileSync(join(folder, "lock.json"), text);
    open.push(await lockFolder(folder, { staleAfter: 200 }));
  });

  test.each<[string, () => void, string]>([
    ["removed", () => rmSync(folder, { recursive: true }), "lock.json was removed from"],
    ["taken by another run", () => foreign(5), "another run has taken"],
  ])("that is %s is noticed before a write", async (_name, change, what) => {
    const lock = await take();
    await lock.check();
    change();
    await expect(lock.check()).rejects.toThrow(`${what} ${folder} while this run writes`);
    lock.release();
  });

  /** A process that holds the folder; `busy` when it no longer answers. */
  async function holder(busy: boolean): Promise<ChildProcess> {
    const module = fileURLToPath(new URL("../../src/checkpoints/lock.ts", import.meta.url));
    const body = `import { lockFolder } from ${JSON.stringify(module)};
      await lockFolder(${JSON.stringify(folder)});
      process.stdout.write("held", () => { if (${busy}) for (;;); else setInterval(() => {}, 1000); });`;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", body], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    await new Promise((done) => child.stdout?.once("data", done));
    return child;
  }

  test.each([
    ["answers", false],
    ["is busy", true],
  ])("held by a process that %s is refused, and free once that was killed", async (_name, busy) => {
    const child = await holder(busy);
    await expect(take()).rejects.toThrow(held(`process ${child.pid}`));
    const waiting = take(folder, 60_000);
    await sleep(120);
    child.kill("SIGKILL");
    await waiting;
  });

  test("wanted by many at once is taken by one", async () => {
    const results = await Promise.allSettled([take(), take(), take(), take()]);
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });
});
