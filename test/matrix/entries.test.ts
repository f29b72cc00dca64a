// Products of many entries, which tasks share: rows that begin in one task and end in another, rows without entries, and no order.

import { entries, type Matrix, rand } from "heddle/matrix";
import { expect, test } from "vitest";

const known = new Map<string, ReturnType<typeof make>>();

/** Entries in the order of rows, or shuffled; row `heavy` has a third of them. */
function made(...[count, rows, columns, ordered]: Parameters<typeof make>): ReturnType<typeof make> {
  const key = `${count} ${rows} ${columns} ${ordered}`;
  const found = known.get(key) ?? make(count, rows, columns, ordered);
  known.set(key, found);
  return found;
}

function make(count: number, rows: number, columns: number, ordered: boolean) {
  const values = rand(count, 1, { seed: 7, distribution: "normal" }).dataSync();
  const places = rand(count, 2, { seed: 8 }).dataSync();
  const heavy = rows >> 1;
  const at = Int32Array.from({ length: count }, (_unused, entry) => {
    const place = places[2 * entry] as number;
    // Rows from the last tenth on have none.
    return place < 1 / 3 ? heavy : Math.floor((place - 1 / 3) * 1.5 * 0.9 * rows);
  });
  if (ordered) at.sort();
  const to = Int32Array.from({ length: count }, (_unused, entry) =>
    Math.floor((places[2 * entry + 1] as number) * columns),
  );
  return { values, at, to };
}

function product(
  { values, at, to }: ReturnType<typeof made>,
  y: Float64Array,
  inner: number,
  rows: number,
): Float64Array {
  const sums = new Float64Array(rows * inner);
  values.forEach((value, entry) => {
    for (let column = 0; column < inner; column++)
      (sums[(at[entry] as number) * inner + column] as number) +=
        value * (y[(to[entry] as number) * inner + column] as number);
  });
  return sums;
}

const near = (found: Matrix, wanted: Float64Array): void => {
  const data = found.dataSync();
  let most = 0;
  for (let place = 0; place < wanted.length; place++)
    most = Math.max(most, Math.abs((data[place] as number) - (wanted[place] as number)));
  expect(data).toHaveLength(wanted.length);
  expect(most).toBeLessThan(1e-9);
};

const cases = [1, 5].flatMap((inner) =>
  [true, false].flatMap((ordered) =>
    [
      { count: 300_000, rows: 5_000, columns: 700 },
      { count: 150_000, rows: 30_000, columns: 20_000 },
      { count: 150_000, rows: 3, columns: 40_000 },
    ].map((size) => ({ inner, ordered, ...size })),
  ),
);

test.each(cases)(
  "$count entries of $rows x $columns, ordered $ordered, times $inner columns",
  ({ inner, ordered, count, rows, columns }) => {
    const all = made(count, rows, columns, ordered);
    const x = entries(all.values, all.at, all.to, [rows, columns]);
    const y = rand(columns, inner, { seed: 9 });
    near(x.matmul(y), product(all, y.dataSync(), inner, rows));
    const z = rand(rows, inner, { seed: 10 });
    const across = { values: all.values, at: all.to, to: all.at };
    near(x.T.matmul(z), product(across, z.dataSync(), inner, columns));
  },
);

test("elements of a product at many places", () => {
  const { at, to, values } = made(200_000, 4_000, 3_000, true);
  const [u, v] = [rand(4_000, 11, { seed: 11 }), rand(11, 3_000, { seed: 12 })];
  const [left, right] = [u.dataSync(), v.dataSync()];
  const found = entries(values, at, to, [4_000, 3_000]).mul(u.matmul(v)).sum(1);
  const sums = new Float64Array(4_000);
  values.forEach((value, entry) => {
    let sum = 0;
    for (let k = 0; k < 11; k++)
      sum += (left[(at[entry] as number) * 11 + k] as number) * (right[k * 3_000 + (to[entry] as number)] as number);
    (sums[at[entry] as number] as number) += value * sum;
  });
  near(found, sums);
});
