/**
 * @module Copies in the memory of another worker. Where values are sharded, a worker may have the only copy of a part. So every so many steps
 * partners exchange such parts: each keeps its own values of that step and the parts of its partner. The copy travels on links of its own
 * while the next steps run. When a worker is lost, the others go on from the newest step that is whole in their memories.
 *
 * The copy of a step replaces the one before it when all workers have the new one: at any instant one of the two is whole.
 */
import type { PieceData } from "../checkpoints/parts.ts";
import { isLoss } from "../elastic/losses.ts";
import type { Mesh } from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { formatBytes } from "../util/text.ts";
import { type OwnPieces, type RunState, soleNames } from "./state.ts";

/** Links to the partners of this worker. */
export interface Partners {
  /** The bytes of the partners in order of their ranks; all lengths are equal. */
  allGather(bytes: Uint8Array, label: string): Promise<Uint8Array>;
  /** Waits for all workers of the run. */
  barrier(label: string): Promise<void>;
  abort(reason: string): void;
  close(): void;
}

/** What {@link Neighbours} needs. */
export interface NeighbourOptions {
  readonly rank: number;
  readonly world: number;
  readonly mesh: Mesh;
  /** Steps between two copies. */
  readonly every: number;
  /** Joins the partners. */
  readonly join: (ranks: readonly number[]) => Promise<Partners>;
  /** Copies what this worker's devices hold. */
  readonly copy: (state: RunState) => Promise<OwnPieces>;
  /** Tells of the first copy, and of an error that ends the copies. */
  readonly say: (line: string) => void;
  /** Whether the first copy was told of in an earlier epoch. */
  readonly hasTold: boolean;
  /** Called when all workers have a copy. */
  readonly onComplete: () => void;
}

/** Bytes of one message: other work of the process goes on between two. */
const messageBytes = 8 * 1024 * 1024;

/**
 * The partners of a rank, with itself, in order. Rank r and the rank n/2 further are partners, so that the copies of one host's workers
 * are on another host; of an odd number, three ranks are partners.
 */
export function partnersOf(rank: number, world: number): number[] {
  const half = Math.floor(world / 2);
  if (half === 0) return [rank];
  const first = Math.min(rank % half, half - 1);
  const isLast = first === half - 1 || rank === world - 1;
  if (world % 2 === 1 && isLast) return [half - 1, 2 * half - 1, 2 * half];
  return [first, first + half];
}

/** The copies of a run in one epoch of its workers. */
export class Neighbours {
  private readonly options: NeighbourOptions;
  private readonly partners: readonly number[];
  private links: Promise<Partners> | undefined;
  /** The newest copy that all workers have, and what is there of the next one. */
  private complete: OwnPieces | undefined;
  private coming: OwnPieces | undefined;
  private running: Promise<void> = Promise.resolve();
  private copiedAt = -1;
  private ended = false;
  /** Why there are no more copies. */
  private problem: string | undefined;
  private hasTold: boolean;

  constructor(options: NeighbourOptions) {
    this.options = options;
    this.hasTold = options.hasTold;
    this.partners = partnersOf(options.rank, options.world);
  }

  /** Whether a copy is taken of this state; the same on all workers. `isFirst`: it is the first one of an epoch that a loss began. */
  isDue({ values, position: { steps } }: RunState, isFirst: boolean): boolean {
    if (this.partners.length === 1 || steps === this.copiedAt) return false;
    if (!isFirst && (steps === 0 || steps % this.options.every !== 0)) return false;
    if (!this.ended) return soleNames(values, this.options.mesh).size > 0;
    if (this.problem !== undefined) this.options.say(`no more copies in the memory of other workers: ${this.problem}`);
    this.problem = undefined;
    return false;
  }

  /** Waits for the copy before, and begins one. `release` is called when the values on the devices are no longer needed. */
  async begin(state: RunState, release: () => void): Promise<void> {
    this.copiedAt = state.position.steps;
    const before = this.running;
    const copying = before.then(() => this.copy(state));
    this.running = copying.catch((error: unknown) => this.fail(error)).finally(release);
    await before;
  }

  /** What this worker has of the copies, the newest first. */
  get kept(): OwnPieces[] {
    return [this.coming, this.complete].filter((copy) => copy !== undefined);
  }

  /** Waits for the copy under way. */
  async finished(): Promise<void> {
    await this.running;
  }

  /** No copy is taken from now on. */
  close(): void {
    this.ended = true;
    void this.links?.then((links) => links.close()).catch(() => {});
  }

