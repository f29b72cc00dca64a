/** @module `heddle data`: what files of records hold, whether they are as they were, and pictures of their columns. */
import { readFileSync } from "node:fs";
import { Command, Option } from "commander";
import * as data from "../data/index.ts";
import { csvTypes } from "../data/sources/csv-types.ts";
import {
  type Anomaly,
  anomalies,
  type ColumnKind,
  type ColumnStatistics,
  type Schema,
  type Statistics,
  schemaFrom,
  schemaOf,
  statistics,
} from "../frames/index.ts";
import { isMeasured } from "../frames/statistics/schema.ts";
import { writeBytes } from "../io/write.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { formatCount, formatTable } from "../util/text.ts";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { histograms } from "./histograms.ts";
import { exitStatus } from "./status.ts";

const notes = `
Files are CSV, TSV, JSON lines, Parquet, Arrow or lines of text, by their names or --format; plain or compressed, here, behind
https:// or s3://, or several by a pattern in quotes. They are read once, in memory that does not depend on their size. Numbers of
CSV and TSV files are read as f64; types of columns follow from the first 1,000 records, but for those that --types names.

Examples:
  heddle data show people.csv
  heddle data stats people.csv --types zip=text,age=f64 --missing-values NA,nan
  heddle data stats "days/*.parquet" --output schema.json
  heddle data validate today.parquet --schema schema.json
  heddle data diff yesterday.csv today.csv --drift 0.1
`;

type AnyRecords = data.Records<{ readonly [name: string]: unknown }>;
const readers: { readonly [format: string]: (files: string[], flags: FileFlags) => unknown } = {
  csv: csvRecords,
  jsonl: (files) => data.jsonLines(files),
  parquet: (files) => data.parquet(files),
  arrow: (files) => data.arrow(files),
  text: (files) => data.text(files),
};
const endings: { readonly [ending: string]: string } = {
  csv: "csv",
  tsv: "csv",
  jsonl: "jsonl",
  ndjson: "jsonl",
  parquet: "parquet",
  arrow: "arrow",
  feather: "arrow",
  txt: "text",
};

interface FileFlags {
  readonly format?: string;
  readonly types?: data.CsvColumns;
  readonly missingValues?: readonly string[];
  readonly json?: boolean;
}
interface CheckFlags extends FileFlags {
  readonly drift: number;
  readonly missing: number;
}

/** Records of CSV files, whose numbers keep all their digits. */
function csvRecords(files: string[], { types, missingValues = [] }: FileFlags): unknown {
  return data.csv(files, {
    ...(types === undefined ? {} : { types }),
    numbers: "f64",
    missing: ["", ...missingValues],
    onBad: (error) => {
      // The source's hint names its options.
      if (error.hint?.includes("types: {") !== true) throw error;
      throw new HeddleError(error.code, error.plain, {
        hint: "name the types of columns, or what means a missing value: --types name=text,age=f64 --missing-values NA,nan",
        cause: error,
      });
    },
  });
}

/** The records of files. @throws HeddleError `option` for a name that says no format, or flags of another format */
function recordsOf(files: readonly string[], flags: FileFlags): AnyRecords {
  const [first] = files as [string];
  const ending = /\.(\w+)(\.(gz|zst))?$/i.exec(first)?.[1]?.toLowerCase() ?? "";
  const chosen = flags.format ?? endings[ending];
  if (chosen === undefined)
    throw new HeddleError("option", `data: the name ${first} does not say its format`, {
      hint: `pass --format ${Object.keys(readers).join(", or ")}`,
    });
  if (chosen !== "csv" && (flags.types ?? flags.missingValues) !== undefined)
    throw new HeddleError(
      "option",
      `data: --types and --missing-values are for CSV and TSV; ${first} is read as ${chosen}`,
    );
  return (readers[chosen] as (typeof readers)[string])([...files], flags) as AnyRecords;
}

const json = (value: unknown): void => console.log(JSON.stringify(value, null, 2));

/** A number with so many digits at most. */
const number = (value: number, digits: number): string =>
  Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(digits)));

/** Text of a file as a terminal may have it: characters that would steer it, or turn its direction, are escaped. */
const harmless = (text: string): string =>
  text.replace(
    /[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** Reads a bound. */
const share =
  (flag: string) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() !== "" && value >= 0 && Number.isFinite(value)) return value;
    throw new HeddleError("option", `data: ${flag} takes a number from 0 on, got ${shown(text)}`);
  };

