/** @module The addresses at which the ranks of several hosts meet: rank 0's store, and those on which this process listens. */
import { lookup } from "node:dns/promises";
import { BlockList, connect, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { HeddleError } from "../util/errors.ts";
import { isLoopback } from "./launchers.ts";

/** An address of this host. */
export interface OwnAddress {
  /** The name of its network interface. */
  readonly name: string;
  readonly address: string;
  readonly family: "ipv4" | "ipv6";
  /** Bits of the network's prefix. */
  readonly prefix: number;
}

/** The addresses by which other hosts may reach this one, in the system's order. */
export function ownAddresses(): OwnAddress[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    addresses.flatMap(({ address, family, internal, cidr }) =>
      // An address of a link means something else on every host.
      internal || /^fe80:/i.test(address)
        ? []
        : [
            {
              name,
              address,
              family: family === "IPv6" ? "ipv6" : "ipv4",
              prefix: Number(cidr?.split("/")[1]),
            } as const,
          ],
    ),
  );
}

/**
 * The own addresses that a choice names, in its order: names of interfaces, addresses, or networks such as `10.0.0.0/8`.
 *
 * @throws HeddleError `environment` for a choice that this host does not have.
 */
export function chosenAddresses(choice: string, own: readonly OwnAddress[] = ownAddresses()): string[] {
  const chosen = choice.split(",").flatMap((part) => {
    const found = own.filter((address) => matches(part.trim(), address));
    if (found.length > 0) return found.map(({ address }) => address);
    const known = own.map(({ name, address }) => `${name} ${address}`).join(", ");
    throw new HeddleError("environment", `HEDDLE_INTERFACE is '${choice}', but this host has no '${part.trim()}'`, {
      hint: known === "" ? "it has the loopback interface alone" : `it has ${known}`,
    });
  });
  return [...new Set(chosen)];
}

function matches(part: string, { name, address, family }: OwnAddress): boolean {
  if (part === name || part === address) return true;
  const [network = "", bits = ""] = part.split("/");
  if (isIP(network) === 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > (isIP(network) === 4 ? 32 : 128)) return false;
  const block = new BlockList();
  block.addSubnet(network, Number(bits), isIP(network) === 4 ? "ipv4" : "ipv6");
  return block.check(address, family);
}

/** Where this process meets the others. */
export interface MeetingPlace {
  /** The address of rank 0's store. */
  readonly host: string;
  /** The addresses to listen on; undefined: loopback. */
  readonly bind: readonly string[] | undefined;
}

/**
 * Finds the store, tries again until it is there, and gives the address to listen on: that by which the store was reached, unless
 * `choice` says otherwise. On loopback it does nothing.
 *
 * @param seconds how long to try
 * @throws HeddleError `world` if nobody answers in this time.
 */
export async function findMeetingPlace(
  host: string,
  port: number,
  { choice, seconds }: { readonly choice: string | undefined; readonly seconds: number },
): Promise<MeetingPlace> {
  if (isLoopback(host)) return { host, bind: undefined };
  const chosen = choice === undefined ? undefined : chosenAddresses(choice);
  const deadline = performance.now() + seconds * 1000;
  for (let pause = 10; ; pause = Math.min(2 * pause, 300)) {
    const left = deadline - performance.now();
    try {
      const { local, remote } = await tryConnect(host, port, Math.max(left, 1));
      // A host's own name may lead to its loopback address.
      return { host: remote, bind: chosen ?? (isLoopback(local) ? outwardAddresses() : [local]) };
    } catch (error) {
      if (left > pause) {
        await sleep(pause);
        continue;
      }
      const { message } = error as Error;
      throw new HeddleError("world", `nobody answered at ${host}:${port} for ${seconds} s: ${message}`, {
        hint: "is rank 0 started, does its host have this name or address (MASTER_ADDR), and does no firewall drop the port (MASTER_PORT)?",
        cause: error,
      });
    }
  }
}

const outwardAddresses = (): string[] | undefined => {
  const [first] = ownAddresses();
  return first === undefined ? undefined : [first.address];
};

function tryConnect(host: string, port: number, milliseconds: number): Promise<{ local: string; remote: string }> {
  return new Promise((resolve, reject) => {
    // All addresses of the name are tried, with time for slow links.
    const socket = connect({ host: host.replace(/^\[|\]$/g, ""), port, autoSelectFamilyAttemptTimeout: 2000 });
    const late = setTimeout(() => socket.destroy(new Error("no answer")), milliseconds);
    socket.once("connect", () => {
      const { localAddress = "", remoteAddress = host } = socket;
      clearTimeout(late);
      socket.destroy();
      resolve({ local: plain(localAddress), remote: plain(remoteAddress) });
    });
    socket.once("error", (error) => {
      clearTimeout(late);
      reject(error);
    });
  });
}

/** An address without the spelling of IPv4 in IPv6. */
const plain = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, "");

/**
 * The addresses on which rank 0 may open its store, in order: those of the host's name that this host has on its network, else all of
 * this host, since the name may be that of a service or of the loopback interface.
 */
export async function storeAddresses(host: string, choice: string | undefined): Promise<string[]> {
  if (isLoopback(host)) return [host.replace(/^\[|\]$/g, "")];
  const own = new Set(ownAddresses().map(({ address }) => address));
  const found = await lookup(host.replace(/^\[|\]$/g, ""), { all: true }).catch(() => []);
  const here = found.map(({ address }) => address).filter((address) => own.has(address));
  if (here.length > 0) return here;
  return choice === undefined ? ["::", "0.0.0.0"] : chosenAddresses(choice);
}
