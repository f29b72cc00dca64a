/** @module Values of rows cut by servers, and put together again. */
import { dtypes } from "../../ir/dtype.ts";
import type { RowList, Rows } from "./row-lists.ts";
import type { TableSpec } from "./table-spec.ts";

/** A list cut by servers: the ids of each, and their places in the whole list. */
export interface RowParts {
  readonly lists: readonly RowList[];
  readonly places: readonly Int32Array[];
}

type Width = Pick<TableSpec, "size" | "dtype">;

const widthOf = ({ size, dtype }: Width): number => size * dtypes[dtype].bytes;

/** The values of each table's rows on one server. */
export function rowsOfServer(
  tables: readonly Width[],
  parts: readonly RowParts[],
  rows: readonly Rows[],
  server: number,
): Uint8Array[] {
  return parts.map(({ places }, table) => {
    const { values } = rows[table] as Rows;
    const own = places[server] as Int32Array;
    const width = widthOf(tables[table] as Width);
    // All rows are in their order.
    if (own.length * width === values.length) return values;
    const cut = new Uint8Array(own.length * width);
    for (let row = 0; row < own.length; row++) {
      const from = (own[row] as number) * width;
      cut.set(values.subarray(from, from + width), row * width);
    }
    return cut;
  });
}

/** The values of each table's list, from those of each server. */
export function rowsFromServers(
  tables: readonly Width[],
  parts: readonly RowParts[],
  lists: readonly RowList[],
  bodies: readonly Uint8Array[],
): Uint8Array[] {
  const offsets = bodies.map(() => 0);
  return lists.map((list, table) => {
    const width = widthOf(tables[table] as Width);
    const { places } = parts[table] as RowParts;
    const take = (server: number): Uint8Array => {
      const from = offsets[server] as number;
      offsets[server] = from + (places[server] as Int32Array).length * width;
      return (bodies[server] as Uint8Array).subarray(from, offsets[server]);
    };
    if (bodies.length === 1) return take(0);
    const whole = new Uint8Array(list.length * width);
    for (const [server, own] of places.entries()) {
      const values = take(server);
      for (let row = 0; row < own.length; row++)
        whole.set(values.subarray(row * width, (row + 1) * width), (own[row] as number) * width);
    }
    return whole;
  });
}
