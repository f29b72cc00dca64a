/**
 * The power is cut at every operation of saves in parts and of their retention. The disk may then have, of what was not synced, any part in
 * any order; a reader finds the old checkpoint or the new one, whole.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { latestCheckpoint, listCheckpoints, openCheckpoint } from "../../src/checkpoints/index.ts";
import { localStorage } from "../../src/checkpoints/local.ts";
import { cleanCheckpoints, removeOld } from "../../src/checkpoints/series.ts";
import { type CommitFiles, nodeFiles } from "../../src/io/commit.ts";
import { partOf } from "../support/sample.ts";
import { expectParts, saveParts } from "./parts-state.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-power-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A file, whatever names it has. */
type File = number;
type Operation =
  | { readonly kind: "write"; readonly file: File; readonly position: number; readonly bytes: Uint8Array }
  | { readonly kind: "sync"; readonly file: File }
  | { readonly kind: "add"; readonly name: string; readonly file: File | "folder" }
  | { readonly kind: "rename"; readonly from: string; readonly to: string }
  | { readonly kind: "drop"; readonly name: string }
  | { readonly kind: "sync folder"; readonly folder: string }
  | { readonly kind: "begun" | "done"; readonly step: number };

/** The file system of this machine, with a log of what was done to it. Names are relative to `place`. */
class LoggedFiles implements CommitFiles {
  readonly log: Operation[] = [];
  private readonly place: string;
  private files = 0;
  private readonly names = new Map<string, File | "folder">();

  constructor(place: string) {
    this.place = place;
  }
  private named = (path: string): string => relative(this.place, path);

  async makeFolder(path: string): Promise<void> {
    await unsynced.makeFolder(path);
    const name = this.named(path);
    if (name === "" || this.names.has(name)) return;
    this.names.set(name, "folder");
    this.log.push({ kind: "add", name, file: "folder" });
    this.log.push({ kind: "sync folder", folder: dirname(name) });
  }
  list = nodeFiles.list;
  freeBytes = nodeFiles.freeBytes;
  age = nodeFiles.age;
  async create(path: string): ReturnType<CommitFiles["create"]> {
    const made = await nodeFiles.create(path);
    const file = this.files++;
    this.names.set(this.named(path), file);
    this.log.push({ kind: "add", name: this.named(path), file });
    return {
      write: async (bytes, position) => {
        await made.write(bytes, position);
        this.log.push({ kind: "write", file, position, bytes: bytes.slice() });
      },
      sync: async () => {
        this.log.push({ kind: "sync", file });
      },
      close: () => made.close(),
    };
  }
  async rename(from: string, to: string): Promise<void> {
    await nodeFiles.rename(from, to);
    const [before, after] = [this.named(from), this.named(to)];
    this.names.set(after, this.names.get(before) as File);
    this.names.delete(before);
    this.log.push({ kind: "rename", from: before, to: after });
  }
  async remove(path: string): Promise<void> {
    await nodeFiles.remove(path);
    const name = this.named(path);
    const below = [...this.names.keys()].filter((one) => one.startsWith(`${name}/`));
    for (const one of [...below, name]) if (this.names.delete(one)) this.log.push({ kind: "drop", name: one });
  }
  async syncFolder(folder: string): Promise<void> {
    this.log.push({ kind: "sync folder", folder: this.named(folder) || "." });
  }
}

/** The file system of this machine without its syncs, which take most of the time. */
const unsynced: CommitFiles = {
  ...nodeFiles,
  makeFolder: async (path) => void mkdirSync(path, { recursive: true }),
  create: async (path) => ({ ...(await nodeFiles.create(path)), sync: async () => {} }),
  syncFolder: async () => {},
};

/** Numbers from a seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

const folderOf = (operation: Operation): string | undefined =>
  operation.kind === "add" || operation.kind === "drop"
    ? dirname(operation.name)
    : operation.kind === "rename"
      ? dirname(operation.to)
      : undefined;

/**
 * What the disk may have after these operations: all that was synced later on, and of the rest what `kept` says, names in the order in
 * which they changed, writes in any.
 */
