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
  /** The file; created if missing. */
  readonly path: string;
  /** Whether to keep the lines of earlier runs above the new lines; default true. With false the file is overwritten. */
  readonly append?: boolean;
  /** The character between two fields; default `","`. */
  readonly separator?: string;
}

/**
 * Writes a line per epoch (`epoch`, counted from 1, then the numbers of the epoch by their names, `learning_rate` and `seconds`) on
 * rank 0, as Keras' `CSVLogger` (which counts epochs from 0). The file has only complete lines: if a full disk or a killed process leaves
 * a part of a line, the part is removed. A resumed run removes the lines of the epochs that it trains again.
 *
 * @throws HeddleError `option`; `file` in a browser; from the training `disk` or `file` if the file cannot be written, `data` if it has
 * other columns
 */
export function csvLogger(options: CsvLoggerOptions): Callbacks {
  return csvLoggerOn(openAppend, options);
}

/** {@link csvLogger} with a function that opens files; tests put faults there. */
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

/** Writes the header, or removes incomplete and repeated lines from an existing file. */
async function begin(path: string, { header, append, separator }: Form, start: TrainStart): Promise<void> {
  const before = append || start.resumed ? await textOf(path) : "";
  // A killed process may leave a part of a line.
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
    const isRepeated = (text: string): boolean =>
      Number.parseInt(text.split(separator, 1)[0] as string, 10) >= start.epoch;
    while (lines.length > 1 && isRepeated(lines.at(-1) as string)) lines.pop();
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
