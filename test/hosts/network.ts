/** @module Network namespaces as hosts, joined by `switch.py`. They need root, iproute2, Python 3 and /dev/net/tun. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A change of the links from one host to another; `*` is every host. */
export interface LinkChange {
  readonly from: string;
  readonly to: string;
  /** Seconds. */
  readonly delay?: number;
  /** Share of the packets. */
  readonly loss?: number;
  /** Bytes per second; 0: no limit. */
  readonly rate?: number;
  readonly drop?: boolean;
  /** The TCP ports whose packets are dropped; null: all. */
  readonly ports?: readonly [first: number, last: number] | null;
}

/** Hosts that reach each other. */
export interface Network {
  /** Names of the namespaces. */
  readonly hosts: readonly string[];
  /** The address of a host. */
  address(host: number, family?: 4 | 6): string;
  change(change: LinkChange): Promise<void>;
  /** Links without delay, loss and limits. */
  reset(): Promise<void>;
  /** Removes the namespaces, and ends what still runs in them. */
  dispose(): Promise<void>;
}

const ip = (...args: string[]): string =>
  execFileSync("ip", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

/** Makes a network of so many hosts. */
export async function makeNetwork(count: number): Promise<Network> {
  const hosts = Array.from({ length: count }, (_unused, index) => `hd${process.pid}-${"abcdefgh"[index]}`);
  const address = (host: number, family: 4 | 6 = 4): string =>
    family === 4 ? `10.77.0.${host + 1}` : `fd77::${host + 1}`;
  for (const host of hosts) ip("netns", "add", host);
  const named = hosts.map((host, index) => `${host}=${address(index)},${address(index, 6)}`);
  const child = spawn("python3", [fileURLToPath(new URL("switch.py", import.meta.url)), ...named], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const answers: ((line: string) => void)[] = [];
  const refusals: ((error: Error) => void)[] = [];
  child.once("close", () => {
    for (const reject of refusals) reject(new Error("the switch has ended"));
  });
  createInterface({ input: child.stdout }).on("line", (line) => answers.shift()?.(line));
  const answered = (): Promise<string> =>
    new Promise((resolve, reject) => {
      answers.push(resolve);
      refusals.push(reject);
    });
  const change = async (changed: LinkChange): Promise<void> => {
    const answer = answered();
    child.stdin.write(`${JSON.stringify(changed)}\n`);
    await answer;
  };
  const dispose = (): Promise<void> => disposeOf(hosts, child);
  try {
    await answered();
  } catch (error) {
    await dispose();
    throw error;
  }
  const reset = (): Promise<void> =>
    change({ from: "*", to: "*", delay: 0, loss: 0, rate: 0, drop: false, ports: null });
  return { hosts, address, change, reset, dispose };
}

async function disposeOf(hosts: readonly string[], child: ChildProcess): Promise<void> {
  for (const host of hosts) {
    try {
      for (const pid of ip("netns", "pids", host).split("\n").filter(Boolean)) process.kill(Number(pid), "SIGKILL");
      ip("netns", "del", host);
    } catch {
      // A process that has just ended, or a namespace that was never made.
    }
  }
  child.stdin?.end();
  if (child.exitCode === null) await once(child, "close");
}
