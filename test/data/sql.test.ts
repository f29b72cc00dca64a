/** SQL results as records: DuckDB, SQLite, and PostgreSQL by PGlite, which is PostgreSQL in WebAssembly. */
import { DuckDBInstance } from "@duckdb/node-api";
import { PGlite } from "@electric-sql/pglite";
import { data, frames } from "heddle";
import Database from "libsql";
import { afterAll, describe, expect, test } from "vitest";

const count = 2500;

const instance = await DuckDBInstance.create(":memory:");
const duckdb = await instance.connect();
const sqlite = new Database(":memory:");
const file = sqlite as unknown as data.SqlConnection;
const postgres = new PGlite();
afterAll(async () => {
  duckdb.closeSync();
  sqlite.close();
  await postgres.close();
});

const making = ["CREATE TABLE people (id INTEGER, age REAL, city TEXT)"];
for (let first = 0; first < count; first += 500)
  making.push(
    `INSERT INTO people VALUES ${Array.from({ length: 500 }, (_row, at) => first + at)
      .map((id) => `(${id}, ${id % 7 === 0 ? "NULL" : id / 2}, '${id % 3 === 0 ? "Oslo" : "it''s Rome"}')`)
      .join(", ")}`,
  );
for (const statement of making) {
  await duckdb.run(statement);
  sqlite.exec(statement);
  await postgres.exec(statement);
}

interface Person {
  readonly id: number;
  readonly age: number | null;
  readonly city: string;
}

const person = (id: number): Person => ({
  id,
  age: id % 7 === 0 ? null : id / 2,
  city: id % 3 === 0 ? "Oslo" : "it's Rome",
});
const people = (from: number, to = count): Person[] =>
  Array.from({ length: to - from }, (_row, index) => person(from + index));

const rowsFrom = async (records: data.Records<Person>, from: number): Promise<Person[]> => {
  const rows: Person[] = [];
  for await (const row of records.read({ from })) rows.push(row);
  return rows;
};

describe.each([
  { name: "DuckDB", connection: duckdb, second: await instance.connect(), mark: "$1" },
  { name: "SQLite", connection: file, second: file, mark: "?" },
  { name: "PostgreSQL", connection: postgres, second: postgres, mark: "$1" },
])("$name", ({ connection, second, mark }) => {
  const all = "SELECT id, age, city FROM people ORDER BY id";

  test("rows are records, from any of them on, in each epoch", async () => {
    const records = data.sql<Person>(connection, all);
    expect(records.length).toBeUndefined();
    for (let epoch = 0; epoch < 2; epoch++) expect(await records.toArray()).toEqual(people(0));
    for (const from of [1, 999, 1000, 1001, count - 1, count])
      expect(await rowsFrom(records, from)).toEqual(people(from));
  });

  test("parameters", async () => {
    const query = `SELECT id, age, city FROM people WHERE id >= ${mark} ORDER BY id`;
    expect(await data.sql<Person>(connection, query, { parameters: [2490] }).toArray()).toEqual(people(2490));
  });

  test("a reading that is left early, and several at once", async () => {
    const records = data.sql<Person>(connection, all);
    for await (const row of records.read()) if (row.id === 3) break;
    const other = data.sql<Person>(second, all);
    const [begin, end] = await Promise.all([records.take(1500).toArray(), rowsFrom(other, 2400)]);
    expect(begin).toEqual(people(0, 1500));
    expect(end).toEqual(people(2400));
  });

  test("what is missing goes to an encoder, and numbers to a dataset", async () => {
    const records = data.sql<Person>(connection, all, { length: count });
    const frame = await frames.fit(records, { x: [frames.scale("age", { impute: "mean" }), frames.oneHot("city")] });
    const [vector] = (await frame.apply(records).take(1).toArray()) as { x: Float32Array }[];
    expect([...(vector?.x ?? [])]).toEqual([0, 1, 0]);
    const dataset = await data.streamed(records.select("id"));
    const seen: number[] = [];
    for await (const { id } of data.batches<"id">(dataset.batch(1000))) seen.push(...(await id.data()));
    expect(seen).toEqual(people(0).map(({ id }) => id));
  });

  test("what the database says is an error, and so is another number of rows", async () => {
    await expect(data.sql(connection, "SELECT age FROM persons").toArray()).rejects.toThrow(/sql: .*persons/);
    await expect(data.sql(connection, all, { length: 9 }).toArray()).rejects.toThrow(
      /gave 2500 records, its length is 9/,
    );
    expect(await data.sql<Person>(connection, all).take(1).toArray()).toEqual(people(0, 1));
  });
});

