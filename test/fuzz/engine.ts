/** Feeds mutated inputs to a parser: it reads them or refuses them with an error of Heddle's, in little memory, and ends. */
import { getHeapStatistics } from "node:v8";
import { HeddleError } from "../../src/util/errors.ts";
import { collect } from "../support/garbage.ts";

/** A parser that faces a wire or a file. */
export interface Target {
  readonly name: string;
  /** Well-formed inputs, which are mutated. */
  readonly seeds: () => readonly Uint8Array[] | Promise<readonly Uint8Array[]>;
  /** Reads an input. A refusal is an error of Heddle's, or a result that says so. */
  readonly parse: (input: Uint8Array) => unknown;
}

export type Draw = (below: number) => number;

/** Whole numbers from a seed (mulberry32). */
export function drawing(seed: number): Draw {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return Math.floor((((value ^ (value >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

const numbers = [0, 1, 2, 4, 127, 128, 255, 256, 65_535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 53, Infinity];
const words = [
  "-1",
  "0",
  "1e9",
  "9007199254740993",
  "4294967296",
  "null",
  "[]",
  "{}",
  '"',
  "\n",
  "\0",
  "true",
  "../x",
  ":",
  "(",
];

type Mutation = (bytes: Buffer, at: number, draw: Draw, seeds: readonly Uint8Array[]) => Buffer;

const spliced = (bytes: Buffer, from: number, to: number, put: Uint8Array): Buffer =>
  Buffer.concat([bytes.subarray(0, from), put, bytes.subarray(to)]);

/** A whole number in a few bytes of the input. */
const numbered =
  (width: 2 | 4 | 8): Mutation =>
  (bytes, at, draw) => {
    if (at + width > bytes.length) return bytes;
    const value = BigInt(Math.min(numbers[draw(numbers.length)] as number, Number.MAX_SAFE_INTEGER));
    const put = Buffer.alloc(8);
    put.writeBigUInt64LE(value);
    const little = put.subarray(0, width);
    return spliced(bytes, at, at + width, draw(2) === 0 ? little : Uint8Array.from(little).reverse());
  };

const mutations: readonly Mutation[] = [
  (bytes, at, draw) => spliced(bytes, at, at + 1, Uint8Array.of((bytes[at] as number) ^ (1 << draw(8)))),
  (bytes, at, draw) => spliced(bytes, at, at + 1, Uint8Array.of(draw(256))),
  (bytes, at) => bytes.subarray(0, at),
  (bytes, at, draw) => spliced(bytes, at, at + 1 + draw(16), new Uint8Array()),
  (bytes, at, draw) => spliced(bytes, at, at, bytes.subarray(at, at + 1 + draw(32))),
  (bytes, at, draw) =>
    spliced(
      bytes,
      at,
      at,
      Uint8Array.from({ length: 1 + draw(8) }, () => draw(256)),
    ),
  (bytes, at, draw) => spliced(bytes, at, at + draw(3), Buffer.from(words[draw(words.length)] as string)),
  (bytes, at, draw, seeds) => {
    const other = seeds[draw(seeds.length)] as Uint8Array;
    const from = draw(other.length);
    return spliced(bytes, at, at + draw(32), other.subarray(from, from + draw(64)));
  },
  numbered(2),
  numbered(4),
  numbered(8),
  // A number of a text becomes another.
  (bytes, at, draw) => {
    const text = bytes.toString("latin1");
    const found = /-?\d+(?:\.\d+)?/.exec(text.slice(at));
    if (found === null) return bytes;
    const from = at + found.index;
    return spliced(bytes, from, from + found[0].length, Buffer.from(`${numbers[draw(numbers.length)]}`));
  },
];

/** An input after one to four changes. */
export function mutated(seeds: readonly Uint8Array[], draw: Draw): Uint8Array {
  let bytes: Buffer = Buffer.from(seeds[draw(seeds.length)] as Uint8Array);
  for (let left = 1 + draw(4); left > 0 && bytes.length > 0; left--)
    bytes = (mutations[draw(mutations.length)] as Mutation)(bytes, draw(bytes.length), draw, seeds);
  return new Uint8Array(bytes);
}

/** Bytes that an input may take beside its own size. */
const mostBytes = 256 * 2 ** 20;
/** Bytes that may be left after all inputs. */
const mostLeft = 96 * 2 ** 20;
const mostMilliseconds = 60_000;

// What `process.memoryUsage` gives, too, in a multiple of the time.
const outside = (): number => getHeapStatistics().external_memory;

/** What an input did wrong; undefined for nothing. */
async function problemOf({ parse }: Target, input: Uint8Array): Promise<string | undefined> {
  const before = outside();
  let timer: NodeJS.Timeout | undefined;
  try {
    const result = parse(input);
    if (result instanceof Promise)
      await Promise.race([
        result,
        new Promise((_resolve, reject) => {
          timer = setTimeout(() => reject(new Error("it does not end")), mostMilliseconds);
        }),
      ]);
  } catch (error) {
    if (!(error instanceof HeddleError)) return error instanceof Error ? (error.stack ?? error.message) : String(error);
    if (error.code === "internal") return `an internal error: ${error.message}`;
  } finally {
    clearTimeout(timer);
  }
  const taken = outside() - before;
  return taken > mostBytes ? `it took ${taken} bytes for an input of ${input.length}` : undefined;
}

/** What went wrong, and the input that shows it. */
export interface Finding {
  readonly index: number;
  readonly input: Uint8Array;
  readonly problem: string;
}

/** Runs a parser on a count of mutated inputs from a number on, of which each has its number as seed; stops after a few findings. */
export async function fuzz(
  target: Target,
  count: number,
  onInput: (index: number) => void = () => {},
  first = 0,
): Promise<Finding[]> {
  const seeds = await target.seeds();
  const findings: Finding[] = [];
  for (const [index, seed] of seeds.entries()) {
    const problem = await problemOf({ ...target, parse: (bytes) => target.parse(bytes) }, seed);
    if (problem !== undefined) findings.push({ index: -1 - index, input: seed, problem });
  }
  collect();
  const before = process.memoryUsage();
  for (let index = first; index < first + count && findings.length < 5; index++) {
    onInput(index);
    const input = mutated(seeds, drawing(index * 7919 + 1));
    const problem = await problemOf(target, input);
    if (problem !== undefined) findings.push({ index, input, problem });
  }
  collect();
  const after = process.memoryUsage();
  const left = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  if (left > mostLeft)
    findings.push({ index: first + count, input: new Uint8Array(), problem: `${left} bytes are left` });
  return findings;
}
