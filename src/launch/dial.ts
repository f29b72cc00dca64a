/** @module The link between a launcher and the agents that an engine starts for it: an agent opens the link, both sides prove the secret. */
import { readFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { hostname } from "node:os";
import { type Channel, greet } from "../executors/remote/channel.ts";
import { chosenAddresses, ownAddresses } from "../hosts/interfaces.ts";
import { isLoopback } from "../hosts/launchers.ts";
import { HeddleError } from "../util/errors.ts";
import { ownVariables } from "../util/settings.ts";
import type { LauncherLink } from "./agent.ts";
import type { AgentSeat, ToAgent } from "./host-messages.ts";

const helloMilliseconds = 10_000;
const loopback = "127.0.0.1";

/** A launcher that waits for its agents. */
export interface Doorway {
  /** The addresses at which agents find the launcher, such as `10.0.0.1:4100`, with commas. */
  readonly addresses: string;
  close(): void;
}

/** Options of {@link openDoorway}. */
export interface DoorwayOptions {
  readonly secret: string;
  /** Whether all agents run on this host: then nothing listens beyond the loopback address. */
  readonly here: boolean;
  /** The values of HEDDLE_INTERFACE and HEDDLE_PORTS. */
  readonly choice: string | undefined;
  readonly ports: readonly [first: number, last: number] | undefined;
  readonly take: (channel: Channel, from: string) => void;
}

/** Waits for agents. @throws HeddleError `port` if no port can be opened. */
export async function openDoorway({ secret, here, choice, ports, take }: DoorwayOptions): Promise<Doorway> {
  const outward = here || (choice !== undefined && isLoopback(choice)) ? [] : addressesOf(choice);
  const servers: Server[] = [];
  const close = (): void => {
    for (const server of servers) server.close();
  };
  const arrive = (socket: Socket): void => {
    const from = socket.remoteAddress ?? "";
    greet(socket, "worker", { secret, timeout: helloMilliseconds, peer: `an agent at ${from}` }).then(
      (channel) => take(channel, from),
      // Whoever does not know the secret is no agent; the launcher goes on waiting.
      () => {},
    );
  };
  try {
    const opened: string[] = [];
    for (const address of [loopback, ...outward]) {
      const server = createServer(arrive);
      const port = await listen(server, address, ports);
      servers.push(server);
      opened.push(`${address.includes(":") ? `[${address}]` : address}:${port}`);
    }
    // An agent tries the addresses in turn: its own loopback address leads nowhere, or to somebody who does not know the secret.
    return { addresses: (outward.length === 0 ? opened : [...opened.slice(1), opened[0]]).join(","), close };
  } catch (error) {
    close();
    throw error;
  }
}

const addressesOf = (choice: string | undefined): string[] =>
  choice === undefined ? ownAddresses().map(({ address }) => address) : chosenAddresses(choice);

async function listen(server: Server, host: string, ports: DoorwayOptions["ports"]): Promise<number> {
  const [first, last] = ports ?? [0, 0];
  for (let port = first; ; port++) {
    try {
      return await new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, host, () => {
          server.off("error", reject);
          resolve((server.address() as { port: number }).port);
        });
      });
    } catch (error) {
      if (port < last) continue;
      const wanted = ports === undefined ? "a port" : `a port of ${first} to ${last}`;
      throw new HeddleError("port", `${wanted} of ${host} could not be opened: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }
}

/**
 * Opens the link from an agent to its launcher.
 *
 * @param addresses of the launcher, with commas
 * @throws HeddleError `link` if the launcher answers at none of them, or does not know the secret.
 */
export async function dialLauncher(addresses: string, secret: string): Promise<LauncherLink> {
  let cause: unknown;
  for (const address of addresses.split(",")) {
    const [, host = "", port] = /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [];
    try {
      const socket = await opened(host, Number(port));
      const peer = `the launcher at ${address}`;
      return linkOf(await greet(socket, "driver", { secret, timeout: helloMilliseconds, peer, host }));
    } catch (error) {
      cause = error;
    }
  }
  throw new HeddleError("link", `the launcher does not answer at ${addresses}: ${(cause as Error).message}`, {
    hint: "HEDDLE_INTERFACE says at which of its addresses the launcher listens",
    cause,
  });
}

function opened(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    socket.setTimeout(helloMilliseconds, () => socket.destroy(new Error("no answer")));
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.setTimeout(0);
      socket.off("error", reject);
      resolve(socket);
    });
  });
}

const linkOf = (channel: Channel): LauncherLink => ({
  send: (message) => channel.send({ ...message }),
  listen: (take, gone) => {
    channel.onFrame(({ head }) => take(head as unknown as ToAgent));
    channel.onEnd(gone);
  },
  close: () => channel.close(),
});

/**
 * The place of this agent among those that an engine has started.
 *
 * @param names of the variables in which the engine gives a process its number; the first that is set counts
 * @throws HeddleError `launcher` if none is set.
 */
export function seatOf(names: readonly string[]): AgentSeat {
  const variables = ownVariables();
  const rank = names.map((name) => variables[name]).find((value) => /^\d+$/.test(value ?? ""));
  if (rank === undefined)
    throw new HeddleError("launcher", `the engine has set none of the variables ${names.join(", ")}`);
  const host = hostname();
  const processors = /^Cpus_allowed_list:\s*(.*)$/m.exec(textOf("/proc/self/status"))?.[1] ?? "";
  return { rank: Number(rank), host, machine: `${host} ${textOf("/proc/sys/kernel/random/boot_id")}`, processors };
}

const textOf = (path: string): string => {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
};
