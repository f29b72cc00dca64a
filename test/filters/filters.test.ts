/** Each filter beside what it promises: what arrives, in how many bytes, and that a NaN stays a NaN. */
import { compression } from "heddle";
import {
  bytesOf,
  chain,
  changed,
  codec,
  type Filter,
  filterKinds,
  filterNamed,
  fixedPoint,
  keyCaching,
  kkt,
  lossless,
  type Message,
  randomSkip,
  significant,
  wholePart,
} from "heddle/filters";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../support/tensors.ts";

/** A message of rows `[row number, values]` of one tensor `w` with 1000 rows. */
function message(rows: readonly (readonly [number, ...number[]])[], width = 1, dtype = Float64Array): Message {
  return {
    w: {
      count: 1000,
      width,
      rows: BigUint64Array.from(rows, ([row]) => BigInt(row)),
      values: dtype.from(rows.flatMap(([, ...values]) => values)),
      notes: [],
    },
  };
}

/** The rows of a message, as {@link message} takes them. */
function rowsIn({ w }: Message): number[][] {
  const { rows, values, width, count } = w as NonNullable<Message[string]>;
  const all = rows === undefined ? Array.from({ length: count }, (_unused, row) => BigInt(row)) : [...rows];
  return (all as bigint[]).map((row, index) => [Number(row), ...values.subarray(index * width, (index + 1) * width)]);
}

const through = (filter: Filter, sent: Message): Message => filter.receiver().decode(filter.sender().encode(sent));
const normals = (count: number, seed = 1): Float64Array => {
  const random = randomFrom(seed);
  return Float64Array.from({ length: count }, () => random() + random() + random() - 1.5);
};

describe("significant", () => {
  test("holds small rows back and adds them to the next", () => {
    const sender = significant(0.5).sender();
    expect(
      rowsIn(
        sender.encode(
          message([
            [1, 0.3],
            [2, 0.6],
            [3, -0.4],
          ]),
        ),
      ),
    ).toEqual([[2, 0.6]]);
    expect(
      rowsIn(
        sender.encode(
          message([
            [1, 0.3],
            [3, 0.1],
          ]),
        ),
      ),
    ).toEqual([[1, 0.6]]);
    expect(rowsIn(sender.encode(message([[5, 0]]), { all: true }))).toEqual([
      [3, -0.30000000000000004],
      [5, 0],
    ]);
  });

  test("what arrives and what is kept is what was given", () => {
    const sender = significant(2).sender();
    const random = randomFrom(3);
    const given = new Float64Array(20);
    const arrived = new Float64Array(20);
    const take = (sent: Message): void => {
      for (const [row = 0, value = 0] of rowsIn(sent)) (arrived[row] as number) += value;
    };
    for (let round = 0; round < 50; round++) {
      const rows = Array.from({ length: 20 }, (_unused, row) => row).filter(() => random() < 0.5);
      const values = rows.map((row) => [row, random() - 0.5] as const);
      for (const [row, value] of values) (given[row] as number) += value;
      take(sender.encode(message(values)));
    }
    expect(Math.max(...arrived.map((value, row) => Math.abs(value - (given[row] as number))))).toBeGreaterThan(0.1);
    take(sender.encode(message([]), { all: true }));
    for (const [row, value] of arrived.entries()) expect(value).toBeCloseTo(given[row] as number, 12);
  });

  test("does not change the message of the caller", () => {
    const sent = message([[1, 0.3]]);
    const sender = significant(1).sender();
    sender.encode(sent);
    sender.encode(sent);
    expect(rowsIn(sent)).toEqual([[1, 0.3]]);
  });
});

describe("changed", () => {
  test("the receiver has all rows, of which only those that differ travel", () => {
    const filter = changed(0.1);
    const [sender, receiver] = [filter.sender(), filter.receiver()];
    const rounds = [
      [
        [1, 1],
        [2, 2],
      ],
      [
        [1, 1.05],
        [2, 2.5],
      ],
      [
        [1, 1.05],
        [3, 3],
      ],
    ] as [number, number][][];
    const arrived = rounds.map((rows) => {
      const sent = sender.encode(message(rows));
      return [sent["w"]?.values.length, rowsIn(receiver.decode(sent))];
    });
    expect(arrived).toEqual([
      [
        2,
        [
          [1, 1],
          [2, 2],
        ],
      ],
      [
        1,
        [
          [1, 1],
          [2, 2.5],
        ],
      ],
      [
        1,
        [
          [1, 1],
          [3, 3],
        ],
      ],
    ]);
  });

  test("a receiver that has lost its rows is an error, until the sender forgets", () => {
    const filter = changed(0.1);
    const sender = filter.sender();
    filter.receiver().decode(sender.encode(message([[1, 1]])));
    const fresh = filter.receiver();
    expect(() => fresh.decode(sender.encode(message([[1, 1]])))).toThrow(/lacks the values of row 1/);
    sender.forget?.();
    expect(rowsIn(fresh.decode(sender.encode(message([[1, 1]]))))).toEqual([[1, 1]]);
  });
});

