/** @module What a table is: its rows, their initial values, the update rule as programs for blocks of rows, and which rows are kept. */
import { isTensor, type Tensors, zeros } from "../../functions/index.ts";
import { bytesOf, isTensorType, sizeOf, type TensorType } from "../../ir/shape.ts";
import type { Optimizer } from "../../optim/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { flattenTree, unflattenTree } from "../../util/tree.ts";
import { isByRows, programOf, slotTypesOf } from "../rules.ts";
import type { InitialRows } from "./initial-rows.ts";

/** Which rows a table keeps, and where. */
export interface TableLimits {
  /** A row is created by so many-th push of it; default 1, the first. Until then it has its initial value. */
  readonly admit: number;
  /** A row without a push in so many steps may be removed; 0: none is. It then has its initial value again. */
  readonly evict: number;
  /** Bytes of rows that a server keeps in memory; more are in a file. */
  readonly memory: number;
}

/** A state of the update rule: its numbers for each row, all the same at first. */
export interface RowSlot {
  readonly path: string;
  readonly width: number;
  readonly initial: number;
}

/** A table of a training. Rows are numbered from 0 to `count` - 1 and have `size` numbers. */
export interface TableSpec extends InitialRows, TableLimits {
  /** The name of the parameter. */
  readonly path: string;
  readonly count: number;
  readonly size: number;
  readonly slots: readonly RowSlot[];
  /** Programs of the rule for blocks of rows, largest first: from rows, states, gradients, step and learning rates to rows and states. */
  readonly blocks: readonly { readonly rows: number; readonly program: string }[];
}

/** Rows of the blocks in which updates are computed. */
const blockRows = [2048, 64];

/** A table without its update rule. */
export type TableShape = Omit<TableSpec, "slots" | "blocks">;

/**
 * A table with an optimizer's rule for the rows that are touched.
 *
 * @throws HeddleError `option` for an optimizer whose update of a row needs other rows
 */
export async function tableFor(optimizer: Optimizer, table: TableShape): Promise<TableSpec> {
  const { path, size, dtype } = table;
  const types = (rows: number) => {
    const params = treeAt(path, { shape: [rows, size], dtype });
    return { params, slots: slotTypesOf(optimizer, params), dtype };
  };
  const why = await apart(optimizer, types);
  if (why !== undefined)
    throw new HeddleError("option", `${optimizer.name}: ${why}, so a table on servers cannot have it: '${path}'`, {
      hint: "sgd, adagrad, rmsprop, adam and ftrl update each row alone",
    });
  const flat = flattenTree<TensorType>(types(1).slots, isTensorType);
  const initial = await initialSlots(optimizer, path, size, dtype);
  return {
    ...table,
    slots: flat.paths.map((slot, index) => ({
      path: slot,
      width: sizeOf((flat.leaves[index] as TensorType).shape),
      initial: initial[index] as number,
    })),
    blocks: blockRows.map((rows) => {
      const { params, slots } = types(rows);
      return { rows, program: programOf(optimizer, dtype, params, slots) };
    }),
  };
}

/** Why a rule does not update each row alone; undefined if it does. */
async function apart(
  optimizer: Optimizer,
  types: (rows: number) => { readonly params: Tensors; readonly slots: Tensors; readonly dtype: "f32" | "f64" },
): Promise<string | undefined> {
  if (optimizer.parts !== undefined) return "groups are chosen among all parameters";
  const rows = 4;
  const { leaves } = flattenTree<TensorType>(types(rows).slots, isTensorType);
  if (leaves.some(({ shape }) => shape[0] !== rows)) return "it has a state that is not of rows";
  return isByRows(optimizer, types(rows), 2) ? undefined : "the update of a row needs others";
}

/** A tree with one tensor. */
export function treeAt(path: string, type: TensorType): Tensors {
  const names = path.split(".");
  return names.reduceRight<unknown>((inner, name) => ({ [name]: inner }), type) as Tensors;
}

/** The first value of each state. @throws HeddleError `option` for states that begin with several */
async function initialSlots(optimizer: Optimizer, path: string, size: number, dtype: "f32" | "f64"): Promise<number[]> {
  const params = treeAt(path, { shape: [1, size], dtype });
  const { shape } = flattenTree<TensorType>(params, isTensorType);
  const { leaves } = flattenTree(
    optimizer.init(unflattenTree(shape, [zeros([1, size], { dtype })]) as Tensors),
    isTensor,
  );
  return Promise.all(
    leaves.map(async (leaf) => {
      const values = [...(await leaf.data())].map(Number);
      const [first = 0] = values;
      if (values.every((value) => value === first)) return first;
      throw new HeddleError("option", `${optimizer.name}: a state of rows begins with several values`);
    }),
  );
}

/** Bytes of a row with its states. */
export const recordBytes = ({ size, dtype, slots }: Pick<TableSpec, "size" | "dtype" | "slots">): number =>
  bytesOf({ dtype, shape: [slots.reduce((sum, { width }) => sum + width, size)] });

/** Whether a value is what a table is. */
export function isTableSpec(value: unknown): value is TableSpec {
  const table = (value ?? {}) as { readonly [field: string]: unknown };
  const whole = (field: string, least: number): boolean =>
    Number.isSafeInteger(table[field]) && (table[field] as number) >= least;
  const lists = (field: string, fits: (one: { readonly [name: string]: unknown }) => boolean): boolean =>
    Array.isArray(table[field]) && (table[field] as unknown[]).every((one) => fits((one ?? {}) as never));
  return (
    typeof table["path"] === "string" &&
    (table["dtype"] === "f32" || table["dtype"] === "f64") &&
    whole("count", 1) &&
    (table["count"] as number) <= 2 ** 31 - 1 &&
    whole("size", 1) &&
    whole("admit", 1) &&
    whole("evict", 0) &&
    whole("memory", 0) &&
    whole("padding", -1) &&
    Number.isFinite(table["std"]) &&
    Array.isArray(table["keys"]) &&
    table["keys"].length === 4 &&
    table["keys"].every((word) => Number.isSafeInteger(word)) &&
    lists(
      "slots",
      ({ path, width, initial }) =>
        typeof path === "string" && Number.isSafeInteger(width) && (width as number) > 0 && Number.isFinite(initial),
    ) &&
    lists(
      "blocks",
      ({ rows, program }) => Number.isSafeInteger(rows) && (rows as number) > 0 && typeof program === "string",
    )
  );
}
