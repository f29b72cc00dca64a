/** @module What the planner assumes of a machine: a roofline for compute, latency and bandwidth for communication. */

/** Rates of one device and of the links between devices. */
export interface Machine {
  /** Arithmetic operations per second. */
  readonly flops: number;
  /** Bytes per second to and from memory. */
  readonly memory: number;
  /** Seconds before the first byte of a message arrives. */
  readonly latency: number;
  /** Bytes per second of a link. */
  readonly bandwidth: number;
}

/** One core with AVX-512 and TCP on one host: orders of magnitude, good enough to rank plans. */
export const defaultMachine: Machine = { flops: 2e11, memory: 3e10, latency: 5e-5, bandwidth: 3e9 };

/** The collectives and their cost by the ring algorithms: rounds, and bytes sent per device for `bytes` of local input. */
export const collectiveTraffic = {
  allReduce: (bytes: number, parts: number) => ({ rounds: 2 * (parts - 1), bytes: (2 * bytes * (parts - 1)) / parts }),
  allGather: (bytes: number, parts: number) => ({ rounds: parts - 1, bytes: bytes * (parts - 1) }),
  reduceScatter: (bytes: number, parts: number) => ({ rounds: parts - 1, bytes: (bytes * (parts - 1)) / parts }),
  allToAll: (bytes: number, parts: number) => ({ rounds: parts - 1, bytes: (bytes * (parts - 1)) / parts }),
} as const;

export type CollectiveName = keyof typeof collectiveTraffic;

/** Seconds for one collective. */
export function collectiveSeconds(machine: Machine, name: CollectiveName, bytes: number, parts: number): number {
  const traffic = collectiveTraffic[name](bytes, parts);
  return traffic.rounds * machine.latency + traffic.bytes / machine.bandwidth;
}
