/**
 * @module What each server keeps: rows of parameters and of the state of their update rule, and the program of the rule on these rows.
 *
 * A tensor is cut along its first dim where the planner finds that the rule needs no communication on rows, and its states have the same
 * rows; if the rule needs communication anywhere, tensors stay whole, and parameters whose updates depend on each other share a server. The program is text: it is all that a server gets of a model.
 */
import type { Tensors } from "../functions/index.ts";
import type { Graph, Node } from "../ir/node.ts";
import { bytesOf, isTensorType, type TensorType } from "../ir/shape.ts";
import type { Optimizer } from "../optim/index.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { HeddleError } from "../util/errors.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";
import { isByRows, planned, programOf, type UpdatedTypes } from "./rules.ts";
import type { TableSpec } from "./tables/table-spec.ts";

/** Rows of a tensor. */
export interface Piece {
  readonly path: string;
  readonly type: TensorType;
  /** First row, and number of rows; a scalar is one row. */
  readonly start: number;
  readonly rows: number;
}

/** What a server keeps. */
export interface Shard {
  readonly params: readonly Piece[];
  readonly slots: readonly Piece[];
  /** The program of the update rule: from parameters, states, gradients, step and learning rates to parameters and states. */
  readonly program: string;
  /** Number of learning rates. */
  readonly rates: number;
  /** Tables, of which the shard has the rows that the ring gives it: those of shard `index` of `count`. */
  readonly tables: readonly TableSpec[];
  readonly index: number;
  readonly count: number;
}

type Flat = FlatTree<TensorType>;

/**
 * Cuts parameters and states into a shard for each server.
 *
 * @throws HeddleError `option` for a rule that uses tensors besides its arguments
 */
export function shardsOf(
  optimizer: Optimizer,
  types: UpdatedTypes,
  servers: number,
  tables: readonly TableSpec[] = [],
): Shard[] {
  const params = flattenTree<TensorType>(types.params, isTensorType);
  const slots = flattenTree<TensorType>(types.slots, isTensorType);
  const owners = ownersOf(optimizer, types, params, slots);
  const shards = (placed: readonly (readonly Rows[])[]): Shard[] =>
    placed.map((intervals, index) => {
      const of = (flat: Flat, leaf: number, owner: number): Piece | undefined => {
        const [type, ofParam] = [flat.leaves[leaf], params.leaves[owner]] as [TensorType, TensorType];
        // No server has a tensor without elements, nor states of it.
        const rows = bytesOf(type) === 0 || bytesOf(ofParam) === 0 ? undefined : intervals[owner];
        return pieceOf(flat.paths[leaf] as string, type, rows, rows?.rows === rowsOf(ofParam));
      };
      const paramPieces = params.leaves.map((_type, leaf) => of(params, leaf, leaf));
      const slotPieces = slots.leaves.map((_type, leaf) => of(slots, leaf, owners.slots[leaf] as number));
      return {
        params: paramPieces.flatMap((piece) => piece ?? []),
        slots: slotPieces.flatMap((piece) => piece ?? []),
        program: programOf(optimizer, types.dtype, part(params, paramPieces), part(slots, slotPieces)),
        rates: learningRatesAt(optimizer, 0).values.length,
        tables,
        index,
        count: servers,
      };
    });
  try {
    return shards(
      owners.apart && isByRows(optimizer, types, servers)
        ? byRows(params.leaves, cuttable(params, slots, owners.slots), servers)
        : whole(params.leaves, owners.groups, servers),
    );
  } catch (error) {
    // A group of parameters by a pattern must have some of them, which not every server has: then one has all.
    if (!(error instanceof HeddleError) || error.code !== "option" || optimizer.parts === undefined) throw error;
    return shards(
      whole(
        params.leaves,
        params.leaves.map(() => 0),
        servers,
      ),
    );
  }
}

/** Bytes of some pieces. */
export const bytesOfPieces = (pieces: readonly Piece[]): number =>
  pieces.reduce((sum, { type }) => sum + bytesOf(type), 0);

/** First row and number of rows; undefined: nothing. */
type Rows = { readonly start: number; readonly rows: number } | undefined;

const rowsOf = ({ shape }: TensorType): number => shape[0] ?? 1;

/** The rows of a parameter, or of a state of it: all rows of the state if all of the parameter are here. */
function pieceOf(path: string, type: TensorType, rows: Rows, isWhole: boolean): Piece | undefined {
  if (rows === undefined) return undefined;
  if (isWhole) return { path, type, start: 0, rows: rowsOf(type) };
  return { path, type: { dtype: type.dtype, shape: [rows.rows, ...type.shape.slice(1)] }, ...rows };
}

/** For each parameter whether its states have a row for each of its rows. A scalar state, for one, is needed by all rows. */
function cuttable(params: Flat, slots: Flat, owners: readonly number[]): boolean[] {
  return params.leaves.map(
    ({ shape: [rows] }, index) =>
      rows !== undefined && slots.leaves.every(({ shape }, slot) => owners[slot] !== index || shape[0] === rows),
  );
}