describe.each([
  { name: "DuckDB", connection: duckdb },
  { name: "SQLite", connection: file },
  { name: "PostgreSQL", connection: postgres },
])("$name", ({ connection }) => {
  test.each([
    "SELECT id, age AS id FROM people",
    "SELECT * FROM people AS one JOIN people AS other ON one.id = other.id",
    // Known without a row, too.
    "SELECT id, age AS id FROM people WHERE id < 0",
  ])("two columns with one name are an error: %s", async (query) => {
    await expect(data.sql(connection, query).toArray()).rejects.toThrow(/two columns of the query have the name "id"/);
  });

  test.each([
    "SELECT 'INSERT; DELETE' AS \"update\", 'it''s' AS x -- ; DROP TABLE people",
    "/* INSERT */ WITH few AS (SELECT id FROM people WHERE id < 3) SELECT count(*) AS x FROM few;",
    "VALUES (1), (2);",
    "SELECT replace('abc', 'b', 'x') AS x",
    "WITH t AS (SELECT id AS replace FROM people) SELECT max(replace) AS x, coalesce(replace, 0) AS y FROM t GROUP BY replace, (replace + 1)",
    "SELECT x FROM (SELECT replace(city, 'o', '0') AS x FROM people) AS changed LIMIT 1",
  ])("is a query: %s", async (query) => {
    expect((await data.sql(connection, query).toArray()).length).toBeGreaterThan(0);
  });

  test("a statement that is refused has changed nothing", async () => {
    const before = await data.sql(connection, "SELECT count(*) AS n FROM people").toArray();
    for (const statement of ["DELETE FROM people", "SELECT 1 AS a; DELETE FROM people"])
      expect(() => data.sql(connection, statement)).toThrow();
    expect(await data.sql(connection, "SELECT count(*) AS n FROM people").toArray()).toEqual(before);
  });
});

test.each([
  ["INSERT INTO people VALUES (1, 2, 'x')", /got INSERT/],
  ["insert into people values (1, 2, 'x') RETURNING id", /got INSERT/],
  ["-- SELECT\nUPDATE people SET age = 1", /got UPDATE/],
  ["/* SELECT */ DELETE FROM people", /got DELETE/],
  ["WITH old AS (SELECT id FROM people) DELETE FROM people WHERE id IN (SELECT id FROM old)", /got DELETE/],
  ["WITH RECURSIVE a AS (SELECT 1), b AS (SELECT 2) INSERT INTO people SELECT * FROM a", /got INSERT/],
  ["WITH gone AS (DELETE FROM people RETURNING id) SELECT * FROM gone", /got DELETE/],
  ['WITH gone AS (UPDATE"people" SET age = 1 RETURNING id) SELECT * FROM gone', /got UPDATE/],
  ["WITH gone AS (UPDATE été SET age = 1 RETURNING id) SELECT * FROM gone", /got UPDATE/],
  ["WITH gone AS (UPDATE [people] SET age = 1 RETURNING id) SELECT * FROM gone", /got UPDATE/],
  ["SELECT * FROM (REPLACE INTO people VALUES (1, 2, 'x'))", /got REPLACE/],
  ["DROP TABLE people", /got DROP/],
  ["PRAGMA journal_mode = WAL", /got PRAGMA/],
  ["EXPLAIN ANALYZE DELETE FROM people", /got EXPLAIN/],
  ["SELECT 1; SELECT 2", /several statements/],
  ["SELECT $$;$$ AS a; DROP TABLE people", /several statements/],
  ["SELECT E'\\'' AS a; DROP TABLE people --'", /several statements/],
  ["-- nothing", /got comments alone/],
  ["((", /got \(/],
])("refuses what is not one query: %s", (query, says) => {
  expect(() => data.sql(duckdb, query)).toThrow(says);
});

test("a second reading of a connection of DuckDB is refused: the first would lose its rows", async () => {
  const records = data.sql<Person>(duckdb, "SELECT * FROM people");
  const first = records.read()[Symbol.asyncIterator]();
  await first.next();
  await expect(records.toArray()).rejects.toThrow(/one result at a time/);
  await first.return?.();
  expect(await records.toArray()).toHaveLength(count);
});

test("a query and its parameters are what a folder of stored records is recognised by", () => {
  const described = [
    data.sql(duckdb, "SELECT 1 AS a"),
    data.sql(duckdb, "SELECT 2 AS a"),
    data.sql(duckdb, "SELECT $1 AS a", { parameters: [1] }),
    data.sql(duckdb, "SELECT $1 AS a", { parameters: [2] }),
  ].map((records) => records.describe());
  expect(new Set(described).size).toBe(4);
});

test.each<[string, () => unknown, RegExp]>([
  ["no connection", () => data.sql(undefined as never, "SELECT 1"), /takes a connection of a driver/],
  ["a path", () => data.sql("people.db" as never, "SELECT 1"), /takes a connection of a driver/],
  ["no query", () => data.sql(duckdb, " "), /text of a query/],
  ["parameters that are no list", () => data.sql(duckdb, "SELECT $1", { parameters: 3 as never }), /list of values/],
  ["a pool", () => data.sql({ query: () => {}, totalCount: 0 } as never, "SELECT 1"), /a client, not a pool/],
])("refuses %s", (_name, make, says) => {
  expect(make).toThrow(says);
});
