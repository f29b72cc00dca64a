import { mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { hostGather, idx, mnist, parseIdx, readIdx, readIdxHeader } from "../../src/data/index.ts";
import { HeddleError } from "../../src/util/errors.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-idx-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function write(bytes: Uint8Array): string {
  const path = join(folder, `file-${files++}`);
  writeFileSync(path, bytes);
  return path;
}

/** The bytes of an IDX file, put together apart from the reader. */
function idxBytes(code: number, shape: readonly number[], values: readonly number[] = []): Buffer {
  const header = Buffer.alloc(4 + 4 * shape.length);
  header.writeUInt8(code, 2);
  header.writeUInt8(shape.length, 3);
  for (const [dim, size] of shape.entries()) header.writeUInt32BE(size, 4 + 4 * dim);
  const items = values.map((value) => {
    const item = Buffer.alloc(code === 0x0e ? 8 : code === 0x0c || code === 0x0d ? 4 : code === 0x0b ? 2 : 1);
    if (item.length === 1) item.writeUInt8(value & 255);
    else if (code === 0x0b) item.writeInt16BE(value);
    else if (code === 0x0c) item.writeInt32BE(value);
    else if (code === 0x0d) item.writeFloatBE(value);
    else item.writeDoubleBE(value);
    return item;
  });
  return Buffer.concat([header, ...items]);
}

describe("values", () => {
  test.each<[string, number, number[]]>([
    ["u8", 0x08, [0, 127, 128, 255]],
    ["i8", 0x09, [-128, -1, 0, 127]],
    ["i32", 0x0b, [-32768, -1, 258, 32767]],
    ["i32", 0x0c, [-2147483648, -1, 258, 2147483647]],
    ["f32", 0x0d, [0, -1.5, 3.25, Infinity]],
    ["f64", 0x0e, [Math.PI, -0, 1e-300, 5]],
  ])("%s, plain and gzipped, from memory and from a file", async (dtype, code, values) => {
    const bytes = idxBytes(code, [2, 2], values);
    const results = [parseIdx(bytes, "memory"), await readIdx(write(bytes)), await readIdx(write(gzipSync(bytes)))];
    for (const { shape, dtype: read, data } of results)
      expect([shape, read, [...data]]).toEqual([[2, 2], dtype, values]);
    expect(readIdxHeader(write(gzipSync(bytes)))).toEqual(readIdxHeader(write(bytes)));
  });

  test("files larger than a piece keep every byte", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 260_000, max: 540_000 }), async (count) => {
        const values = Buffer.alloc(count, "0123456789");
        const bytes = Buffer.concat([idxBytes(0x08, [count]), values]);
        expect(Buffer.from((await readIdx(write(bytes))).data).equals(values)).toBe(true);
        expect(Buffer.from((await readIdx(write(gzipSync(bytes)))).data).equals(values)).toBe(true);
      }),
      { numRuns: 5 },
    );
    const wide = Array.from({ length: 100_001 }, (_unused, index) => index - 50_000);
    expect([...(await readIdx(write(gzipSync(idxBytes(0x0c, [wide.length], wide))))).data]).toEqual(wide);
  });

  test("no rows", () => {
    expect(parseIdx(idxBytes(0x08, [0, 28, 28]), "empty")).toEqual({
      shape: [0, 28, 28],
      dtype: "u8",
      data: new Uint8Array(0),
    });
  });
});

