import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zipSync } from "fflate";
import { data, io, tensor } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { type DType, dtypes, isDType } from "../../src/ir/dtype.ts";
import type { HostTensor } from "../../src/ir/node.ts";
import { fixture } from "../fixtures/fixture.ts";

interface Case {
  readonly name: string;
  readonly kind: string;
  readonly shape: readonly number[];
  readonly values: readonly number[];
  readonly file: string;
}

const cases = fixture<Case>("npy").map((one) => ({ ...one, bytes: new Uint8Array(Buffer.from(one.file, "base64")) }));
const named = (name: string): Uint8Array => cases.find((one) => one.name === name)?.bytes as Uint8Array;
// NumPy's letters and bytes for our dtypes; those that this build lacks are refused.
const names: Record<string, string> = {
  f2: "f16",
  f4: "f32",
  f8: "f64",
  i1: "i8",
  i4: "i32",
  i8: "i64",
  u1: "u8",
  u4: "u32",
  u8: "u64",
  b1: "bool",
};
const folder = mkdtempSync(join(tmpdir(), "heddle-npy-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const latin = (text: string): Uint8Array => Uint8Array.from(text, (letter) => letter.charCodeAt(0));

/** A version 1 file with this header and as many bytes of values. */
function npy(header: string, values: number): Uint8Array {
  const bytes = new Uint8Array(10 + header.length + values);
  bytes.set(latin(`\x93NUMPY\x01\x00`));
  new DataView(bytes.buffer).setUint16(8, header.length, true);
  bytes.set(latin(header), 10);
  return bytes;
}

describe("npy", () => {
  test.each(cases.filter(({ kind }) => kind !== "npz"))("reads $name as NumPy wrote it", ({ kind, ...one }) => {
    const dtype = names[kind] as string;
    if (!isDType(dtype)) {
      expect(() => io.decodeNpy(one.bytes)).toThrow(/which is not supported/);
      return;
    }
    const read = io.decodeNpy(one.bytes);
    expect([read.dtype, read.shape]).toEqual([dtype, one.shape]);
    expect(Array.from(read.data, Number)).toEqual(one.values);
  });

  test("writes the bytes that NumPy writes", () => {
    const rows = cases.filter(
      ({ name, kind }) => / C$|scalar|vector|empty/.test(name) && isDType(names[kind] as string),
    );
    expect(rows.length).toBeGreaterThan(8);
    for (const { bytes } of rows) expect(io.encodeNpy(io.decodeNpy(bytes))).toEqual(bytes);
  });

  test("every dtype comes back from a file, whole or not at all", async () => {
    for (const dtype of Object.keys(dtypes) as DType[]) {
      if (!Object.values(names).includes(dtype)) continue;
      const host = { dtype, shape: [2, 1], data: dtypes[dtype].create(2) };
      await io.writeNpy(join(folder, `${dtype}.npy`), host);
      expect(await io.readNpy(join(folder, `${dtype}.npy`))).toEqual(host);
    }
    await io.writeNpy(join(folder, "tensor.npy"), tensor([[1, 2]]));
    expect(await io.readNpy(join(folder, "tensor.npy"))).toMatchObject({ dtype: "f32", shape: [1, 2] });
    expect(readdirSync(folder).filter((name) => !name.endsWith(".npy"))).toEqual([]);
  });

  test.each([
    ["i2", false, [-(2 ** 15), 258]],
    ["u2", false, [50_256, 1]],
    ["u2", true, [1, 2 ** 16 - 1]],
  ] as const)("integers of 16 bits, %s, big-endian %s, are read as i32", (kind, big, values) => {
    const text = `{'descr': '${big ? ">" : "<"}${kind}', 'fortran_order': ${big ? "True" : "False"}, 'shape': (1, 2), }`;
    const bytes = npy(text, 4);
    const view = new DataView(bytes.buffer, bytes.length - 4);
    for (const [index, value] of values.entries()) view.setInt16(2 * index, value, !big);
    expect(io.decodeNpy(bytes)).toEqual({ dtype: "i32", shape: [1, 2], data: Int32Array.from(values) });
    expect(() => io.decodeNpy(bytes.subarray(0, -1))).toThrow(`${kind.replace("2", "16")}[1,2] takes 4 bytes`);
  });

  const header = (text: string): [string, Uint8Array] => [text, npy(text, 8)];
  const fine = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  test("a header with spaces and other quotes is read", () => {
    expect(io.decodeNpy(npy(fine, 8)).shape).toEqual([2]);
    expect(io.decodeNpy(npy('{"shape":(2L,),"descr":"<f4","fortran_order":True}', 8)).shape).toEqual([2]);
  });
  test.each([
    ["no magic", latin("NUMPY file of something else"), /does not begin with/],
    ["nothing", new Uint8Array(), /it is empty/],
    ["version 9", Uint8Array.of(...latin("\x93NUMPY\x09\x00"), 4, 0, 0, 0, 0), /version 9\.0 is unknown/],
    ["a header of 4 GB", Uint8Array.of(...latin("\x93NUMPY\x02\x00"), 255, 255, 255, 255, 0), /limit is 65536/],
    ["one value too few", npy(fine, 7), /takes 8 bytes, 7 are there/],
    ["one byte too many", npy(fine, 9), /takes 8 bytes, 9 are there/],
    [...header("{'descr': '<f4', 'fortran_order': False}"), /has the fields descr, fortran_order/],
    [...header("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}"), /neither True nor False/],
    [...header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"), /cannot be read/],
    [...header("{'descr': '<f4', 'fortran_order': False, 'shape': (9007199254740993,)}"), /shape is not a tuple/],
    [
      ...header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 99999999, 99999999)}"),
      /takes 3999\d+ bytes/,
    ],
    [...header("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"), /objects are pickles/],
    [...header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), /records and dates/],
    [...header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), /wrong or repeated name/],
    [...header("{'descr': __import__('os').system('x'), 'shape': (2,)}"), /cannot be read/],
    [...header(`{'descr': ${"(".repeat(2000)}`), /nested too deeply/],
    [...header(`${fine.trim()} 5`), /goes on after its dict/],
  ] as readonly (readonly [string, Uint8Array, RegExp])[])("refuses %s", (_name, bytes, message) => {
    expect(() => io.decodeNpy(bytes, "x.npy")).toThrow(message);
  });

  test("a file cut anywhere is an error", () => {
    const bytes = named("f4 C");
    for (let length = 0; length < bytes.length; length++)
      expect(() => io.decodeNpy(bytes.subarray(0, length))).toThrow(/is not a valid npy file/);
  });
});