/** The tree of the pieces; an empty record stands for a tensor that is elsewhere. */
const part = ({ shape }: Flat, pieces: readonly (Piece | undefined)[]): Tensors =>
  unflattenTree(
    shape,
    pieces.map((piece) => piece?.type ?? {}),
  ) as Tensors;

/** Cuts every tensor that has enough rows; the servers with the fewest bytes get the larger parts, and what is not cut. */
function byRows(params: readonly TensorType[], mayCut: readonly boolean[], servers: number): Rows[][] {
  const placed: Rows[][] = Array.from({ length: servers }, () => []);
  const load = new Array<number>(servers).fill(0);
  for (const [index, type] of params.entries()) {
    const rows = rowsOf(type);
    const cut = mayCut[index] === true && rows >= servers;
    const order = [...load.keys()].sort((a, b) => (load[a] as number) - (load[b] as number) || a - b);
    const most = new Set(order.slice(0, cut ? rows % servers : 1));
    let start = 0;
    for (const [server, list] of placed.entries()) {
      const own = (cut ? Math.floor(rows / servers) : 0) + (most.has(server) ? (cut ? 1 : rows) : 0);
      list.push(own === 0 ? undefined : { start, rows: own });
      start += own;
      load[server] = (load[server] as number) + (bytesOf(type) / Math.max(1, rows)) * own;
    }
  }
  return placed;
}

/** Puts groups of whole tensors on servers, the largest first, each on the server with the fewest bytes. */
function whole(params: readonly TensorType[], groups: readonly number[], servers: number): Rows[][] {
  const placed: Rows[][] = Array.from({ length: servers }, () => params.map(() => undefined));
  const load = new Array<number>(servers).fill(0);
  const bytes = new Map<number, number>();
  for (const [index, group] of groups.entries())
    bytes.set(group, (bytes.get(group) ?? 0) + bytesOf(params[index] as TensorType));
  for (const [group, size] of [...bytes].sort((a, b) => b[1] - a[1])) {
    const server = load.indexOf(Math.min(...load));
    load[server] = (load[server] as number) + size;
    for (const [index, type] of params.entries())
      if (groups[index] === group) (placed[server] as Rows[])[index] = { start: 0, rows: rowsOf(type) };
  }
  return placed;
}

/**
 * For each parameter the group of parameters with which its update belongs together, by what it reads or by states that both read, and
 * for each state its parameter. `apart`: each parameter is a group of its own.
 */
function ownersOf(
  optimizer: Optimizer,
  types: UpdatedTypes,
  params: Flat,
  slots: Flat,
): { readonly groups: readonly number[]; readonly slots: readonly number[]; readonly apart: boolean } {
  const { graph } = planned(optimizer, types.dtype, types);
  const [p, s] = [params.leaves.length, slots.leaves.length];
  // Parameters, then states.
  const groups = Array.from({ length: p + s }, (_unused, index) => index);
  const join = (a: number, b: number): void => {
    const [from, to] = [groups[a] as number, groups[b] as number].sort((x, y) => y - x) as [number, number];
    for (const [index, group] of groups.entries()) if (group === from) groups[index] = to;
  };
  // Inputs: parameters, states, gradients. The gradient and the parameter of one number are one.
  const placeOf = (input: number): number[] => (input < p + s ? [input] : input < 2 * p + s ? [input - p - s] : []);
  const needs = dependencies(graph).map((inputs) => inputs.flatMap(placeOf));
  for (const [output, inputs] of needs.entries()) for (const input of inputs) join(output, input);
  const own = slots.leaves.map((_type, slot) => {
    const read = needs[p + slot]?.find((input) => input < p);
    // A state that counts, for one, reads no parameter: it belongs to one that reads it.
    const reader = needs.findIndex((inputs, output) => output < p && inputs.includes(p + slot));
    return read ?? Math.max(0, reader);
  });
  const ofParams = groups.slice(0, p);
  return { groups: ofParams, slots: own, apart: new Set(ofParams).size === p };
}

/** For each output the numbers of the inputs on which it depends. */
function dependencies({ inputs, outputs }: Graph): number[][] {
  const known = new Map<Node, ReadonlySet<number>>(inputs.map((node, index) => [node, new Set([index])]));
  const visit = (root: Node): ReadonlySet<number> => {
    const open = [root];
    while (open.length > 0) {
      const node = open.at(-1) as Node;
      const missing = known.has(node) ? [] : node.inputs.filter((input) => !known.has(input));
      if (missing.length > 0) open.push(...missing);
      else {
        if (!known.has(node)) known.set(node, new Set(node.inputs.flatMap((input) => [...(known.get(input) ?? [])])));
        open.pop();
      }
    }
    return known.get(root) as ReadonlySet<number>;
  };
  return outputs.map((node) => [...visit(node)]);
}
