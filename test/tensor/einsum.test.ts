/** einsum beside the sum over all indices that it stands for. */
import { einsum, grad, type Tensor, vmap } from "heddle";
import { expect, test } from "vitest";
import { expectClose } from "../support/close.ts";
import { indices } from "../support/tensors.ts";
import { randoms } from "../support/trees.ts";

/** What a specification without `...` means: names of all operands' dims, of the result's, and each name's size. */
function meaning(
  names: readonly string[],
  out: string,
  operands: readonly Tensor[],
  values: readonly number[][],
): number[] {
  const sizes = new Map(
    names.flatMap((term, index) =>
      [...term].map((name, dim) => [name, operands[index]?.shape[dim] as number] as const),
    ),
  );
  const inner = [...sizes.keys()].filter((name) => !out.includes(name));
  const at = (term: string, place: ReadonlyMap<string, number>): number =>
    [...term].reduce((offset, name) => offset * (sizes.get(name) as number) + (place.get(name) as number), 0);
  const shape = (list: readonly string[]): number[] => list.map((name) => sizes.get(name) as number);
  return indices(shape([...out])).map((outer) =>
    indices(shape(inner)).reduce((total, summed) => {
      const place = new Map([
        ...[...out].map((name, dim) => [name, outer[dim] as number] as const),
        ...inner.map((name, dim) => [name, summed[dim] as number] as const),
      ]);
      return total + names.reduce((product, term, index) => product * (values[index]?.[at(term, place)] as number), 1);
    }, 0),
  );
}

test.each([
  {
    spec: "ij,jk->ik",
    shapes: [
      [3, 4],
      [4, 2],
    ],
  },
  {
    spec: "ij,jk->ki",
    shapes: [
      [3, 4],
      [4, 2],
    ],
  },
  {
    spec: "ij,kj",
    plain: "ij,kj->ik",
    shapes: [
      [3, 4],
      [2, 4],
    ],
  },
  {
    spec: "ba,ac",
    plain: "ba,ac->bc",
    shapes: [
      [2, 3],
      [3, 4],
    ],
  },
  { spec: "i,i->", shapes: [[5], [5]] },
  { spec: "i,j->ij", shapes: [[3], [2]] },
  {
    spec: "bij,bjk->bik",
    shapes: [
      [2, 3, 4],
      [2, 4, 2],
    ],
  },
  { spec: "ij->ji", shapes: [[3, 4]] },
  { spec: "ij->", shapes: [[3, 4]] },
  { spec: "ii->", shapes: [[4, 4]] },
  { spec: "ii->i", shapes: [[4, 4]] },
  { spec: "iij,j->i", shapes: [[3, 3, 2], [2]] },
  { spec: "iii->i", shapes: [[3, 3, 3]] },
  {
    spec: "ij,jk,kl->il",
    shapes: [
      [2, 3],
      [3, 4],
      [4, 2],
    ],
  },
  { spec: "i,j,k->kji", shapes: [[2], [3], [4]] },
  {
    spec: "ij,kl->ik",
    shapes: [
      [2, 3],
      [4, 5],
    ],
  },
  {
    spec: "bhqd,bhkd->bhqk",
    shapes: [
      [2, 2, 3, 4],
      [2, 2, 5, 4],
    ],
  },
  {
    spec: "...ij,...jk->...ik",
    plain: "xyij,yjk->xyik",
    shapes: [
      [2, 3, 2, 4],
      [3, 4, 2],
    ],
  },
  {
    spec: "...i,...i",
    plain: "xi,xi->x",
    shapes: [
      [3, 4],
      [3, 4],
    ],
  },
  { spec: "i...,i->...", plain: "ixy,i->xy", shapes: [[3, 2, 4], [3]] },
  {
    spec: "ij,jk->ik",
    shapes: [
      [0, 4],
      [4, 2],
    ],
  },
  {
    spec: "ij,jk->ik",
    shapes: [
      [3, 0],
      [0, 2],
    ],
  },
])("$spec of $shapes", async ({ spec, plain, shapes }) => {
  const operands = shapes.map((shape, index) => randoms(shape, index + 1));
  const values = await Promise.all(operands.map(async (operand) => Array.from(await operand.data(), Number)));
  const [left, right] = (plain ?? spec).split("->") as [string, string];
  const names = left.split(",");
  const result = einsum(spec, ...operands);
  expectClose(Array.from(await result.data(), Number), meaning(names, right, operands, values), 1e-5);
  // The gradient of a sum against all ones: einsum is linear in each operand.
  const [first, ...others] = operands as [Tensor, ...Tensor[]];
  const slope = await grad((x: Tensor) => einsum(spec, x, ...others).sum())(first).data();
  const unit = Array.from(slope, (_slope, place) => {
    const one = values[0]?.map((_value, index) => (index === place ? 1 : 0)) as number[];
    return meaning(names, right, operands, [one, ...values.slice(1)]).reduce((a, b) => a + b, 0);
  });
  expectClose(Array.from(slope, Number), unit, 1e-5);
});

test("dims under '...' broadcast, and a batch of an operand is a batch of results", async () => {
  const [x, y] = [randoms([2, 1, 3], 1), randoms([4, 3], 2)];
  const weights = randoms([3], 3);
  expect(einsum("...i,...i->...", x, y).shape).toEqual([2, 4]);
  const each = vmap((row: Tensor) => einsum("i,i->", row, weights))(y);
  expectClose(
    Array.from(await each.data(), Number),
    Array.from(await einsum("bi,i->b", y, weights).data(), Number),
    1e-6,
  );
});

test.each([
  { spec: "ij,jk->ik", shapes: [[2, 3]], says: "names 2 operands, got 1" },
  {
    spec: "ij,jk->ik",
    shapes: [
      [2, 3],
      [4, 5],
    ],
    says: "'j' is 3 and 4",
  },
  { spec: "ijk->i", shapes: [[2, 3]], says: "operand 0 is f64[2,3], but 'ijk' names 3 dims" },
  { spec: "ij->k", shapes: [[2, 3]], says: "'k' of the result is in no operand" },
  { spec: "ij->ii", shapes: [[2, 3]], says: "'i' is in the result more than once" },
  { spec: "ii->", shapes: [[2, 3]], says: "'i' is 2 and 3 in f64[2,3]" },
  { spec: "i1->", shapes: [[2, 3]], says: "'i1' is not letters" },
  {
    spec: "...i,...i->...",
    shapes: [
      [2, 3],
      [4, 3],
    ],
    says: "do not broadcast: [2] and [4]",
  },
])("$spec of $shapes is refused: $says", ({ spec, shapes, says }) => {
  const call = (): unknown => einsum(spec, ...shapes.map((shape) => randoms(shape, 1)));
  expect(call).toThrow(says);
  expect(call).toThrow(`einsum '${spec}': `);
});
