/** @module What the log of a run needs of a store that several machines hold together. Another store is one file more. */

/** A condition of a write: a key has this value; undefined: there is no such key. */
export interface Condition {
  readonly key: string;
  readonly value: string | undefined;
}

/** A store whose reads and writes are in one order for all (linearizable). Each call fails with an error if no majority answers. */
export interface QuorumStore {
  /** A lease: keys that are bound to it go after so many seconds without {@link QuorumStore.keepAlive}. */
  grant(seconds: number): Promise<string>;
  /** Prolongs a lease; false if it has ended. */
  keepAlive(lease: string): Promise<boolean>;
  /** Ends a lease. */
  revoke(lease: string): Promise<void>;
  /** Writes a key if all conditions hold; false, and nothing is written, if not. */
  put(key: string, value: string, conditions: readonly Condition[], lease?: string): Promise<boolean>;
  /** The keys that begin with a prefix, in their order, with their values. */
  read(prefix: string): Promise<readonly (readonly [key: string, value: string])[]>;
}
