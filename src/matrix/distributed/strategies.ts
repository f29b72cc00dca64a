/**
 * @module The ways in which workers can compute an operator together: how its operands have to lie, and how the result lies then. The
 * names are those of SystemML's physical operators (Boehm et al., SystemML: Declarative Machine Learning on Spark, VLDB 2016).
 */

import * as t from "../../functions/index.ts";
import { randomRows, type Tensor } from "../../functions/index.ts";
import { cells, type MatrixAttrs, type Operator, type Size } from "../expression.ts";
import { aggregates, cumulatives, others } from "../operators.ts";
import { blockLength, blockStart, type Form, type Place, type Reduction } from "./layout.ts";

/** One way to compute an operator. */
export interface Strategy {
  /** The physical operator. */
  readonly name: string;
  /** How each operand has to lie. */
  readonly operands: readonly Form[];
  /** How the result lies, or what makes it up of what the workers have. */
  readonly result: Form | Reduction;
  /** What a worker computes of its parts; default: the operator itself. */
  readonly local?: (place: Place) => Operator;
}

/** An operator with the sizes of its operands and of its result. */
export interface Applied {
  readonly operator: Operator;
  readonly attrs: MatrixAttrs;
  readonly inputs: readonly Size[];
  readonly size: Size;
}

/** Every worker computes all of it. */
const local = ({ inputs }: Applied): Strategy => ({
  name: "local",
  operands: inputs.map(() => "whole"),
  result: "whole",
});

const sides = [0, 1] as const;

/** Elements by their place: of an operand that has one row for all rows, all of it is needed. */
const cellwise = ({ inputs, size }: Applied): Strategy[] =>
  sides.map((dim) => ({
    name: "cellwise",
    operands: inputs.map((input) => (input[dim] === 1 && size[dim] !== 1 ? "whole" : dim)),
    result: dim,
  }));

/** Products: a whole operand and blocks of the other, or blocks of both along the side that is summed over. */
const products: readonly Strategy[] = [
  { name: "mapmm", operands: [0, "whole"], result: 0 },
  { name: "mapmm", operands: ["whole", 1], result: 1 },
  { name: "cpmm", operands: [1, 0], result: "sum" },
];

const reductions: Readonly<Record<string, Reduction>> = {
  sum: "sum",
  mean: "sum",
  min: "min",
  max: "max",
  prod: "product",
};

function aggregate({ operator, attrs, inputs }: Applied): Strategy[] {
  const [input] = inputs as [Size];
  const { over } = attrs as { readonly over: "all" | "rows" | "columns" };
  return sides.flatMap((dim): Strategy[] => {
    if (over === (dim === 0 ? "rows" : "columns"))
      return [{ name: `${operator.name} of blocks`, operands: [dim], result: dim }];
    const reduction = reductions[operator.name];
    if (reduction === undefined) return [];
    const name = `${operator.name} over blocks`;
    if (operator !== aggregates.mean) return [{ name, operands: [dim], result: reduction }];
    const count = over === "all" ? cells(input) : input[dim];
    const share: Operator = {
      ...aggregates.sum,
      name: "mean",
      build: (values, of, size) => t.div(aggregates.sum.build(values, of, size), count),
    };
    return [{ name, operands: [dim], result: reduction, local: () => share }];
  });
}

/** Random numbers are a function of key and place, so each worker makes those of its rows. */
const random = ({ attrs, size }: Applied): Strategy[] => [
  {
    name: "rand",
    operands: ["whole"],
    result: 0,
    local: (place) => ({
      ...others.random,
      build: ([key], _attrs, block) => {
        const rows = { from: blockStart(size[0], place.rank, place.size), of: size[0] };
        const kind = attrs["normal"] === true ? "normal" : "uniform";
        return randomRows(t.reshape(key as Tensor, [2]), block, kind, rows);
      },
    }),
  },
];