/** Reads `name=type,name=type`. */
function typesIn(text: string): data.CsvColumns {
  const pairs = text.split(",").map((pair): [string, string] => {
    const at = pair.lastIndexOf("=");
    return [pair.slice(0, Math.max(at, 0)), pair.slice(at + 1)];
  });
  const wrong = pairs.find(([name, type]) => name === "" || !(csvTypes as readonly string[]).includes(type));
  if (wrong === undefined) return Object.fromEntries(pairs) as data.CsvColumns;
  throw new HeddleError(
    "option",
    `data: --types takes names with types, such as zip=text,age=f64, got ${shown(text)}; the types are ${csvTypes.join(", ")}`,
  );
}

/** The `data` command. */
export function dataCommand(context: CommandContext): Command {
  const command = new Command("data")
    .summary("show, summarise, validate and compare files of records")
    .description("Says what files of records hold, whether they are as they were, and what has changed.")
    .addHelpText("after", notes);
  for (const add of [addShow, addStats, addValidate, addDiff]) add(command, context);
  return command;
}

/** The flags of all commands. */
const withFiles = (command: Command): Command =>
  command
    .addOption(new Option("--format <name>", "the files' format").choices(Object.keys(readers)))
    .option("--types <pairs>", "types of CSV columns by name: zip=text,age=f64", typesIn)
    .option("--missing-values <texts>", "fields of CSV that mean a missing value, such as NA,nan", (text: string) =>
      text.split(","),
    )
    .option("--json", "print JSON");

function addShow(command: Command): void {
  withFiles(
    command
      .command("show")
      .description("Shows the first records of files, and what kind of values their columns have.")
      .argument("<files...>", "paths, addresses, patterns")
      .option("-n, --rows <number>", "records", wholeNumber(1, 1000), 10),
  ).action(async (files: string[], flags: FileFlags & { readonly rows: number }) => {
    const rows = await recordsOf(files, flags).take(flags.rows).toArray();
    if (flags.json === true) return console.log(JSON.stringify(rows, asText, 2));
    const names = Object.keys(rows[0] ?? {});
    if (names.length === 0) return console.log("no records");
    const cells = rows.map((row) => names.map((name) => cell(row[name])));
    const { columns } = await statistics(data.fromRows(rows));
    const table = [names.map(harmless), columns.map(({ kind }) => kind), ...cells];
    for (const line of formatTable(table, [])) console.log(line);
  });
}

/** What JSON lacks as texts, and typed arrays as lists. */
const asText = (_name: string, value: unknown): unknown =>
  typeof value === "bigint" ? String(value) : ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value;

/** A moment by ISO 8601, a day alone where it has no time. */
const dateText = (moment: number): string =>
  Number.isNaN(moment) ? "NaN" : new Date(moment).toISOString().replace(/T00:00:00\.000Z$/, "");

function cell(value: unknown): string {
  if (value instanceof Date) return dateText(value.getTime());
  const text = ArrayBuffer.isView(value) || typeof value === "object" ? JSON.stringify(value, asText) : String(value);
  const line = text.replace(/[ \t\r\n]+/g, " ");
  return harmless(line.length > 30 ? `${line.slice(0, 29)}…` : line);
}

function addStats(command: Command): void {
  withFiles(
    command
      .command("stats")
      .description(
        "Summarises each column: kind, missing and different values, bounds, mean, deviation, quantiles, frequent values.",
      )
      .argument("<files...>", "paths, addresses, patterns")
      .option("-o, --output <file>", "write the schema, which validate compares other files with")
      .option("--svg <file>", "draw the histograms (needs the package vega)"),
  ).action(async (files: string[], flags: FileFlags & { readonly output?: string; readonly svg?: string }) => {
    const found = await statistics(recordsOf(files, flags));
    if (flags.json === true) json(found);
    else printStatistics(found);
    if (flags.output !== undefined)
      await writeBytes("data: the schema", flags.output, Buffer.from(`${JSON.stringify(schemaOf(found), null, 2)}\n`));
    if (flags.svg !== undefined) await writeBytes("data: the picture", flags.svg, Buffer.from(await histograms(found)));
  });
}

const bars = " ▁▂▃▄▅▆▇█";

/** Shares as bars of eighths. */
const sparkline = (shares: readonly number[]): string => {
  const most = Math.max(...shares, Number.MIN_VALUE);
  return shares.map((one) => bars[one <= 0 ? 0 : Math.max(1, Math.round((8 * one) / most))]).join("");
};

