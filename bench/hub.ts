/** @module Peers as processes: started, asked, ended. Each of their ranks connects over a loopback socket. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { CheckRequest, StepsRequest } from "./peers/link.ts";

/** A command line and its environment in addition to the harness's; undefined removes a variable. */
export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

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

/** The server to which the ranks of all peers connect. */
export class Hub {
  private readonly server: Server;
  private readonly expected = new Map<string, (rank: Rank) => void>();

  private constructor(server: Server) {
    this.server = server;
  }

  static async open(): Promise<Hub> {
    const server = createServer();
    const hub = new Hub(server);
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

/** The characters of a process's output that are shown when it fails. */
const keptOutput = 4000;

/** A running peer. */
export class PeerProcess {
  readonly name: string;
  private readonly children: ChildProcess[] = [];
  private readonly ranks: Rank[] = [];
  private output = "";
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
    const fail: Promise<never>[] = [];
    for (const { program, args, env } of commands) {
      const child = spawn(program, args, {
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
      });
      this.children.push(child);
      const keep = (chunk: Buffer): void => {
        this.output = (this.output + chunk.toString()).slice(-keptOutput);
      };
      child.stdout.on("data", keep);
      child.stderr.on("data", keep);
      fail.push(
        new Promise((_resolve, reject) => {
          child.once("error", (error) => reject(this.error(error.message)));
          child.once("close", (code, signal) => reject(this.error(`it ended (${signal ?? `status ${code}`})`)));
        }),
      );
    }
    this.failure = Promise.race(fail);
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
    await Promise.all(this.children.map((child) => ended(child, 10)));
    return Math.max(...peaks.map(({ peakBytes }) => peakBytes as number));
  }

  /** Ends the processes at once. */
  kill(): void {
    for (const rank of this.ranks) rank.close();
    for (const child of this.children) child.kill("SIGTERM");
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
    const lines = this.output.trim();
    return new Error(`${this.name}: ${message}${lines === "" ? "" : `\n${lines}`}`);
  }
}

function means(lists: readonly (readonly number[])[]): number[] {
  return (lists[0] ?? []).map(
    (_value, index) => lists.reduce((sum, list) => sum + (list[index] as number), 0) / lists.length,
  );
}

async function ended(child: ChildProcess, seconds: number): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const timer = setTimeout(() => child.kill("SIGKILL"), 1000 * seconds);
  await once(child, "close");
  clearTimeout(timer);
}