describe("npyColumn", () => {
  test.each(cases.map(({ name, bytes }) => [name, bytes] as const))(
    "%s: rows are those of the whole file",
    async (_name, bytes) => {
      const path = join(folder, "column.npy");
      writeFileSync(path, bytes);
      const whole = await io.readNpy(path).catch(() => undefined);
      const column = await io.npyColumn("x", path).catch((error: unknown) => error as Error);
      if (whole === undefined || column instanceof Error) {
        // What cannot be read as a whole is refused, too, and so are files without rows that lie together.
        if (whole !== undefined) expect((column as Error).message).toMatch(/is a scalar|column by column/);
        return;
      }
      expect([column.name, column.shape, column.dtype]).toEqual(["x", whole.shape, whole.dtype]);
      const rows = whole.shape[0] as number;
      const width = whole.data.length / Math.max(1, rows);
      const backwards = Int32Array.from({ length: rows }, (_unused, at) => rows - 1 - at);
      const found = await column.read?.(backwards);
      const expected = Array.from(backwards).flatMap((row) =>
        Array.from(whole.data.subarray(row * width, (row + 1) * width)),
      );
      expect(Array.from(found ?? [])).toEqual(expected);
    },
  );
});

describe("npz", () => {
  test.each(["savez", "savez_compressed"])("reads what %s wrote, and a dataset takes it", async (name) => {
    const arrays = await io.decodeNpz(named(name));
    expect(arrays["x"]?.data.every((value) => value === 1.5)).toBe(true);
    expect(Array.from(arrays["y"]?.data ?? [])).toEqual(Array.from({ length: 40 }, (_unused, index) => index));
    const set = data.fromArrays(arrays);
    expect([set.length, set.columns.get("x")?.shape]).toEqual([40, [40, 50]]);
  });

  test.each([false, true])("comes back from a file (compress: %s)", async (compress) => {
    const path = join(folder, "arrays.npz");
    const arrays = { a: io.decodeNpy(named("f8 F")), "b/c": io.decodeNpy(named("b1 C")) };
    await io.writeNpz(path, arrays, { compress });
    expect(await io.readNpz(path)).toEqual(arrays);
    expect(Object.keys(await io.readNpz(path, { only: (name) => name === "a" }))).toEqual(["a"]);
  });

  test("a member that nobody asks for need not be understood, and one that is no array is left alone", async () => {
    const array = Uint8Array.from(io.encodeNpy({ dtype: "f32", shape: [2], data: Float32Array.of(1, 2) }));
    const zip = zipSync({ "a.npy": array, "odd.npy": new Uint8Array(3), "about.txt": new Uint8Array(5) }, { level: 0 });
    const view = new DataView(zip.buffer, zip.byteOffset);
    const place = [...zip.keys()].filter((at) => at + 46 < zip.length && view.getUint32(at, true) === 0x02014b50)[1];
    // As if it were encrypted.
    view.setUint16((place as number) + 8, 1, true);
    const only = (name: string) => name !== "odd";
    expect(Object.keys(await io.decodeNpz(zip, "x.npz", { only }))).toEqual(["a"]);
    await expect(io.decodeNpz(zip, "x.npz")).rejects.toThrow(/"odd.npy" is encrypted/);
  });

  test("names that repeat are found in one walk, and more than a zip holds is not written", async () => {
    const header = (name: string) => {
      const bytes = Buffer.alloc(46 + name.length);
      bytes.writeUInt32LE(0x02014b50, 0);
      bytes.writeUInt16LE(name.length, 28);
      bytes.write(name, 46);
      return bytes;
    };
    const names = Array.from({ length: 60_000 }, (_unused, index) => `${index}.npy`);
    const directory = Buffer.concat([...names, "7.npy"].map(header));
    const end = Buffer.alloc(22);
    end.writeUInt32LE(0x06054b50, 0);
    end.writeUInt16LE(names.length + 1, 10);
    end.writeUInt32LE(directory.length, 12);
    await expect(io.decodeNpz(Buffer.concat([directory, end]))).rejects.toThrow(/"7.npy" appears twice/);
    const one: HostTensor = { dtype: "f32", shape: [], data: Float32Array.of(1) };
    const many = Object.fromEntries(Array.from({ length: 65_535 }, (_unused, index) => [index, one]));
    expect(() => io.encodeNpz(many)).toThrow(/65535 arrays .* are more than a zip holds/);
  });

  test("a bomb is refused before it is opened", async () => {
    const bomb = zipSync({ "x.npy": [new Uint8Array(2 ** 24), { level: 9 }] });
    expect(bomb.length).toBeLessThan(2 ** 16);
    await expect(io.decodeNpz(bomb, "x.npz", { limit: 2 ** 20 })).rejects.toThrow(/holds 16.*, the limit is 1/);
    // A directory that lies: more than deflate can make of so few bytes, and less than it makes.
    const view = new DataView(bomb.buffer, bomb.byteOffset);
    const directory = [...bomb.keys()].findLast(
      (index) => view.byteLength - index > 46 && view.getUint32(index, true) === 0x02014b50,
    );
    view.setUint32((directory as number) + 24, 2 ** 31, true);
    await expect(io.decodeNpz(bomb, "x.npz")).rejects.toThrow(/cannot be 2147483648 bytes/);
    view.setUint32((directory as number) + 24, 2 ** 23, true);
    await expect(io.decodeNpz(bomb, "x.npz")).rejects.toThrow(/is not 8388608 bytes|cannot be decompressed/);
  });

  test.each(["savez", "savez_compressed"])(
    "%s cut or with a bit changed is an error or the same arrays",
    async (name) => {
      const bytes = named(name);
      const whole = await io.decodeNpz(bytes);
      for (let length = 0; length < bytes.length; length += 37)
        await expect(io.decodeNpz(bytes.subarray(0, length))).rejects.toThrow(/is not a valid npz file/);
      for (let place = 0; place < bytes.length; place += 29) {
        const changed = bytes.slice();
        changed[place] = (changed[place] as number) ^ 4;
        // Times and local names are not read: a change there goes unseen. One that is no longer named .npy is no array.
        const read = await io.decodeNpz(changed).catch((error: Error) => error);
        if (read instanceof Error) expect(read.name).toBe("HeddleError");
        else expect(Object.values(whole)).toEqual(expect.arrayContaining(Object.values(read)));
      }
    },
  );
});
