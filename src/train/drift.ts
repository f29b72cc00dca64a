/**
 * @module Finds ranks whose steps have drifted apart: that take another learning rate, another batch, or restored other values.
 *
 * Each rank digests what a step takes. The digests travel in the sum of the requests to end (`ending.ts`), which every step makes anyway: rank 0
 * sends its own times the number of the others, the others send theirs with the sign changed, so that the sum is 0 if all are equal.
 */
import type { World } from "../runtime/world.ts";
import { HeddleError } from "../util/errors.ts";
import { listed } from "../util/text.ts";

/** What a step takes besides its data, by the words of errors. */
export interface StepTakes {
  readonly "learning rate": readonly number[];
  readonly epoch: number;
  readonly batch: number;
  readonly rows: number;
  readonly "number of restored snapshots": number;
}

/** Steps of which it is known what they took. */
const kept = 1000;
/** Bits of a digest in a sum: with those of the number of ranks, at most the 24 that an f32 holds exactly, one of them for the sign. */
const mostBits = 12;

/** What the last steps of this rank have taken. */
export class StepRecords {
  private readonly recent: { readonly step: number; readonly takes: StepTakes }[] = [];
  /** A digest of all steps. */
  private all = 0;
  private last = 0;

  /** Notes what a step takes; steps count from 1. */
  add(step: number, takes: StepTakes): void {
    const numbers = [step, ...takes["learning rate"], takes.epoch, takes.batch, takes.rows];
    const words = new Uint32Array(Float64Array.of(...numbers, takes["number of restored snapshots"]).buffer);
    this.last = digestOf(words);
    this.all = digestOf(Uint32Array.of(this.all, this.last));
    this.recent.push({ step, takes });
    if (this.recent.length > kept) this.recent.shift();
  }

  /** This rank's part of the sum of a step, which is 0 if the last step of all ranks took the same. */
  share(rank: number, ranks: number): number {
    const bits = Math.min(mostBits, 23 - Math.ceil(Math.log2(ranks)));
    const digest = this.last % 2 ** bits;
    return rank === 0 ? (ranks - 1) * digest : -digest;
  }

  /** A digest of all steps, as bytes. */
  get bytes(): Uint8Array {
    return new Uint8Array(Uint32Array.of(this.all).buffer);
  }

  /** Compares what all steps have taken. Every rank must call this function. @throws HeddleError `mismatch` as {@link StepRecords.explain} */
  async compare(processes: World): Promise<void> {
    const { bytes } = this;
    const all = await processes.allGather(bytes, "digests of all steps");
    if (all.some((byte, index) => byte !== all[index % bytes.length])) await this.explain(processes);
  }

  /** @throws HeddleError `mismatch` naming the ranks, the value and the first step that differ. Every rank must call this function. */
  async explain(processes: World): Promise<never> {
    const told = await gatherTexts(processes, JSON.stringify(this.recent), "what the last steps took");
    const ranks = told.map((text) => JSON.parse(text) as typeof this.recent);
    const [own] = ranks as [typeof this.recent];
    const hint =
      "callbacks change learning rates and restore snapshots on all ranks alike, and a schedule gives all ranks the same rate";
    for (const [index, { step, takes }] of own.entries())
      for (const what of Object.keys(takes) as (keyof StepTakes)[]) {
        const values = ranks.map((steps) => String(steps[index]?.takes[what]));
        if (values.every((value) => value === values[0])) continue;
        throw new HeddleError("mismatch", `${differing(values, "train otherwise", `since step ${step}`, what)}`, {
          hint,
        });
      }
    const [first] = own;
    throw new HeddleError(
      "mismatch",
      `the ranks have trained differently at some step before step ${first?.step}, and alike since then`,
      { hint },
    );
  }
}

/**
 * A sentence that names the ranks whose value differs from the others': those that differ from the value of more than half of the ranks if
 * there is one, otherwise all, with their values.
 */
export function differing(values: readonly string[], does: string, when: string, what: string): string {
  const { odd, common } = oddRanks(values);
  if (common === undefined) {
    const lines = values.map((value, rank) => `\n  rank ${rank}: ${what} ${value}`);
    return `ranks ${listed([...values.keys()].map(String), values.length)} ${does} ${when}:${lines.join("")}`;
  }
  const named = odd.length === 1 ? `rank ${odd[0]}` : `ranks ${listed(odd.map(String), odd.length)}`;
  const theirs = listed([...new Set(odd.map((rank) => values[rank] as string))], odd.length);
  return `${named} ${odd.length === 1 ? does.replace(/^\w+/, (verb) => `${verb}s`) : does} than the other ranks ${when}: ${what} ${theirs} instead of ${common}`;
}

/** The value of more than half of the ranks, and the ranks with other values; undefined if there is no such value. */
export function oddRanks(values: readonly string[]): {
  readonly odd: readonly number[];
  readonly common: string | undefined;
} {
  const common = values.find((value) => 2 * values.filter((other) => other === value).length > values.length);
  return { common, odd: [...values.keys()].filter((rank) => values[rank] !== common) };
}

/** A text of every rank. No other collective may be running. */
export async function gatherTexts(processes: World, text: string, label: string): Promise<string[]> {
  const own = new TextEncoder().encode(text);
  const sizes = await processes.allGather(new Uint8Array(Uint32Array.of(own.length).buffer), `sizes of ${label}`);
  const lengths = [...new Uint32Array(sizes.slice().buffer)];
  const width = Math.max(...lengths);
  const padded = new Uint8Array(width);
  padded.set(own);
  const all = await processes.allGather(padded, label);
  return lengths.map((length, rank) => new TextDecoder().decode(all.subarray(rank * width, rank * width + length)));
}

/** A digest of words, in which a change of any one word is seen for certain. */
export function digestOf(words: Uint32Array): number {
  let digest = 0x811c9dc5;
  for (let index = 0; index < words.length; index++) {
    digest = Math.imul(digest ^ (words[index] as number), 0x01000193);
    digest ^= digest >>> 15;
  }
  return digest >>> 0;
}
