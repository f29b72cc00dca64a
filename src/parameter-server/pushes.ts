/** @module The pushes that a shard keeps until the log names them, each once by worker and clock. */
import { HeddleError } from "../util/errors.ts";
import { type Differentiated, type Gradient, gradientAsBytes, parseGradient, parseShardLists } from "./gradients.ts";
import type { RowList } from "./tables/row-lists.ts";

/** A push that the log has not named yet. */
export interface Kept {
  readonly incarnation: number;
  readonly rates: readonly number[];
  readonly gradient: Gradient;
}

/** A gradient in a copy: the bytes of its lists, and all of its bytes. */
export interface GradientHead {
  readonly lists: number;
  readonly size: number;
}

/** Pushes as text, with {@link GradientHead} for each; bytes follow. */
export interface PushesHead {
  readonly settled: readonly (readonly [worker: number, clock: number])[];
  readonly kept: readonly (GradientHead & { readonly worker: number; readonly clock: number } & Omit<
      Kept,
      "gradient"
    >)[];
}

/** Pushes by worker and clock. */
export class Pushes {
  private readonly kept = new Map<number, Map<number, Kept>>();
  /** For each worker the first clock that the log has not named. */
  private readonly settled = new Map<number, number>();

  /** The number of clocks of a worker that the log has named. */
  settledOf(worker: number): number {
    return this.settled.get(worker) ?? 0;
  }

  /** Whether a push is neither there, of this life or a later one, nor named by the log. */
  isNew(worker: number, clock: number, incarnation: number): boolean {
    if (clock < this.settledOf(worker)) return false;
    const there = this.kept.get(worker)?.get(clock);
    return there === undefined || there.incarnation < incarnation;
  }

  keep(worker: number, clock: number, push: Kept): void {
    const own = this.kept.get(worker) ?? new Map<number, Kept>();
    this.kept.set(worker, own.set(clock, push));
  }

  /** The push that the log names. @throws HeddleError `log` if it is not there */
  take(worker: number, clock: number): Kept {
    const own = this.kept.get(worker);
    const kept = own?.get(clock);
    if (kept === undefined)
      throw new HeddleError(
        "log",
        `the log names clock ${clock} of worker ${worker}, whose push this server does not have`,
      );
    own?.delete(clock);
    this.settled.set(worker, Math.max(this.settledOf(worker), clock + 1));
    return kept;
  }

  /** Forgets the pushes of a worker from a clock on, and gives them. */
  drop(worker: number, from: number): Kept[] {
    const own = this.kept.get(worker);
    const dropped = [...(own ?? [])].filter(([clock]) => clock >= from);
    for (const [clock] of dropped) own?.delete(clock);
    return dropped.map(([, push]) => push);
  }

  /** All that is known, for a copy; without `withKept` only what was named. */
  snapshot(withKept: boolean): { readonly head: PushesHead; readonly bytes: readonly Uint8Array[] } {
    const all = withKept
      ? [...this.kept].flatMap(([worker, own]) => [...own].map(([clock, push]) => ({ worker, clock, push })))
      : [];
    const bodies = all.map(({ push }) => copied(push.gradient));
    return {
      head: {
        settled: [...this.settled],
        kept: all.map(({ worker, clock, push: { incarnation, rates } }, index) => ({
          ...{ worker, clock, incarnation, rates },
          ...(bodies[index] as Copied).head,
        })),
      },
      bytes: bodies.flatMap(({ bytes }) => bytes),
    };
  }

  /** Takes what a snapshot has; `next` gives so many of its bytes. */
  restore(shard: Differentiated, { settled, kept }: PushesHead, next: (bytes: number) => Uint8Array): void {
    for (const [worker, clock] of settled) this.settled.set(worker, clock);
    for (const { worker, clock, incarnation, rates, ...head } of kept)
      this.keep(worker, clock, { incarnation, rates, gradient: restored(shard, head, next) });
  }
}

interface Copied {
  readonly head: GradientHead;
  readonly bytes: readonly Uint8Array[];
}

/** A gradient for a copy. */
export function copied(gradient: Gradient): Copied {
  const { lists, bytes } = gradientAsBytes(gradient);
  return { head: { lists, size: bytes.reduce((sum, { length }) => sum + length, 0) }, bytes };
}

/** A gradient of a copy. */
export function restored(
  shard: Differentiated,
  { lists, size }: GradientHead,
  next: (bytes: number) => Uint8Array,
): Gradient {
  const rows: RowList[] = parseShardLists(shard, next(lists));
  return parseGradient(shard, rows, next(size - lists).slice());
}
