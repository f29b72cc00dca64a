/** Checkpoints in parts: written, committed, read, damaged. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { latestCheckpoint, listCheckpoints, loadCheckpoint, openCheckpoint } from "../../src/checkpoints/index.ts";
import { localStorage } from "../../src/checkpoints/local.ts";
import { chunkBytes, formatManifest, parseManifest } from "../../src/checkpoints/manifest.ts";
import { openParts } from "../../src/checkpoints/open.ts";
import { commitParts, partContent, writePart } from "../../src/checkpoints/parts.ts";
import { type Box, wholeBox } from "../../src/checkpoints/pieces.ts";
import { cleanCheckpoints, listIn, removeOld } from "../../src/checkpoints/series.ts";
import type { Storage } from "../../src/checkpoints/storage.ts";
import { crc32c } from "../../src/data/sources/crc32c.ts";
import { loadNative } from "../../src/executors/native/binding.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import { type CommitFiles, nodeFiles } from "../../src/io/commit.ts";
import { readSafetensors } from "../../src/io/safetensors.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { describe as describeStep, expectParts, piecesOfStep, placeOf, saveParts } from "./parts-state.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-parts-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let folder = "";
let storage: Storage;
beforeEach(() => {
  folder = join(mkdtempSync(join(root, "run-")), "checkpoints");
  storage = localStorage(folder);
});

/** Asserts that a checkpoint is whole, and closes it. */
async function expectWhole(path: string, step: number): Promise<void> {
  const checkpoint = await openCheckpoint(path);
  await expectParts(checkpoint, step);
  await checkpoint.close();
}

