/** Bags of embeddings with offsets and weights: against PyTorch's values and gradients. */
import { grad, jit, nn, random, type Tensor, tensor } from "heddle";
import { expectClose } from "heddle/testing";
import { describe, expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";

type Numbers = readonly (number | readonly number[])[];

interface Case {
  readonly title: string;
  readonly ids: Numbers;
  readonly offsets: Numbers | null;
  readonly weights: Numbers | null;
  readonly mode: "sum" | "mean" | "max";
  readonly paddingIdx: number | null;
  readonly table: Numbers;
  readonly y: Numbers;
  readonly by: Numbers;
  readonly tableGradient: Numbers;
  readonly weightsGradient: Numbers | null;
}

const f64 = (values: Numbers): Tensor => tensor(values as number[][], { dtype: "f64" });
const i32 = (values: Numbers): Tensor => tensor(values as number[][], { dtype: "i32" });
const close = (x: Tensor, wanted: Numbers): void =>
  expectClose(x, Float64Array.from(wanted.flat()), { rtol: 0, atol: 5e-13 });

const settingsOf = ({ mode, paddingIdx }: Case) => ({ mode, ...(paddingIdx === null ? {} : { paddingIdx }) });
const bagsOf = ({ offsets, weights }: Case) => ({
  ...(offsets === null ? {} : { offsets: i32(offsets) }),
  ...(weights === null ? {} : { weights: f64(weights) }),
});

describe("as PyTorch's embedding_bag", () => {
  test.each(fixture<Case>("bags").map((one) => [one.title, one] as const))("%s", (_title, one) => {
    const [ids, table, bags] = [i32(one.ids), f64(one.table), bagsOf(one)];
    const of = (weight: Tensor, weights = bags.weights): Tensor =>
      nn.functional.embeddingBag(ids, weight, { ...settingsOf(one), ...bags, ...(weights ? { weights } : {}) });
    const loss = (weight: Tensor, weights?: Tensor): Tensor => of(weight, weights).mul(f64(one.by)).sum();
    close(of(table), one.y);
    close(jit((weight: Tensor) => of(weight))(table), one.y);
    const layer = nn.embeddingBag(5, 3, { ...settingsOf(one), dtype: "f64" });
    close(layer.apply({ params: { weight: table }, state: {} }, ids, bags).y, one.y);
    close(grad((weight: Tensor) => loss(weight))(table), one.tableGradient);
    if (bags.weights !== undefined && one.weightsGradient !== null)
      close(grad((weights: Tensor) => loss(table, weights))(bags.weights), one.weightsGradient);
  });
});

test("what does not fit is told", () => {
  const [ids, table] = [i32([0, 1, 2]), f64([[1], [2], [3]])];
  const of = (options: nn.functional.BagOptions, x = ids) => nn.functional.embeddingBag(x, table, options);
  const cases: readonly (readonly [run: () => Tensor, said: RegExp])[] = [
    [
      () => of({ offsets: f64([0]) }),
      /^embeddingBag: offsets are i32 \[bags\], of ids \[n\]; got f64\[1\] and ids i32\[3\]/,
    ],
    [() => of({ offsets: i32([0]) }, i32([[0]])), /^embeddingBag: offsets are/],
    [() => of({ weights: f64([1, 2, 3]) }), /^embeddingBag: weights go with the mode "sum", not mean/],
    [
      () => of({ mode: "sum", weights: f64([1, 2]) }),
      /^embeddingBag: weights are floats, one per id i32\[3\], got f64\[2\]/,
    ],
    [() => of({ offsets: [0] as never }), /^embeddingBag: offsets: operand 0 is \[0\], not a tensor/],
    [() => of({ offsets: i32([1]) }), /^embeddingBag: offsets begin at 1, not at 0/],
    [() => of({ offsets: i32([0, 2, 1]) }), /^embeddingBag: offsets\[2\] is 1, less than the 2 before it/],
    [() => of({ offsets: i32([0, 4]) }), /^embeddingBag: offsets\[1\] is 4, but there are 3 ids/],
    [() => of({ paddingIdx: 3 }), /paddingIdx must be/],
    [() => of({}, f64([0.5])), /takes ids, which are whole numbers/],
  ];
  for (const [run, said] of cases) expect(run).toThrow(said);
  // Traced offsets are not at hand: ids before the first bag belong to none.
  const traced = jit((offsets: Tensor) => of({ offsets, mode: "sum" }));
  expect(() => traced(i32([1])).dataSync()).toThrow(/offsets do not begin at 0: id 0 is before the first bag/);
  const layer = nn.embeddingBag(3, 1);
  expect(layer.init(random.key(0), { shape: [2, 4], dtype: "i32" }).output.shape).toEqual([2, 1]);
});

test("a weight of padding counts for nothing, NaN neither", () => {
  const [ids, table, weights] = [i32([0, 1, 2]), f64([[1], [2], [3]]), f64([1, Number.NaN, 2])];
  const of = (weight: Tensor): Tensor =>
    nn.functional.embeddingBag(ids, weight, { offsets: i32([0]), weights, mode: "sum", paddingIdx: 1 });
  close(of(table), [[7]]);
  close(grad((weight: Tensor) => of(weight).sum())(table), [[1], [0], [2]]);
});
