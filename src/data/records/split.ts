/** @module Splits without leakage, and classes in balance: both choose records by number after one pass over them. */
import { HeddleError } from "../../util/errors.ts";
import { asRecord, checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { order } from "../order.ts";
import { hashOf } from "./identity.ts";
import { placed, rowsOf } from "./piece.ts";
import { nodeOf, pickedNode, Records } from "./records.ts";
import { selected } from "./steps.ts";

/** Options of {@link split}. At most one of `group`, `time` and `stratify`. */
export interface SplitOptions<Row> {
  /** Seed of what is random; default 0. */
  readonly seed?: number;
  /** Records with the same value go to the same part: the same person, the same scene. */
  readonly group?: (row: Row) => string | number;
  /** Earlier records go to earlier parts: nothing is learned from the future. Records of one time stay together. */
  readonly time?: (row: Row) => number;
  /** Each class is split in the same shares. */
  readonly stratify?: (row: Row) => string | number;
}

/**
 * Parts of records in shares, such as `{ train: 0.8, test: 0.2 }`: by default at random, or by group, by time, or by class. Each record is
 * in one part. Reads the records once where a function is given, or their number is not known.
 *
 * @throws HeddleError `option` unless the shares add up to 1; `data` for a record without a key, and for a part without a record
 */
export async function split<Row extends object, Part extends string>(
  records: Records<Row>,
  shares: { readonly [Name in Part]: number },
  options: SplitOptions<Row> = {},
): Promise<{ readonly [Name in Part]: Records<Row> }> {
  checkOptions("split", options, ["seed", "group", "time", "stratify"]);
  const node = nodeOf("split")(records);
  const { seed = 0, group, time, stratify } = options;
  checkInteger("split", "seed", seed, 0);
  const names = Object.keys(asRecord("split: shares", shares)) as Part[];
  const total = names.reduce((sum, name) => sum + shares[name], 0);
  for (const name of names) checkNumber("split", `the share of ${name}`, shares[name], 0, 1);
  if (names.length === 0 || Math.abs(total - 1) > 1e-9)
    throw new HeddleError("option", `split: the shares add up to ${total}, not to 1`);
  const given = Object.entries({ group, time, stratify }).filter(([, fn]) => fn !== undefined);
  if (given.length > 1) throw new HeddleError("option", "split: group, time and stratify exclude each other");
  const [by] = given;
  const keys =
    by === undefined
      ? undefined
      : await keysOf(`split: ${by[0]}`, records, by[1] as (row: Row) => string | number, time !== undefined);
  const count = keys?.length ?? (await records.count());
  if (count === 0) throw new HeddleError("data", "split: there are no records");
  const bounds = names.map((_name, at) => names.slice(0, at + 1).reduce((sum, name) => sum + shares[name], 0));
  /** Cuts a list of units, each of some records, where the shares of the records end. */
  const cutAt = (units: readonly (readonly number[])[]): number[][] => {
    const all = units.reduce((sum, { length }) => sum + length, 0);
    const parts = names.map((): number[] => []);
    let passed = 0;
    for (const unit of units) {
      const middle = (passed + unit.length / 2) / all;
      const which = bounds.findIndex((bound) => middle <= bound + 1e-12);
      const part = parts[which < 0 ? names.length - 1 : which] as number[];
      for (const row of unit) part.push(row);
      passed += unit.length;
    }
    return parts;
  };
  const mixedUnits = <Unit>(units: readonly Unit[], ordinal: number): Unit[] => {
    const { at } = order(seed, 0, units.length, 2 ** 24 + ordinal);
    return units.map((_unit, index) => units[at(index)] as Unit);
  };
  const rows = Array.from({ length: count }, (_unused, row) => row);
  const units = keys === undefined ? [] : [...grouped(keys)];
  const parts =
    keys === undefined
      ? cutAt(mixedUnits(rows, 0).map((row) => [row]))
      : time !== undefined
        ? cutAt(units.sort(([one], [other]) => Number(one) - Number(other)).map(([, own]) => own))
        : group !== undefined
          ? cutAt(mixedUnits(units, 0).map(([, own]) => own))
          : units
              .map(([, own], ordinal) => cutAt(mixedUnits(own, ordinal).map((row) => [row])))
              .reduce((all, own) => all.map((part, at) => part.concat(own[at] as number[])));
  const empty = names.find((_name, at) => parts[at]?.length === 0);
  if (empty !== undefined)
    throw new HeddleError("data", `split: the part "${empty}" of ${count} records has none`, {
      hint: by === undefined ? "give it a larger share" : `give it a larger share; ${by[0]} keeps records together`,
    });
  const entries = names.map((name, at) => {
    const own = Float64Array.from(parts[at] as number[]).sort();
    return [name, new Records<Row>(selected(node, own, `split ${name} of ${own.length}, seed ${seed}`))];
  });
  return Object.fromEntries(entries) as { readonly [Name in Part]: Records<Row> };
}

/**
 * As many records of each class: classes take turns, records of smaller classes come again, in another order each time. Reads the records
 * once. The records must be picked by number: `await records.load()` where their source cannot.
 *
 * @throws HeddleError `data` for records that cannot be picked
 */
export async function balanced<Row extends object>(
  records: Records<Row>,
  classOf: (row: Row) => string | number,
  options: { readonly seed?: number } = {},
): Promise<Records<Row>> {
  checkOptions("balanced", options, ["seed"]);
  const { pick, chain } = nodeOf("balanced")(records);
  if (pick === undefined || !records.canPick)
    throw new HeddleError("data", "balanced: the source of these records cannot pick them by number", {
      hint: "await records.load() first, if they fit into memory",
    });
  if (typeof classOf !== "function")
    throw new HeddleError(
      "argument",
      `balanced: takes a function that gives the class of a record, got ${shown(classOf)}`,
    );
  const classes = [...grouped(await keysOf("balanced: the class", records, classOf)).values()];
  const most = classes.reduce((largest, { length }) => Math.max(largest, length), 0);
  const length = most * classes.length;
  const named = `balanced ${classes.length} of ${most}, seed ${options.seed ?? "run"}`;
  return new Records<Row>(
    pickedNode([...chain, named, async () => hashOf(classes)], length, (rows, epoch) => {
      const found = Float64Array.from(rows, (row) => {
        const which = row % classes.length;
        const own = classes[which] as readonly number[];
        const turn = Math.floor(row / classes.length);
        const { at } = order(
          options.seed ?? epoch.seed,
          epoch.epoch,
          own.length,
          2 ** 25 + 4096 * Math.floor(turn / own.length) + which,
        );
        return own[at(turn % own.length)] as number;
      });
      return pick(found, epoch);
    }),
  );
}

/** The keys of all records. @throws HeddleError `data` for a key that equals no other, such as NaN, with the record */
async function keysOf<Row extends object>(
  what: string,
  records: Records<Row>,
  keyOf: (row: Row) => string | number,
  isTime = false,
): Promise<(string | number)[]> {
  if (typeof keyOf !== "function")
    throw new HeddleError("option", `${what} must be a function of a record, got ${shown(keyOf)}`, {
      hint: typeof keyOf === "string" ? `write (row) => row.${keyOf}` : "such as (row) => row.name",
    });
  const keys: (string | number)[] = [];
  for await (const piece of records.pieces()) {
    for (const [index, row] of (rowsOf(piece) as Row[]).entries()) {
      const key: unknown = keyOf(row);
      const isKey = isTime ? typeof key === "number" : ["string", "number", "boolean", "bigint"].includes(typeof key);
      if (!isKey || Number.isNaN(key))
        throw new HeddleError("data", `${what} of ${placed(index, piece.place)} is ${shown(key)}`, {
          hint: isTime
            ? "a time is a number: date.getTime()"
            : "give a text or a number, or leave the record out by filter",
        });
      keys.push(key as string | number);
    }
  }
  return keys;
}

/** The records of each key, in the order in which the keys come first. */
function grouped(keys: readonly (string | number)[]): Map<string | number, number[]> {
  const groups = new Map<string | number, number[]>();
  keys.forEach((key, row) => {
    const own = groups.get(key);
    if (own === undefined) groups.set(key, [row]);
    else own.push(row);
  });
  return groups;
}