/** Rows of a matrix in blocks at positions that are known when the program runs: each worker gives those that it has, and zeros for the others. */
const rowsAt =
  (name: string, rows: number, columns: Size | undefined, at: (operand: Tensor) => Tensor): Strategy["local"] =>
  (place) => ({
    name,
    build: ([x, row, column], attrs, size) => {
      const [own, first] = [blockLength(rows, place), blockStart(rows, place.rank, place.size)];
      const part =
        columns === undefined
          ? (x as Tensor)
          : others.slice.build([x as Tensor, t.mul(row as Tensor, 0), column as Tensor], attrs, [own, columns[1]]);
      const places = at(row as Tensor).sub(first);
      const isHere = t.and(places.ge(0), places.lt(own));
      const taken = t.take(part, t.select(isHere, places, t.mul(places, 0)), 0);
      const mask = t.broadcastTo(t.expandDims(isHere, 1), taken.shape);
      return t.reshape(t.select(mask, taken, t.zeros(taken.shape, { dtype: "f64" })), size);
    },
  });

function slice({ inputs, size }: Applied): Strategy[] {
  const [x] = inputs as [Size];
  const along = sides.filter((dim) => x[dim] === size[dim]);
  const starts = inputs.slice(1).map((): Form => "whole");
  const blocks = along.map((dim): Strategy => ({ name: "slice of blocks", operands: [dim, ...starts], result: dim }));
  if (along.includes(0)) return blocks;
  const positions = (start: Tensor): Tensor => t.arange(size[0], { dtype: "i32" }).add(t.reshape(start, [1]));
  const rows = rowsAt("slice", x[0], size, positions);
  return [...blocks, { name: "rows of blocks", operands: [0, ...starts], result: "sum", ...(rows && { local: rows }) }];
}

function take({ attrs, inputs, size }: Applied): Strategy[] {
  const [x] = inputs as [Size];
  const dim = attrs["dim"] as 0 | 1;
  const other = (1 - dim) as 0 | 1;
  const blocks: Strategy = { name: "take of blocks", operands: [other, "whole"], result: other };
  if (dim === 1) return [blocks];
  const rows = rowsAt("take", x[0], undefined, (at) => t.reshape(at, [size[0]]));
  return [blocks, { name: "rows of blocks", operands: [0, "whole"], result: "sum", ...(rows && { local: rows }) }];
}

/** Operators of whole rows, or whole columns, each by itself. */
const alongOther =
  (name: string) =>
  ({ attrs, inputs }: Applied): Strategy[] => {
    const dim = (1 - (attrs["dim"] as number)) as 0 | 1;
    return [{ name, operands: inputs.map(() => dim), result: dim }];
  };

const table = new Map<Operator, (applied: Applied) => readonly Strategy[]>([
  [others.matmul, () => products],
  [others.transpose, () => sides.map((dim) => ({ name: "transpose", operands: [dim], result: (1 - dim) as 0 | 1 }))],
  [others.fill, () => sides.map((dim) => ({ name: "fill", operands: ["whole"], result: dim }))],
  [others.random, random],
  [others.slice, slice],
  [others.take, take],
  [others.concat, alongOther("concat of blocks")],
  [
    others.update,
    ({ inputs }) =>
      sides
        .filter((dim) => inputs[0]?.[dim] === inputs[1]?.[dim])
        .map((dim) => ({ name: "update of blocks", operands: [dim, dim, "whole", "whole"], result: dim })),
  ],
  ...Object.values(aggregates).map((operator) => [operator, aggregate] as const),
  ...Object.values(cumulatives).map((operator) => [operator, alongOther(`${operator.name} of blocks`)] as const),
]);

/** The ways to compute an operator; the first is that each worker computes all of it. A side that is cut has a row or column for each worker. */
export function strategiesOf(applied: Applied, workers: number): Strategy[] {
  const found =
    applied.operator.elementwise === true ? cellwise(applied) : (table.get(applied.operator)?.(applied) ?? []);
  const fits = (form: Form | Reduction, size: Size | undefined): boolean =>
    (form !== 0 && form !== 1) || (size !== undefined && size[form] >= workers);
  const possible = found.filter(
    ({ operands, result }) =>
      fits(result, applied.size) && operands.every((form, index) => fits(form, applied.inputs[index])),
  );
  return [local(applied), ...possible];
}
