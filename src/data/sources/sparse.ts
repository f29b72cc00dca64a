/** @module Formats of sparse numbers: libsvm's lines of `label index:value`, and Matrix Market's coordinates. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger } from "../../util/options.ts";
import { after } from "../records/node.ts";
import type { Records } from "../records/records.ts";
import type { Places } from "./bytes.ts";
import { type FileOptions, type Format, recordsOf } from "./files.ts";
import { lineReader, linesOf } from "./lines.ts";

/** Options of {@link libsvm}. */
export interface LibsvmOptions extends FileOptions {
  /** Number of features: indices run from 1 to it. */
  readonly features: number;
}

const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,5})?$/i;

const libsvmFormat: Format<LibsvmOptions> = {
  what: "libsvm",
  options: ["features"],
  check: ({ features }) => checkInteger("libsvm", "features", features, 1, 2 ** 24),
  async open(file, { features }, bad) {
    const parse = (line: string): { x: Float32Array; y: number } => {
      const [label = "", ...pairs] = (line.split("#", 1)[0] as string).trim().split(/\s+/);
      if (!decimal.test(label)) throw new Error(`the label ${JSON.stringify(label.slice(0, 40))} is not a number`);
      const x = new Float32Array(features);
      let last = 0;
      for (const pair of pairs) {
        const [index = "", value = "", more] = pair.split(":");
        const at = Number(index);
        if (!/^\d{1,9}$/.test(index) || !decimal.test(value) || more !== undefined)
          throw new Error(`${JSON.stringify(pair.slice(0, 40))} is not index:value`);
        if (at < 1 || at > features) throw new Error(`index ${at} is not in [1, ${features}]`);
        if (at <= last) throw new Error(`index ${at} comes after ${last}`);
        last = at;
        x[at - 1] = Number(value);
      }
      return { x, y: Number(label) };
    };
    return lineReader(file, bad, (lines, place) => {
      const [x, y, from]: [Float32Array[], number[], number[]] = [[], [], []];
      lines.forEach((line, index) => {
        if (/^\s*(#|$)/.test(line)) return;
        try {
          const row = parse(line);
          x.push(row.x);
          y.push(row.y);
          from.push(index);
        } catch (cause) {
          bad(new HeddleError("format", `${place(index)}: ${(cause as Error).message}`, { cause }));
        }
      });
      return { length: x.length, columns: { x, y }, place: (index) => place(from[index] as number) };
    });
  },
};

/** The examples of libsvm files: `x`, all features as f32, and `y`, the label. */
export const libsvm = (places: Places, options: LibsvmOptions): Records<{ x: Float32Array; y: number }> =>
  recordsOf(libsvmFormat, places, options);

const marketFormat: Format<FileOptions> = {
  what: "matrixMarket",
  options: [],
  async open(file, _options, bad) {
    async function* read() {
      const malformed = (line: number, problem: string): HeddleError =>
        new HeddleError("format", `${file.name}, line ${line}: ${problem}`);
      let kind: { coordinate: boolean; pattern: boolean; symmetry: string } | undefined;
      let sizes: readonly number[] | undefined;
      let number = 0;
      let found = 0;
      for await (const lines of linesOf(file, undefined)) {
        const [row, column, value, places]: [number[], number[], number[], number[]] = [[], [], [], []];
        const add = (one: number, other: number, entry: number): void => {
          row.push(one);
          column.push(other);
          value.push(entry);
          places.push(number);
        };
        for (const line of lines) {
          number++;
          if (kind === undefined) {
            const [, form, field, symmetry] =
              /^%%MatrixMarket\s+matrix\s+(coordinate|array)\s+(real|integer|pattern)\s+(general|symmetric|skew-symmetric)\s*$/i.exec(
                line,
              ) ?? [];
            if (form === undefined)
              throw malformed(number, "it is not the header of a real, integer or pattern matrix");
            kind = {
              coordinate: form.toLowerCase() === "coordinate",
              pattern: field?.toLowerCase() === "pattern",
              symmetry: (symmetry as string).toLowerCase(),
            };
            continue;
          }
          if (/^\s*(%|$)/.test(line)) continue;
          const words = line.trim().split(/\s+/);
          const numbers = words.map(Number);
          if (sizes === undefined) {
            if (
              words.length !== (kind.coordinate ? 3 : 2) ||
              !numbers.every((size) => Number.isSafeInteger(size) && size >= 0)
            )
              throw malformed(number, "it is not the line of sizes");
            if (!kind.coordinate && kind.symmetry !== "general")
              throw malformed(number, "dense symmetric matrices are not read");
            sizes = numbers;
            continue;
          }
          const [rows = 0, columns = 0] = sizes;
          const wanted = kind.coordinate ? (kind.pattern ? 2 : 3) : 1;
          if (words.length !== wanted || !words.every((word) => decimal.test(word))) {
            bad(malformed(number, `it has not ${wanted} numbers`));
            continue;
          }
          if (!kind.coordinate) {
            add(found % rows, Math.floor(found / rows), numbers[0] as number);
            found++;
            continue;
          }
          const [one = 0, other = 0, entry = 1] = numbers;
          const isInside =
            Number.isInteger(one) &&
            Number.isInteger(other) &&
            one >= 1 &&
            other >= 1 &&
            one <= rows &&
            other <= columns;
          found++;
          if (!isInside) {
            bad(malformed(number, `entry ${words[0]}, ${words[1]} is outside of ${rows} rows and ${columns} columns`));
            continue;
          }
          add(one - 1, other - 1, entry);
          if (kind.symmetry !== "general" && one !== other)
            add(other - 1, one - 1, kind.symmetry === "symmetric" ? entry : -entry);
        }
        yield {
          length: row.length,
          columns: { row: Int32Array.from(row), column: Int32Array.from(column), value: Float64Array.from(value) },
          place: (index: number) => `${file.name}, line ${places[index]}`,
        };
      }
      if (sizes === undefined) throw malformed(number + 1, "the file ends before its sizes");
      const declared = kind?.coordinate === true ? sizes[2] : (sizes[0] as number) * (sizes[1] as number);
      if (found !== declared) throw malformed(number, `the file has ${found} entries, it declares ${declared}`);
    }
    return { read: (from) => after(read(), from) };
  },
};

/** The entries of Matrix Market files, from 0: those of symmetric matrices on both sides of the diagonal. */
export const matrixMarket = (
  places: Places,
  options: FileOptions = {},
): Records<{ row: number; column: number; value: number }> => recordsOf(marketFormat, places, options);
