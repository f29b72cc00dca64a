/** @module Encoders of moments in time: their parts as numbers, or as places on a circle. */
import { HeddleError } from "../../util/errors.ts";
import { checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { Plain } from "../../util/text.ts";
import { isRecord } from "../../util/tree.ts";
import type { Encoded, Encoder, Kind, Learning } from "../encoder.ts";
import { Moments, type MomentsData } from "../sketches/moments.ts";
import { badValue, type Field, momentAt } from "../values.ts";
import { checkColumn, checkOneOf } from "./options.ts";

/** A part of a moment, in UTC. */
export type DatePart = "time" | "year" | "month" | "day" | "dayOfYear" | "weekday" | "hour" | "minute" | "second";

/** Options of {@link date}. */
export interface DateOptions {
  /**
   * Which parts, in this order: `time` is in days since 1970, months and days count from 1, weekdays from 0 for Monday. Default
   * `["time", "month", "weekday"]`.
   */
  readonly parts?: readonly DatePart[];
  /** Make sine and cosine of the place in its period of each part that has one, so that December is near January; default true. */
  readonly cyclic?: boolean;
  /** Give the other parts mean 0 and variance 1 over the records that were learned from; default true. */
  readonly scale?: boolean;
  /** A missing moment: an error (default), or zeros (`"zero"`). */
  readonly missing?: "error" | "zero";
}

const dayLength = 86_400_000;

/** How each part follows from a moment, its first value, and the length of its period. */
const parts: {
  readonly [Part in DatePart]: readonly [of: (date: Date) => number, first: number, period: number | undefined];
} = {
  time: [(date) => date.getTime() / dayLength, 0, undefined],
  year: [(date) => date.getUTCFullYear(), 0, undefined],
  month: [(date) => date.getUTCMonth() + 1, 1, 12],
  day: [(date) => date.getUTCDate(), 1, 31],
  dayOfYear: [(date) => Math.floor((date.getTime() - startOfYear(date)) / dayLength) + 1, 1, 366],
  weekday: [(date) => (date.getUTCDay() + 6) % 7, 0, 7],
  hour: [(date) => date.getUTCHours(), 0, 24],
  minute: [(date) => date.getUTCMinutes(), 0, 60],
  second: [(date) => date.getUTCSeconds(), 0, 60],
};

const startOfYear = (date: Date): number => new Date(0).setUTCFullYear(date.getUTCFullYear(), 0, 1);
const known = Object.keys(parts) as DatePart[];

/**
 * The parts of a moment as numbers, which is a `Date`, milliseconds since 1970, or a text of ISO 8601, in UTC. Makes f32.
 *
 * @example frames.date("sold", { parts: ["year", "month", "weekday"] })
 */
export function date<const Column extends string>(
  column: Column,
  options: DateOptions = {},
): Encoder<Column, Float32Array> {
  checkColumn("date", column);
  checkOptions("date", options, ["parts", "cyclic", "scale", "missing"]);
  const { parts: wanted = ["time", "month", "weekday"], cyclic = true, scale = true, missing = "error" } = options;
  if (!isParts(wanted))
    throw new HeddleError("option", `date: parts must be some of ${known.join(", ")}, got ${shown(wanted)}`);
  checkOneOf("date", "cyclic", cyclic, [true, false]);
  checkOneOf("date", "scale", scale, [true, false]);
  checkOneOf("date", "missing", missing, ["error", "zero"]);
  return { kind: "date", column, options: { parts: wanted, cyclic, scale, missing } };
}

const isParts = (wanted: unknown): wanted is readonly DatePart[] =>
  Array.isArray(wanted) && wanted.length > 0 && wanted.every((part) => known.includes(part as DatePart));

const missingDate = (field: Field, row: number): HeddleError =>
  badValue(field, row, "a moment is missing", 'pass missing: "zero"');

const isOnCircle = (part: DatePart, cyclic: boolean): boolean => cyclic && parts[part][2] !== undefined;

/** Mean and variance of the parts that are scaled. */
class Dates implements Learning {
  private readonly moments: Moments[];
  private readonly options: { readonly parts: readonly DatePart[]; readonly cyclic: boolean; readonly missing: string };
  private readonly isScaled: boolean;

  constructor(options: { readonly [name: string]: Plain }) {
    this.options = options as unknown as Dates["options"];
    this.isScaled = options["scale"] === true;
    this.moments = this.options.parts.map(() => new Moments());
  }

  see(field: Field): void {
    for (let row = 0; row < field.length; row++) {
      const moment = momentAt(field, row);
      if (Number.isNaN(moment)) {
        if (this.options.missing === "error") throw missingDate(field, row);
        continue;
      }
      const when = new Date(moment);
      this.options.parts.forEach((part, at) => {
        this.moments[at]?.add(parts[part][0](when));
      });
    }
  }

  merge(other: Plain): void {
    (other as unknown as readonly MomentsData[]).forEach((data, at) => {
      this.moments[at]?.merge(Moments.from(data));
    });
  }

  toJSON(): Plain {
    return this.moments.map((moments) => moments.toJSON() as unknown as Plain);
  }

  finish(): Plain {
    const { parts: wanted, cyclic, missing } = this.options;
    const scales = wanted.map((part, at): readonly [number, number] => {
      const { mean, variance, count } = this.moments[at] as Moments;
      if (!this.isScaled || count === 0 || isOnCircle(part, cyclic)) return [0, 1];
      return [mean, variance > 0 ? Math.sqrt(variance) : 1];
    });
    return { parts: wanted, cyclic, missing, scales };
  }
}

export const dateKind: Kind = {
  learn: (_column, options) => new Dates(options),
  read(column, learned): Encoded | undefined {
    if (!isRecord(learned)) return undefined;
    const { parts: wanted, cyclic, missing, scales } = learned as { readonly [name: string]: unknown };
    const isScale = (scale: unknown): boolean =>
      Array.isArray(scale) && scale.length === 2 && scale.every(Number.isFinite) && scale[1] !== 0;
    if (!isParts(wanted) || typeof cyclic !== "boolean" || !Array.isArray(scales) || !scales.every(isScale))
      return undefined;
    if (scales.length !== wanted.length || (missing !== "error" && missing !== "zero")) return undefined;
    const names = wanted.flatMap((part) =>
      isOnCircle(part, cyclic) ? [`${column} ${part} sin`, `${column} ${part} cos`] : [`${column} ${part}`],
    );
    return {
      column,
      names,
      dtype: "f32",
      isVector: true,
      encode(field, { data, start, stride }) {
        for (let row = 0; row < field.length; row++) {
          const moment = momentAt(field, row);
          let at = start + row * stride;
          if (Number.isNaN(moment)) {
            if (missing === "error") throw missingDate(field, row);
            data.fill(0, at, at + names.length);
            continue;
          }
          const when = new Date(moment);
          wanted.forEach((part, which) => {
            const [of, first, period] = parts[part];
            const value = of(when);
            if (cyclic && period !== undefined) {
              const angle = (2 * Math.PI * (value - first)) / period;
              data[at++] = Math.sin(angle);
              data[at++] = Math.cos(angle);
              return;
            }
            const [offset, spread] = (scales as [number, number][])[which] as [number, number];
            data[at++] = (value - offset) / spread;
          });
        }
      },
    };
  },
};
