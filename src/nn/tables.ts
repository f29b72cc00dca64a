/**
 * @module Tables of embeddings whose rows are on parameter servers. A worker has a *window* of a table: the rows that a batch looks up, in the
 * parameter `weight` `[window, size]`, and their ids, ascending, in the state `rows` `[window]`.
 */
import { concat, full, random, searchsorted, type Tensor, type Tensors } from "../functions/index.ts";
import { lookedUp, rowsById, toIndices } from "../functions/indices.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { shown } from "../util/show.ts";

/** Options of tables that may be on parameter servers. */
export interface ServedTableOptions {
  /**
   * `"servers"`: where a training has parameter servers, they have the rows, which exist from their first push on; workers have those that a
   * batch looks up (docs/parameter-server.md). Elsewhere the table is a parameter like any other. Default: it is one in any case.
   */
  readonly on?: "servers";
  /** Standard deviation of initial values; 0: zeros. Default 1. */
  readonly std?: number;
  /** On servers: a row is created by so many-th push of it, at most 255; default 1, the first. Earlier ones change nothing. */
  readonly admit?: number;
  /** On servers: rows without a push in so many steps are removed, and have their initial values again; default 0, none are. */
  readonly evict?: number;
  /** On servers: bytes of rows that each keeps in memory; more are in a file of its temporary folder. Default 4 GiB. */
  readonly memory?: number;
}

/** What a layer says of its table. */
export interface ServedTable extends Required<Omit<ServedTableOptions, "on">> {
  readonly count: number;
  readonly size: number;
  readonly dtype: "f32" | "f64";
  /** The row that begins as zeros; -1: none. */
  readonly padding: number;
}

/** Names of the options. */
export const servedOptions = ["on", "std", "admit", "evict", "memory"] as const;

/** @throws HeddleError `option` for an option out of range */
export function checkServed(kind: string, { on, std, admit, evict, memory }: ServedTableOptions): void {
  if (on !== undefined && (on as unknown) !== "servers")
    throw new HeddleError("option", `${kind}: on must be "servers", got ${shown(on)}`);
  if (std !== undefined && !(Number.isFinite(std) && std >= 0))
    throw new HeddleError("option", `${kind}: std must be a number from 0 on, got ${shown(std)}`);
  if (admit !== undefined) checkInteger(kind, "admit", admit, 1, 255);
  if (evict !== undefined) checkInteger(kind, "evict", evict, 0, 2 ** 31 - 1);
  if (memory !== undefined) checkInteger(kind, "memory", memory);
}

/** How tables are looked at while a model is made or applied. */
type Look =
  /** Models have no tables: servers do. */
  | { readonly kind: "absent" }
  /** Models have windows; `made` is told of each. */
  | { readonly kind: "window"; readonly made: (rows: Tensor, table: ServedTable, layer: object) => void }
  /** `looked` is told of the ids that are looked up; the vectors are zeros. */
  | { readonly kind: "lookups"; readonly looked: (ids: Tensor, layer: object) => void };

let current: Look | undefined;

/** Runs code that makes or applies a model whose tables are looked at in this way. */
export function lookingAtTables<Result>(look: Look | undefined, body: () => Result): Result {
  const outer = current;
  current = look;
  try {
    return body();
  } finally {
    current = outer;
  }
}

/** A window with the rows of a batch; undefined if the model has the table itself. `layer` is what {@link vectorsOf} gets. */
export function tableWindow(
  key: Tensor,
  input: TensorType,
  table: ServedTable,
  layer: object,
): { readonly params: Tensors; readonly state: Tensors } | undefined {
  if (current?.kind === "absent") return { params: {}, state: {} };
  if (current?.kind !== "window") return undefined;
  const most = Math.min(table.count, Math.max(1, sizeOf(input.shape)));
  const rows = full([most], 0, { dtype: "i32" });
  current.made(rows, table, layer);
  const drawn = random.foldIn(key, 0);
  // The keys that `random.normal` draws by.
  const keys = concat([random.foldIn(drawn, 0), random.foldIn(drawn, 1)]);
  return { params: { weight: full([most, table.size], 0, { dtype: table.dtype }) }, state: { rows, keys } };
}

/** The rows of ids. */
export function vectorsOf(
  kind: string,
  { params, state }: { readonly params: Tensors; readonly state: Tensors },
  x: Tensor,
  { count, size, dtype }: Pick<ServedTable, "count" | "size" | "dtype">,
  layer: object,
): Tensor {
  const { weight } = params as { readonly weight?: Tensor };
  if (current?.kind === "lookups") current.looked(toIndices(x), layer);
  if (current?.kind === "lookups" || weight === undefined) return full([...x.shape, size], 0, { dtype });
  const { rows } = state as { readonly rows?: Tensor };
  if (rows !== undefined) return rowsById(weight, searchsorted(rows, toIndices(x)));
  return lookedUp(kind, x, count, (ids) => rowsById(weight, ids));
}
