/** @module A worker's link to a switch. */
import { createSocket } from "node:dgram";
import type { HostTensor } from "../ir/node.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { lanesOf } from "./fixed-point.ts";
import { decode, defaultSlots, encode, type Packet } from "./packet.ts";
import { Sum } from "./sum.ts";

/** Options of {@link joinSwitch}. */
export interface JoinOptions {
  /** The address that the switch gives: `"127.0.0.1:4711"`, or `"127.0.0.1:4711/8"` if it has 8 slots. */
  readonly address: string;
  /** This worker's number, from 0. */
  readonly worker: number;
  /** Number of workers, as the switch has it. */
  readonly workers: number;
  /** A number that all workers of this group share, and no other group of the switch has; default 0. */
  readonly job?: number;
  /** Seconds without any result after which a sum fails; default 30. */
  readonly timeout?: number;
}

/** A worker's link to a switch. */
export interface Aggregator {
  /** Packets that were sent again, since their results did not come in time. */
  readonly sentAgain: number;
  /**
   * The sum over all workers, each of which calls this function with a tensor of the same type, in the same order. Sums of integers are exact
   * and wrap. Floats travel as fixed-point numbers with a scale for each 256 elements, from the largest of all workers: for n workers whose elements are below
   * 2^e a sum is within n · 2^(e + ⌈log2 n⌉ - 31), then rounded to the dtype. If an element of the 256 is not finite, all their sums are NaN.
   *
   * @throws HeddleError `dtype` for bool; `mismatch` if the switch is one for another number of workers; `timeout` if the switch does not
   * answer, or a worker does not call
   */
  sum(x: HostTensor): Promise<HostTensor>;
  /** Ends the link; a sum under way fails. */
  close(): void;
}

/** How often late packets are looked for, in milliseconds. */
const tickMilliseconds = 2;

/**
 * Links a worker to a switch that {@link startSwitch} has started, in this process or another of this machine.
 *
 * @throws HeddleError `option`
 */
export async function joinSwitch(options: JoinOptions): Promise<Aggregator> {
  checkOptions("joinSwitch", options, ["address", "worker", "workers", "job", "timeout"]);
  const { address, worker, workers, job = 0, timeout = 30 } = options;
  const [, host, port, given] = /^(127\.\d+\.\d+\.\d+|localhost):(\d+)(?:\/(\d+))?$/.exec(String(address)) ?? [];
  const slots = given === undefined ? defaultSlots : Number(given);
  if (host === undefined || port === undefined)
    throw new HeddleError("option", `joinSwitch: address must be a port of this machine, got ${shown(address)}`, {
      hint: 'such as "127.0.0.1:4711": the switch has no secrets, so nothing else may reach it',
    });
  checkInteger("joinSwitch", "workers", workers, 1, 1024);
  checkInteger("joinSwitch", "worker", worker, 0, workers - 1);
  checkInteger("joinSwitch", "slots of the address", slots, 1, 65535);
  checkInteger("joinSwitch", "job", job, 0, 2 ** 32 - 1);
  checkNumber("joinSwitch", "timeout", timeout, Number.MIN_VALUE);
  const socket = createSocket("udp4");
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  // No packet may keep a process alive that has nothing else to do.
  socket.unref();
  const place = { job, worker, workers, slots, phases: new Uint32Array(slots) };
  const send = (packets: readonly Packet[]): void => {
    for (const packet of packets) socket.send(encode(packet), Number(port), host);
  };
  let take: ((packet: Packet) => void) | undefined;
  let stop: (() => void) | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let sentAgain = 0;
  socket.on("message", (bytes) => {
    const packet = decode(bytes);
    if (packet !== undefined) take?.(packet);
  });
  // A switch that is gone answers with an error of the port: packets are sent again until the deadline.
  socket.on("error", () => {});
  const summed = ({ shape, dtype, data }: HostTensor): Promise<HostTensor> =>
    new Promise((resolve, reject) => {
      const sum = new Sum(data, dtype, place);
      let heard = performance.now();
      const end = (settle: () => void): void => {
        clearInterval(timer);
        sentAgain += sum.again;
        [take, stop] = [undefined, undefined];
        settle();
      };
      const timer = setInterval(() => {
        const now = performance.now();
        send(sum.due(now));
        if (now - heard < timeout * 1000) return;
        const { slot, chunk } = sum.waits as { slot: number; chunk: number };
        const what = `worker ${worker} of ${workers} waits for packet ${chunk + 1} in slot ${slot} of the switch at ${address}`;
        end(() =>
          reject(
            new HeddleError("timeout", `${what}, which has sent nothing for ${timeout} s`, {
              hint: "no switch is there, or a worker does not call",
            }),
          ),
        );
      }, tickMilliseconds);
      stop = () => end(() => reject(new HeddleError("disposed", "the link to the switch is closed")));
      take = (packet) => {
        if (packet.job === job && packet.workers !== workers) {
          const switched = `the switch at ${address} is one for ${packet.workers} workers`;
          end(() => reject(new HeddleError("mismatch", `worker ${worker} of ${workers} has joined, but ${switched}`)));
          return;
        }
        heard = performance.now();
        const next = sum.receive(packet, heard);
        if (next !== undefined) send([next]);
        if (sum.done) end(() => resolve({ shape, dtype, data: sum.result }));
      };
      send(sum.start(heard));
      if (sum.done) end(() => resolve({ shape, dtype, data: sum.result }));
    });
  return {
    get sentAgain() {
      return sentAgain;
    },
    sum: (x) => {
      lanesOf(x.dtype, workers);
      const next = last.then(() => summed(x));
      last = next.catch(() => {});
      return next;
    },
    close: () => {
      stop?.();
      socket.close();
    },
  };
}
