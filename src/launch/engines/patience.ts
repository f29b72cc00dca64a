/** @module Requests to an engine's server are tried again: a network fails for moments, and a run lasts for days. */
import { setTimeout as sleep } from "node:timers/promises";

/** How long a request is tried again. */
export interface Patience {
  /** Seconds after the first failure in which there are further tries. */
  readonly seconds: number;
  /** Whether an error may pass by itself. */
  readonly passes: (error: unknown) => boolean;
  /** Is told of each failure that another try follows. */
  readonly say: (error: unknown) => void;
  /** Ends the tries. */
  readonly signal?: AbortSignal;
}

const passingStatuses: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** Whether a server with such a status, or a network with such a code of Node's, may answer later. */
export const mayPass = (code: number | string | undefined): boolean =>
  typeof code === "number" ? passingStatuses.has(code) : /^E(?!RR_(TLS|SSL|INVALID))/.test(code ?? "");

/**
 * Makes a request until it succeeds, with growing pauses.
 *
 * @param attempt is told how many attempts failed before
 * @throws what the last attempt threw
 */
export async function patiently<T>(attempt: (failed: number) => Promise<T>, patience: Patience): Promise<T> {
  const { seconds, passes, say, signal } = patience;
  let end: number | undefined;
  for (let failed = 0, pause = 250; ; failed++, pause = Math.min(2 * pause, 5000)) {
    try {
      return await attempt(failed);
    } catch (error) {
      end ??= Date.now() + 1000 * seconds;
      if (!passes(error) || Date.now() + pause > end || signal?.aborted) throw error;
      say(error);
      await sleep(pause, undefined, signal === undefined ? {} : { signal }).catch(() => {
        throw error;
      });
    }
  }
}
