/** @module What an encoder is: learning in one pass, in parts that merge, and what it has learned, as data. */
import type { DType } from "../ir/dtype.ts";
import type { Plain } from "../util/text.ts";
import type { Field } from "./values.ts";

/** Where an encoder writes: element `start + row * stride + feature` of the data. */
export interface Target {
  readonly data: Float32Array | Int32Array;
  readonly start: number;
  readonly stride: number;
}

/** What an encoder has learned, ready to be used. */
export interface Encoded {
  /** The column that it reads. */
  readonly column: string;
  /** A name for each number that it makes of a value. */
  readonly names: readonly string[];
  /** i32 where the numbers are ids, for classes and tables of embeddings; else f32. */
  readonly dtype: Extract<DType, "f32" | "i32">;
  /** Whether it makes a vector also where that has one element. */
  readonly isVector: boolean;
  /** The values by id, for an encoder that numbers them; null stands for a missing value. */
  readonly classes?: readonly Plain[];
  /** Writes the numbers of each value. @throws HeddleError `data` naming the record whose value has none */
  encode(field: Field, target: Target): void;
}

/** What an encoder gathers while it reads. States of parts of the records merge, in any order, to that of all. */
export interface Learning {
  /** Reads values. */
  see(field: Field): void;
  /** Adds what another one has gathered, as its `toJSON` gave it. */
  merge(other: Plain): void;
  toJSON(): Plain;
  /** What has been learned, as data. @throws HeddleError `data` where the values do not suffice */
  finish(): Plain;
}

/**
 * An encoder before it has learned: what it makes of which column. `Column` is the column's name, `Value` what a record gets: a number
 * or a vector.
 */
export interface Encoder<Column extends string = string, Value = unknown> {
  readonly kind: string;
  readonly column: Column;
  /** Its options, as data. */
  readonly options: { readonly [name: string]: Plain };
  /** Only for the type of what it makes. */
  readonly value?: Value;
}

/** A kind of encoders, by the name under which it stands in files. */
export interface Kind {
  /** Starts to learn. */
  learn(column: string, options: { readonly [name: string]: Plain }): Learning;
  /** What `finish` gave, checked and ready; undefined if it is malformed, since files are not trusted. */
  read(column: string, learned: Plain): Encoded | undefined;
}
