/** @module Records of files: each format reads one file, and this module makes one source of many. */
import { createHash } from "node:crypto";
import { HeddleError } from "../../util/errors.ts";
import { checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { blocks } from "../file-ranges.ts";
import { type OnBad, treatBad } from "../records/apply.ts";
import type { Among } from "../records/identity.ts";
import type { Epoch, Node } from "../records/node.ts";
import { cut, type Piece } from "../records/piece.ts";
import { Records } from "../records/records.ts";
import { concatenated } from "../records/steps.ts";
import { type ByteFile, filesOf, openBytes, type Places, sizeText } from "./bytes.ts";

/** Options that all files of records take. */
export interface FileOptions {
  /** What happens to a malformed record: `"fail"` (default), `"skip"`, or a function that hears of it; then it is left out. */
  readonly onBad?: OnBad;
}

/** Checks that an option is a list of texts, if it is given. @throws HeddleError `option` */
export function checkTexts(what: string, name: string, value: unknown): void {
  if (value === undefined || (Array.isArray(value) && value.every((text) => typeof text === "string"))) return;
  throw new HeddleError("option", `${what}: ${name} must be a list of texts, got ${shown(value)}`, {
    hint: typeof value === "string" ? `write ${name}: [${JSON.stringify(value)}]` : `write ${name}: ["…"]`,
  });
}

/** How the records of one file are read. */
export interface FileReader {
  /** Number of records, if the file says it. */
  readonly length?: number;
  /** The first records of parts that can be read in any order; default one part. */
  readonly parts?: readonly number[];
  /** The records from `from` on. */
  read(from: number, signal: AbortSignal | undefined): AsyncIterable<Piece>;
  /** The records of these numbers. Absent where the file has no place for each. */
  readonly pick?: (rows: ArrayLike<number>) => Promise<Piece>;
}

/** A format of files of records. */
export interface Format<Options> {
  /** The function that users call. */
  readonly what: string;
  readonly options: readonly (keyof Options & string)[];
  /** Checks the values of options when the records are made. @throws HeddleError `option` */
  readonly check?: (options: Options) => void;
  /** Opens a file; `bad` treats a malformed record as `onBad` says. */
  open(file: ByteFile, options: Options, bad: (error: HeddleError) => void): Promise<FileReader>;
}

/** Opens a file in a format for one reading of a chain; files are opened when they are first read. */
interface Opened {
  readonly name: string;
  /** What the content is recognised by. */
  identity(among: Among): Promise<string>;
  open(): Promise<FileReader>;
}

/**
 * The records of files, one file after another. Files are opened when they are reached, so nothing is read before. The number of records
 * is known once each file said its own.
 */
export function recordsOf<Row extends object, Options extends FileOptions>(
  format: Format<Options>,
  places: Places,
  options: Options,
): Records<Row> {
  const { what } = format;
  checkOptions(what, options, [...format.options, "onBad"]);
  const onBad = checked(format, options);
  const files = filesOf(what, places).map((name) => opened(format, name, options, (error) => treatBad(onBad, error)));
  return new Records<Row>(fileNode(what, files, options));
}

/** Checks the options of a format; gives the policy of malformed records. */
function checked<Options extends FileOptions>({ what, check }: Format<Options>, options: Options): OnBad {
  const { onBad = "fail" } = options;
  if (onBad !== "fail" && onBad !== "skip" && typeof onBad !== "function")
    throw new HeddleError("option", `${what}: onBad must be "fail", "skip" or a function, got ${shown(onBad)}`);
  check?.(options);
  return onBad;
}

function opened<Options extends FileOptions>(
  format: Format<Options>,
  name: string,
  options: Options,
  bad: (error: HeddleError) => void,
): Opened {
  let opening: { readonly stamp: string; readonly reader: Promise<FileReader> } | undefined;
  return {
    name,
    identity: (among) => contentOf(name, among),
    async open() {
      const file = await openBytes(name);
      // A file that has changed is read anew.
      if (opening?.stamp !== file.stamp) opening = { stamp: file.stamp, reader: format.open(file, options, bad) };
      const current = opening;
      current.reader.catch(() => {
        if (opening === current) opening = undefined;
      });
      return current.reader;
    },
  };
}

/** Files that are looked at at once. */
const askedAtOnce = 32;

/** What a chain says of its options. */
const optionsText = (options: FileOptions): string =>
  JSON.stringify(options, (name, value: unknown) => (name === "onBad" && value !== "fail" ? "skip" : value));

/** What the content of a file is recognised by: size and time, or size and a sample where the time says nothing. */
async function contentOf(name: string, among: Among): Promise<string> {
  const file = await openBytes(name);
  const isElsewhere = /^\w+:\/\//.test(name);
  if (isElsewhere ? !file.stamp.endsWith(" ") : among === "runs") return file.stamp;
  const hash = createHash("sha256");
  for (const [position, length] of blocks(file.size, false)) hash.update(await file.read(position, length));
  return `${file.size} ${hash.digest("hex")}`;
}

function fileNode(what: string, files: readonly Opened[], options: FileOptions): Node {
  const contents = async (among: Among): Promise<string[]> => {
    const found: string[] = [];
    for (let from = 0; from < files.length; from += askedAtOnce)
      found.push(...(await Promise.all(files.slice(from, from + askedAtOnce).map((file) => file.identity(among)))));
    return found;
  };
  return {
    chain: [`${what} ${files.map(({ name }) => `${name}${sizeText(name)}`).join(" ")}`, optionsText(options), contents],
    length: undefined,
    async *read({ from, signal }) {
      let left = from;
      for (const file of files) {
        signal?.throwIfAborted();
        const reader = await file.open();
        if (reader.length !== undefined) {
          if (left < reader.length) yield* reader.read(left, signal);
          left = Math.max(0, left - reader.length);
          continue;
        }
        // Without a number, only reading tells how many records the file has.
        if (left === 0) yield* reader.read(0, signal);
        else
          for await (const piece of reader.read(0, signal)) {
            if (left < piece.length) yield cut(piece, left, piece.length);
            left = Math.max(0, left - piece.length);
          }
      }
    },
    parts: async () => {
      const starts: number[] = [];
      let first = 0;
      for (const file of files) {
        const { length, parts = [0] } = await file.open();
        starts.push(...parts.map((part) => part + first));
        if (length === undefined) break;
        first += length;
      }
      return starts;
    },
  };
}

/**
 * Opens all files, and gives their records with a known number, picked by number where the format can: exact shuffles, and a reading that
 * goes on from any record at once.
 *
 * @throws HeddleError `data` where a file does not say how many records it has
 */
export async function openAll<Row extends object, Options extends FileOptions>(
  format: Format<Options>,
  places: Places,
  options: Options,
): Promise<Records<Row>> {
  const { what } = format;
  checkOptions(what, options, [...format.options, "onBad"]);
  const onBad = checked(format, options);
  const names = filesOf(what, places);
  const readers = await Promise.all(
    names.map((name) => opened(format, name, options, (error) => treatBad(onBad, error)).open()),
  );
  const nodes = readers.map(({ length, read, pick, parts }, at): Node => {
    if (length === undefined)
      throw new HeddleError("data", `${what}: ${names[at]} does not say how many records it has`);
    return {
      chain: [
        `${what} ${names[at]} of ${length}`,
        optionsText(options),
        (among: Among) => contentOf(names[at] as string, among),
      ],
      length,
      read: ({ from, signal }) => read(from, signal),
      pick: pick && ((rows: ArrayLike<number>, _epoch: Epoch) => pick(rows)),
      parts: async () => parts ?? [0],
    };
  });
  return new Records<Row>(nodes.length === 1 ? (nodes[0] as Node) : concatenated(nodes));
}