describe("malformed files", () => {
  const good = idxBytes(0x08, [2, 3], [1, 2, 3, 4, 5, 6]);
  const cases: [string, Buffer, RegExp][] = [
    ["empty", Buffer.alloc(0), /short: 0 bytes/],
    ["only a magic", good.subarray(0, 4), /short: 4 bytes, its header alone takes 12/],
    ["a cut header", good.subarray(0, 11), /short: 11 bytes/],
    ["cut values", good.subarray(0, 17), /short: .*17 bytes, its shape \[2,3\] calls for 18/],
    ["no values", good.subarray(0, 12), /short: .*12 bytes/],
    ["trailing bytes", Buffer.concat([good, Buffer.alloc(3)]), /trailing bytes after the values of its shape \[2,3\]/],
    ["wrong magic", Buffer.from("PK\x03\x04 and more of a zip"), /it is a zip archive/],
    ["text", Buffer.from("label,pixel0\n5,0\n"), /wrong magic/],
    ["unknown type", idxBytes(0x0a, [1], [1]), /unknown type code 0x0a/],
    ["16-bit integers that are cut", idxBytes(0x0b, [4], [1, 2, 3]), /short: .*calls for 16/],
    ["no dims", Buffer.from([0, 0, 8, 0]), /declares 0 dims/],
    ["too many dims", idxBytes(0x08, Array(200).fill(1), [1]), /declares 200 dims, expected 1 to 8/],
    ["a product beyond 2^53", idxBytes(0x0e, Array(8).fill(0xffffffff)), /too large/],
    [
      "more than the limit",
      idxBytes(0x08, [65536, 65537]),
      /too large: shape \[65536,65537\] of u8 takes 4295032832 bytes/,
    ],
    ["3 GB declared in 12 bytes", idxBytes(0x08, [3, 1_000_000_000]), /short: .*calls for 3000000012/],
  ];

  test.each(cases)("%s", async (_name, bytes, message) => {
    expect(() => parseIdx(bytes, "digits")).toThrow(HeddleError);
    expect(() => parseIdx(bytes, "digits")).toThrow(message);
    expect(() => parseIdx(bytes, "digits")).toThrow("digits");
    const path = write(bytes);
    await expect(readIdx(path)).rejects.toThrow(message);
    await expect(readIdx(path)).rejects.toThrow(path);
    expect(() => readIdxHeader(path)).toThrow(message);
    const zipped = readIdx(write(gzipSync(bytes)));
    await expect(zipped).rejects.toThrow(HeddleError);
    // How much a gzipped file can hold is only bounded before it is inflated.
    await expect(zipped).rejects.toThrow(message.source.startsWith("short") ? /short/ : message);
  });

  test("every cut of a valid file is refused", () => {
    for (let length = 0; length < good.length; length++)
      expect(() => parseIdx(good.subarray(0, length), "cut")).toThrow(/short/);
  });

  test("damaged gzip data", async () => {
    const zipped = gzipSync(
      idxBytes(
        0x08,
        [3000],
        Array.from({ length: 3000 }, (_unused, index) => (index * 7919) % 251),
      ),
    );
    await expect(readIdx(write(zipped.subarray(0, zipped.length - 10)))).rejects.toThrow(/gzip data is damaged/);
    const flipped = Buffer.from(zipped);
    flipped.writeUInt8(flipped.readUInt8(200) ^ 0xff, 200);
    await expect(readIdx(write(flipped))).rejects.toThrow(/gzip data is damaged|trailing|short/);
    await expect(readIdx(write(Buffer.from([0x1f, 0x8b])))).rejects.toThrow(/gzip data is damaged|short/);
  });

  test("a small gzip file that inflates beyond its declared size is stopped", async () => {
    const bomb = gzipSync(Buffer.concat([idxBytes(0x08, [10]), Buffer.alloc(50_000_000)]));
    await expect(readIdx(write(bomb))).rejects.toThrow(/trailing bytes/);
  });

  test("a missing file, a folder, an abort, a lower limit", async () => {
    await expect(readIdx(join(folder, "nothing"))).rejects.toThrow(/cannot read .*nothing: no such file/);
    expect(() => readIdxHeader(join(folder, "nothing"))).toThrow(/no such file/);
    await expect(readIdx(folder)).rejects.toThrow(/it is a folder/);
    expect(() => readIdxHeader(folder)).toThrow(/it is a folder/);
    await expect(readIdx(write(good), { signal: AbortSignal.abort(new Error("stop")) })).rejects.toThrow("stop");
    await expect(readIdx(write(good), { maxBytes: 5 })).rejects.toThrow(/the limit is 5/);
  });
});

describe("data.idx", () => {
  const images = (count: number): string =>
    write(
      idxBytes(
        0x08,
        [count, 2, 2],
        Array.from({ length: count * 4 }, (_unused, index) => index),
      ),
    );
  const labels = (count: number): string =>
    write(
      idxBytes(
        0x08,
        [count],
        Array.from({ length: count }, (_unused, index) => index),
      ),
    );

  test("images get a channel dim and become f32 in the graph, labels i32", async () => {
    const dataset = idx(images(3), labels(3));
    const [x, y] = [...dataset.columns.values()];
    expect([x?.shape, x?.dtype, x?.transform]).toEqual([[3, 1, 2, 2], "u8", { dtype: "f32", scale: 1 / 255 }]);
    expect([y?.shape, y?.dtype, y?.transform]).toEqual([[3], "u8", { dtype: "i32" }]);
    if (x === undefined) throw new Error("no column");
    expect((await hostGather(x, Int32Array.of(2))).data).toEqual(Uint8Array.of(8, 9, 10, 11));
    expect(await x.load()).toBe(await x.load());
  });

  test("a file that is replaced after the header was read is noticed, and may come back", async () => {
    const path = images(2);
    utimesSync(path, 1e9, 1e9);
    const made = statSync(path);
    const column = idx(path, labels(2)).columns.get("x");
    writeFileSync(path, idxBytes(0x08, [1, 2, 2], [1, 2, 3, 4]));
    await expect(column?.load()).rejects.toThrow(/has changed since/);
    writeFileSync(path, idxBytes(0x08, [2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]));
    // The time of a file is a part of what it is.
    await expect(column?.load()).rejects.toThrow(/has changed since/);
    utimesSync(path, made.atime, made.mtime);
    expect((await column?.load())?.length).toBe(8);
  });

  test.each<[string, () => unknown, RegExp]>([
    ["labels that are images", () => idx(labels(3), images(3)), /labels have one dim, but its shape is \[3,2,2\]/],
    ["different counts", () => idx(images(3), labels(2)), /holds 3 images, .* 2 labels/],
    ["a missing file", () => idx(images(3), join(folder, "none")), /cannot read .*none: no such file/],
  ])("%s", (_name, build, message) => {
    expect(build).toThrow(message);
  });
});

