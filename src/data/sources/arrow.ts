/** @module Arrow IPC, files and streams; `apache-arrow` decodes them, a record batch at a time. */
import type { TypedArray } from "../../ir/dtype.ts";
import { HeddleError } from "../../util/errors.ts";
import { after } from "../records/node.ts";
import { type AnyRow, dtypeOfArray, type Values } from "../records/piece.ts";
import type { Records } from "../records/records.ts";
import { type Places, packageNamed } from "./bytes.ts";
import { checkTexts, type FileOptions, type Format, recordsOf } from "./files.ts";

/** Options of {@link arrow}. */
export interface ArrowOptions extends FileOptions {
  /** The columns to read; default all. */
  readonly columns?: readonly string[];
}

/** What is used of `apache-arrow`. */
interface Arrow {
  readonly RecordBatchReader: {
    from(source: AsyncIterable<Uint8Array>): Promise<AsyncIterable<Batch> & { open(): Promise<unknown> }>;
  };
}
interface Batch {
  readonly numRows: number;
  readonly schema: { readonly fields: readonly { readonly name: string }[] };
  getChild(name: string): { readonly nullCount: number; toArray(): Values; toJSON(): unknown[] } | null;
}

const format: Format<ArrowOptions> = {
  what: "arrow",
  options: ["columns"],
  check: ({ columns }) => checkTexts("arrow", "columns", columns),
  async open(file, { columns }) {
    const { RecordBatchReader } = packageNamed<Arrow>("apache-arrow", `read ${file.name}`);
    const valuesOf = (batch: Batch, name: string): Values => {
      const child = batch.getChild(name);
      if (child === null)
        throw new HeddleError("data", `${file.name} has no column "${name}"`, {
          hint: `its columns are ${batch.schema.fields.map((field) => field.name).join(", ")}`,
        });
      const values = child.nullCount === 0 ? child.toArray() : undefined;
      if (values !== undefined && dtypeOfArray(values) !== undefined && values.length === batch.numRows)
        return values as TypedArray;
      return child.toJSON();
    };
    async function* read() {
      let first = 0;
      try {
        const reader = await RecordBatchReader.from(file.stream(0));
        for await (const batch of reader) {
          const names = columns ?? batch.schema.fields.map(({ name }) => name);
          const start = first;
          first += batch.numRows;
          const entries = names.map((name) => [name, valuesOf(batch, name)] as const);
          yield {
            length: batch.numRows,
            columns: Object.fromEntries(entries),
            place: (index: number) => `${file.name}, row ${start + index}`,
          };
        }
      } catch (cause) {
        if (cause instanceof HeddleError) throw cause;
        throw new HeddleError(
          "format",
          `${file.name} is not a valid Arrow file, from row ${first} on: ${(cause as Error).message}`,
          { cause },
        );
      }
      if (first === 0 && !(await isArrow(file.read(0, 6))))
        throw new HeddleError("format", `${file.name} is not a valid Arrow file: it has no record`);
    }
    return { read: (from) => after(read(), from) };
  },
};

const isArrow = async (start: Promise<Uint8Array>): Promise<boolean> => {
  const bytes = await start;
  return String.fromCharCode(...bytes) === "ARROW1" || (bytes[0] === 0xff && bytes[3] === 0xff);
};

/** The rows of Arrow IPC files and streams (Feather 2), a record batch at a time; numbers are used as they lie there. Needs the package `apache-arrow`. */
export const arrow = <Row extends object = AnyRow>(places: Places, options: ArrowOptions = {}): Records<Row> =>
  recordsOf(format, places, options);
