/**
 * @module What a switch does (Sapio et al., "SwitchML", 2021): a bounded number of slots, each of which adds up one packet of every worker,
 * and a shadow copy of each, from which lost results are sent again.
 */
import { allZero, type Packet } from "./packet.ts";

/** What the switch sends for a packet: to all workers, to the one that asked, or nothing. */
export interface Answer {
  readonly to: "all" | "sender";
  readonly packet: Packet;
}

/** One use of a slot. A slot has two: one is added up while the other still answers for the use before. */
interface Use {
  phase: number;
  readonly seen: Set<number>;
  exponent: number;
  sum: Int32Array;
}

/** The slots of one group of workers. */
export class Pool {
  private readonly workers: number;
  private readonly slots: readonly (readonly [Use, Use])[];

  constructor(workers: number, slots: number) {
    this.workers = workers;
    const use = (phase: number): Use => ({ phase, seen: new Set(), exponent: allZero, sum: new Int32Array(0) });
    this.slots = Array.from({ length: slots }, () => [use(0), use(1)] as const);
  }

  /** Takes a packet. A packet that comes twice counts once; one of an earlier use than the shadow copy's is too late for anyone. */
  receive(packet: Packet): Answer | undefined {
    const { worker, phase, lanes } = packet;
    const use = this.slots[packet.slot]?.[phase % 2];
    if (use === undefined || worker >= this.workers || phase < use.phase) return undefined;
    if (phase > use.phase) {
      // All have the result of the use before: the one after it is complete only with a packet of each.
      use.phase = phase;
      use.seen.clear();
      use.exponent = allZero;
    }
    if (use.seen.has(worker))
      return use.seen.size === this.workers ? { to: "sender", packet: this.result(packet, use) } : undefined;
    if (use.seen.size === 0) use.sum = new Int32Array(lanes.length);
    use.seen.add(worker);
    use.exponent = Math.max(use.exponent, packet.exponent);
    // Sums wrap, as an adder of 32 bits does.
    for (let lane = 0; lane < use.sum.length; lane++)
      use.sum[lane] = (use.sum[lane] as number) + (lanes[lane] as number);
    return use.seen.size === this.workers ? { to: "all", packet: this.result(packet, use) } : undefined;
  }

  private result(packet: Packet, { exponent, sum }: Use): Packet {
    return { ...packet, exponent, lanes: sum };
  }
}
