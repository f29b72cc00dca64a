/**
 * @module Frames: from typed columns to the columns of a model, by encoders that learn in one pass over the records.
 *
 *     const frame = await frames.fit(rows, { x: [frames.scale("age"), frames.oneHot("city")], y: frames.recode("class") });
 */

import type { HostRows } from "../data/browser.ts";
import { Records } from "../data/browser.ts";
import { type Piece, placed, type Values } from "../data/records/piece.ts";
import { nodeOf } from "../data/records/records.ts";
import type { DType } from "../ir/dtype.ts";
import type { Shape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { canonicalJson, listed, type Plain } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import type { Encoded, Encoder, Learning } from "./encoder.ts";
import { kinds } from "./encoders/index.ts";
import type { Field } from "./values.ts";

/** What a frame makes: columns by name, each of an encoder, or of several whose numbers stand one after another in a vector. */
export type FrameColumns<Column extends string = string> = {
  readonly [name: string]: Encoder<Column> | readonly Encoder<Column>[];
};

/** A record that a frame makes. */
export type FrameRow<Columns extends FrameColumns> = {
  readonly [Name in keyof Columns]: Columns[Name] extends Encoder<string, infer Value> ? Value : Float32Array;
};

const format = 1;
/** Numbers that a column of a record may have. */
const mostFeatures = 2 ** 24;

interface Part {
  readonly kind: string;
  readonly learned: Plain;
  readonly encoded: Encoded;
}

/** A column that is made, of its encoders. */
interface Output {
  readonly name: string;
  readonly parts: readonly Part[];
  readonly width: number;
  readonly isVector: boolean;
  readonly dtype: "f32" | "i32";
}

/** Encoders that have learned: plain data, which is saved with a model, and makes a model's columns of records. */
export class Frame<Row extends object = { readonly [name: string]: unknown }> {
  private readonly outputs: ReadonlyMap<string, Output>;

  /** @internal */
  constructor(outputs: readonly Output[]) {
    this.outputs = new Map(outputs.map((output) => [output.name, output]));
  }

  /** The names of the columns that it makes. */
  get names(): readonly string[] {
    return [...this.outputs.keys()];
  }

  /** Dtype and shape of each row of a column that it makes. @throws HeddleError `argument` for another name */
  type(name: string): { readonly dtype: DType; readonly shape: Shape } {
    const { dtype, isVector, width } = this.output(name);
    return { dtype, shape: isVector ? [width] : [] };
  }

  /**
   * A name for each number of a column, such as `city=Paris`; the texts of categories are in quotes where names would be equal without
   * (`city="other"` beside `city=other`). @throws HeddleError `argument` for another name */
  features(name: string): readonly string[] {
    return this.output(name).parts.flatMap(({ encoded }) => encoded.names);
  }

  /**
   * What the numbers of a column made by `recode`, `ordinal` or `words` stand for; null for a missing value, or for none.
   *
   * @throws HeddleError `argument` for another column
   */
  classes(name: string): readonly (string | number | boolean | null)[] {
    const [part, ...others] = this.output(name).parts;
    const classes = part?.encoded.classes;
    if (classes === undefined || others.length > 0)
      throw new HeddleError("argument", `classes: column "${name}" is not made by recode, ordinal or words alone`);
    return classes as readonly (string | number | boolean | null)[];
  }

  /** The columns that records must have for these columns; default all. */
  needs(names: readonly string[] = this.names): readonly string[] {
    return [...new Set(names.flatMap((name) => this.output(name).parts.map(({ encoded }) => encoded.column)))];
  }

  /** Records with the columns that the frame makes; others are left out. Whole pieces are encoded at once, and nothing is read before. */
  apply<Source extends object>(records: Records<Source>): Records<Row> {
    const node = nodeOf("apply")(records);
    const encode = (piece: Piece): Piece => ({
      ...piece,
      columns: Object.fromEntries(this.names.map((name) => [name, this.values(name, piece)])),
    });
    const { pick } = node;
    return new Records<Row>({
      chain: [...node.chain, `frame ${canonicalJson(this.toJSON())}`],
      length: node.length,
      async *read(reading) {
        for await (const piece of node.read(reading)) yield encode(piece);
      },
      pick: pick && (async (rows, epoch) => encode(await pick(rows, epoch))),
      parts: node.parts,
    });
  }

  /** A column for some rows, as an array in ordinary memory. @throws HeddleError `data` for a row without a column that is needed */
  encode(name: string, rows: readonly object[]): HostRows {
    if (!Array.isArray(rows) || !rows.every((row) => typeof row === "object" && row !== null))
      throw new HeddleError("argument", `encode: takes a list of records, got ${shown(rows)}`);
    const columns = this.needs([name]).map((column): [string, Values] => [
      column,
      rows.map((row, index) => {
        if (Object.hasOwn(row, column)) return (row as { readonly [name: string]: unknown })[column];
        throw new HeddleError("data", `frame: record ${index} has no column "${column}"`, {
          hint: `its columns are ${listed(Object.keys(row), 50)}`,
        });
      }),
    ]);
    const piece: Piece = { length: rows.length, columns: Object.fromEntries(columns) };
    const { dtype, width, isVector } = this.output(name);
    return { dtype, shape: isVector ? [rows.length, width] : [rows.length], data: this.matrix(name, piece) };
  }

  private output(name: string): Output {
    const output = this.outputs.get(name);
    if (output !== undefined) return output;
    throw new HeddleError("argument", `frame: there is no column ${shown(name)}`, {
      hint: `it makes ${listed(this.names)}`,
    });
  }

  /** The numbers of a column, row by row. */
  private matrix(name: string, piece: Piece): Float32Array | Int32Array {
    const { parts, width, dtype } = this.output(name);
    const size = piece.length * width;
    const data = dtype === "i32" ? new Int32Array(size) : new Float32Array(size);
    let start = 0;
    for (const { encoded } of parts) {
      encoded.encode(fieldOf(piece, encoded.column), { data, start, stride: width });
      start += encoded.names.length;
    }
    return data;
  }

  /** As a column of a piece: rows are views of one array, from which a batch is made without a copy. */
  private values(name: string, piece: Piece): Values {
    const data = this.matrix(name, piece);
    const { isVector, width } = this.output(name);
    if (!isVector) return data;
    return Array.from({ length: piece.length }, (_unused, row) => data.subarray(row * width, (row + 1) * width));
  }

  /** The frame as data, which {@link frameFrom} reads. */
  toJSON(): { readonly [name: string]: Plain } {
    const outputs = [...this.outputs.values()].map(({ name, parts, isVector }) => ({
      name,
      isVector,
      parts: parts.map(({ kind, learned, encoded }) => ({ kind, column: encoded.column, learned })),
    }));
    return { format, outputs };
  }
}

/** A frame, whatever the records are that it makes. */
export type AnyFrame = Omit<Frame, "apply">;

function fieldOf({ columns, length, place }: Piece, column: string): Field {
  const values = Object.hasOwn(columns, column) ? columns[column] : undefined;
  // A file may have columns that are not read.
  if (values === undefined)
    throw new HeddleError(
      "data",
      `frame: ${placed(0, place)}: column "${column}" is not among the columns that are read`,
      {
        hint: `those are ${listed(Object.keys(columns), 50)}`,
      },
    );
  return { column, values, length, place };
}

/** An output of what its encoders have learned; undefined if that is malformed. */
function outputOf(
  name: string,
  isVector: boolean,
  parts: readonly Omit<Part, "encoded">[],
  columns: readonly string[],
) {
  const read: Part[] = [];
  for (const [at, { kind, learned }] of parts.entries()) {
    const encoded = kinds.get(kind)?.read(columns[at] as string, learned);
    if (encoded === undefined) return undefined;
    read.push({ kind, learned, encoded });
  }
  const width = read.reduce((sum, { encoded }) => sum + encoded.names.length, 0);
  if (read.length === 0 || width > mostFeatures) return undefined;
  const isIds = read.every(({ encoded }) => encoded.dtype === "i32");
  return { name, parts: read, width, isVector, dtype: isIds ? "i32" : "f32" } satisfies Output;
}

/** What a frame is to make, while it learns. */
export class FrameLearning {
  private readonly outputs: readonly {
    name: string;
    isList: boolean;
    parts: { encoder: Encoder; learning: Learning }[];
  }[];

  private rows = 0;

  /** @throws HeddleError `argument` for columns that are not of encoders */
  constructor(columns: FrameColumns) {
    const entries = Object.entries(asRecord("fit: columns", columns));
    if (entries.length === 0)
      throw new HeddleError("argument", 'fit: takes the columns to make, such as { x: [frames.scale("age")] }');
    this.outputs = entries.map(([name, made]) => {
      const encoders = (Array.isArray(made) ? made : [made]) as readonly Encoder[];
      if (encoders.length === 0) throw new HeddleError("argument", `fit: column "${name}" has no encoders`);
      return {
        name,
        isList: Array.isArray(made),
        parts: encoders.map((encoder) => {
          const kind = isRecord(encoder) ? kinds.get(encoder.kind) : undefined;
          if (kind === undefined)
            throw new HeddleError("argument", `fit: column "${name}" takes encoders, got ${shown(encoder)}`, {
              hint: 'such as frames.scale("age")',
            });
          return { encoder, learning: kind.learn(encoder.column, encoder.options) };
        }),
      };
    });
  }

  private get parts() {
    return this.outputs.flatMap(({ parts }) => parts);
  }

  /** Learns from records. */
  see(piece: Piece): void {
    if (piece.length === 0) return;
    this.rows += piece.length;
    for (const { encoder, learning } of this.parts) learning.see(fieldOf(piece, encoder.column));
  }

  /** Adds what was learned elsewhere, as `toJSON` gave it. */
  merge(other: Plain): void {
    const { rows, parts } = other as { readonly rows: number; readonly parts: readonly Plain[] };
    this.rows += rows;
    parts.forEach((state, at) => {
      this.parts[at]?.learning.merge(state);
    });
  }

  toJSON(): Plain {
    return { rows: this.rows, parts: this.parts.map(({ learning }) => learning.toJSON()) };
  }

  /** The frame. @throws HeddleError `data` where the records do not suffice */
  finish<Row extends object>(): Frame<Row> {
    if (this.rows === 0) throw new HeddleError("data", "fit: there are no records to learn from");
    return new Frame<Row>(
      this.outputs.map(({ name, isList, parts }) => {
        const learned = parts.map(({ encoder, learning }) => ({ kind: encoder.kind, learned: learning.finish() }));
        const columns = parts.map(({ encoder }) => encoder.column);
        const single = outputOf(name, isList, learned, columns);
        if (single === undefined)
          throw new HeddleError("data", `frame: column "${name}" would have more than ${mostFeatures} numbers`);
        return isList ? single : { ...single, isVector: single.parts[0]?.encoded.isVector === true };
      }),
    );
  }
}

/**
 * A frame of what {@link Frame.toJSON} gave, such as from a file. Nothing in it is executed.
 *
 * @throws HeddleError `format` for malformed data, `version` for a frame of a newer Heddle
 */
export function frameFrom<Row extends object = { readonly [name: string]: unknown }>(data: unknown): Frame<Row> {
  const malformed = (problem: string): HeddleError => new HeddleError("format", `frame: ${problem}`);
  if (!isRecord(data) || !Array.isArray(data["outputs"])) throw malformed("the data is not that of a frame");
  if (typeof data["format"] === "number" && data["format"] > format)
    throw new HeddleError("version", `frame: it has format ${data["format"]}, this Heddle reads up to ${format}`);
  const outputs = (data["outputs"] as unknown[]).map((output, at): Output => {
    const isWhole =
      isRecord(output) &&
      typeof output["name"] === "string" &&
      typeof output["isVector"] === "boolean" &&
      Array.isArray(output["parts"]) &&
      output["parts"].every(
        (part) => isRecord(part) && typeof part["kind"] === "string" && typeof part["column"] === "string",
      );
    if (!isWhole) throw malformed(`column ${at} is malformed`);
    const { name, isVector, parts } = output as unknown as {
      readonly name: string;
      readonly isVector: boolean;
      readonly parts: readonly { readonly kind: string; readonly column: string; readonly learned: Plain }[];
    };
    const made = outputOf(
      name,
      isVector,
      parts.map(({ kind, learned }) => ({ kind, learned })),
      parts.map(({ column }) => column),
    );
    if (made === undefined || (!isVector && made.width > 1))
      throw malformed(`an encoder of column "${name}" is malformed`);
    return made;
  });
  return new Frame<Row>(outputs);
}
