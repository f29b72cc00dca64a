/** @module A line of numbers per epoch in a CSV file. */
import { readFile } from "node:fs/promises";
import { commitFile } from "../../io/commit.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkOptions, checkPlace } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { Callbacks, TrainStart } from "../history.ts";
import { logNames, logsOf } from "../logs.ts";
import { appendWhole, type OpenAppend, openAppend, writeError } from "./append.ts";

/** Options of {@link csvLogger}. */
export interface CsvLoggerOptions {
  /** The file; made when missing. */
  readonly path: string;
  /** Whether the lines of earlier runs stay, above the new ones; default true. With false the file begins anew. */
  readonly append?: boolean;
  /** Between two fields; default `","`. */
  readonly separator?: string;
}

/**
 * Writes a line per epoch (`epoch`, counted from 1, then the numbers of the epoch by their names, `learning_rate` and `seconds`) on
 * rank 0, as Keras' `CSVLogger` (which counts epochs from 0). Lines are whole whenever the file is read: one that a disk takes only in part is taken back, one
 * that a killed process left in part is removed. A run that is resumed removes the lines of the epochs that it trains again.
 *
 * @throws HeddleError `option`; from the training `disk` or `file` when the file cannot be written, `data` when it has other columns
 */
export function csvLogger(options: CsvLoggerOptions): Callbacks {
  return csvLoggerOn(openAppend, options);
}

/** {@link csvLogger} on given files. */
export function csvLoggerOn(openFile: OpenAppend, options: CsvLoggerOptions): Callbacks {
  checkOptions("csvLogger", options, ["path", "append", "separator"]);
  const { path, append = true, separator = "," } = options;
  checkPlace("csvLogger", "path", path, "file");
  if (typeof separator !== "string" || separator.length !== 1 || /["\r\n]/.test(separator))
    throw new HeddleError("option", `csvLogger: separator must be one character, got ${shown(separator)}`);
  const line = (fields: readonly string[]): string =>
    `${fields.map((field) => quoted(field, separator)).join(separator)}\n`;
  let names: readonly string[] = [];
  let rank = 0;
  return {
    onBegin: async (start) => {
      ({ rank } = start);
      names = ["epoch", ...logNames(start), "learning_rate", "seconds"];
      if (rank === 0) await begin(path, { header: line(names), append, separator }, start);
    },
    onEpoch: async (record) => {
      if (rank !== 0) return;
      const { epoch, learningRate: learning_rate, seconds } = record;
      const values: { readonly [name: string]: number } = { epoch, ...logsOf(record), learning_rate, seconds };
      const text = line(names.map((name) => number(values[name])));
      await appendWhole("csvLogger", path, Buffer.from(text), openFile);
    },
  };
}

const number = (value: number | undefined): string =>
  value === undefined
    ? ""
    : value === Infinity
      ? "inf"
      : value === -Infinity
        ? "-inf"
        : Number.isNaN(value)
          ? "nan"
          : `${value}`;

const quoted = (field: string, separator: string): string =>
  field.includes(separator) || /["\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;

interface Form {
  readonly header: string;
  readonly append: boolean;
  readonly separator: string;
}

/** Writes the header, or brings a file that is gone on with into order. */
async function begin(path: string, { header, append, separator }: Form, start: TrainStart): Promise<void> {
  const before = append || start.resumed ? await textOf(path) : "";
  // A killed process may have left a part of a line.
  const whole = before.slice(0, before.lastIndexOf("\n") + 1);
  if (whole !== "" && !whole.startsWith(header))
    throw new HeddleError(
      "data",
      `csvLogger: ${path} has the columns ${whole.split("\n", 1)[0]}, not ${header.trimEnd()}`,
      {
        hint: "give another path, or { append: false }",
      },
    );
  const lines = whole === "" ? [header] : whole.split(/(?<=\n)/);
  if (start.resumed) {
    const again = (text: string): boolean => Number.parseInt(text.split(separator, 1)[0] as string, 10) >= start.epoch;
    while (lines.length > 1 && again(lines.at(-1) as string)) lines.pop();
  }
  const text = lines.join("");
  if (text === before) return;
  const bytes = Buffer.from(text);
  try {
    await commitFile(path, { bytes: bytes.length, chunks: [bytes] });
  } catch (error) {
    throw error instanceof HeddleError ? error : writeError("csvLogger", path, error);
  }
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw new HeddleError("file", `csvLogger: cannot read ${path}: ${(error as Error).message}`, { cause: error });
  }
}