function found(log: readonly Operation[], kept: () => number): Map<string, Uint8Array | "folder"> {
  const isDurable = (at: number): boolean => {
    const operation = log[at] as Operation;
    const folder = folderOf(operation);
    return log
      .slice(at + 1)
      .some(
        (later) =>
          (later.kind === "sync folder" && later.folder === folder) ||
          (later.kind === "sync" && operation.kind === "write" && later.file === operation.file),
      );
  };
  const names = new Map<string, File | "folder">();
  const contents = new Map<File, Uint8Array>();
  const writes: Extract<Operation, { kind: "write" }>[] = [];
  // Of files that were renamed, the name of the file at the time counts.
  const live = new Map<string, File | "folder">();
  for (const [at, operation] of log.entries()) {
    const durable = isDurable(at);
    const stays = durable || kept() < 0.5;
    if (operation.kind === "write" && stays) {
      // A write that was not synced may be torn.
      const length = durable || kept() < 0.5 ? operation.bytes.length : Math.floor(kept() * operation.bytes.length);
      const write = { ...operation, bytes: operation.bytes.subarray(0, length) };
      if (durable || kept() < 0.5) writes.push(write);
      else writes.unshift(write);
    }
    if (operation.kind === "add") {
      live.set(operation.name, operation.file);
      if (stays) names.set(operation.name, operation.file);
    }
    if (operation.kind === "rename") {
      const file = live.get(operation.from) as File;
      live.delete(operation.from);
      live.set(operation.to, file);
      if (!stays) continue;
      names.delete(operation.from);
      names.set(operation.to, file);
    }
    if (operation.kind === "drop") {
      live.delete(operation.name);
      if (stays) names.delete(operation.name);
    }
  }
  for (const { file, position, bytes } of writes) {
    const before = contents.get(file) ?? new Uint8Array();
    const after = new Uint8Array(Math.max(before.length, position + bytes.length));
    after.set(before);
    after.set(bytes, position);
    contents.set(file, after);
  }
  return new Map(
    [...names].map(([name, file]) => [name, file === "folder" ? file : (contents.get(file) ?? new Uint8Array())]),
  );
}

/** Saves with retention, and a step that is saved twice; gives the log. */
async function workload(): Promise<Operation[]> {
  const place = mkdtempSync(join(root, "live-"));
  const files = new LoggedFiles(place);
  const storage = localStorage(place, files);
  for (const [index, step] of [1, 2, 2, 3, 4].entries()) {
    files.log.push({ kind: "begun", step });
    await saveParts(storage, step, `t${index}`);
    files.log.push({ kind: "done", step });
    await removeOld(storage, step, { newest: 2 });
  }
  return files.log;
}

/** What a reader makes of a disk on which so many operations were done; undefined if it is as it must be. */
async function problemAt(log: readonly Operation[], count: number, seed: number): Promise<string | undefined> {
  const done = log.slice(0, count);
  const place = mkdtempSync(join(root, "cut-"));
  for (const [name, content] of found(done, random(seed * 10_007 + count))) {
    mkdirSync(join(place, content === "folder" ? name : dirname(name)), { recursive: true });
    if (content !== "folder") writeFileSync(join(place, name), content);
  }
  const stepsOf = (kind: "begun" | "done"): number[] =>
    done.flatMap((operation) => (operation.kind === kind ? [operation.step] : []));
  const [least, most] = [stepsOf("done").at(-1) ?? 0, stepsOf("begun").at(-1) ?? 0];
  try {
    const { checkpoint } = await latestCheckpoint(place, { clean: false });
    const step = checkpoint?.step ?? 0;
    if (step < least || step > most) return `step ${step} was found, not ${least} to ${most}`;
    if (checkpoint !== undefined) {
      const open = await openCheckpoint(checkpoint.path);
      await expectParts(open, step).finally(() => open.close());
    }
    // The run that comes next clears away what is half written, and goes on.
    if (count % 8 !== 0) return undefined;
    await cleanCheckpoints(place, { alone: true });
    await saveParts(localStorage(place, unsynced), most + 1);
    if ((await listCheckpoints(place))[0]?.step !== most + 1) return "no checkpoint can be saved afterwards";
    return undefined;
  } catch (error) {
    return String(error);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

async function problems(log: readonly Operation[], seeds: number): Promise<{ cuts: number; problems: string[] }> {
  const cuts = Array.from({ length: log.length + 1 }, (_unused, count) => count).flatMap((count) =>
    Array.from({ length: seeds }, (_unused, seed) => [count, seed] as const),
  );
  const all: string[] = [];
  for (const [count, seed] of partOf(cuts, every)) {
    const problem = await problemAt(log, count, seed);
    if (problem !== undefined) all.push(`after ${count} operations, seed ${seed}: ${problem}`);
  }
  return { cuts: cuts.length, problems: all };
}

/** Of the cuts: an odd number, so that both seeds take their turn. */
const every = 3;

describe("a power cut at every operation", { timeout: 60_000 }, () => {
  test("of saves in parts and of their retention leaves the old checkpoint or the new one, whole", async () => {
    const result = await problems(await workload(), 2);
    expect(result.problems).toEqual([]);
    expect(result.cuts).toBeGreaterThan(300);
  });

  test.each(["sync", "sync folder"])("without its %s operations, checkpoints are lost", async (kind) => {
    const log = (await workload()).filter((operation) => operation.kind !== kind);
    expect((await problems(log, 1)).problems.length).toBeGreaterThan(5);
  });
});
