import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dtypes, roundTo } from "../../src/ir/dtype.ts";
import { parseEquation, shapesByEquation } from "../../src/ir/equation.ts";
import { isContiguous, reshapeView, type View, wholeView } from "../../src/ir/kernel.ts";
import {
  broadcastShapes,
  formatType,
  normalizeDim,
  parseType,
  range,
  type Shape,
  sizeOf,
  stridesOf,
} from "../../src/ir/shape.ts";
import { indices } from "../support/tensors.ts";

/** Offsets of a view's elements in row-major order. */
const offsets = (view: View): number[] =>
  indices(view.shape).map((index) =>
    index.reduce((sum, place, dim) => sum + place * (view.strides[dim] as number), view.offset),
  );

const sizes = fc.array(fc.constantFrom(1, 2, 3, 4), { maxLength: 4 });

/** All ways to write a size as up to four factors would be many; some of them. */
function otherShape(size: number, picks: readonly number[]): Shape {
  const shape: number[] = [];
  let left = size;
  for (const pick of picks) {
    const divisors = range(left + 1).filter((divisor) => divisor > 0 && left % divisor === 0);
    const divisor = divisors[pick % divisors.length] as number;
    shape.push(divisor);
    left /= divisor;
  }
  return [...shape, left];
}

describe("views", () => {
  it("are reshaped only where strides can say it, and then rightly", () => {
    let expressed = 0;
    fc.assert(
      fc.property(
        sizes,
        fc.array(fc.nat(20), { minLength: 4, maxLength: 4 }),
        fc.array(fc.nat(6), { minLength: 1, maxLength: 3 }),
        (shape, moves, picks) => {
          const whole = wholeView({}, { dtype: "f32", shape });
          const left = range(shape.length);
          const order = shape.map(
            (_size, index) => left.splice((moves[index] as number) % left.length, 1)[0] as number,
          );
          const flipped = order.map((dim, index) =>
            (moves[index] as number) > 15 ? 0 : (whole.strides[dim] as number),
          );
          const view = { ...whole, shape: order.map((dim) => shape[dim] as number), strides: flipped };
          const wanted = otherShape(sizeOf(shape), picks);
          const made = reshapeView(view, wanted);
          if (made === undefined) {
            expect(isContiguous(view)).toBe(false);
            return;
          }
          expressed++;
          expect(made.shape).toEqual(wanted);
          expect(offsets(made)).toEqual(offsets(view));
        },
      ),
      { numRuns: 500 },
    );
    expect(expressed).toBeGreaterThan(100);
  });

  it("know when they are contiguous", () => {
    const view = wholeView({}, { dtype: "f32", shape: [2, 1, 3] });
    expect(isContiguous(view)).toBe(true);
    expect(isContiguous({ ...view, strides: [3, 99, 1] })).toBe(true);
    expect(isContiguous({ ...view, strides: [4, 3, 1] })).toBe(false);
    expect(isContiguous({ ...view, shape: [0, 1, 3], strides: [0, 0, 0] })).toBe(true);
  });

  it("of nothing take any shape", () => {
    expect(reshapeView(wholeView({}, { dtype: "f32", shape: [0, 3] }), [5, 0, 2])?.shape).toEqual([5, 0, 2]);
  });
});

describe("shapes", () => {
  it("broadcast by NumPy's rule", () => {
    expect(broadcastShapes([2, 1, 3], [4, 1])).toEqual([2, 4, 3]);
    expect(broadcastShapes([], [2])).toEqual([2]);
    expect(broadcastShapes([0], [1])).toEqual([0]);
    expect(broadcastShapes([0], [2])).toBeUndefined();
    expect(broadcastShapes([2], [3])).toBeUndefined();
  });

  it("are printed and read", () => {
    for (const type of [
      { dtype: "f32", shape: [] },
      { dtype: "bool", shape: [0, 12] },
    ] as const)
      expect(parseType(formatType(type))).toEqual(type);
    for (const text of ["f32", "f32[", "f32[a]", "f33[2]", "toString[2]"]) expect(parseType(text)).toBeUndefined();
  });

  it("refuse sizes that are absurd", () => {
    expect(() => sizeOf([-1])).toThrow(/invalid size -1 in shape \[-1\]/);
    expect(() => sizeOf([1.5])).toThrow(/invalid size 1.5/);
    expect(() => sizeOf([2 ** 30, 2 ** 30])).toThrow(/too large/);
    expect(normalizeDim(-1, 3, "sum")).toBe(2);
    expect(() => normalizeDim(3, 3, "sum")).toThrow("sum: dim 3 is not in [-3, 2]");
    expect(stridesOf([2, 0, 3])).toEqual([0, 3, 1]);
  });
});

describe("dtypes", () => {
  it("round as their arrays do", () => {
    for (const value of [0, -0, 1.5, -1.5, 255, 256, -1, 2 ** 31, -(2 ** 31) - 1, 2 ** 32, 1e10]) {
      const whole = Math.trunc(value);
      for (const dtype of ["i32", "u32", "u8"] as const)
        expect(roundTo(dtype, whole), `${dtype} ${whole}`).toBe(dtypes[dtype].create([whole])[0]);
      expect(roundTo("f32", value)).toBe(Float32Array.of(value)[0]);
    }
    expect([roundTo("bool", -0), roundTo("bool", Number.NaN), roundTo("bool", 7)]).toEqual([0, 1, 1]);
  });
});

describe("equations", () => {
  it("give the shapes of results", () => {
    const equation = parseEquation("b m k!, k n -> b m n");
    expect([...equation.whole]).toEqual(["k"]);
    const types = [
      { dtype: "f32", shape: [2, 3, 4] },
      { dtype: "f32", shape: [4, 5] },
    ] as const;
    expect(shapesByEquation("dot", equation, types)).toEqual([[2, 3, 5]]);
    expect(() => shapesByEquation("dot", equation, [types[0], { dtype: "f32", shape: [5, 5] }])).toThrow(
      /sizes 4 and 5/,
    );
    expect(() => shapesByEquation("dot", equation, [types[0], { dtype: "f32", shape: [5] }])).toThrow(
      /has 1 dims, expected 2/,
    );
    expect(() => parseEquation("m n")).toThrow(/has no '->'/);
    expect(() => shapesByEquation("x", parseEquation("-> n"), [])).toThrow(/no input gives the size of 'n'/);
  });
});
