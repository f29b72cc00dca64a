/** @module What schedules are made of: collectives, messages, ranks and links. */

/** The collectives that a schedule can carry out. */
export const scheduled = [
  "allReduce",
  "reduceScatter",
  "allGather",
  "broadcast",
  "reduce",
  "gather",
  "scatter",
  "allToAll",
] as const;
export type Scheduled = (typeof scheduled)[number];

/** A chunk on its way. */
export interface Message {
  /**
   * Messages of a round are sent at once: none of them has what another one of the round brings. Several may bring a rank the same chunk
   * only if all are combined, in the order of their senders.
   */
  readonly round: number;
  readonly from: number;
  readonly to: number;
  readonly chunk: number;
  /** Whether it is combined with the chunk of the receiver; else it takes that one's place. */
  readonly combine: boolean;
}

/**
 * The messages of a collective. A tensor is cut into chunks of nearly equal length, in order. Where devices have parts of their own, the
 * part of a rank is an equal number of chunks, in the order of the ranks; of an all-to-all, chunk `from * ranks + to` goes from one rank to
 * another.
 */
export interface Schedule {
  readonly name: string;
  readonly collective: Scheduled;
  readonly ranks: number;
  readonly chunks: number;
  /** The rank that sends or receives the whole, of collectives with one; else 0. */
  readonly root: number;
  readonly messages: readonly Message[];
}

/** What a schedule is for. */
export interface Task {
  readonly collective: Scheduled;
  readonly ranks: number;
  readonly root: number;
}

/** A link from one rank to another. */
export interface Link {
  /** Seconds before the first byte of a message arrives. */
  readonly latency: number;
  /** Bytes per second. */
  readonly bandwidth: number;
}

/** Ranks and links. */
export interface Topology {
  /** The ranks of each host; every rank is on one. */
  readonly hosts: readonly (readonly number[])[];
  /** The link from one rank to another; undefined where there is none. */
  readonly link: (from: number, to: number) => Link | undefined;
  /** A name for what messages share, such as the network of a host; undefined: a link of its own. */
  readonly shared?: (from: number, to: number) => string | undefined;
}