  private async copy(state: RunState): Promise<void> {
    if (this.ended) return;
    const started = performance.now();
    const sole = soleNames(state.values, this.options.mesh);
    const own = await this.options.copy(state);
    this.coming = own;
    this.links ??= this.options.join(this.partners);
    const links = await this.links;
    const sent = own.pieces.filter(({ name }) => sole.has(name));
    const received = await this.exchange(links, sent);
    this.coming = { ...own, pieces: [...own.pieces, ...received] };
    await links.barrier(`the copies after step ${state.position.steps}`);
    this.complete = this.coming;
    this.coming = undefined;
    this.options.onComplete();
    this.tell(own.pieces, received, (performance.now() - started) / 1000);
  }

  /** Sends pieces to the partners, and gives theirs. */
  private async exchange(links: Partners, sent: readonly PieceData[]): Promise<PieceData[]> {
    const header = new TextEncoder().encode(JSON.stringify(sent.map(({ bytes, ...piece }) => [piece, bytes.length])));
    const own = [header, ...sent.map(({ bytes }) => bytes)];
    const total = own.reduce((sum, { length }) => sum + length, 0);
    const told = await links.allGather(new Uint8Array(Float64Array.of(header.length, total).buffer), "sizes of copies");
    const sizes = new Float64Array(Uint8Array.from(told).buffer);
    const most = Math.max(...this.partners.map((_rank, index) => sizes[2 * index + 1] as number));
    const streams = this.partners.map((_rank, index) => new Uint8Array(sizes[2 * index + 1] as number));
    const me = this.partners.indexOf(this.options.rank);
    for (let start = 0; start < most; start += messageBytes) {
      const length = Math.min(messageBytes, most - start);
      const all = await links.allGather(sliceOf(own, start, length), "copies for another worker");
      for (const [index, stream] of streams.entries())
        if (index !== me && start < stream.length)
          stream.set(all.subarray(index * length, index * length + Math.min(length, stream.length - start)), start);
    }
    return streams.flatMap((stream, index) => (index === me ? [] : piecesIn(stream, sizes[2 * index] as number)));
  }

  private tell(own: OwnPieces["pieces"], received: OwnPieces["pieces"], seconds: number): void {
    if (this.hasTold) return;
    this.hasTold = true;
    const [mine, theirs] = [own, received].map((pieces) => formatBytes(total(pieces))) as [string, string];
    this.options.say(
      `copies in memory every ${this.options.every} steps: a worker keeps ${mine} of its own values and ${theirs} of another worker's; the first took ${seconds.toFixed(2)} s beside the steps`,
    );
  }

  /**
   * A copy that fails ends the copies, not the training: the steps meet the loss of a worker, too. If the training goes on, the problem is told
   * when the next copy is due.
   */
  private fail(error: unknown): void {
    if (this.ended) return;
    this.ended = true;
    this.problem = error instanceof Error ? error.message : String(error);
    const { problem } = this;
    if (!isLoss(error)) void this.links?.then((links) => links.abort(problem)).catch(() => {});
  }
}

const total = (pieces: readonly PieceData[]): number => pieces.reduce((sum, { bytes }) => sum + bytes.length, 0);

/** Bytes from `start` on of parts that follow each other; zeros after their end. */
function sliceOf(parts: readonly Uint8Array[], start: number, length: number): Uint8Array {
  const slice = new Uint8Array(length);
  let at = -start;
  for (const part of parts) {
    const [from, to] = [Math.max(0, -at), Math.min(part.length, length - at)];
    if (from < to) slice.set(part.subarray(from, to), at + from);
    at += part.length;
  }
  return slice;
}

/** The pieces of a stream, which begins with a header of this length. */
function piecesIn(stream: Uint8Array, headerBytes: number): PieceData[] {
  const header = JSON.parse(new TextDecoder().decode(stream.subarray(0, headerBytes))) as [
    Omit<PieceData, "bytes">,
    number,
  ][];
  let at = headerBytes;
  return header.map(([piece, length]) => {
    at += length;
    return { ...piece, bytes: stream.subarray(at - length, at) };
  });
}

/** Copies of several steps with one entry for each step and each piece once, the newest step first. */
export function byStep(copies: readonly OwnPieces[]): OwnPieces[] {
  const steps = new Map<number, OwnPieces>();
  for (const copy of copies) {
    const { step } = copy.description;
    const known = steps.get(step);
    const has = new Set(known?.pieces.map(({ name, start }) => `${name}@${start}`));
    const more = copy.pieces.filter(({ name, start }) => !has.has(`${name}@${start}`));
    steps.set(step, known === undefined ? copy : { ...known, pieces: [...known.pieces, ...more] });
  }
  return [...steps.values()].sort((one, other) => other.description.step - one.description.step);
}

/** @throws HeddleError `option` */
export function checkMemoryCopies(given: unknown): void {
  if (given === undefined || given === false || (Number.isSafeInteger(given) && (given as number) > 0)) return;
  throw new HeddleError("option", `train: memoryCopies must be a number of steps or false, got ${String(given)}`);
}
