import { describe, expect, test } from "vitest";
import { fromRows, type RecordBatches, type Records, streamed, toDataset } from "../../src/data/index.ts";
import "../../src/train/index.ts";
import type { DType } from "../../src/ir/dtype.ts";
import { HeddleError } from "../../src/util/errors.ts";

const first = async <Row>(batches: RecordBatches<Row>) => {
  for await (const { columns } of batches.host()) return columns;
  return {};
};
const ofY = (...values: readonly unknown[]): Records<{ y: unknown }> => fromRows(values.map((y) => ({ y })));

describe("values that a dtype does not have", () => {
  test.each<[string, readonly unknown[], DType | undefined, RegExp]>([
    ["NaN", [0, Number.NaN], "i32", /record 1: column "y": NaN is not a value of i32/],
    ["a fraction", [0, 1.9], "i32", /record 1: column "y": 1.9 is not a value of i32/],
    ["above u8", [300], "u8", /record 0: column "y": 300 is not a value of u8/],
    ["below u8", [1, 2, -1], "u8", /record 2: column "y": -1 is not a value of u8/],
    ["above i32", [2 ** 31], "i32", /2147483648 is not a value of i32/],
    ["a fraction of i64", [1.5], "i64", /1.5 is not a value of i64/],
    ["a bigint above 64 bits", [2n ** 70n], undefined, /is not a value of i64/],
    ["a truth value of 2", [true, 2], undefined, /record 1: column "y": 2 is not a value of bool/],
    [
      "a vector's value",
      [
        [0, 1],
        [2, 3.5],
      ],
      "i32",
      /record 1: column "y": value 1: 3.5 is not a value of i32/,
    ],
    ["a text in a vector", [[0, "a"]], undefined, /value 1: "?a"? is not a number/],
    ["a typed vector of another dtype", [Float32Array.of(0.5)], "u8", /value 0: 0.5 is not a value of u8/],
    ["too large for f32", [1e39], undefined, /1e\+39 is too large for f32/],
    ["too large for a named f32", [1e39], "f32", /1e\+39 is too large for f32/],
    [
      "a whole number that f32 cannot hold",
      [1, 16_777_217],
      undefined,
      /record 1: column "y": f32 holds 16777216 .* 16777217\n.*dtypes: \{ y: "f64"/s,
    ],
    ["such a number in a vector", [[1, 16_777_217]], undefined, /value 1: f32 holds 16777216/],
    ["texts", ["a"], "i32", /column "y" is string, which dtypes cannot make i32 of/],
    ["an unknown dtype", [1], "i31" as DType, /column "y": dtype "i31" is unknown/],
  ])("%s", async (_what, values, dtype, message) => {
    const dtypes = dtype === undefined ? {} : { dtypes: { y: dtype } };
    await expect(first(ofY(...values).batch(10, dtypes))).rejects.toThrow(message);
    await expect(toDataset(ofY(...values), dtypes)).rejects.toThrow(message);
  });
  test("what fits is taken, rounded where a float is named", async () => {
    const values = async (given: readonly unknown[], dtype?: DType) => {
      const { y } = (await first(
        ofY(...given).batch(10, dtype === undefined ? {} : { dtypes: { y: dtype } }),
      )) as unknown as {
        y: { data: ArrayLike<number>; dtype: DType };
      };
      return [y.dtype, ...Array.from(y.data)];
    };
    expect(await values([16_777_217, 0.1], "f32")).toEqual(["f32", 16_777_216, Math.fround(0.1)]);
    expect(await values([Number.NaN, 1e20, -0, Number.POSITIVE_INFINITY])).toEqual([
      "f32",
      Number.NaN,
      Math.fround(1e20),
      -0,
      Number.POSITIVE_INFINITY,
    ]);
    expect(await values([16_777_217], "i32")).toEqual(["i32", 16_777_217]);
    expect(await values([true, 0, 1])).toEqual(["bool", 1, 0, 1]);
    expect(await values([1, 2n], "i64")).toEqual(["i64", 1n, 2n]);
    expect(await values([1 / 3], "bf16")).toEqual(["bf16", 0.333984375]);
    expect(await values([-0, 255], "u8")).toEqual(["u8", 0, 255]);
  });
  test("typed columns are converted by the same rule", async () => {
    const typed = (values: Int32Array | BigInt64Array) => async (dtype: DType) => {
      const records = ofY(...values);
      const { node } = records;
      const piece = { length: values.length, columns: { y: values } };
      const source = Object.assign(Object.create(Object.getPrototypeOf(records)), {
        node: {
          ...node,
          read: async function* () {
            yield piece;
          },
        },
      }) as typeof records;
      return first(source.batch(10, { dtypes: { y: dtype } }));
    };
    await expect(typed(Int32Array.of(1, 300))("u8")).rejects.toThrow(/record 1: column "y": 300 is not a value of u8/);
    expect(await typed(BigInt64Array.of(7n))("f32")).toMatchObject({ y: { dtype: "f32", data: Float32Array.of(7) } });
  });
  test("a stream keeps the rule for later records", async () => {
    const rows = Int32Array.of(1);
    const read = async (...values: readonly unknown[]) => {
      const column = (await streamed(ofY(...values))).columns.get("y");
      return column?.read?.(rows, { epoch: 0, seed: 0 });
    };
    await expect(read(1, 16_777_217)).rejects.toThrow(/record 1: column "y": f32 holds 16777216/);
    await expect(read(1, true)).rejects.toThrow(/column "y" is bool, the first record's f32/);
  });
});

describe("options that do not fit", () => {
  test.each<[string, () => unknown, RegExp]>([
    [
      "dtypes of no column",
      () => first(ofY(1).batch(1, { dtypes: { z: "i32" } as never })),
      /dtypes names "z", which the records do not have\n.*columns are y/s,
    ],
    [
      "dtypes of no column of a dataset",
      () => toDataset(ofY(1), { dtypes: { z: "i32" } as never }),
      /toDataset: dtypes names "z"/,
    ],
    [
      "transforms of no column",
      () => toDataset(ofY(1), { transforms: { z: { dtype: "f32" } } as never }),
      /transforms names "z"/,
    ],
    [
      "a pad that the dtype does not have",
      () => first(ofY([1], [2, 3]).batch(2, { pad: -1, dtypes: { y: "u8" } })),
      /pad: column "y" is u8; -1 is not a value of u8/,
    ],
    [
      "a longer stream than its records",
      () => streamed(ofY(1, 2, 3, 4, 5), { length: 9 }),
      /streamed: length is 9, but there are 5 records/,
    ],
  ])("%s", async (_what, run, message) => {
    const error = await Promise.resolve()
      .then(run)
      .then(
        () => undefined,
        (reason: unknown) => reason,
      );
    expect(error).toBeInstanceOf(HeddleError);
    expect((error as HeddleError).message).toMatch(message);
  });
});

test("ragged vectors are lists, also where they are equally long", async () => {
  expect(await first(ofY([1], [2]).batch(2, { ragged: true }))).toEqual({ y: [[1], [2]] });
  const made = await first(ofY([1], [2, 3]).batch(2, { ragged: true, dtypes: { y: "i32" } }));
  expect(made).toEqual({ y: [Int32Array.of(1), Int32Array.of(2, 3)] });
});