describe("a checkpoint in parts", () => {
  test("is a folder of safetensors files and a manifest, and nothing else", async () => {
    await saveParts(storage, 3, "abc");
    const step = join(folder, "step-00000003");
    const files = ["manifest.json", "part-00000-of-00002-abc.safetensors", "part-00001-of-00002-abc.safetensors"];
    expect(readdirSync(step).sort()).toEqual(files);
    expect(await listCheckpoints(folder)).toEqual([{ step: 3, name: "step-00000003", path: step, inParts: true }]);
    await expectWhole(step, 3);
    await expectWhole(join(step, "manifest.json"), 3);
    const first = await readSafetensors(join(step, files[1] as string));
    expect([...first.tensors.keys()].sort()).toEqual([
      "optimizer/momentum[0:4]",
      "params/bias",
      "params/body.weight[0:3,0:8]",
      "params/head.weight[0:4,0:3]",
    ]);
    const { tensors, step: read } = await loadCheckpoint(step);
    expect(read).toBe(3);
    expect([...(tensors.get("params/bias")?.data ?? [])]).toHaveLength(5);
  });

  test("has a manifest that others can read: bytes by file and offset, with their SHA-256", async () => {
    await saveParts(storage, 3);
    const step = join(folder, "step-00000003");
    const manifest = JSON.parse(readFileSync(join(step, "manifest.json"), "utf8"));
    expect(Object.keys(manifest)).toEqual([
      "heddle.manifest",
      "sha256",
      "library",
      "step",
      "position",
      "seed",
      "key",
      "extra",
      "chunk",
      "files",
      "tensors",
    ]);
    const { dtype, shape, pieces } = manifest.tensors["params/head.weight"];
    expect({ dtype, shape, starts: pieces.map((piece: { start: number[] }) => piece.start) }).toEqual({
      dtype: "BF16",
      shape: [4, 6],
      starts: [
        [0, 0],
        [0, 3],
      ],
    });
    for (const { file, offset, bytes, sha256, crc32c: quick } of pieces) {
      const part = readFileSync(join(step, file)).subarray(offset, offset + bytes);
      expect([createHash("sha256").update(part).digest("hex")]).toEqual(sha256);
      expect(quick).toEqual("error" in loadNative() ? undefined : [crc32c(part)]);
    }
  });

  test("reads only the chunks that a box needs", async () => {
    const rows = 3;
    const width = chunkBytes / 4;
    const type = { dtype: "f32", shape: [rows, width] } as const;
    const bytes = new Uint8Array(rows * width * 4).map((_unused, at) => (at * 31) % 251);
    const place = { ...placeOf(storage, 1), ranks: 1 };
    await writePart(place, 0, [{ name: "w", type, start: [0, 0], shape: type.shape, bytes }]);
    await commitParts(place, describeStep(1));
    const reads: number[] = [];
    // Without its folder, so that the reads go by `open`.
    const { folder: _folder, ...local } = localStorage(join(folder, "step-00000001"));
    const counting: Storage = {
      ...local,
      open: async (name) => {
        const file = await localStorage(join(folder, "step-00000001")).open(name);
        const read = (offset: number, length: number) => {
          reads.push(length);
          return file.read(offset, length);
        };
        return { ...file, read };
      },
    };
    const checkpoint = await openParts(counting);
    reads.length = 0;
    expect(await checkpoint.readBytes("w", { start: [1, 5], shape: [1, 7] })).toEqual(
      bytes.subarray(width * 4 + 20, width * 4 + 48),
    );
    const headers = [...checkpoint.manifest.files.values()].map(({ header }) => header);
    expect(reads).toEqual([...headers, chunkBytes]);
    expect(Buffer.compare(await checkpoint.readBytes("w"), bytes)).toBe(0);
    await checkpoint.close();
  });

  test("native code and the storage read the same boxes, into arrays and into the memory of devices; neither gives bytes that have changed", async () => {
    const type = { dtype: "f64", shape: [5, chunkBytes / 16 + 3] } as const;
    const width = type.shape[1];
    const bytes = new Uint8Array(5 * width * 8).map((_unused, at) => (at * 31) % 251);
    const cuts = [0, 2, 5];
    const pieces = cuts.slice(1).map((end, index) => {
      const start = cuts[index] as number;
      const part = bytes.slice(start * width * 8, end * width * 8);
      return { name: "w", type, start: [start, 0], shape: [end - start, width], bytes: part };
    });
    const place = { ...placeOf(storage, 1), ranks: 1 };
    await writePart(place, 0, pieces);
    await commitParts(place, describeStep(1));
    const path = join(folder, "step-00000001");
    const { folder: _folder, ...local } = localStorage(path);
    const [native, plain] = [await openParts(localStorage(path)), await openParts(local)];
    expect(plain.readInto).toBeUndefined();
    const runtime = localRuntime();
    const boxes: Box[] = [wholeBox(type.shape)];
    for (const row of [0, 1, 2, 4])
      for (const column of [0, 7, width - 4]) boxes.push({ start: [row, column], shape: [5 - row, width - column] });
    boxes.push(
      { start: [1, 0], shape: [3, width] },
      { start: [3, 11], shape: [1, 1] },
      { start: [2, 5], shape: [0, 2] },
    );
    for (const box of boxes) {
      const expected = await plain.readBytes("w", box);
      expect(Buffer.compare(await native.readBytes("w", box), expected)).toBe(0);
      const buffer = runtime.executor.allocate(expected.length);
      const isNative = runtime.executor.name === "native";
      expect((await native.readInto?.("w", box, buffer)) ?? false).toBe(isNative);
      if (isNative) expect(Buffer.compare(await buffer.read(), expected)).toBe(0);
      buffer.dispose();
    }
    await native.close();
    const [part] = readdirSync(path).filter((name) => name.endsWith(".safetensors")) as [string];
    const stored = readFileSync(join(path, part));
    for (const at of [stored.length - 1, stored.length - bytes.length, stored.length - chunkBytes]) {
      const changed = Buffer.from(stored);
      changed[at] = (changed[at] as number) ^ 64;
      writeFileSync(join(path, part), changed);
      const open = await openParts(localStorage(path));
      const buffer = runtime.executor.allocate(bytes.length);
      const quick = `tensor "w" does not match its ${open.readInto === undefined ? "SHA-256" : "CRC32C"}`;
      await expect(open.readBytes("w")).rejects.toThrow(quick);
      await expect(plain.readBytes("w")).rejects.toThrow('tensor "w" does not match its SHA-256');
      if (open.readInto !== undefined)
        await expect(open.readInto("w", wholeBox(type.shape), buffer)).rejects.toThrow(quick);
      await expect(open.verify()).rejects.toThrow(quick);
      await open.close();
    }
    // A file that was cut after it was opened has no bytes to give.
    const open = await openParts(localStorage(path));
    await open.readBytes("w", { start: [0, 0], shape: [1, 1] }).catch(() => undefined);
    writeFileSync(join(path, part), stored.subarray(0, stored.length - 100));
    await expect(open.readBytes("w")).rejects.toThrow(/ends before byte/);
    await open.close();
    await plain.close();
    runtime.close();
  });

  test("is none before its manifest, whatever is there; a later run cleans it up", async () => {
    await saveParts(storage, 1);
    const place = placeOf(storage, 2);
    await writePart(place, 0, piecesOfStep(2)[0] ?? []);
    const controller = new AbortController();
    const commit = commitParts(place, describeStep(2), { signal: controller.signal });
    setTimeout(() => controller.abort(new Error("rank 1 failed")), 30);
    await expect(commit).rejects.toThrow("rank 1 failed");
    expect((await listCheckpoints(folder)).map(({ step }) => step)).toEqual([1]);
    expect((await latestCheckpoint(folder)).checkpoint?.step).toBe(1);
    expect(readdirSync(folder)).toContain("step-00000002");
    await cleanCheckpoints(folder);
    expect(readdirSync(folder)).toContain("step-00000002");
    await cleanCheckpoints(folder, { alone: true });
    expect(readdirSync(folder)).toEqual(["step-00000001"]);
  });

  test("that is written again replaces the files of the one before", async () => {
    await saveParts(storage, 1, "first");
    await saveParts(storage, 1, "second");
    expect(readdirSync(join(folder, "step-00000001")).filter((name) => name.includes("first"))).toEqual([]);
    await expectWhole(join(folder, "step-00000001"), 1);
  });

  test("is kept or removed as one in a file is", async () => {
    for (const step of [1, 2, 3, 4]) await saveParts(storage, step);
    expect(await removeOld(storage, 3, { newest: 2 })).toEqual({
      removed: [join(folder, "step-00000001")],
      warnings: [expect.stringContaining("has checkpoints of later steps than 3, up to 4")],
    });
    expect((await listIn(storage)).map(({ step }) => step)).toEqual([4, 3, 2]);
  });

  test("is not written with pieces missing", async () => {
    const place = { ...placeOf(storage, 1), ranks: 1 };
    await writePart(place, 0, piecesOfStep(1)[0] ?? []);
    await expect(commitParts(place, describeStep(1))).rejects.toThrow(
      /cannot save a checkpoint: .* has pieces of \d+ elements/,
    );
    expect(await listCheckpoints(folder)).toEqual([]);
  });
});

