/** Comparison by value, under vitest and under Node's own runner; and that no deep comparison passes over values. */
import assert from "node:assert";
import { inspect } from "node:util";
import { data, HeddleError, tensor } from "heddle";
import { expectClose, matchers } from "heddle/testing";
import { describe, expect, it, test } from "vitest";

expect.extend(matchers);

const f64 = (data: number[]) => tensor(data, { dtype: "f64" });

describe("close", () => {
  it.each<[unknown, unknown, object?]>([
    [tensor([1, 2]), [1, 2]],
    [
      tensor([
        [1, 2],
        [3, 4],
      ]),
      new Float32Array([1, 2, 3, 4]),
    ],
    [
      new Float32Array([1, 2, 3, 4]),
      [
        [1, 2],
        [3, 4],
      ],
    ],
    [tensor(0.1), 0.1],
    [tensor([0.1, Number.NaN, Infinity]), [0.1, Number.NaN, Infinity]],
    [tensor([true, false]), [true, false]],
    [tensor([1n, 2n ** 60n]), [1n, 2n ** 60n]],
    [tensor([1, 2], { dtype: "i64" }), [1, 2]],
    [tensor([]), []],
    [tensor([1.01], { dtype: "bf16" }), [1]],
    [tensor([100]), [101], { rtol: 0.01 }],
    [
      { a: tensor([1]), b: [tensor(2), 3] },
      { b: [2, 3], a: [1] },
    ],
    [
      [tensor([1]), tensor([2, 3])],
      [[1], [2, 3]],
    ],
  ])("%# %o", (actual, expected, options) => {
    expectClose(actual as never, expected as never, options);
    expect(actual).toBeAllClose(expected as never, options);
  });

  it.each<[unknown, unknown, RegExp, object?]>([
    [
      tensor([1, 2]),
      [1, 3],
      /^1 of 2 elements differ by more than 0\.00001 \+ 0\.0000013 \* \|expected\|\n {2}worst at \[1\]: 2, expected 3 \(by 1\)\n {2}actual {3}tensor<f32\[2\]> \[1, 2\]\n {2}expected tensor<f64\[2\]> \[1, 3\]$/,
    ],
    [
      tensor([
        [1, 2],
        [3, 9],
      ]),
      [
        [0, 2],
        [3, 4],
      ],
      /^2 of 4 .*\n {2}worst at \[1, 1\]: 9, expected 4 \(by 5\)\n {2}\[0, 0\]: 1, expected 0 \(by 1\)\n/,
    ],
    [tensor([1, 2]), [[1, 2]], /^shape \[2\], expected \[1,2\]\n/],
    [tensor(1), [1], /^shape \[\], expected \[1\]\n/],
    [tensor([1]), f64([1]), /^dtype f32, expected f64\n/],
    [tensor([1, Number.NaN]), [Number.NaN, 1], /worst at \[0\]: 1, expected NaN/],
    [tensor([Number.NaN]), [Number.NaN], /NaN, expected NaN/, { equalNan: false }],
    [tensor([1e30]), [Infinity], /expected Infinity/],
    [tensor([2n ** 60n]), [2n ** 60n + 1n], /\(by 1\)/],
    [f64([1 + 1e-6]), [1], /1 of 1/],
    [tensor([1]), [1.001], /more than 0 \+ 0 \*/, { rtol: 0, atol: 0 }],
    [{ a: { w: tensor([1]) } }, { a: { w: [2] } }, /^"a\.w": 1 of 1/],
    [{ a: tensor(1) }, { a: tensor(1), b: tensor(2) }, /^has no "b"/],
    [{ a: { x: tensor(1) } }, { a: {} }, /^"a": has "x", which is not expected/],
    [{}, [], /^\{.*\}, expected \[/],
    [tensor([1]), { a: 1 }, /^Tensor\(f32\[1\]\), expected \{ a \}/],
    [[1, 2, 3, 4, 5].map((x) => tensor(x)), [0, 0, 0, 0, 0], /"2": .*\nand 2 more values differ$/s],
  ])("%# %o is not %o", (actual, expected, says, options) => {
    const { pass, message } = matchers.toBeAllClose(actual, expected, options as never);
    expect({ pass, message: message() }).toEqual({
      pass: false,
      message: expect.stringMatching(new RegExp(says.source.replace("^", "^toBeAllClose: "), says.flags)),
    });
    expect(() => expectClose(actual as never, expected as never, options)).toThrow(HeddleError);
    expect(actual).not.toBeAllClose(expected as never, options);
  });

  it("what cannot be compared, and options that mean nothing, are refused", () => {
    expect(() => expectClose("1" as never, tensor(1))).toThrow(/what is compared is "1"/);
    expect(() => expectClose({ a: null } as never, { a: tensor(1) })).toThrow(/"a" is null/);
    expect(() => expectClose(1, 1, { tol: 1 } as never)).toThrow(/unknown option 'tol'/);
    expect(() => expectClose(1, 1, { rtol: -1 })).toThrow(/rtol must be at least 0/);
    expect(() => expect(1).not.toBeAllClose(1)).toThrow(/toBeAllClose: all elements are close, which was not expected/);
  });
});

test("two tensors are deeply equal to nobody, whatever their values, and each to itself", () => {
  const [x, y, z] = [tensor([1, 2]), tensor([1, 3]), tensor([1, 2])];
  for (const other of [y, z]) {
    for (const [left, right] of [
      [x, other],
      [{ x }, { x: other }],
      [[x], [other]],
    ]) {
      expect(left).not.toEqual(right);
      expect(left).not.toStrictEqual(right);
      assert.notDeepStrictEqual(left, right);
      assert.notDeepEqual(left, right);
    }
  }
  expect({ x }).toEqual({ x });
  assert.deepStrictEqual({ x }, { x });
  expect(inspect({ x })).toBe("{ x: tensor<f32[2]> [1, 2] }");
});

test("datasets of other data, or in another order, are not deeply equal either", () => {
  const made = (y: number[]) => data.fromArrays({ y: { shape: [2], data: y } });
  const dataset = made([1, 2]);
  for (const other of [made([1, 3]), dataset.shuffle(), dataset.take(1)]) {
    expect(other).not.toEqual(dataset);
    assert.notDeepStrictEqual(other, dataset);
  }
  expect({ dataset }).toEqual({ dataset });
});
