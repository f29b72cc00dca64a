/** Pieces of tensors: who writes what, and what two boxes share. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Box, boxOf, piecesOf, sharedRuns, wholeBox } from "../../src/checkpoints/pieces.ts";
import { sizeOf, stridesOf } from "../../src/ir/shape.ts";
import { coordinatesOf, deviceCount, mesh, parseLayout } from "../../src/plan/index.ts";

const on = (axes: { [axis: string]: number }, layout: string, shape: number[], name = "x") => ({
  mesh: mesh(axes),
  tensor: { name, type: { dtype: "f32", shape } as const, layout: parseLayout(layout) },
});

test.each<[string, { [axis: string]: number }, string, number[], [rank: number, start: number[], shape: number[]][]]>([
  ["replicated", { data: 3 }, "R", [4, 2], [[0, [0, 0], [4, 2]]]],
  [
    "split on one axis, replicated on the other",
    { data: 2, model: 2 },
    "R S(1)",
    [2, 4],
    [
      [0, [0, 0], [2, 2]],
      [1, [0, 2], [2, 2]],
    ],
  ],
  [
    "split twice along one dim",
    { data: 2, model: 2 },
    "S(0) S(0)",
    [8],
    [
      [0, [0], [2]],
      [1, [2], [2]],
      [2, [4], [2]],
      [3, [6], [2]],
    ],
  ],
  [
    "split unevenly, one device without elements",
    { data: 3 },
    "S(0:3+0+1)",
    [4],
    [
      [0, [0], [3]],
      [2, [3], [1]],
    ],
  ],
  ["on one stage", { stage: 2 }, "O(1)", [3], [[1, [0], [3]]]],
  ["without elements", { data: 2 }, "R", [0, 2], [[0, [0, 0], [0, 2]]]],
])("%s", (_name, axes, layout, shape, wanted) => {
  const { mesh, tensor } = on(axes, layout, shape);
  expect(piecesOf([tensor], mesh).map(({ rank, start, shape }) => [rank, start, shape])).toEqual(wanted);
});

test("replicated values are written evenly", () => {
  const tensors = [100, 30, 30, 40, 1, 1, 1].map((size, index) => on({ data: 2 }, "R", [size], `x${index}`).tensor);
  const load = [0, 0];
  for (const { rank, shape } of piecesOf(tensors, mesh({ data: 2 })))
    load[rank] = (load[rank] as number) + sizeOf(shape);
  expect(load).toEqual([102, 101]);
});

test("in one process all pieces are of its rank, each on its device", () => {
  const { mesh, tensor } = on({ model: 3 }, "S(0)", [6]);
  expect(piecesOf([tensor], mesh, () => 0).map(({ rank, device }) => [rank, device])).toEqual([
    [0, 0],
    [0, 1],
    [0, 2],
  ]);
});

/** A box within a shape. */
const boxIn = (shape: number[]): fc.Arbitrary<Box> =>
  fc.tuple(...shape.map((size) => fc.tuple(fc.nat(size), fc.nat(size)))).map((dims) => ({
    start: dims.map(([a, b]) => Math.min(a, b)),
    shape: dims.map(([a, b]) => Math.abs(a - b)),
  }));

test("shared runs copy exactly the elements of both boxes", () => {
  const cases = fc
    .array(fc.integer({ min: 1, max: 4 }), { maxLength: 4 })
    .chain((shape) => fc.tuple(fc.constant(shape), boxIn(shape), boxIn(shape)));
  fc.assert(
    fc.property(cases, ([shape, source, target]) => {
      const strides = stridesOf(shape);
      /** The number of each element of a box in the whole. */
      const numbers = ({ start, shape: sizes }: Box): number[] => {
        let all = [0];
        sizes.forEach((size, dim) => {
          const steps = Array.from(
            { length: size },
            (_unused, i) => ((start[dim] as number) + i) * (strides[dim] as number),
          );
          all = all.flatMap((base) => steps.map((step) => base + step));
        });
        return all;
      };
      const [from, to] = [numbers(source), numbers(target)];
      const copied = to.map(() => -1);
      let before = -1;
      for (const run of sharedRuns(source, target, 2)) {
        expect(run.from).toBeGreaterThan(before);
        before = run.from;
        for (let at = 0; at < run.bytes / 2; at++) copied[run.to / 2 + at] = from[run.from / 2 + at] as number;
      }
      expect(copied).toEqual(to.map((number) => (from.includes(number) ? number : -1)));
    }),
    { numRuns: 500 },
  );
});

test("the boxes of all devices make up the tensor", () => {
  const { mesh, tensor } = on({ a: 2, b: 3 }, "S(1) S(0)", [6, 4]);
  const boxes = Array.from({ length: deviceCount(mesh) }, (_unused, device) =>
    boxOf(tensor, mesh, coordinatesOf(mesh, device)),
  );
  const elements = boxes.map((box) => sizeOf((box as Box).shape));
  expect(elements).toEqual([4, 4, 4, 4, 4, 4]);
  expect(wholeBox([6, 4])).toEqual({ start: [0, 0], shape: [6, 4] });
});