describe("data.mnist", () => {
  test("the package's files: 60,000 and 10,000 digits", async () => {
    const [train, held] = [mnist("train"), mnist("test")];
    expect([train.length, held.length]).toEqual([60_000, 10_000]);
    expect(train.columns.get("x")?.shape).toEqual([60_000, 1, 28, 28]);
    expect(train.batch(128).batchSizes).toEqual([128, 96]);
    const y = await held.columns.get("y")?.load();
    const counts = Array.from({ length: 10 }, (_unused, digit) => y?.filter((label) => label === digit).length);
    // As published: the counts of each digit among the 10,000.
    expect(counts).toEqual([980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);
    const x = (await train.columns.get("x")?.load()) as Uint8Array;
    // Mean of all pixels of the training images, as widely used for normalisation: 0.1307.
    let sum = 0;
    for (const value of x) sum += value;
    expect(sum / x.length / 255).toBeCloseTo(0.1307, 4);
  });

  test("a folder, given or by HEDDLE_DATA, plain or gzipped", () => {
    const directory = mkdtempSync(join(folder, "mnist-"));
    writeFileSync(join(directory, "t10k-images.idx3-ubyte"), idxBytes(0x08, [1, 28, 28], Array(784).fill(1)));
    writeFileSync(join(directory, "t10k-labels-idx1-ubyte.gz"), gzipSync(idxBytes(0x08, [1], [7])));
    expect(mnist("test", { directory }).length).toBe(1);
    expect(() => mnist("train", { directory })).toThrow(
      /mnist-\w+ lacks train-images-idx3-ubyte and train-labels-idx1-ubyte; it holds t10k-images\.idx3-ubyte, t10k-labels/,
    );
    expect(() => mnist("train", { directory: join(directory, "gone") })).toThrow(/there is no folder .*gone/);
    const before = process.env["HEDDLE_DATA"];
    process.env["HEDDLE_DATA"] = directory;
    try {
      expect(mnist("test").length).toBe(1);
    } finally {
      if (before === undefined) delete process.env["HEDDLE_DATA"];
      else process.env["HEDDLE_DATA"] = before;
    }
  });

  test("a folder without labels is named, with what is there", () => {
    const directory = mkdtempSync(join(folder, "half-"));
    writeFileSync(join(directory, "t10k-images-idx3-ubyte"), idxBytes(0x08, [1, 28, 28], Array(784).fill(1)));
    const message = `${directory} lacks t10k-labels-idx1-ubyte; it holds t10k-images-idx3-ubyte`;
    expect(() => mnist("test", { directory })).toThrow(message);
    // The folder of the environment is told likewise, not passed over.
    const before = process.env["HEDDLE_DATA"];
    process.env["HEDDLE_DATA"] = directory;
    try {
      expect(() => mnist("test")).toThrow(message);
    } finally {
      if (before === undefined) delete process.env["HEDDLE_DATA"];
      else process.env["HEDDLE_DATA"] = before;
    }
  });

  test("images of another size and another part are refused", () => {
    const directory = mkdtempSync(join(folder, "other-"));
    writeFileSync(join(directory, "t10k-images-idx3-ubyte"), idxBytes(0x08, [1, 2, 2], [1, 2, 3, 4]));
    writeFileSync(join(directory, "t10k-labels-idx1-ubyte"), idxBytes(0x08, [1], [7]));
    expect(() => mnist("test", { directory })).toThrow(/28 by 28, these are 2 by 2/);
    expect(() => mnist("validation" as "test")).toThrow(/the part is "train" or "test"/);
  });
});