test("random-skip: the mean of what arrives is the update", () => {
  const rows = Array.from(normals(50), (value, row) => [row, value] as const);
  const sender = randomSkip(0.25, 7).sender();
  const rounds = 8000;
  const sums = new Float64Array(50);
  let sent = 0;
  for (let round = 0; round < rounds; round++) {
    const arrived = rowsIn(sender.encode(message(rows)));
    sent += arrived.length;
    for (const [row = 0, value = 0] of arrived) (sums[row] as number) += value;
  }
  expect(sent / rounds / 50).toBeCloseTo(0.25, 2);
  // Five standard deviations of a mean of so many.
  for (const [row, value] of rows)
    expect(Math.abs((sums[row] as number) / rounds - value)).toBeLessThan(
      5 * Math.abs(value) * Math.sqrt(3 / rounds) + 1e-12,
    );
});

describe("kkt", () => {
  test("zero weights with a small gradient are left out after the first pass, and come back for the confirmation", () => {
    const sender = kkt(1, 10).sender();
    const sent = message([
      [1, 0.5],
      [2, 0.95],
      [3, 1.2],
      [4, 0.1],
    ]);
    const weights = { w: Float64Array.of(0, 0, 0, 0.3) };
    // The first pass sends everything; its largest violation is that of row 4: |0.1 + 1|.
    expect(rowsIn(sender.encode(sent, { weights }))).toHaveLength(4);
    expect(sender.violation).toBeCloseTo(1.1);
    sender.pass(110);
    // The threshold is 1.1 / 110 * 10 = 0.1: below 0.9 is left out.
    expect(rowsIn(sender.encode(sent, { weights })).map(([row]) => row)).toEqual([2, 3, 4]);
    expect(sender.held("w")).toBe(1);
    sender.reset();
    sender.pass(1);
    expect(rowsIn(sender.encode(sent, { weights }))).toHaveLength(4);
  });

  test("a lasso reaches the same objective with the filter and without, with fewer rows", () => {
    const [plain, filtered] = [lasso(undefined), lasso(kkt(lambda, 10).sender())];
    expect(filtered.objective).toBeCloseTo(plain.objective, 8);
    expect(filtered.rows).toBeLessThan(plain.rows / 2);
  });
});

const lambda = 3;
/** Proximal gradient descent on a lasso, whose gradients go through the filter. */
function lasso(sender: ReturnType<ReturnType<typeof kkt>["sender"]> | undefined): { objective: number; rows: number } {
  const [samples, features] = [60, 40];
  const data = normals(samples * features, 5);
  const wanted = Float64Array.from({ length: features }, (_unused, index) => (index < 4 ? 3 : 0));
  const residuals = (weights: Float64Array): Float64Array =>
    Float64Array.from({ length: samples }, (_unused, sample) => {
      const row = data.subarray(sample * features, (sample + 1) * features);
      return row.reduce(
        (sum, value, index) => sum + value * ((weights[index] as number) - (wanted[index] as number)),
        0,
      );
    });
  const weights = new Float64Array(features);
  let rows = 0;
  for (let pass = 0; pass < 400; pass++) {
    const rest = residuals(weights);
    const gradient = Float64Array.from({ length: features }, (_unused, feature) =>
      rest.reduce((sum, value, sample) => sum + value * (data[sample * features + feature] as number), 0),
    );
    const sent = { w: wholePart(gradient) };
    // The last passes look at all rows again.
    if (pass === 300) sender?.reset();
    const arrived = rowsIn(sender?.encode(sent, { weights: { w: weights } }) ?? sent);
    if (pass < 300) sender?.pass(samples);
    rows += arrived.length;
    for (const [feature = 0, value = 0] of arrived) {
      const moved = (weights[feature] as number) - 0.01 * value;
      weights[feature] = Math.sign(moved) * Math.max(0, Math.abs(moved) - 0.01 * lambda);
    }
  }
  const loss = residuals(weights).reduce((sum, value) => sum + value * value, 0) / 2;
  return { objective: loss + lambda * weights.reduce((sum, value) => sum + Math.abs(value), 0), rows };
}