describe("damage", () => {
  const newest = (): string => join(folder, "step-00000002");
  const part = (): string => join(newest(), "part-00001-of-00002-t2.safetensors");
  const flip = (path: string, at: number): void => {
    const bytes = readFileSync(path);
    bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << (at % 8)), at);
    writeFileSync(path, bytes);
  };

  test.each<[string, () => void, RegExp]>([
    ["a part that is missing", () => rmSync(part()), /step-00000002 is not whole: part-00001-.* is missing; taking/],
    [
      "a part that was cut",
      () => truncateSync(part(), statSync(part()).size - 1),
      /part-00001-.* has \d+ bytes, not \d+; taking/,
    ],
    [
      "a part with bytes after its end",
      () => writeFileSync(part(), Buffer.alloc(1), { flag: "a" }),
      /has \d+ bytes, not/,
    ],
    [
      "a value with a flipped bit",
      () => flip(part(), statSync(part()).size - 1),
      /tensor ".*" does not match its (SHA-256|CRC32C); taking/,
    ],
    [
      "a header with a flipped bit",
      () => flip(part(), 40),
      /part-00001-.*: its header does not match its SHA-256; taking/,
    ],
    [
      "a manifest that was cut",
      () => truncateSync(join(newest(), "manifest.json"), 200),
      /manifest.json is not a whole manifest: it is not JSON; taking/,
    ],
    [
      "a manifest with a flipped bit",
      () => flip(join(newest(), "manifest.json"), 300),
      /manifest.json is not a whole manifest: .*; taking/,
    ],
    ["an empty manifest", () => truncateSync(join(newest(), "manifest.json"), 0), /it is not JSON; taking/],
    [
      "the folder of another step",
      () => renameStep(folder, 2, 9),
      /step-00000009 is of step 2, not of the step in its name; taking/,
    ],
  ])("%s is never used: the one before is, with a warning", async (_name, damage, warning) => {
    for (const step of [1, 2]) await saveParts(storage, step);
    damage();
    const { checkpoint, warnings } = await latestCheckpoint(folder);
    expect(warnings).toEqual([expect.stringMatching(warning)]);
    expect(checkpoint?.step).toBe(1);
  });

  test("a folder whose manifest is missing is no checkpoint, and is named", async () => {
    for (const step of [1, 2]) await saveParts(storage, step);
    rmSync(join(newest(), "manifest.json"));
    expect(await latestCheckpoint(folder)).toMatchObject({
      checkpoint: { step: 1 },
      warnings: [expect.stringMatching(/^passed over \S+step-00000002: it has no manifest.json, so its save has not/)],
    });
    await expect(openCheckpoint(newest())).rejects.toThrow(
      /step-00000002 is not a checkpoint: it has no manifest.json/,
    );
  });

  test("every byte that changes is noticed", async () => {
    await saveParts(storage, 2);
    for (const name of readdirSync(newest())) {
      const path = join(newest(), name);
      const whole = readFileSync(path);
      for (let at = 0; at < whole.length; at += name.endsWith(".json") ? 41 : 7) {
        flip(path, at);
        const verified = openCheckpoint(newest()).then((checkpoint) =>
          checkpoint.verify().finally(() => checkpoint.close()),
        );
        const error: unknown = await verified.catch((reason: unknown) => reason);
        expect(error, `${name}, byte ${at}`).toBeInstanceOf(HeddleError);
        expect((error as HeddleError).code, `${name}, byte ${at}`).toMatch(/^(format|checkpoint)$/);
        writeFileSync(path, whole);
      }
    }
  });

  /** A right manifest, changed and hashed anew, as someone with bad intentions would. */
  test.each<[string, (manifest: Crafted) => void, RegExp]>([
    ["a path in a file's name", (m) => (m.files = { "../x": m.files["part"] as never }), /the file "\.\.\/x" is not/],
    ["a file that is not listed", (m) => (m.files = {}), /has a piece in "part", which is not one of the files/],
    ["a piece outside", (m) => (piece(m).start = [7]), /has a piece at \[7\] of sizes \[4\], outside of \[4\]/],
    ["a piece beyond the file", (m) => (piece(m).offset = 1e9), /does not fit/],
    ["a piece of a wrong size", (m) => (piece(m).bytes = 4), /does not fit/],
    ["too few hashes", (m) => (piece(m).sha256 = []), /has a piece without hashes/],
    ["too many hashes", (m) => piece(m).sha256.push("0".repeat(64)), /has 2 hashes for 16 bytes/],
    ["too few quick sums", (m) => (piece(m).crc32c = []), /has 0 hashes for 16 bytes/],
    ["a quick sum that is none", (m) => (piece(m).crc32c = [2 ** 32]), /has a piece whose CRC32C are not/],
    ["overlapping pieces", (m) => m.tensors["w"]?.pieces.push(piece(m)), /has pieces of 8 elements/],
    ["a dtype that is unknown", (m) => Object.assign(m.tensors["w"] ?? {}, { dtype: "F8" }), /has the dtype F8/],
    ["a shape that overflows", (m) => Object.assign(m.tensors["w"] ?? {}, { shape: [2 ** 60] }), /has no shape/],
    ["a chunk of nothing", (m) => (m.chunk = 0), /its chunk is 0/],
    ["a negative step", (m) => (m.step = -1), /its step is -1/],
    ["no tensors", (m) => Object.assign(m, { tensors: null }), /it lacks files or tensors/],
  ])("a crafted manifest with %s is refused", (_name, craft, message) => {
    const bytes = new Uint8Array(16);
    const type = { dtype: "f32", shape: [4] } as const;
    const { content, contents } = partContent("part", [{ name: "w", type, start: [0], shape: [4], bytes }]);
    for (const _chunk of content.chunks);
    const text = formatManifest(describeStep(1), contents());
    expect(parseManifest(text, "it").description.step).toBe(1);
    const manifest = JSON.parse(text) as Crafted;
    craft(manifest);
    manifest.sha256 = "0".repeat(64);
    const blank = JSON.stringify(manifest);
    const crafted = blank.replace("0".repeat(64), createHash("sha256").update(blank).digest("hex"));
    expect(() => parseManifest(crafted, "it")).toThrow(message);
  });

  test("one from a newer Heddle is an error, not a fall back", async () => {
    for (const step of [1, 2]) await saveParts(storage, step);
    const path = join(newest(), "manifest.json");
    writeFileSync(path, readFileSync(path, "utf8").replace('"heddle.manifest":3', '"heddle.manifest":4'));
    await expect(latestCheckpoint(folder)).rejects.toThrow(/checkpoint format 4, this Heddle .* reads up to 3/);
  });
});

