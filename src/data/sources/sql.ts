/** @module Rows of SQL queries, through the driver that users have: DuckDB, SQLite, PostgreSQL. */
import { HeddleError } from "../../util/errors.ts";
import { checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { AnyRow } from "../records/piece.ts";
import type { Records } from "../records/records.ts";
import { fromGenerator } from "../records/sources.ts";
import { checkQuery } from "./sql-query.ts";

/** What is used of a result of `@duckdb/node-api`. */
export interface DuckDBRows {
  columnNames(): readonly string[];
  yieldRowObjectJs(): AsyncIterable<readonly object[]>;
}

/** What is used of a connection of `@duckdb/node-api`. */
export interface DuckDBConnection {
  stream(query: string, values?: never): Promise<DuckDBRows>;
}

/** What is used of a database of `node:sqlite`, `better-sqlite3` or `libsql`. */
export interface SQLiteDatabase {
  prepare(query: string): {
    iterate(...values: never[]): Iterable<unknown>;
    /** Absent in `node:sqlite` before Node 22.16: there two columns with one name are not noticed. */
    columns?(): readonly { readonly name: string }[];
  };
}

/** What is used of a client of `pg`, or of a `PGlite`. */
export interface PostgresClient {
  query(
    query: string,
    values?: never,
  ): Promise<{ readonly rows: readonly unknown[]; readonly fields?: readonly { readonly name: string }[] }>;
}

/** An open connection of a driver. */
export type SqlConnection = DuckDBConnection | SQLiteDatabase | PostgresClient;

/** Options of {@link sql}. */
export interface SqlOptions {
  /** Values of the query's parameters (`$1` in DuckDB and PostgreSQL, `?` in SQLite); default none. */
  readonly parameters?: readonly unknown[];
  /** Rows of the result, if you know: then a training can stream them. Another number is an error. */
  readonly length?: number;
}

/** Rows that PostgreSQL sends at once. */
const fetched = 1000;
/** Cursors of this process, whose names must differ. */
let cursors = 0;

/**
 * The rows of a query, as objects: the query runs anew for each epoch, and rows are read as they are needed. The connection stays open; one of DuckDB
 * must not run other queries meanwhile. Values are those
 * of the driver: cast numbers that it gives as text (`int8` and `numeric` of `pg`) in the query. Without `ORDER BY` a database may give
 * rows in another order each time. It must be a query, which changes nothing.
 *
 * @example data.sql(connection, "SELECT age, city FROM people WHERE age > $1 ORDER BY id", { parameters: [17] })
 * @throws HeddleError `argument` for what is not a connection, or not one query; when rows are read, `data` with what the database says, and where
 * two columns have one name
 */
export function sql<Row extends object = AnyRow>(
  connection: SqlConnection,
  query: string,
  options: SqlOptions = {},
): Records<Row> {
  checkOptions("sql", options, ["parameters", "length"]);
  const { parameters = [], length } = options;
  if (typeof query !== "string" || query.trim() === "")
    throw new HeddleError("argument", `sql: takes a connection and the text of a query, got ${shown(query)}`);
  checkQuery(query);
  if (!Array.isArray(parameters))
    throw new HeddleError("option", `sql: parameters must be a list of values, got ${shown(parameters)}`);
  const rows = reader(connection);
  const given = parameters.length === 0 ? "" : ` with ${parameters.map(String).join(", ")}`;
  return fromGenerator<Row>(() => told(rows(query, parameters)) as AsyncIterable<Row>, {
    name: `query ${query}${given}`,
    ...(length === undefined ? {} : { length }),
  });
}

type Reader = (query: string, parameters: readonly unknown[]) => AsyncIterable<unknown>;

function reader(connection: SqlConnection): Reader {
  const has = (name: string): boolean => typeof (connection as never as AnyRow | undefined)?.[name] === "function";
  if (has("stream") && has("run")) return fromDuckDB(connection as DuckDBConnection);
  if (has("prepare")) return fromSQLite(connection as SQLiteDatabase);
  if (has("query") && "totalCount" in connection)
    throw new HeddleError("argument", "sql: takes a client, not a pool: a cursor belongs to one connection", {
      hint: "pass await pool.connect(), and release it afterwards",
    });
  if (has("query")) return fromPostgres(connection as PostgresClient);
  throw new HeddleError("argument", `sql: takes a connection of a driver, got ${shown(connection)}`, {
    hint: "a connection of @duckdb/node-api, a database of node:sqlite, better-sqlite3 or libsql, a client of pg, or a PGlite",
  });
}

/** Connections of DuckDB whose result is being read. A connection forgets its result at the next query, without a word: rows would be missing. */
const reading = new WeakSet<DuckDBConnection>();

const fromDuckDB = (connection: DuckDBConnection): Reader =>
  async function* (query, parameters) {
    if (reading.has(connection))
      throw new HeddleError(
        "data",
        "sql: a connection of DuckDB gives one result at a time, and this one is being read",
        {
          hint: "connect once more, by instance.connect(), for a second reading",
        },
      );
    reading.add(connection);
    try {
      const values = (parameters.length === 0 ? undefined : [...parameters]) as never;
      const result = await connection.stream(query, values);
      checkColumns(result.columnNames());
      for await (const rows of result.yieldRowObjectJs()) yield* rows;
    } finally {
      reading.delete(connection);
    }
  };

const fromSQLite = (database: SQLiteDatabase): Reader =>
  async function* (query, parameters) {
    const statement = database.prepare(query);
    checkColumns(statement.columns?.().map(({ name }) => name));
    for (const row of statement.iterate(...(parameters as never[]))) yield bytesIn(row as AnyRow);
  };

/** A row whose blobs are byte arrays, as records have them. */
function bytesIn(row: AnyRow): AnyRow {
  const blobs = Object.entries(row).filter(([, value]) => value instanceof ArrayBuffer);
  if (blobs.length === 0) return row;
  return { ...row, ...Object.fromEntries(blobs.map(([name, value]) => [name, new Uint8Array(value as ArrayBuffer)])) };
}

const fromPostgres = (client: PostgresClient): Reader =>
  async function* (query, parameters) {
    const cursor = `heddle_${++cursors}`;
    // Held, it needs no transaction, which the user may have open or not.
    await client.query(`DECLARE ${cursor} NO SCROLL CURSOR WITH HOLD FOR ${query}`, [...parameters] as never);
    try {
      for (;;) {
        const { rows, fields } = await client.query(`FETCH ${fetched} FROM ${cursor}`);
        checkColumns(fields?.map(({ name }) => name));
        yield* rows;
        if (rows.length < fetched) return;
      }
    } finally {
      // A connection that is lost has said so already.
      await client.query(`CLOSE ${cursor}`).catch(() => {});
    }
  };

/** A record has one value for each name, so a driver gives the last of two. @throws HeddleError `data` */
function checkColumns(names: readonly string[] = []): void {
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice === undefined) return;
  throw new HeddleError("data", `sql: two columns of the query have the name ${JSON.stringify(twice)}`, {
    hint: `name one of them anew: SELECT people.${twice}, towns.${twice} AS town_${twice}`,
  });
}

/** The same rows; an error says what the database said. */
async function* told(rows: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  const iterator = rows[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await iterator.next().catch((error: unknown) => {
        if (error instanceof HeddleError) throw error;
        throw new HeddleError("data", `sql: ${error instanceof Error ? error.message : String(error)}`, {
          cause: error,
        });
      });
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    await iterator.return?.();
  }
}