/** Bounds, median, mean, deviation, histogram. */
function measures(kind: ColumnKind, numbers: NonNullable<ColumnStatistics["numbers"]>): string[] {
  const { lowest, highest, deciles, mean, variance, histogram } = numbers;
  const deviation = Math.sqrt(variance);
  const values = [lowest, deciles[5] as number, highest];
  return kind === "date"
    ? [...[...values, mean].map(dateText), `${number(deviation / 86_400_000, 5)} days`, sparkline(histogram)]
    : [...values.map((value) => number(value, 10)), number(mean, 7), number(deviation, 5), sparkline(histogram)];
}

function printStatistics({ rows, columns }: Statistics): void {
  console.log(`${plural(rows, "record")}, ${plural(columns.length, "column")}`);
  const head = [
    "column",
    "kind",
    "missing",
    "different",
    "lowest",
    "median",
    "highest",
    "mean",
    "deviation",
    "histogram",
  ];
  const line = ({ name, kind, missing, distinct, numbers }: ColumnStatistics): string[] => [
    harmless(name),
    isMeasured(kind) ? `${kind} (lengths)` : kind,
    rows === 0 ? "" : `${((100 * missing) / rows).toFixed(1)} %`,
    kind === "vector" ? "" : formatCount(distinct),
    ...(numbers === undefined ? ["", "", "", "", "", ""] : measures(kind, numbers)),
  ];
  for (const text of formatTable([head, ...columns.map(line)], [2, 3, 4, 5, 6, 7, 8])) console.log(text);
  for (const { name, kind, top, isWhole } of columns) {
    if (kind !== "text" && kind !== "truth") continue;
    const often = top.slice(0, 5).map(([value, count]) => `${harmless(JSON.stringify(value))} ${formatCount(count)}`);
    console.log(`${harmless(name)}: ${often.join(", ")}${top.length > 5 || !isWhole ? ", …" : ""}`);
  }
}

/** The flags of commands that compare. */
const withBounds = (command: Command): Command =>
  withFiles(
    command
      .option("--drift <index>", "the largest population stability index that is no drift", share("--drift"), 0.2)
      .option("--missing <share>", "by how much the share of missing values may grow", share("--missing"), 0.01),
  );

function told(found: readonly Anomaly[], flags: FileFlags, { finish }: CommandContext): void {
  if (flags.json === true) json(found);
  else if (found.length === 0) console.log("no anomalies");
  else for (const { column, text } of found) console.log(harmless(`${column}: ${text}`));
  if (found.length > 0) finish(exitStatus.failure);
}

const schemaIn = (path: string): Schema => {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new HeddleError("file", `data: cannot read ${path}: ${(cause as Error).message}`, { cause });
  }
  try {
    return schemaFrom(JSON.parse(text));
  } catch (cause) {
    if (cause instanceof HeddleError) throw new HeddleError(cause.code, `data: ${path}: ${cause.plain}`, { cause });
    throw new HeddleError("format", `data: ${path} is not JSON`, {
      hint: "heddle data stats --output writes a schema",
    });
  }
};

function addValidate(command: Command, context: CommandContext): void {
  withBounds(
    command
      .command("validate")
      .description(
        "Compares files with a schema: columns, kinds, bounds, values, missing ones, drift. Exit status 1 if they differ.",
      )
      .argument("<files...>", "paths, addresses, patterns")
      .requiredOption("--schema <file>", "what stats --output wrote"),
  ).action(async (files: string[], flags: CheckFlags & { readonly schema: string }) => {
    const schema = schemaIn(flags.schema);
    const found = await statistics(recordsOf(files, flags));
    told(anomalies(found, schema, { drift: flags.drift, missing: flags.missing }), flags, context);
  });
}

function addDiff(command: Command, context: CommandContext): void {
  withBounds(
    command
      .command("diff")
      .description("Says what is different in the second file. Exit status 1 if something is.")
      .argument("<file>", "a path, an address, or a pattern")
      .argument("<other>", "another one"),
  ).action(async (left: string, right: string, flags: CheckFlags) => {
    const schema = schemaOf(await statistics(recordsOf([left], flags)));
    const found = await statistics(recordsOf([right], flags));
    told(anomalies(found, schema, { drift: flags.drift, missing: flags.missing }), flags, context);
  });
}
