/** @module Steps that call a user's function: map, filter and flatMap, with records that cannot be used named, skipped or fatal. */
import { HeddleError } from "../../util/errors.ts";
import { after, type Node, type Reading } from "./node.ts";
import { type AnyRow, chosen, cut, type Piece, pieceOf, placed, rowsOf } from "./piece.ts";

/** What happens to a record that cannot be used: the error ends the reading, or the record is left out; a function hears of it and leaves it out. */
export type OnBad = "fail" | "skip" | ((error: HeddleError) => void);

/** Where a record stands in an epoch, for functions that draw random numbers: by (seed, epoch, index). */
export interface RecordMoment {
  readonly epoch: number;
  readonly seed: number;
  /** The record's number in the epoch, counted from 0, before records are left out. */
  readonly index: number;
}

/** A function of one record. */
export type RowFunction<Row, Result> = (row: Row, moment: RecordMoment) => Result | Promise<Result>;

/** A function that runs elsewhere, such as on worker threads: `data.onWorkers`. */
export interface RemoteFunction<Row, Result> {
  /** Number of calls that are worth having under way at once. */
  readonly parallel: number;
  /** Calls the function for the records of a piece; for each its result or its error. */
  call(rows: readonly Row[], moments: readonly RecordMoment[]): Promise<readonly Outcome<Result>[]>;
}

/** A result, or the text of an error. */
export type Outcome<Result> = { readonly value: Result } | { readonly error: string };

/** Whether a value is a function that runs elsewhere. */
export const isRemote = (fn: unknown): fn is RemoteFunction<never, unknown> =>
  typeof fn === "object" && fn !== null && "call" in fn && "parallel" in fn;

/** Records of a piece that are computed at once: results come in small steps, and few are lost when the reading ends. */
const rowsAtOnce = 256;

/** The error of a record, with its place. */
export function badRecord(
  what: string,
  index: number,
  place: Piece["place"],
  problem: string,
  cause?: unknown,
): HeddleError {
  return new HeddleError("data", `${what}: ${placed(index, place)}: ${problem}`, cause === undefined ? {} : { cause });
}

/** Treats a record that cannot be used as the policy says. */
export function treatBad(onBad: OnBad, error: HeddleError): void {
  if (onBad === "fail") throw error;
  if (onBad !== "skip") onBad(error);
}

interface Applied {
  readonly what: string;
  readonly node: Node;
  readonly fn: RowFunction<AnyRow, unknown> | RemoteFunction<AnyRow, unknown>;
  readonly onBad: OnBad;
}

/** The step in a chain. */
const stepOf = ({ what, onBad }: Applied): string => (onBad === "fail" ? what : `${what}, bad records left out`);

/** The results for a piece's records, one for each; a bad record has none. */
async function outcomes(
  { what, fn, onBad }: Applied,
  piece: Piece,
  first: number,
  { epoch, seed }: Omit<Reading, "from">,
) {
  const rows = rowsOf(piece);
  const moments = rows.map((_row, index) => ({ epoch, seed, index: first + index }));
  const found: Outcome<unknown>[] = isRemote(fn)
    ? [...(await (fn as RemoteFunction<AnyRow, unknown>).call(rows, moments))]
    : [];
  if (!isRemote(fn))
    for (let index = 0; index < rows.length; index++) {
      try {
        const result = fn(rows[index] as AnyRow, moments[index] as RecordMoment);
        found.push({ value: result instanceof Promise ? await result : result });
      } catch (cause) {
        if (onBad === "fail" && cause instanceof HeddleError) throw cause;
        found.push({ error: cause instanceof Error ? cause.message : String(cause) });
      }
    }
  return found.map((outcome, index): { readonly value: unknown } | undefined => {
    if (!("error" in outcome)) return outcome;
    const place = piece.place ?? (() => `record ${first + index}`);
    treatBad(onBad, badRecord(what, index, place, outcome.error));
    return undefined;
  });
}

/** Pieces with a result each, in order; several are under way where the function runs elsewhere. */
async function* computed(
  applied: Applied,
  reading: Reading,
  finish: (piece: Piece, found: readonly ({ readonly value: unknown } | undefined)[]) => Piece,
): AsyncGenerator<Piece> {
  const { node, fn } = applied;
  const parallel = isRemote(fn) ? Math.max(1, fn.parallel) : 1;
  const pending: Promise<Piece>[] = [];
  let first = reading.from;
  try {
    for await (const whole of node.read(reading)) {
      for (let from = 0; from < whole.length; from += rowsAtOnce) {
        const piece = cut(whole, from, Math.min(whole.length, from + rowsAtOnce));
        const result = outcomes(applied, piece, first, reading).then((found) => finish(piece, found));
        result.catch(() => {});
        pending.push(result);
        first += piece.length;
        // Back-pressure: no further piece is read while this many are computed.
        if (pending.length >= parallel) yield (await pending.shift()) as Piece;
      }
    }
    while (pending.length > 0) yield (await pending.shift()) as Piece;
  } finally {
    await Promise.allSettled(pending);
  }
}

/** A record for each record, which the function makes. */
export function mapped(applied: Applied): Node {
  const { what, node, onBad } = applied;
  const finish = (piece: Piece, found: readonly ({ readonly value: unknown } | undefined)[]): Piece => {
    const kept = [...found.keys()].filter((index) => found[index] !== undefined);
    const rows = kept.map((index) => (found[index] as { value: AnyRow }).value);
    return pieceOf(
      what,
      rows,
      piece.place && ((index) => (piece.place as (index: number) => string)(kept[index] as number)),
    );
  };
  // Records that are left out change the numbers of those after them.
  const exact = onBad === "fail";
  const { pick } = node;
  return {
    chain: [...node.chain, stepOf(applied)],
    length: exact ? node.length : undefined,
    read: (reading) =>
      exact
        ? computed(applied, reading, finish)
        : after(computed(applied, { ...reading, from: 0 }, finish), reading.from),
    pick:
      exact && pick !== undefined
        ? async (rows, epoch) => {
            const piece = await pick(rows, epoch);
            return finish(piece, await outcomes(applied, piece, 0, epoch));
          }
        : undefined,
    parts: exact ? node.parts : undefined,
  };
}

/** The records for which the function gives true. */
export function filtered(applied: Applied): Node {
  const finish = (piece: Piece, found: readonly ({ readonly value: unknown } | undefined)[]): Piece =>
    chosen(
      piece,
      [...found.keys()].filter((index) => found[index]?.value === true),
    );
  return readAgain(applied, finish);
}

/** All records of the lists that the function makes. */
export function flatMapped(applied: Applied): Node {
  const { what } = applied;
  const finish = (piece: Piece, found: readonly ({ readonly value: unknown } | undefined)[]): Piece => {
    const from: number[] = [];
    const rows = found.flatMap((result, index) => {
      const list = result === undefined ? [] : result.value;
      if (!Array.isArray(list))
        throw badRecord(what, index, piece.place, `the function gave ${String(list)}, not a list`);
      from.push(...list.map(() => index));
      return list as AnyRow[];
    });
    return pieceOf(
      what,
      rows,
      piece.place && ((index) => (piece.place as (index: number) => string)(from[index] as number)),
    );
  };
  return readAgain(applied, finish);
}

/** A step whose number of records only reading tells: to go on from a record, the records before it are read again. */
const readAgain = (applied: Applied, finish: Parameters<typeof computed>[2]): Node => ({
  chain: [...applied.node.chain, stepOf(applied)],
  length: undefined,
  read: (reading) => after(computed(applied, { ...reading, from: 0 }, finish), reading.from),
});