describe("key-caching", () => {
  test("rows travel once, and lists that differ in their last row only are told apart", () => {
    const filter = keyCaching();
    const [sender, receiver] = [filter.sender(), filter.receiver()];
    const long = Array.from({ length: 600 }, (_unused, row) => [row, row / 2] as const);
    const other = [...long.slice(0, -1), [999, 1] as const];
    for (const [rows, travels] of [
      [long, true],
      [other, true],
      [long, false],
      [other, false],
    ] as const) {
      const sent = sender.encode(message(rows));
      expect(sent["w"]?.rows !== undefined).toBe(travels);
      expect(rowsIn(receiver.decode(sent))).toEqual(rows);
    }
  });

  test("both ends drop the same lists, and a receiver without one says so", () => {
    const filter = keyCaching();
    const [sender, receiver] = [filter.sender(), filter.receiver()];
    for (let round = 0; round < 60; round++) {
      const rows = [[(round * 7) % 23, 1] as const];
      expect(rowsIn(receiver.decode(sender.encode(message(rows))))).toEqual(rows);
    }
    expect(() => filter.receiver().decode(sender.encode(message([[0, 1]])))).toThrow(/must forget/);
    sender.forget?.();
    expect(rowsIn(filter.receiver().decode(sender.encode(message([[0, 1]]))))).toEqual([[0, 1]]);
  });
});

describe("lossless", () => {
  test.each([Float32Array, Float64Array])("%o: to the bit", (dtype) => {
    const values = normals(500).map((value, index) => (index % 3 === 0 ? value : 0));
    const rows = Array.from(values, (value, row) => [row, value] as const);
    const sent = message(rows, 1, dtype as Float64ArrayConstructor);
    const encoded = lossless().sender().encode(sent);
    expect(bytesOf(encoded)).toBeLessThan(bytesOf(sent) * 0.6);
    expect(rowsIn(lossless().receiver().decode(encoded))).toEqual(rowsIn(sent));
  });

  test.each([
    [{ values: { kind: "Float64Array", bytes: 2 ** 40 } }, /is malformed/],
    [{ values: { kind: "Float64Array", bytes: 16 } }, /cannot be unpacked/],
    [{ values: { kind: "Array", bytes: 16 } }, /is malformed/],
  ])("a message with another note is refused: %j", (note, expected) => {
    const encoded = lossless()
      .sender()
      .encode({ w: wholePart(new Float64Array(1000)) });
    const part = encoded["w"] as NonNullable<Message[string]>;
    const forged = { w: { ...part, notes: [{ filter: "lossless", ...note }] } };
    expect(() => lossless().receiver().decode(forged)).toThrow(expected);
  });
});

describe("fixed-point", () => {
  test.each([8, 16])("%i bits: within a step, and without bias", (bits) => {
    const values = normals(40);
    const filter = fixedPoint(bits, 3);
    const [sender, receiver] = [filter.sender(), filter.receiver()];
    const step = (Math.max(...values) - Math.min(...values)) / (2 ** bits - 4);
    const rounds = 4000;
    const sums = new Float64Array(40);
    for (let round = 0; round < rounds; round++) {
      const arrived = receiver.decode(sender.encode({ w: wholePart(values) }))["w"]?.values as Float64Array;
      for (const [index, value] of arrived.entries()) {
        if (Math.abs(value - (values[index] as number)) > step * 1.0001) throw new Error(`${value} is too far`);
        (sums[index] as number) += value;
      }
    }
    for (const [index, value] of values.entries())
      expect(Math.abs((sums[index] as number) / rounds - value)).toBeLessThan(
        (5 * step) / Math.sqrt(rounds) / 2 + 1e-12,
      );
  });

  test.each([[[0, 0, 0]], [[2.5]], [[]], [[-1e308, 1e308]], [[NaN]]])("%j: ends of the range stay", (values) => {
    const arrived = through(fixedPoint(8), { w: wholePart(Float64Array.from(values)) })["w"]?.values as Float64Array;
    for (const [index, value] of values.entries()) {
      if (Number.isNaN(value)) expect(arrived[index]).toBeNaN();
      else expect((arrived[index] as number) / (value || 1)).toBeCloseTo(value === 0 ? 0 : 1, 12);
    }
  });
});

