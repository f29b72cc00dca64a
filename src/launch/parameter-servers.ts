/** @module The parameter servers of a run: a process each on this machine, started again when it is killed, as long as workers are there. */
import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type Server } from "node:net";
import { HeddleError } from "../util/errors.ts";
import type { EnvironmentVariables } from "./environment.ts";
import { ownCommand } from "./host-list.ts";

/** What the servers of a run need. */
export interface ParameterServersOptions {
  readonly addresses: readonly string[];
  readonly environment: EnvironmentVariables;
  /** Takes what happens to servers, for people. */
  readonly say: (text: string) => void;
}

/** The running servers. */
export interface ParameterServers {
  /** Process ids, by the number of the server; undefined for one that is not there now. */
  readonly pids: readonly (number | undefined)[];
  /** Says that a worker has ended. */
  lost(worker: number): void;
  /** Kills the servers, and starts none again. */
  kill(): void;
}

/** Ends of a server before it listened, one after another, after which it is not started again. */
const mostEarlyEnds = 5;

/** Free ports on the loopback, as addresses. @throws HeddleError `port` */
export async function freeAddresses(count: number): Promise<string[]> {
  const host = "127.0.0.1";
  const open = (): Promise<Server> =>
    new Promise((resolve, reject) => {
      const server = createServer();
      server.once("error", (error) => reject(new HeddleError("port", `no free port: ${error.message}`)));
      server.listen(0, host, () => resolve(server));
    });
  // All at once, so that they are different.
  const taken = await Promise.all(Array.from({ length: count }, open));
  const found = taken.map((server) => `${host}:${(server.address() as { port: number }).port}`);
  await Promise.all(taken.map((server) => new Promise((resolve) => server.close(resolve))));
  return found;
}

/** Starts the servers. */
export function startParameterServers({ addresses, environment, say }: ParameterServersOptions): ParameterServers {
  const children: (ChildProcess | undefined)[] = addresses.map(() => undefined);
  const gone: number[] = [];
  let ended = false;
  const tell = (child: ChildProcess | undefined, worker: number): void => {
    if (child?.connected === true) child.send({ type: "lost", worker }, () => {});
  };
  const start = (index: number, life: number, early: number): void => {
    const [command, ...words] = ownCommand("serve") as [string, ...string[]];
    let listened = false;
    const child = spawn(command, words, {
      env: { ...environment, HEDDLE_SERVER: String(index), HEDDLE_EPOCH: String(life) },
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    children[index] = child;
    for (const worker of gone) tell(child, worker);
    child.once("message", () => {
      listened = true;
    });
    child.once("error", (error) => say(`server ${index} cannot be started: ${error.message}`));
    child.once("exit", (code, signal) => {
      children[index] = undefined;
      if (ended) return;
      const earlyEnds = listened ? 0 : early + 1;
      const how = signal === null ? `ended with status ${code}` : `was ended by ${signal}`;
      if (earlyEnds > mostEarlyEnds) return say(`server ${index} ${how}, again and again`);
      say(`server ${index} ${how}: it is started again`);
      start(index, life + 1, earlyEnds);
    });
  };
  for (const index of addresses.keys()) start(index, 0, 0);
  return {
    get pids() {
      return children.map((child) => child?.pid);
    },
    lost: (worker) => {
      gone.push(worker);
      for (const child of children) tell(child, worker);
    },
    kill: () => {
      ended = true;
      for (const child of children) child?.kill("SIGKILL");
    },
  };
}
