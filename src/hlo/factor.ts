/** @module Factorisations in StableHLO. */
import { sizeOf, type TensorType } from "../ir/shape.ts";
import type { TriangularAttrs } from "../ops/factor.ts";
import { type HloBlock, type HloValue, hloCombine, hloIntegers } from "./block.ts";
import * as spell from "./factor-parts.ts";
import { stablehloRules } from "./rules.ts";
import { hloInSingle } from "./shared.ts";

/** Applies `body` to matrices with one batch dim, and restores the batch dims of the results. */
export function flat(
  hlo: HloBlock,
  inputs: readonly HloValue[],
  outputs: readonly TensorType[],
  body: (inputs: HloValue[]) => HloValue[],
): HloValue[] {
  const flattened = inputs.map((x) => {
    const { shape } = x.type;
    return spell.reshaped(hlo, x, [sizeOf(shape.slice(0, -2)), ...shape.slice(-2)]);
  });
  return body(flattened).map((result, index) => spell.reshaped(hlo, result, (outputs[index] as TensorType).shape));
}

function hloQr(hlo: HloBlock, x: HloValue): HloValue[] {
  const [batch, m, n] = x.type.shape as [number, number, number];
  const { dtype } = x.type;
  const k = Math.min(m, n);
  const [packed, taus] = spell.lapack(hlo, "geqrf", [x], [x.type, { shape: [batch, k], dtype }]) as [
    HloValue,
    HloValue,
  ];
  const [q] = spell.lapack(hlo, "orgqr", [spell.firstColumns(hlo, packed, k), taus], [{ shape: [batch, m, k], dtype }]);
  const r = spell.triangle(hlo, spell.firstColumns(hlo, packed, n, k), false);
  const flips = spell.signs(hlo, spell.diagonals(hlo, r));
  const reflected = hlo.select(hlo.compare("NE", taus, hlo.like(taus, 0)), hlo.like(taus, -1), hlo.like(taus, 1));
  const determinantSign = hlo.same("multiply", spell.products(hlo, reflected), spell.products(hlo, flips));
  const sign = m === n ? determinantSign : hlo.like(determinantSign, 1);
  return [spell.timesColumns(hlo, q as HloValue, flips), spell.timesColumns(hlo, r, flips, 1), sign];
}

/** LAPACK gives row swaps, one after another: the order that results from them is written out, swap by swap. */
function hloLu(hlo: HloBlock, x: HloValue): HloValue[] {
  const { shape, dtype } = x.type;
  const [batch, n] = shape as [number, number];
  const rows = { shape: [batch, n], dtype: "i32" as const };
  const results = spell.lapack(hlo, "getrf", [x], [x.type, rows, { shape: [batch], dtype: "i32" }]);
  const [packed, swaps] = results as [HloValue, HloValue];
  const indices = hlo.one("iota", [], rows, { iota_dimension: "1 : i64" });
  const zero = hlo.constant({ shape: [], dtype: "i32" }, 0);
  const over = { dimensions: hloIntegers([1]) };
  /** The value at the marked index of each row, broadcast along the row. */
  const valueAt = (mark: HloValue, values: HloValue): HloValue => {
    const masked = hlo.select(mark, values, hlo.like(values, 0));
    const value = hlo.one("reduce", [masked, zero], { shape: [batch], dtype: "i32" }, over, [hloCombine("add", "i32")]);
    return hlo.broadcast(value, rows.shape, [0]);
  };
  const targets = hlo.same("subtract", swaps, hlo.like(swaps, 1));
  let order = indices;
  for (let step = 0; step < n; step++) {
    const isStep = hlo.compare("EQ", indices, hlo.like(indices, step));
    const isTarget = hlo.compare("EQ", indices, valueAt(isStep, targets));
    const [first, second] = [valueAt(isStep, order), valueAt(isTarget, order)];
    order = hlo.select(isStep, second, hlo.select(isTarget, first, order));
  }
  const isSwapped = hlo.compare("NE", targets, indices);
  const signs = hlo.select(
    isSwapped,
    hlo.constant({ shape: rows.shape, dtype }, -1),
    hlo.constant({ shape: rows.shape, dtype }, 1),
  );
  return [packed, order, spell.products(hlo, signs)];
}

stablehloRules.define({
  cholesky: hloInSingle(({ hlo, inputs, outputs }) => [
    spell.triangle(hlo, hlo.one("cholesky", inputs, outputs[0] as TensorType, { lower: "true" }), true),
  ]),
  triangularSolve: hloInSingle<TriangularAttrs>(({ hlo, inputs, outputs, attrs }) =>
    hlo.op("triangular_solve", inputs, outputs, {
      left_side: "true",
      lower: String(attrs.lower),
      unit_diagonal: String(attrs.unit),
      transpose_a: `#stablehlo<transpose ${attrs.transpose ? "TRANSPOSE" : "NO_TRANSPOSE"}>`,
    }),
  ),
  qr: hloInSingle(({ hlo, inputs, outputs }) => flat(hlo, inputs, outputs, ([x]) => hloQr(hlo, x as HloValue))),
  svd: hloInSingle(({ hlo, inputs, outputs }) =>
    flat(hlo, inputs, outputs, ([x]) => {
      const [batch, m, n] = (x as HloValue).type.shape as [number, number, number];
      const { dtype } = (x as HloValue).type;
      const k = Math.min(m, n);
      const types = [
        [batch, m, n],
        [batch, k],
        [batch, m, k],
        [batch, k, n],
      ].map((shape) => ({ shape, dtype }));
      const factors = spell.lapack(hlo, "gesdd", [x as HloValue], [...types, { shape: [batch], dtype: "i32" }], {
        mode: "S",
      });
      const [, s, u, vt] = factors as [HloValue, HloValue, HloValue, HloValue];
      const flips = spell.columnSigns(hlo, u);
      const results = [spell.timesColumns(hlo, u, flips), s, spell.timesColumns(hlo, vt, flips, 1)];
      return spell.ofFinite(hlo, x as HloValue, results);
    }),
  ),
  eigh: hloInSingle(({ hlo, inputs, outputs }) =>
    flat(hlo, inputs, [...outputs].reverse(), ([x]) => {
      const { shape, dtype } = (x as HloValue).type;
      const [batch, n] = shape as [number, number];
      const types = [
        { shape, dtype },
        { shape: [batch, n], dtype },
        { shape: [batch], dtype: "i32" as const },
      ];
      const factors = spell.lapack(hlo, "syevd", [x as HloValue], types, { mode: "V", uplo: "L" });
      const [vectors, values] = factors as [HloValue, HloValue];
      const results = [spell.timesColumns(hlo, vectors, spell.columnSigns(hlo, vectors)), values];
      return spell.ofFinite(hlo, spell.triangle(hlo, x as HloValue, true), results);
    }).reverse(),
  ),
  lu: hloInSingle(({ hlo, inputs, outputs }) => flat(hlo, inputs, outputs, ([x]) => hloLu(hlo, x as HloValue))),
});