describe("codecs of gradient compression", () => {
  test.each([
    ["bf16", 0.51, 0.01],
    ["f16", 0.51, 0.001],
    ["int8", 0.35, 0.02],
  ])("%s", (name, share, error) => {
    const values = Float32Array.from(normals(4096));
    const sent = { w: wholePart(values, 8) };
    const encoded = codec(name).sender().encode(sent);
    expect(bytesOf(encoded) / bytesOf(sent)).toBeLessThan(share);
    const arrived = codec(name).receiver().decode(encoded)["w"]?.values as Float32Array;
    expect(Math.max(...arrived.map((value, index) => Math.abs(value - (values[index] as number))))).toBeLessThan(error);
  });

  test.each(["topK", "sign", "oneBit"])("%s: what is not sent is added to the next update", (name) => {
    const values = Float32Array.from(normals(300));
    const filter = codec(name === "topK" ? compression.topK({ ratio: 0.1 }) : name);
    const [sender, receiver] = [filter.sender(), filter.receiver()];
    const sums = new Float64Array(300);
    const rounds = 40;
    for (let round = 0; round < rounds; round++) {
      const arrived = receiver.decode(sender.encode({ w: wholePart(values) }))["w"]?.values as Float32Array;
      for (const [index, value] of arrived.entries()) (sums[index] as number) += value;
    }
    const errors = sums.map((sum, index) => Math.abs(sum / rounds - (values[index] as number)));
    expect(Math.max(...errors)).toBeLessThan(0.6);
    expect(errors.reduce((sum, value) => sum + value, 0) / 300).toBeLessThan(0.2);
  });

  test("rows through a codec that needs whole tensors are an error", () => {
    expect(() =>
      codec("topK")
        .sender()
        .encode(message([[1, 1]])),
    ).toThrow(/the whole tensor/);
  });
});

describe("chains", () => {
  test("all filters together, both ends", () => {
    const filter = chain(["significant:0.2", "key-caching", "fixed-point:16", "lossless"]);
    const [sender, receiver] = [filter.sender(), filter.receiver()];
    const rows = Array.from(normals(400), (value, row) => [row * 2, value] as const);
    for (let round = 0; round < 3; round++) {
      const arrived = rowsIn(receiver.decode(sender.encode(message(rows))));
      if (round > 0) continue;
      const wanted = rows.filter(([, value]) => Math.abs(value) > 0.2);
      expect(arrived.map(([row]) => row)).toEqual(wanted.map(([row]) => row));
      for (const [index, [, value = 0]] of arrived.entries())
        expect(value).toBeCloseTo((wanted[index] as readonly number[])[1] as number, 3);
    }
  });

  test.each(filterKinds().map((kind) => [kind.name, kind] as const))("%s: a NaN stays a NaN", (name, kind) => {
    const spec = [name, ...(kind.numbers ?? []).map((number) => number.default ?? 0.5)].join(":");
    const values = Float32Array.of(1, NaN, -2, 0);
    const filter = filterNamed(spec);
    const sent = filter.sender().encode({ w: wholePart(values) }, { weights: { w: new Float32Array(4) } });
    const arrived = new Map(rowsIn(filter.receiver().decode(sent)).map(([row, value]) => [row, value]));
    expect(arrived.get(1)).toBeNaN();
  });

  test.each<[string, () => unknown, RegExp]>([
    [
      "numbers after packing",
      () => through(chain(["fixed-point:8", "significant:1"]), { w: wholePart(normals(4)) }),
      /needs numbers/,
    ],
    [
      "rows after values were left out",
      () => {
        const sender = chain(["changed:1", "significant:0.1"]).sender();
        sender.encode(
          message([
            [1, 1],
            [2, 2],
          ]),
        );
        sender.encode(
          message([
            [1, 1],
            [2, 2],
          ]),
        );
      },
      /chooses rows/,
    ],
    ["a misspelt filter", () => filterNamed("losless"), /there is no filter 'losless'/],
    ["bits that there are not", () => filterNamed("fixed-point:12"), /8 and 16 bits, got 12/],
    ["a probability of 0", () => filterNamed("random-skip:0"), /above 0 and at most 1/],
    [
      "weights that are missing",
      () =>
        kkt(1)
          .sender()
          .encode(message([[1, 1]])),
      /needs the weights/,
    ],
  ])("%s is an error", (_what, act, expected) => {
    expect(act).toThrow(expected);
  });
});
