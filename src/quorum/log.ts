/**
 * @module The log of a run's membership in a store that several machines hold together. A launcher leads a run while it holds the run's lease; it
 * writes each epoch into the log before anyone hears of it. So no two launchers announce one epoch, and a launcher that is cut from
 * the majority announces none, and ends what it leads before its lease is over.
 */
import { HeddleError } from "../util/errors.ts";
import type { QuorumStore } from "./store.ts";

/** An entry: an epoch with its members, or the end of the run. */
export type LogEntry =
  | { readonly type: "epoch"; readonly epoch: number; readonly members: readonly number[] }
  | { readonly type: "end"; readonly status: number };

/** The clock of a log. */
export interface Clock {
  /** Seconds. */
  now(): number;
  sleep(seconds: number): Promise<void>;
}

/** Options of {@link openLog}. */
export interface LogOptions {
  readonly store: QuorumStore;
  /** The run's name. */
  readonly run: string;
  /** This launcher: nobody else has the same. */
  readonly holder: string;
  /** Seconds after which another launcher takes over. */
  readonly lease: number;
  readonly clock: Clock;
  /** Tells that another launcher leads the run, for which this one waits. */
  readonly say: (line: string) => void;
  /** Whether to give up waiting. */
  readonly stopped?: () => boolean;
}

/** The part of a lease after which a launcher that could not prolong it ends what it leads: the rest is for ending. */
const usable = 2 / 3;

/** The log of a run that this launcher leads. */
export class RunLog {
  /** Resolves with the reason when this launcher leads the run no more; never after {@link RunLog.close}. */
  readonly lost: Promise<string>;
  /** The entries from before this launcher led the run. */
  readonly entries: readonly LogEntry[];
  private readonly options: LogOptions;
  private readonly held: { readonly lease: string; until: number };
  private count: number;
  private last: Promise<unknown> = Promise.resolve();
  private over = false;
  private lose: (reason: string) => void = () => {};

  constructor(options: LogOptions, held: RunLog["held"], entries: readonly LogEntry[]) {
    this.options = options;
    this.held = held;
    this.entries = entries;
    this.count = entries.length;
    this.lost = new Promise((resolve) => {
      this.lose = resolve;
    });
    void this.beat();
  }

  /** The first epoch that no launcher has had. */
  get nextEpoch(): number {
    return this.entries.reduce((next, entry) => (entry.type === "epoch" ? Math.max(next, entry.epoch + 1) : next), 0);
  }

  /** Whether this launcher leads the run. */
  get leads(): boolean {
    return !this.over && this.options.clock.now() < this.held.until;
  }

  /** Adds an entry, after those before; true as soon as a majority has it, false if this launcher leads the run no more. */
  append(entry: LogEntry): Promise<boolean> {
    const before = this.last;
    const added = before.then(() => this.write(entry));
    this.last = added;
    return added;
  }

  /** Gives the lease up. With a status the run has ended, and no launcher goes on with it. */
  async close(status?: number): Promise<void> {
    if (status !== undefined) await this.append({ type: "end", status });
    this.over = true;
    await this.options.store.revoke(this.held.lease).catch(() => {});
  }

  private async write(entry: LogEntry): Promise<boolean> {
    const { store, run, holder, clock } = this.options;
    const key = entryKey(run, this.count);
    // The value names the writer: after an answer that was lost, the writer finds its own entry.
    const value = JSON.stringify({ ...entry, by: holder });
    const conditions = [
      { key: leaderKey(run), value: holder },
      { key, value: undefined },
    ];
    while (this.leads) {
      try {
        const written = (await store.put(key, value, conditions)) || (await store.read(key))[0]?.[1] === value;
        if (!written) this.end("another launcher leads the run");
        else this.count++;
        return written && this.leads;
      } catch {
        await clock.sleep(this.options.lease / 20);
      }
    }
    return false;
  }

  /** Prolongs the lease until that no longer works. */
  private async beat(): Promise<void> {
    const { store, lease, clock } = this.options;
    while (!this.over) {
      const sent = clock.now();
      if (sent >= this.held.until) return this.end(`no majority of the store has answered for ${lease * usable} s`);
      // An answer may never come: the deadline is looked at meanwhile.
      const answer = store.keepAlive(this.held.lease).catch(() => undefined);
      const alive = await Promise.race([answer, clock.sleep(Math.max(0, this.held.until - sent))]);
      if (this.over) return;
      if (alive === false) return this.end("the lease of this launcher is over");
      if (alive === true) this.held.until = sent + lease * usable;
      await clock.sleep(alive === true ? lease / 6 : lease / 20);
    }
  }

  private end(reason: string): void {
    if (this.over) return;
    this.over = true;
    this.lose(reason);
  }
}

const leaderKey = (run: string): string => `heddle/${run}/leader`;
const entryKey = (run: string, index: number): string => `heddle/${run}/log/${String(index).padStart(9, "0")}`;

/**
 * Waits until this launcher leads the run: until nobody else does. Gives the status of the run if it ends while this launcher waits.
 *
 * @throws HeddleError `store` if no majority of the store answers for as long as a lease, `option` if the run has ended, `aborted` if waiting
 * was given up
 */
export async function openLog(options: LogOptions): Promise<RunLog | number> {
  const { run, lease, clock, say } = options;
  let hasTold = false;
  let silentSince: number | undefined;
  for (let attempt = 0; options.stopped?.() !== true; attempt++) {
    try {
      const log = await lead(options, `${options.holder}/${attempt}`);
      silentSince = undefined;
      const end = log?.entries.find((entry) => entry.type === "end");
      if (end === undefined && log !== undefined) return log;
      await log?.close();
      if (end !== undefined && hasTold) return end.status;
      if (end !== undefined) throw ended(run, end.status);
      if (!hasTold) say(`another launcher leads the run ${run}; this one takes over when that one is gone`);
      hasTold = true;
    } catch (error) {
      if (error instanceof HeddleError) throw error;
      silentSince ??= clock.now();
      // A launcher that stands by waits for the store, too.
      if (!hasTold && clock.now() - silentSince > lease)
        throw new HeddleError("store", `no majority of the store answers: ${(error as Error).message}`, {
          cause: error,
        });
    }
    await clock.sleep(lease / 6);
  }
  throw new HeddleError("aborted", `stopped while another launcher led the run ${run}`);
}

/** Takes the lease of the run if it is free. The key's value is of this attempt alone, since another attempt's lease is another one. */
async function lead(options: LogOptions, holder: string): Promise<RunLog | undefined> {
  const { store, run, lease, clock } = options;
  const key = leaderKey(run);
  const began = clock.now();
  const granted = await store.grant(lease);
  if (!(await store.put(key, holder, [{ key, value: undefined }], granted))) {
    await store.revoke(granted);
    return undefined;
  }
  const entries = (await store.read(`heddle/${run}/log/`)).map(([, text]) => JSON.parse(text) as LogEntry);
  return new RunLog({ ...options, holder }, { lease: granted, until: began + lease * usable }, entries);
}

function ended(run: string, status: number): HeddleError {
  return new HeddleError("option", `the run ${run} has ended before, with status ${status}`, {
    hint: "another run needs another name at the end of the address of --membership",
  });
}
