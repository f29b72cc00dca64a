/** @module JSON lines: a JSON object in each line. */
import { HeddleError } from "../../util/errors.ts";
import { type AnyRow, type Piece, pieceOf } from "../records/piece.ts";
import type { Records } from "../records/records.ts";
import type { Places } from "./bytes.ts";
import { checkTexts, type FileOptions, type Format, recordsOf } from "./files.ts";
import { lineReader } from "./lines.ts";

/** Options of {@link jsonLines}. */
export interface JsonLinesOptions extends FileOptions {
  /** The columns to read; default those of the first record. A record that lacks one has `null` there. */
  readonly columns?: readonly string[];
}

/** The deepest nesting that is read: deeper values are malformed. */
const deepest = 64;

const format: Format<JsonLinesOptions> = {
  what: "jsonLines",
  options: ["columns"],
  check: ({ columns }) => checkTexts("jsonLines", "columns", columns),
  async open(file, { columns }, bad) {
    let names = columns;
    return lineReader(file, bad, (lines, place): Piece => {
      const rows: AnyRow[] = [];
      const from: number[] = [];
      lines.forEach((line, index) => {
        if (line.trim() === "") return;
        try {
          if (nesting(line) > deepest) throw new Error(`it is nested deeper than ${deepest}`);
          const value: unknown = JSON.parse(line);
          if (typeof value !== "object" || value === null || Array.isArray(value))
            throw new Error("it is not an object");
          names ??= Object.keys(value);
          // Own properties alone: a file cannot reach prototypes.
          const row = Object.create(null) as { [name: string]: unknown };
          for (const name of names) row[name] = Object.hasOwn(value, name) ? (value as AnyRow)[name] : null;
          rows.push(row);
          from.push(index);
        } catch (cause) {
          bad(new HeddleError("format", `${place(index)}: ${(cause as Error).message}`, { cause }));
        }
      });
      return pieceOf("jsonLines", rows, (index) => place(from[index] as number));
    });
  },
};

/** The depth of brackets in a text, those within strings included: an upper bound of the nesting. */
function nesting(line: string): number {
  let [depth, most] = [0, 0];
  for (let at = 0; at < line.length; at++) {
    const code = line.charCodeAt(at);
    if (code === 0x5b || code === 0x7b) most = Math.max(most, ++depth);
    else if (code === 0x5d || code === 0x7d) depth--;
  }
  return most;
}

/** The objects of files with one JSON object in each line, plain or compressed. */
export const jsonLines = <Row extends object = AnyRow>(places: Places, options: JsonLinesOptions = {}): Records<Row> =>
  recordsOf(format, places, options);
