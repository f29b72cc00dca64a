/** @module The simulated switch: slots behind a UDP port of this machine, in a network that may lose packets. */
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { arrivals, type Losses } from "./lossy.ts";
import { decode, defaultSlots, encode, type Packet } from "./packet.ts";
import { Pool } from "./pool.ts";

/** Options of {@link startSwitch}. */
export interface SwitchOptions {
  /** Number of workers, from 1 to 1024. */
  readonly workers: number;
  /** Number of slots; default 64. The memory of a switch is bounded: two packets for each slot. */
  readonly slots?: number;
  /** UDP port; default one that is free. */
  readonly port?: number;
  /** What happens to packets on their way, in both directions; default nothing. */
  readonly losses?: Losses;
}

/** A switch that runs. */
export interface Switch {
  /** For {@link joinSwitch}: host and port, and the number of slots if it is not 64. */
  readonly address: string;
  /** Packets that came and that were lost on purpose. */
  readonly packets: { readonly received: number; readonly lost: number };
  close(): void;
}

/** Groups of workers that the switch has slots for; the one that came first makes room for one more. */
const mostJobs = 4;

/**
 * Starts a switch that adds up the packets of workers, on 127.0.0.1, in this process.
 *
 * @throws HeddleError `option`; `port` if the port cannot be opened
 */
export async function startSwitch(options: SwitchOptions): Promise<Switch> {
  checkOptions("startSwitch", options, ["workers", "slots", "port", "losses"]);
  const { workers, slots = defaultSlots, port = 0, losses = {} } = options;
  checkInteger("startSwitch", "workers", workers, 1, 1024);
  checkInteger("startSwitch", "slots", slots, 1, 65535);
  checkInteger("startSwitch", "port", port, 0, 65535);
  checkOptions("startSwitch: losses", losses, ["drop", "duplicate", "reorder", "seed"]);
  for (const kind of ["drop", "duplicate", "reorder"] as const)
    checkNumber("startSwitch", `losses.${kind}`, losses[kind] ?? 0, 0, 0.99);
  const socket = createSocket("udp4");
  await new Promise<void>((resolve, reject) => {
    socket.once("error", (error) =>
      reject(new HeddleError("port", `startSwitch: port ${port} of 127.0.0.1 cannot be opened: ${error.message}`)),
    );
    socket.bind(port, "127.0.0.1", resolve);
  });
  const counts = { received: 0, lost: 0 };
  const timers = new Set<NodeJS.Timeout>();
  const next = arrivals(losses);
  const travel = (arrive: () => void): void => {
    const delays = next();
    if (delays.length === 0) counts.lost++;
    for (const delay of delays) {
      if (delay === 0) arrive();
      else {
        const timer = setTimeout(() => {
          timers.delete(timer);
          arrive();
        }, delay);
        timers.add(timer);
      }
    }
  };
  serve(socket, { workers, slots, travel, counts });
  return {
    address: `127.0.0.1:${socket.address().port}${slots === defaultSlots ? "" : `/${slots}`}`,
    packets: counts,
    close: () => {
      for (const timer of timers) clearTimeout(timer);
      socket.close();
    },
  };
}

interface Serving {
  readonly workers: number;
  readonly slots: number;
  readonly travel: (arrive: () => void) => void;
  readonly counts: { received: number };
}

/** Answers packets; workers are known by the addresses that their packets come from. */
function serve(socket: Socket, { workers, slots, travel, counts }: Serving): void {
  const jobs = new Map<number, { readonly pool: Pool; readonly addresses: Map<number, RemoteInfo> }>();
  const send = (packet: Packet, to: RemoteInfo): void => {
    const bytes = encode(packet);
    travel(() => {
      // A closed socket has nobody left to answer.
      try {
        socket.send(bytes, to.port, to.address);
      } catch {}
    });
  };
  const take = (packet: Packet, from: RemoteInfo): void => {
    // A worker of a group of another size hears of it, and takes no slot.
    if (packet.workers !== workers) {
      send({ ...packet, workers, lanes: new Int32Array(0) }, from);
      return;
    }
    let job = jobs.get(packet.job);
    if (job === undefined) {
      job = { pool: new Pool(workers, slots), addresses: new Map() };
      jobs.set(packet.job, job);
      const [oldest] = jobs.keys();
      if (jobs.size > mostJobs && oldest !== undefined) jobs.delete(oldest);
    }
    if (packet.worker < workers) job.addresses.set(packet.worker, from);
    const answer = job.pool.receive(packet);
    if (answer === undefined) return;
    for (const to of answer.to === "all" ? job.addresses.values() : [from]) send(answer.packet, to);
  };
  socket.on("message", (bytes, from) => {
    const packet = decode(bytes);
    if (packet === undefined) return;
    counts.received++;
    travel(() => take(packet, from));
  });
}
