/** @module Brings the log of the server that decides to the others, and knows which entries all of them have. */
import { HeddleError } from "../util/errors.ts";
import type { Coordinator } from "./coordinator.ts";
import { type Entry, mostEntries } from "./requests.ts";

/** What the log is brought to. */
export interface SpreadOptions {
  /** Number of servers; the first decides. */
  readonly servers: number;
  /** Has a server apply entries from one on; resolves with the number of entries that it has then. */
  readonly send: (server: number, from: number, entries: readonly Entry[]) => Promise<number>;
  /** Whether the server has been closed. */
  readonly isClosed: () => boolean;
}

/** The log on its way to the other servers. */
export class Spread {
  private readonly options: SpreadOptions;
  private acknowledged: number[] = [];
  /** The entries that the server that decides has applied itself. */
  private own = 0;
  private waiting: { readonly version: number; readonly resolve: () => void }[] = [];

  constructor(options: SpreadOptions) {
    this.options = options;
  }

  /** Brings the log to all others, for as long as the server is open. Rejects if one of them cannot go on. */
  async begin(coordinator: Coordinator): Promise<void> {
    const servers = Array.from({ length: this.options.servers }, (_unused, server) => server);
    this.acknowledged = servers.map((server) => (server === 0 ? Infinity : coordinator.base));
    this.own = coordinator.base;
    await Promise.all(servers.slice(1).map((server) => this.follow(coordinator, server)));
  }

  /** Resolves when all other servers have so many entries. */
  committed(version: number): Promise<void> {
    if (Math.min(...this.acknowledged) >= version) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push({ version, resolve }));
  }

  /** The server that decides has applied so many entries: what all have is forgotten. */
  applied(coordinator: Coordinator, version: number): void {
    this.own = version;
    coordinator.trim(Math.min(version, ...this.acknowledged));
  }

  private async follow(coordinator: Coordinator, server: number): Promise<void> {
    const { send, isClosed } = this.options;
    for (;;) {
      const from = this.acknowledged[server] as number;
      await coordinator.more(from);
      if (isClosed()) return;
      if (from < coordinator.base)
        throw new HeddleError("log", `server ${server} is behind the log, which has gone on`);
      const entries = coordinator.log.slice(from - coordinator.base, from - coordinator.base + mostEntries);
      this.acknowledged[server] = await send(server, from, entries);
      const least = Math.min(...this.acknowledged);
      coordinator.trim(Math.min(this.own, least));
      const due = this.waiting.filter(({ version }) => version <= least);
      this.waiting = this.waiting.filter(({ version }) => version > least);
      for (const { resolve } of due) resolve();
    }
  }
}
