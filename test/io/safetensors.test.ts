import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { io } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import {
  decodeSafetensors,
  encodeSafetensors,
  type HostTensor,
  layoutSafetensors,
  readSafetensors,
  safetensorsChunks,
  saveSafetensors,
} from "../../src/io/safetensors.ts";
import { type DType, dtypeNames, dtypes } from "../../src/ir/dtype.ts";
import { HeddleError } from "../../src/util/errors.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-safetensors-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A file put together apart from the writer; `length` overrides the header length it declares. */
function file(header: string | object, data: Uint8Array = new Uint8Array(0), length?: bigint): Buffer {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const start = Buffer.alloc(8);
  start.writeBigUInt64LE(length ?? BigInt(json.length));
  return Buffer.concat([start, json, data]);
}

const f32 = (shape: number[], ...values: number[]): HostTensor => ({
  dtype: "f32",
  shape,
  data: Float32Array.from(values),
});

describe("format", () => {
  test("bytes are those of the specification", () => {
    const json = '{"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}';
    const values = Buffer.from(new Float32Array([0, 1, 2, 3, 4, 5]).buffer);
    // 65 bytes of JSON, padded with spaces to 72 so that the values are aligned.
    expect(Buffer.from(encodeSafetensors(new Map([["attn0", f32([1, 1, 2, 3], 0, 1, 2, 3, 4, 5)]])))).toEqual(
      file(json.padEnd(72), values),
    );
    expect(Buffer.from(encodeSafetensors(new Map()))).toEqual(file("{}      "));
    expect(Buffer.from(encodeSafetensors(new Map(), new Map([["framework", "pt"]])))).toEqual(
      file('{"__metadata__":{"framework":"pt"}}     '),
    );
  });

  test("wide dtypes come first, then names; the order of the map does not matter", () => {
    const tensors: [string, HostTensor][] = [
      ["b", { dtype: "u8", shape: [1], data: Uint8Array.of(1) }],
      ["z", { dtype: "f64", shape: [1], data: Float64Array.of(1) }],
      ["y", f32([1], 1)],
      ["a", f32([1], 2)],
    ];
    const bytes = encodeSafetensors(new Map(tensors));
    expect(bytes).toEqual(encodeSafetensors(new Map(tensors.reverse())));
    expect([...decodeSafetensors(bytes, "memory").tensors.keys()]).toEqual(["z", "a", "y", "b"]);
  });

  const tensor = fc
    .record({
      dtype: fc.constantFrom<DType[]>(...dtypeNames),
      shape: fc.array(fc.nat({ max: 4 }), { maxLength: 4 }),
      seed: fc.nat(),
    })
    .map(({ dtype, shape, seed }): HostTensor => {
      const size = shape.reduce((product, dim) => product * dim, 1);
      const values = Array.from(
        { length: size },
        (_unused, index) => ((seed + index) * 2654435761) % (dtype === "bool" ? 2 : 251),
      );
      return {
        dtype,
        shape,
        data: dtypes[dtype].create(values.map((value) => (dtype === "bool" ? Math.abs(value % 2) : value))),
      };
    });

  test("what is written is read, in memory and through a file", async () => {
    const path = join(folder, "round.safetensors");
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.string({ unit: "grapheme" }), tensor),
        fc.dictionary(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme" })),
        async (named, texts) => {
          const tensors = new Map(Object.entries(named).filter(([name]) => name !== "__metadata__"));
          const metadata = new Map(Object.entries(texts));
          const decoded = decodeSafetensors(Buffer.from(encodeSafetensors(tensors, metadata)), "memory");
          await saveSafetensors(path, tensors, { metadata });
          for (const result of [decoded, await readSafetensors(path)]) {
            expect(result.metadata).toEqual(metadata);
            expect(result.tensors).toEqual(tensors);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test("special floats keep their bits, names like __proto__ are only names", () => {
    const data = new Float64Array([Number.NaN, -0, -Infinity, 5e-324]);
    const tensors = new Map<string, HostTensor>([
      ["__proto__", { dtype: "f64", shape: [4], data }],
      ["constructor", f32([], 7)],
    ]);
    const read = decodeSafetensors(encodeSafetensors(tensors, new Map([["__proto__", "x"]])), "memory");
    expect(read.tensors.get("__proto__")?.data).toEqual(data);
    expect(read.tensors.get("constructor")?.shape).toEqual([]);
    expect(read.metadata.get("__proto__")).toBe("x");
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  test("a large tensor is written in views of it, not in copies", () => {
    const data = new Float32Array(1_000_000);
    const layout = layoutSafetensors(new Map([["w", { dtype: "f32", shape: [1000, 1000], data }]]));
    const chunks = [...safetensorsChunks(layout)];
    expect(chunks.slice(1).every((chunk) => chunk.buffer === data.buffer && chunk.length <= 256 * 1024)).toBe(true);
    expect(chunks.reduce((sum, chunk) => sum + chunk.length, 0)).toBe(layout.bytes);
  });

  test("views into larger buffers are written as they are seen", () => {
    const data = new Float32Array([9, 1, 2, 9]).subarray(1, 3);
    expect(
      decodeSafetensors(encodeSafetensors(new Map([["v", { dtype: "f32", shape: [2], data }]])), "m").tensors.get("v")
        ?.data,
    ).toEqual(Float32Array.of(1, 2));
  });

  test("only the tensors asked for are read", async () => {
    const path = join(folder, "some.safetensors");
    await saveSafetensors(
      path,
      new Map([
        ["a/x", f32([1], 1)],
        ["b/x", f32([1], 2)],
      ]),
    );
    expect([...(await readSafetensors(path, { only: (name) => name.startsWith("b/") })).tensors]).toEqual([
      ["b/x", f32([1], 2)],
    ]);
    expect(readdirSync(folder).filter((name) => name.includes(".tmp-"))).toEqual([]);
  });

  test("a dtype that Heddle lacks is refused by name, and only when it is read", async () => {
    const path = join(folder, "half.safetensors");
    const entry = (dtype: string, begin: number, end: number): object => ({
      dtype,
      shape: [1],
      data_offsets: [begin, end],
    });
    writeFileSync(path, file({ h: entry("F8_E5M2", 0, 1), b: entry("U8", 1, 2) }, Buffer.from([0, 5])));
    await expect(readSafetensors(path)).rejects.toThrow(/tensor "h" of .* is F8_E5M2, which is not supported/);
    expect((await readSafetensors(path, { only: (name) => name === "b" })).tensors.get("b")?.data).toEqual(
      Uint8Array.of(5),
    );
  });
});

test("what is not asked for need not be understood: new dtypes, more fields, metadata that is no text", async () => {
  const path = join(folder, "new.safetensors");
  const b = { dtype: "F32", shape: [2], data_offsets: [0, 8] };
  const header = {
    __metadata__: { format: "pt", count: 1 },
    b: { ...b, scale: 2 },
    // Two values in a byte, and a float of 8 bits.
    four: { dtype: "F4", shape: [2, 2], data_offsets: [8, 10] },
    eight: { dtype: "F8_E4M3FNUZ", shape: [2], data_offsets: [10, 12] },
  };
  writeFileSync(path, file(header, Buffer.concat([Buffer.from(Float32Array.of(1, 2).buffer), Buffer.alloc(4)])));
  const only = (name: string) => name === "b";
  const { tensors, metadata } = await readSafetensors(path, { only });
  expect([[...tensors], [...metadata]]).toEqual([[["b", f32([2], 1, 2)]], [["format", "pt"]]]);
  expect(await (await io.loadTensors(path, { only }))["b"]?.array()).toEqual([1, 2]);
  await expect(io.loadTensors(path)).rejects.toThrow(/"four" of .* is F4, which is not supported/);
});

describe("malformed files", () => {
  const entry = (begin: unknown, end: unknown, shape: unknown = [2], dtype: unknown = "F32"): object => ({
    dtype,
    shape,
    data_offsets: [begin, end],
  });
  const eight = Buffer.alloc(8);
  test.each<[string, Buffer, RegExp]>([
    ["empty", Buffer.alloc(0), /it is empty/],
    ["seven bytes", Buffer.alloc(7), /7 bytes/],
    ["no header", Buffer.alloc(8), /does not start with \{/],
    ["header longer than the file", file("{}", eight, 100n), /header of 100 bytes in a file of 18/],
    ["header of 2^64 - 1", file("{}", eight, 2n ** 64n - 1n), /header of 18446744073709551615 bytes, the limit/],
    ["header of 101 MB", file("{}", eight, 101_000_000n), /the limit is 100000000/],
    ["header cut", file({ a: entry(0, 8) }, eight, 10n), /not JSON/],
    ["leading space", file(" {}"), /does not start with/],
    ["byte order mark", file("\ufeff{}"), /does not start with/],
    ["not UTF-8", Buffer.concat([file("", undefined, 4n), Buffer.from([0x7b, 0xff, 0xfe, 0x7d])]), /not JSON/],
    ["array", file("[1]"), /does not start with/],
    ["two objects", file("{}{}"), /not JSON/],
    ["nested a million deep", file(`{"a":${"[".repeat(1_000_000)}`), /not JSON|not a valid/],
    [
      "name twice",
      file(
        '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        eight,
      ),
      /appears twice/,
    ],
    [
      "name twice, once escaped",
      file(
        '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"\\u0061" :{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        eight,
      ),
      /appears twice/,
    ],
    [
      "dtype twice",
      file('{"a":{"dtype":"F64","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight),
      /appears twice/,
    ],
    ["metadata not an object", file({ __metadata__: [] }), /is not an object/],
    ["tensor is null", file({ a: null }), /"a" is not/],
    ["missing offsets", file({ a: { dtype: "F32", shape: [2] } }, eight), /"a" has no pair of data_offsets/],
    ["unknown dtype", file({ a: entry(0, 8, [2], "Q4") }, eight), /"a" of .* is Q4, which is not supported/],
    [
      "dtype from the prototype",
      file({ a: entry(0, 8, [2], "constructor") }, eight),
      /is constructor, which is not supported/,
    ],
    ["dtype not text", file({ a: entry(0, 8, [2], 3) }, eight), /has 3 for a dtype/],
    ["negative size", file({ a: entry(0, 8, [-2]) }, eight), /no shape/],
    ["fractional size", file({ a: entry(0, 8, [0.5, 4]) }, eight), /no shape/],
    ["size as text", file({ a: entry(0, 8, ["2"]) }, eight), /no shape/],
    ["shape not a list", file({ a: entry(0, 8, 2) }, eight), /no shape/],
    ["too many dims", file({ a: entry(0, 8, Array(33).fill(1)) }, eight), /at most 32/],
    ["product overflows", file({ a: entry(0, 8, [2 ** 40, 2 ** 40]) }, eight), /takes 4835703278458516698824704 bytes/],
    [
      "product overflows to zero in 64 bits",
      file({ a: entry(0, 0, [2 ** 32, 2 ** 32]) }),
      /takes 73786976294838206464 bytes/,
    ],
    [
      "offsets not a pair",
      file({ a: { dtype: "F32", shape: [2], data_offsets: [0, 4, 8] } }, eight),
      /no pair of data_offsets/,
    ],
    ["negative offset", file({ a: entry(-8, 0) }, eight), /no pair of data_offsets/],
    ["end before begin", file({ a: entry(8, 0) }, eight), /offsets 8 to 0/],
    [
      "offset beyond 2^53",
      file('{"a":{"dtype":"F32","shape":[2],"data_offsets":[9007199254740992,9007199254741000]}}', eight),
      /no pair of data_offsets/,
    ],
    ["size does not match", file({ a: entry(0, 4) }, eight), /offsets 0 to 4, but F32\[2\] takes 8/],
    ["past the end", file({ a: entry(0, 8) }, Buffer.alloc(4)), /its tensors end at byte/],
    ["hole at the start", file({ a: entry(8, 16) }, Buffer.alloc(16)), /"a" leaves a hole/],
    ["hole between", file({ a: entry(0, 8), b: entry(12, 20) }, Buffer.alloc(20)), /"b" leaves a hole/],
    ["overlap", file({ a: entry(0, 8), b: entry(4, 12) }, Buffer.alloc(12)), /"b" overlaps/],
    ["the same place twice", file({ a: entry(0, 8), b: entry(0, 8) }, eight), /"b" overlaps/],
    ["bytes after the last tensor", file({ a: entry(0, 8) }, Buffer.alloc(9)), /the file at/],
    ["bytes without tensors", file("{}", eight), /the file at/],
    ["BOOL that is 2", file({ a: entry(0, 2, [2], "BOOL") }, Buffer.from([1, 2])), /bytes other than 0 and 1/],
  ])("%s", async (_name, bytes, message) => {
    expect(() => decodeSafetensors(bytes, "weights")).toThrow(HeddleError);
    expect(() => decodeSafetensors(bytes, "weights")).toThrow(message);
    const path = join(folder, "malformed.safetensors");
    writeFileSync(path, bytes);
    await expect(readSafetensors(path)).rejects.toThrow(message);
  });

  test("any bytes, and any change of a valid file, are read or refused with a HeddleError", () => {
    const valid = encodeSafetensors(
      new Map([
        ["a", f32([2], 1, 2)],
        ["b", { dtype: "bool", shape: [3], data: Uint8Array.of(0, 1, 1) }],
      ]),
    );
    const attempt = (bytes: Uint8Array): void => {
      try {
        decodeSafetensors(bytes, "fuzz");
      } catch (error) {
        expect(error).toBeInstanceOf(HeddleError);
        expect((error as HeddleError).code).toMatch(/format|dtype/);
      }
    };
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), attempt), { numRuns: 500 });
    fc.assert(
      fc.property(fc.nat({ max: valid.length - 1 }), fc.nat({ max: 255 }), (position, value) => {
        const changed = Uint8Array.from(valid);
        changed[position] = value;
        attempt(changed);
      }),
      { numRuns: 2000 },
    );
    for (let length = 0; length < valid.length; length++) {
      expect(() => decodeSafetensors(valid.subarray(0, length), "cut")).toThrow(HeddleError);
    }
  });

  test.each<[string, HostTensor, RegExp]>([
    ["too few values", f32([3], 1, 2), /has 2 values of 4 bytes, not those of f32\[3\]/],
    ["values of another width", { dtype: "f64", shape: [2], data: Float32Array.of(1, 2) }, /not those of f64/],
    ["an unknown dtype", { dtype: "f8" as DType, shape: [2], data: Float32Array.of(1, 2) }, /unknown dtype "f8"/],
  ])("writing %s", (_name, tensor, message) => {
    expect(() => encodeSafetensors(new Map([["a", tensor]]))).toThrow(message);
  });

  test("the name __metadata__ is refused", () => {
    expect(() => encodeSafetensors(new Map([["__metadata__", f32([1], 1)]]))).toThrow(/cannot be named/);
  });

  test("a file that cannot be written leaves what was there", async () => {
    const path = join(folder, "kept.safetensors");
    await saveSafetensors(path, new Map([["a", f32([1], 1)]]));
    const before = readFileSync(path);
    await expect(saveSafetensors(path, new Map([["a", f32([2], 1)]]))).rejects.toThrow("values");
    await expect(saveSafetensors(path, new Map([["a", f32([1], 2)]]), { signal: AbortSignal.abort() })).rejects.toThrow(
      /abort/i,
    );
    expect(readFileSync(path)).toEqual(before);
  });
});
