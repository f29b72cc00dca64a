/** @module `heddle data`: what files of records hold, whether they are as they were, and pictures of their columns. */
import { readFileSync } from "node:fs";
import { Command, Option } from "commander";
import * as data from "../data/index.ts";
import {
  type Anomaly,
  anomalies,
  type ColumnStatistics,
  type Schema,
  type Statistics,
  schemaFrom,
  schemaOf,
  statistics,
} from "../frames/index.ts";
import { writeBytes } from "../io/write.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { formatCount, formatTable } from "../util/text.ts";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { histograms } from "./histograms.ts";
import { exitStatus } from "./status.ts";

const notes = `
Files are CSV, TSV, JSON lines, Parquet, Arrow or lines of text, by their names or --format; plain or compressed, here, behind
https:// or s3://, or several by a pattern in quotes. They are read once, in memory that does not depend on their size.

Examples:
  heddle data show people.csv
  heddle data stats "days/*.parquet" --output schema.json
  heddle data validate today.parquet --schema schema.json
  heddle data diff yesterday.csv today.csv --drift 0.1
`;

type AnyRecords = data.Records<{ readonly [name: string]: unknown }>;
const readers: { readonly [format: string]: (files: string[]) => unknown } = {
  csv: (files) => data.csv(files),
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
  readonly json?: boolean;
}
interface CheckFlags extends FileFlags {
  readonly drift: number;
  readonly missing: number;
}

/** The records of files. @throws HeddleError `option` for a name that says no format */
function recordsOf(files: readonly string[], { format }: FileFlags): AnyRecords {
  const [first] = files as [string];
  const ending = /\.(\w+)(\.(gz|zst))?$/i.exec(first)?.[1]?.toLowerCase() ?? "";
  const chosen = format ?? endings[ending];
  if (chosen === undefined)
    throw new HeddleError("option", `data: the name ${first} does not say its format`, {
      hint: `pass --format ${Object.keys(readers).join(", or ")}`,
    });
  return (readers[chosen] as (files: string[]) => unknown)([...files]) as AnyRecords;
}

const json = (value: unknown): void => console.log(JSON.stringify(value, null, 2));
const number = (value: number): string => (Number.isInteger(value) ? String(value) : value.toPrecision(5));
const share = (text: string): number => {
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && Number.isFinite(value)) return value;
  throw new HeddleError("option", `data: takes a number from 0 on, got ${shown(text)}`);
};

/** The `data` command. */
export function dataCommand(context: CommandContext): Command {
  const command = new Command("data")
    .summary("show, summarise, validate and compare files of records")
    .description("Says what files of records hold, whether they are as they were, and what has changed.")
    .addHelpText("after", notes);
  for (const add of [addShow, addStats, addValidate, addDiff]) add(command, context);
  return command;
}

const formatFlag = (): Option => new Option("--format <name>", "the files' format").choices(Object.keys(readers));

function addShow(command: Command): void {
  command
    .command("show")
    .description("Shows the first records of files, and what kind of values their columns have.")
    .argument("<files...>", "paths, addresses, patterns")
    .option("-n, --rows <number>", "records", wholeNumber(1, 1000), 10)
    .addOption(formatFlag())
    .option("--json", "print JSON")
    .action(async (files: string[], flags: FileFlags & { readonly rows: number }) => {
      const rows = await recordsOf(files, flags).take(flags.rows).toArray();
      if (flags.json === true) return console.log(JSON.stringify(rows, asText, 2));
      const names = Object.keys(rows[0] ?? {});
      if (names.length === 0) return console.log("no records");
      const cells = rows.map((row) => names.map((name) => cell(row[name])));
      const { columns } = await statistics(data.fromRows(rows));
      for (const line of formatTable([names, columns.map(({ kind }) => kind), ...cells], [])) console.log(line);
    });
}

/** What JSON lacks as texts, and typed arrays as lists. */
const asText = (_name: string, value: unknown): unknown =>
  typeof value === "bigint" ? String(value) : ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value;

function cell(value: unknown): string {
  const text = ArrayBuffer.isView(value) || typeof value === "object" ? JSON.stringify(value, asText) : String(value);
  return text.length > 30 ? `${text.slice(0, 29)}…` : text.replace(/\s+/g, " ");
}

function addStats(command: Command): void {
  command
    .command("stats")
    .description(
      "Summarises each column: kind, missing and different values, bounds, mean, deviation, quantiles, frequent values.",
    )
    .argument("<files...>", "paths, addresses, patterns")
    .addOption(formatFlag())
    .option("-o, --output <file>", "write the schema, which validate compares other files with")
    .option("--svg <file>", "draw the histograms (needs the package vega)")
    .option("--json", "print JSON")
    .action(async (files: string[], flags: FileFlags & { readonly output?: string; readonly svg?: string }) => {
      const found = await statistics(recordsOf(files, flags));
      if (flags.json === true) json(found);
      else printStatistics(found);
      if (flags.output !== undefined)
        await writeBytes(
          "data: the schema",
          flags.output,
          Buffer.from(`${JSON.stringify(schemaOf(found), null, 2)}\n`),
        );
      if (flags.svg !== undefined)
        await writeBytes("data: the picture", flags.svg, Buffer.from(await histograms(found)));
    });
}

const bars = " ▁▂▃▄▅▆▇█";

/** Shares as bars of eighths. */
const sparkline = (shares: readonly number[]): string => {
  const most = Math.max(...shares, Number.MIN_VALUE);
  return shares.map((one) => bars[one <= 0 ? 0 : Math.max(1, Math.round((8 * one) / most))]).join("");
};

function printStatistics({ rows, columns }: Statistics): void {
  console.log(`${formatCount(rows)} records, ${columns.length} columns`);
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
    name,
    kind,
    rows === 0 ? "" : `${((100 * missing) / rows).toFixed(1)} %`,
    kind === "vector" ? "" : formatCount(distinct),
    ...(numbers === undefined
      ? ["", "", "", "", "", ""]
      : [
          number(numbers.lowest),
          number(numbers.deciles[5] as number),
          number(numbers.highest),
          number(numbers.mean),
          number(Math.sqrt(numbers.variance)),
          sparkline(numbers.histogram),
        ]),
  ];
  for (const text of formatTable([head, ...columns.map(line)], [2, 3, 4, 5, 6, 7, 8])) console.log(text);
  for (const { name, kind, top, isWhole } of columns) {
    if (kind !== "text" && kind !== "truth") continue;
    const often = top.slice(0, 5).map(([value, count]) => `${JSON.stringify(value)} ${formatCount(count)}`);
    console.log(`${name}: ${often.join(", ")}${top.length > 5 || !isWhole ? ", …" : ""}`);
  }
}

/** The flags of commands that compare. */
const withBounds = (command: Command): Command =>
  command
    .option("--drift <index>", "the largest population stability index that is no drift", share, 0.2)
    .option("--missing <share>", "by how much the share of missing values may grow", share, 0.01)
    .addOption(formatFlag())
    .option("--json", "print JSON");

function told(found: readonly Anomaly[], flags: FileFlags, { finish }: CommandContext): void {
  if (flags.json === true) json(found);
  else if (found.length === 0) console.log("no anomalies");
  else for (const { column, kind, text } of found) console.log(`${column}: ${kind}: ${text}`);
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
    if (cause instanceof HeddleError) throw cause;
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
