/** @module What of a process decides the bits of its results, compared among the ranks of a run. */
import { endianness } from "node:os";
import type { World } from "../runtime/world.ts";
import { HeddleError } from "../util/errors.ts";
import { instructionSets, readEnvironment } from "../util/settings.ts";
import { version } from "../util/version.ts";

/** Properties of a process that results depend on. */
export interface Traits {
  /** Heddle's version. */
  readonly heddle: string;
  /** The processor's family, such as `x64`. */
  readonly processor: string;
  readonly endianness: "BE" | "LE";
  /** Whether kernels are generated, by HEDDLE_JIT. */
  readonly jit: string;
  /** The instruction set of kernels. */
  readonly isa: string;
}

/** Bytes in which every rank sends its traits. */
const width = 512;

/** The traits of this process. */
export const ownTraits = (heddle: string, isa: string, jit: string | undefined): Traits => ({
  heddle,
  processor: process.arch,
  endianness: endianness(),
  jit: jit ?? "on",
  isa,
});

/** Traits as bytes of one length. */
export function writeTraits(traits: Traits): Uint8Array {
  const bytes = new Uint8Array(width);
  new TextEncoder().encodeInto(JSON.stringify(traits), bytes);
  return bytes;
}

/** The traits of all ranks. */
export function readTraits(bytes: Uint8Array): Traits[] {
  const texts = Array.from({ length: bytes.length / width }, (_unused, rank) =>
    bytes.subarray(rank * width, (rank + 1) * width),
  );
  return texts.map((text) => JSON.parse(new TextDecoder().decode(text).replace(/\0+$/, "")) as Traits);
}

const sets: readonly string[] = instructionSets;

const words: readonly (readonly [keyof Traits, string])[] = [
  ["heddle", "versions of Heddle"],
  ["processor", "processors"],
  ["endianness", "orders of bytes"],
  ["jit", "values of HEDDLE_JIT"],
];

/**
 * The instruction set that all ranks have, so that all compute the same bits.
 *
 * @throws HeddleError `mismatch` naming both sides, if ranks differ in anything else, or in sets of which none contains the other.
 */
export function commonSet(all: readonly Traits[]): string {
  const [first] = all as [Traits];
  for (const [trait, named] of words) {
    const other = all.findIndex((traits) => traits[trait] !== first[trait]);
    if (other >= 0) throw differ(named, first[trait], other, (all[other] as Traits)[trait]);
  }
  const lowest = all
    .map(({ isa }) => isa)
    .reduce((left, right) => (sets.indexOf(right) < sets.indexOf(left) ? right : left));
  const other = all.findIndex(({ isa }) => isa !== first.isa && (!sets.includes(isa) || !sets.includes(first.isa)));
  if (other >= 0) throw differ("instruction sets", first.isa, other, (all[other] as Traits).isa);
  return lowest;
}

const differ = (named: string, left: string, rank: number, right: string): HeddleError =>
  new HeddleError(
    "mismatch",
    `ranks 0 and ${rank} have different ${named}:\n  rank 0: ${left}\n  rank ${rank}: ${right}`,
  );

/**
 * The instruction set with which all ranks compute; undefined if that is this process's own choice.
 *
 * @param best the most that this processor has
 * @throws HeddleError `mismatch` naming both sides if ranks cannot compute the same bits.
 */
export async function agreeOnSet(world: World, best: string): Promise<string | undefined> {
  const { isa: wanted, jit } = readEnvironment();
  const isa = wanted ?? best;
  const all = readTraits(await world.allGather(writeTraits(ownTraits(version, isa, jit)), "instruction sets"));
  const common = commonSet(all);
  if (common === isa) return undefined;
  const least = all.findIndex((traits) => traits.isa === common);
  process.emitWarning(`rank ${world.rank} computes with ${common} instead of ${isa}, as rank ${least} does`, {
    code: "HEDDLE_ISA",
  });
  return common;
}
