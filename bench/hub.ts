/** @module Peers as processes: started, asked, ended. Each of their ranks connects over a loopback socket. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { CheckRequest, StepsRequest } from "./peers/link.ts";
import { type Command, endedWithin, Processes, type Running } from "./processes.ts";

/** The combined answer of all ranks of a peer. */
export interface StepsAnswer {
  /** The time of the slowest rank, for each step. */
  readonly milliseconds: number[];
  /** Means over the ranks. */
  readonly losses: number[];
}

interface Rank {
  readonly versions: Record<string, string>;
  ask(request: object): Promise<Record<string, unknown>>;
  close(): void;
}

/** The server to which the ranks of all peers connect, and their processes. */
export class Hub {
  readonly processes: Processes;
  private readonly server: Server;
  private readonly expected = new Map<string, (rank: Rank) => void>();

  private constructor(server: Server, folder: string) {
    this.server = server;
    this.processes = new Processes(folder);
  }

  /** @param folder for the output of processes */
  static async open(folder: string): Promise<Hub> {
    const server = createServer();
    const hub = new Hub(server, folder);
    server.on("connection", (socket) => void hub.greet(socket));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return hub;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Calls back for every rank that connects with the token returned. */
  expect(onRank: (rank: Rank) => void): string {
    const token = randomBytes(16).toString("hex");
    this.expected.set(token, onRank);
    return token;
  }

  close(): void {
    this.server.close();
    this.processes.close();
  }

  private async greet(socket: Socket): Promise<void> {
    socket.setNoDelay(true);
    socket.on("error", () => socket.destroy());
    const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
    const answer = async (): Promise<Record<string, unknown>> => {
      const { value, done } = await lines.next();
      if (done === true) throw new Error("it ended without an answer");
      return JSON.parse(value) as Record<string, unknown>;
    };
    try {
      const { token, versions } = await answer();
      const onRank = this.expected.get(String(token));
      if (onRank === undefined) return void socket.destroy();
      onRank({
        versions: versions as Record<string, string>,
        ask: (request) => {
          socket.write(`${JSON.stringify(request)}\n`);
          return answer();
        },
        close: () => socket.destroy(),
      });
    } catch {
      socket.destroy();
    }
  }
}

/** A running peer. */
export class PeerProcess {
  readonly name: string;
  private readonly children: Running[] = [];
  private readonly ranks: Rank[] = [];
  private failure: Promise<never> | undefined;

  constructor(name: string) {
    this.name = name;
  }

  get versions(): Record<string, string> {
    return this.ranks[0]?.versions ?? {};
  }

  /**
   * Starts the commands and waits until all ranks have connected. `prepare` gets port and token before.
   *
   * @throws Error with the last lines of output where a process ends before that, or after `seconds`.
   */
  async start(
    hub: Hub,
    commands: readonly Command[],
    ranks: number,
    prepare: (port: number, token: string) => void,
    seconds = 180,
  ): Promise<void> {
    const connected = new Promise<void>((resolve) => {
      const token = hub.expect((rank) => {
        this.ranks.push(rank);
        if (this.ranks.length === ranks) resolve();
      });
      prepare(hub.port, token);
    });
    for (const command of commands) this.children.push(await hub.processes.start(command));
    this.failure = Promise.race(this.children.map(({ failed }) => failed)).catch((error: Error) => {
      throw this.error(error.message);
    });
    this.failure.catch(() => {});
    await this.within(connected, seconds, "connect");
  }

  /** Losses of a few steps without dropout from the initial weights, means over the ranks. */
  async check(): Promise<number[]> {
    const request: CheckRequest = { run: "check" };
    const answers = await this.ask(request, 600);
    return means(answers.map(({ losses }) => losses as number[]));
  }

  async steps(count: number): Promise<StepsAnswer> {
    const request: StepsRequest = { run: "steps", count };
    const answers = await this.ask(request, 600);
    const times = answers.map(({ milliseconds }) => milliseconds as number[]);
    return {
      milliseconds: Array.from({ length: count }, (_unused, step) =>
        Math.max(...times.map((memberTimes) => memberTimes[step] as number)),
      ),
      losses: means(answers.map(({ losses }) => losses as number[])),
    };
  }

  /** Ends the processes; returns the largest memory of a process, in bytes. */
  async end(): Promise<number> {
    const peaks = await this.ask({ run: "end" }, 30);
    for (const rank of this.ranks) rank.close();
    await Promise.all(this.children.map((child) => endedWithin(child, 10)));
    return Math.max(...peaks.map(({ peakBytes }) => peakBytes as number));
  }

  /** Ends the processes at once. */
  kill(): void {
    for (const rank of this.ranks) rank.close();
    for (const child of this.children) child.kill();
  }

  private async ask(request: object, seconds: number): Promise<Record<string, unknown>[]> {
    const answers = Promise.all(this.ranks.map((rank) => rank.ask(request)));
    const replies = await this.within(answers, seconds, "answer");
    const failed = replies.find(({ error }) => error !== undefined);
    if (failed !== undefined) throw this.error(String(failed["error"]));
    return replies;
  }

  private async within<T>(promise: Promise<T>, seconds: number, what: string): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(this.error(`it did not ${what} within ${seconds} s`)), 1000 * seconds);
    });
    try {
      return await Promise.race([promise, late, ...(this.failure === undefined ? [] : [this.failure])]);
    } finally {
      clearTimeout(timer);
    }
  }

  private error(message: string): Error {
    const lines = this.children
      .map((child) => child.output())
      .join("")
      .trim();
    return new Error(`${this.name}: ${message}${lines === "" ? "" : `\n${lines}`}`);
  }
}

function means(lists: readonly (readonly number[])[]): number[] {
  return (lists[0] ?? []).map(
    (_value, index) => lists.reduce((sum, list) => sum + (list[index] as number), 0) / lists.length,
  );
}