interface Crafted {
  sha256: string;
  step: number;
  chunk: number;
  files: { [name: string]: object };
  tensors: { [name: string]: { pieces: CraftedPiece[] } };
}
interface CraftedPiece {
  start: number[];
  offset: number;
  bytes: number;
  sha256: string[];
  crc32c?: number[];
}
const piece = (manifest: Crafted): CraftedPiece => manifest.tensors["w"]?.pieces[0] as CraftedPiece;

function renameStep(folder: string, from: number, to: number): void {
  execFileSync("mv", [join(folder, `step-0000000${from}`), join(folder, `step-0000000${to}`)]);
}

test("the fixture of this format is read", async () => {
  await expectWhole(new URL("../fixtures/checkpoint-format-3", import.meta.url).pathname, 4);
});

describe("faults while writing", () => {
  /** The real file system that fails from an operation on, as a process that dies does. */
  function dying(at: number): { files: CommitFiles; count: () => number } {
    let operations = 0;
    const step = (): void => {
      if (operations++ >= at) throw new Error("killed");
    };
    const counted =
      <Values extends unknown[], Result>(call: (...values: Values) => Promise<Result>) =>
      async (...values: Values): Promise<Result> => {
        step();
        return call(...values);
      };
    const files: CommitFiles = {
      ...nodeFiles,
      makeFolder: counted(nodeFiles.makeFolder),
      create: async (path) => {
        step();
        const file = await nodeFiles.create(path);
        return { write: counted(file.write), sync: counted(file.sync), close: () => file.close() };
      },
      rename: counted(nodeFiles.rename),
      remove: counted(nodeFiles.remove),
      syncFolder: counted(nodeFiles.syncFolder),
    };
    return { files, count: () => operations };
  }

  test("a process that dies at every operation leaves the old checkpoint or the new one, whole", async () => {
    const whole = dying(Number.POSITIVE_INFINITY);
    await saveOne(localStorage(folder, whole.files), 1);
    const total = whole.count();
    expect(total).toBeGreaterThan(15);
    for (let at = 0; at <= 1.3 * total; at += 2) {
      const directory = mkdtempSync(join(root, "die-"));
      await saveOne(localStorage(directory), 1);
      const saved = await saveOne(localStorage(directory, dying(at).files), 2).then(
        () => true,
        () => false,
      );
      const { checkpoint, warnings } = await latestCheckpoint(directory);
      for (const warning of warnings) expect(warning, `at ${at}`).toMatch(/^passed over \S+: it has no manifest.json/);
      expect(checkpoint?.step, `at ${at}`).toBeGreaterThanOrEqual(saved ? 2 : 1);
      await expectWhole(checkpoint?.path as string, checkpoint?.step as number);
      if (saved) expect(readdirSync(directory)).toEqual(["step-00000002"]);
    }
  });

  /** Writes a checkpoint as two ranks do, one after another so that operations count alike, and keeps one. */
  async function saveOne(storage: Storage, step: number): Promise<void> {
    const place = placeOf(storage, step);
    for (const [rank, pieces] of piecesOfStep(step).entries()) await writePart(place, rank, pieces);
    await commitParts(place, describeStep(step));
    const { warnings } = await removeOld(storage, step, { newest: 1 });
    if (warnings.length > 0) throw new Error(warnings[0]);
  }

  test.each(["create", "write", "sync", "rename", "makeFolder"])(
    "a disk that is full at %s is told of",
    async (operation) => {
      await saveParts(storage, 1);
      const full = async (): Promise<never> => {
        throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC", syscall: operation });
      };
      const files: CommitFiles =
        operation in nodeFiles
          ? { ...nodeFiles, [operation]: full }
          : { ...nodeFiles, create: async (path) => ({ ...(await nodeFiles.create(path)), [operation]: full }) };
      const error: unknown = await writePart(
        placeOf(localStorage(folder, files), 2),
        0,
        piecesOfStep(2)[0] ?? [],
      ).catch((reason: unknown) => reason);
      expect((error as HeddleError).code).toBe("disk");
      expect((await listCheckpoints(folder)).map(({ step }) => step)).toEqual([1]);
    },
  );

  test.each([
    ["EROFS", "the disk is read-only"],
    ["EACCES", "permission denied"],
  ])("%s is told in words", async (code, words) => {
    const files: CommitFiles = {
      ...nodeFiles,
      create: async () => {
        throw Object.assign(new Error(`${code}: raw`), { code, syscall: "open" });
      },
    };
    const write = writePart(placeOf(localStorage(folder, files), 2), 0, piecesOfStep(2)[0] ?? []);
    await expect(write).rejects.toThrow(new RegExp(`cannot write .*part-00000-.*: ${words}`));
  });

  const tiny = mkdtempSync(join(root, "tiny-"));
  const mounted = mountTiny(tiny);
  afterAll(() => {
    if (mounted) execFileSync("umount", [tiny]);
  });
  test.skipIf(!mounted)("a real disk of one megabyte keeps what it has", async () => {
    const inside = join(tiny, "checkpoints");
    mkdirSync(inside);
    await saveParts(localStorage(inside), 1, "a", 1000);
    await expect(saveParts(localStorage(inside), 2, "b", 10_000)).rejects.toMatchObject({ code: "disk" });
    await cleanCheckpoints(inside, { alone: true });
    expect(readdirSync(inside)).toEqual(["step-00000001"]);
    const checkpoint = await openCheckpoint(join(inside, "step-00000001"));
    await checkpoint.verify();
    await checkpoint.close();
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
