/** @module One sum as a worker carries it out: each slot takes the chunks `slot, slot + slots, …` in turn, one packet in flight at a time. */
import type { DType, TypedArray } from "../ir/dtype.ts";
import { dtypes } from "../ir/dtype.ts";
import { type Lanes, lanesOf } from "./fixed-point.ts";
import { lanesPerPacket, type Packet } from "./packet.ts";

/** What is fixed for all sums of a worker. */
export interface Place {
  readonly job: number;
  readonly worker: number;
  readonly workers: number;
  readonly slots: number;
  /** Uses of each slot so far; every worker counts alike. */
  readonly phases: Uint32Array;
}

/** A packet that waits for its result. */
interface Waiting {
  packet: Packet;
  /** The chunk of which the packet has elements; -1 for the first, which has none and says the exponent of chunk `slot`. */
  chunk: number;
  sent: number;
  /** Milliseconds after which it is sent again. */
  patience: number;
}

/** First and longest time after which a packet is sent again, in milliseconds. */
const patience = { first: 4, longest: 64 };

/** One sum over all workers. */
export class Sum {
  readonly result: TypedArray;
  /** Number of packets that were sent again. */
  again = 0;
  private readonly data: TypedArray;
  private readonly place: Place;
  private readonly lanes: Lanes;
  private readonly chunk: number;
  private readonly chunks: number;
  private readonly waiting = new Map<number, Waiting>();

  constructor(data: TypedArray, dtype: DType, place: Place) {
    this.data = data;
    this.place = place;
    this.lanes = lanesOf(dtype, place.workers);
    this.chunk = lanesPerPacket / this.lanes.each;
    this.chunks = Math.ceil(data.length / this.chunk);
    this.result = dtypes[dtype].create(data.length);
  }

  get done(): boolean {
    return this.waiting.size === 0;
  }

  /** The first slot that waits, for messages. */
  get waits(): { readonly slot: number; readonly chunk: number } | undefined {
    const [first] = this.waiting;
    return first === undefined ? undefined : { slot: first[0], chunk: first[1].chunk };
  }

  /** The first packets: all agree on the exponents of the first chunks. */
  start(now: number): Packet[] {
    const used = Math.min(this.place.slots, this.chunks);
    return Array.from({ length: used }, (_unused, slot) => this.send(slot, -1, new Int32Array(0), now));
  }

  /** Takes a result; gives the next packet of its slot, if there is one. Results that no slot waits for have come before. */
  receive({ job, slot, phase, exponent, lanes }: Packet, now: number): Packet | undefined {
    const waiting = this.waiting.get(slot);
    if (waiting === undefined || job !== this.place.job || phase !== waiting.packet.phase) return undefined;
    this.waiting.delete(slot);
    const { chunk } = waiting;
    if (chunk >= 0) this.lanes.unpack(lanes, this.result, chunk * this.chunk, this.agreed[slot] as number);
    const next = chunk < 0 ? slot : chunk + this.place.slots;
    if (next >= this.chunks) return undefined;
    this.agreed[slot] = exponent;
    const [from, to] = this.ends(next);
    return this.send(slot, next, this.lanes.pack(this.data, from, to, exponent), now);
  }

  /** The packets whose results have not come for too long, to be sent again. */
  due(now: number): Packet[] {
    const late = [...this.waiting.values()].filter((one) => now - one.sent >= one.patience);
    for (const one of late) {
      one.sent = now;
      one.patience = Math.min(one.patience * 2, patience.longest);
      this.again++;
    }
    return late.map(({ packet }) => packet);
  }

  /** The exponents of the chunks that are under way, by slot. */
  private readonly agreed: number[] = [];

  private ends(chunk: number): [number, number] {
    return [chunk * this.chunk, Math.min(this.data.length, (chunk + 1) * this.chunk)];
  }

  private send(slot: number, chunk: number, lanes: Int32Array, now: number): Packet {
    const { job, worker, workers, slots, phases } = this.place;
    const after = chunk < 0 ? slot : chunk + slots;
    const exponent = after < this.chunks ? this.lanes.exponent(this.data, ...this.ends(after)) : -32768;
    const phase = phases[slot] as number;
    phases[slot] = phase + 1;
    const packet = { job, worker, workers, slot, phase, exponent, lanes };
    this.waiting.set(slot, { packet, chunk, sent: now, patience: patience.first });
    return packet;
  }
}
