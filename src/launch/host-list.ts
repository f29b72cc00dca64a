/** @module The hosts of `heddle run --hosts`: their names, how many workers each gets, and the command that reaches each. */
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { chosenAddresses, type OwnAddress } from "../hosts/interfaces.ts";
import { HeddleError } from "../util/errors.ts";
import { wordsOf } from "./words.ts";

/** A host and its ranks, which follow each other. */
export interface HostShare {
  readonly host: string;
  readonly first: number;
  readonly workers: number;
}

/**
 * Reads hosts such as `a,b:4` (a host and its number of workers), and divides the workers among them.
 *
 * @param workers number of all workers; default what the list says, one for a host without a number
 * @throws HeddleError `option` for a malformed list, or one that does not fit the number of workers.
 */
export function shareHosts(list: string, workers: number | undefined): HostShare[] {
  const hosts = list.split(",").map((part) => {
    const match = /^(\[[^\]\s]+\]|[^:[\]\s-][^:[\]\s]*)(?::([1-9]\d{0,3}))?$/.exec(part.trim());
    if (match === null)
      throw new HeddleError("option", `--hosts: '${part}' is no host`, { hint: "hosts are listed as a,b:4,user@c" });
    const [, name = "", count] = match;
    return { host: name.replace(/^\[|\]$/g, ""), count: count === undefined ? undefined : Number(count) };
  });
  const counted = hosts.reduce((sum, { count = 0 }) => sum + count, 0);
  const open = hosts.filter(({ count }) => count === undefined).length;
  const left = workers === undefined ? open : workers - counted;
  if (open === 0 ? left !== 0 && workers !== undefined : left < open)
    throw new HeddleError("option", `--hosts ${list} does not fit --workers ${workers}`, {
      hint: open === 0 ? `the hosts have ${counted} workers` : "every host without a number needs at least one worker",
    });
  let first = 0;
  let opened = 0;
  return hosts.map(({ host, count }) => {
    const share = count ?? Math.floor(left / open) + (opened++ < left % open ? 1 : 0);
    first += share;
    return { host, first: first - share, workers: share };
  });
}

/**
 * The address of the first host that all other hosts have on a network of their own, else its first address: rank 0's store is there.
 *
 * @param choice the value of HEDDLE_INTERFACE
 * @throws HeddleError `world` if the first host has no address.
 */
export function masterAddress(
  hosts: readonly { readonly host: string; readonly addresses: readonly OwnAddress[] }[],
  choice: string | undefined,
): string {
  const [first, ...others] = hosts as [(typeof hosts)[number], ...typeof hosts];
  if (others.length === 0) return "127.0.0.1";
  const wanted = choice === undefined ? undefined : chosenAddresses(choice, first.addresses);
  const own = first.addresses.filter(({ address }) => wanted?.includes(address) ?? true);
  const candidates = [...own].sort((left, right) => left.family.localeCompare(right.family));
  const near = candidates.find((candidate) =>
    others.every(({ addresses }) => addresses.some(({ address }) => inNetwork(address, candidate))),
  );
  const chosen = near ?? candidates[0];
  if (chosen !== undefined) return chosen.address;
  throw new HeddleError("world", `host ${first.host} has no address but the loopback interface's`, {
    hint: "the other hosts cannot reach rank 0 there",
  });
}

const inNetwork = (address: string, { address: network, prefix }: OwnAddress): boolean => {
  try {
    return chosenAddresses(`${network}/${prefix}`, [
      { name: "", address, family: address.includes(":") ? "ipv6" : "ipv4", prefix },
    ]).includes(address);
  } catch {
    return false;
  }
};

/** The command of {@link shellCommand} if no template says otherwise: never asks for a password, and notices a link that is dead. */
export const defaultShell = "ssh -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 {host} {command}";

/** The path of a file beside Heddle's command. */
export const ownFile = (name: string): string => fileURLToPath(new URL(`../../bin/${name}`, import.meta.url));

/** The command of Heddle itself with some arguments. */
export const ownCommand = (...args: readonly string[]): string[] => [process.execPath, ownFile("heddle.js"), ...args];

/**
 * The command that runs the agent on a host, by a template such as `ip netns exec {host} {command}`.
 *
 * @throws HeddleError `option` for a template without `{host}` or `{command}`.
 */
export function shellCommand(template: string, host: string): string[] {
  const words = wordsOf(template);
  if (!words.some((word) => word.includes("{host}")) || !words.includes("{command}"))
    throw new HeddleError("option", `--shell '${template}' lacks {host} or {command}`, {
      hint: "such as --shell 'ssh -p 2222 {host} {command}'",
    });
  const agent = ownCommand("agent");
  // A remote shell reads the command of ssh again.
  const remote = basename(words[0] as string) === "ssh" ? agent.map(quoted) : agent;
  return words.flatMap((word) => (word === "{command}" ? remote : [word.replaceAll("{host}", host)]));
}

/** A word as a shell reads it. */
export const quoted = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
