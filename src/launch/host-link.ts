/** @module The launcher's link to its agent on one host, and the workers behind it. */
import { type ChildProcess, spawn } from "node:child_process";
import { PassThrough } from "node:stream";
import type { ErrorCode } from "../util/error-codes.ts";
import { HeddleError } from "../util/errors.ts";
import { version } from "../util/version.ts";
import {
  type FromAgent,
  type HelloMessage,
  readMessages,
  type StoreMessage,
  type ToAgent,
  writeMessage,
} from "./host-messages.ts";
import { copyLines, rankPrefix } from "./output.ts";
import { carriedWorker, type WorkerExit, type WorkerProcess } from "./worker-process.ts";

/** How a worker's output is shown. */
export interface WorkerOutput {
  /** Whether the worker's lines carry its rank. */
  readonly prefixed: boolean;
  readonly outputToErrors: boolean;
}

/** A worker of another host, as the link serves it. */
interface Seat {
  readonly streams: { readonly out: PassThrough; readonly err: PassThrough };
  readonly copied: Promise<unknown>;
  exit: WorkerExit | undefined;
  end(exit: WorkerExit): void;
  message(value: unknown): void;
}

/** A host of a run. */
export class HostLink {
  readonly host: string;
  hello: HelloMessage | undefined;
  /** The folder with the host's flight records of a failed run. */
  records: string | undefined;
  /** Resolves when the agent has gone. */
  readonly gone: Promise<void>;
  private readonly child: ChildProcess;
  private readonly timeout: number;
  private readonly seats = new Map<number, Seat>();
  private readonly waiting: { resolve: (message: FromAgent) => void; reject: (error: HeddleError) => void }[] = [];
  /** The last lines that the shell has printed. */
  private readonly said: string[] = [];
  private failure: HeddleError | undefined;
  private over = false;
  private heard = performance.now();
  private readonly pulse: NodeJS.Timeout;

  /** Starts the agent. @param timeout seconds to wait for a sign of life */
  constructor(host: string, command: readonly string[], timeout: number) {
    this.host = host;
    this.timeout = timeout;
    const [program = "", ...args] = command;
    // In a group of its own: Ctrl-C at a terminal must reach the workers by the launcher alone.
    this.child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], detached: true });
    const { stdin, stdout, stderr } = this.child as ChildProcess & Record<"stdin" | "stdout" | "stderr", PassThrough>;
    stdin.on("error", () => {});
    readMessages(
      stdout,
      (message: FromAgent) => this.take(message),
      (line) => this.note(line),
    );
    void copyLines(stderr, { write: (text: string) => this.note(text.trimEnd()) } as never, "");
    this.gone = new Promise((resolve) => {
      this.child.once("error", (error) => this.lose(`its shell could not be started: ${error.message}`, resolve));
      this.child.once("close", (code, signal) =>
        this.lose(`its shell ended with ${signal ?? `status ${code}`}`, resolve),
      );
    });
    this.tell({ type: "open", timeout });
    this.pulse = setInterval(() => {
      this.tell({ type: "ping" });
      if (performance.now() - this.heard > 1000 * timeout) this.child.kill("SIGKILL");
    }, 250 * timeout);
    this.pulse.unref();
  }

  tell(message: ToAgent): void {
    if (this.child.stdin !== null) writeMessage(this.child.stdin, message);
  }

  /** Waits for the agent's first message. @throws HeddleError `world` */
  async greet(): Promise<HelloMessage> {
    const hello = (await this.answer()) as HelloMessage;
    if (hello.version !== version)
      throw new HeddleError("world", `host ${this.host} has Heddle ${hello.version}, this one ${version}`, {
        hint: "install one version on all hosts",
      });
    this.hello = hello;
    return hello;
  }

  /** Opens the run's store on the host; resolves to its port. */
  async openStore(message: StoreMessage): Promise<number> {
    this.tell(message);
    return ((await this.answer()) as FromAgent & { type: "stored" }).port;
  }

  /** The worker of a rank, which a `start` message starts. */
  worker(rank: number, { prefixed, outputToErrors }: WorkerOutput): WorkerProcess {
    const streams = { out: new PassThrough(), err: new PassThrough() };
    const target = outputToErrors ? process.stderr : process.stdout;
    const show = (source: PassThrough, to: NodeJS.WriteStream): Promise<unknown> =>
      prefixed
        ? copyLines(source, to, rankPrefix(rank, to))
        : new Promise((resolve) => source.on("data", (bytes) => to.write(bytes)).once("close", resolve));
    const copied = Promise.all([show(streams.out, target), show(streams.err, process.stderr)]);
    const listeners: ((value: unknown) => void)[] = [];
    let end: (exit: WorkerExit) => void = () => {};
    const ended = new Promise<WorkerExit>((resolve) => {
      end = resolve;
    });
    const seat: Seat = {
      streams,
      copied,
      exit: undefined,
      end: (exit) => {
        seat.exit ??= exit;
        for (const stream of Object.values(streams)) stream.end();
        void copied.then(() => end(exit));
      },
      message: (value) => {
        for (const listener of listeners) listener(value);
      },
    };
    this.seats.set(rank, seat);
    const worker = carriedWorker(rank, {
      pid: undefined,
      get gone() {
        return seat.exit !== undefined;
      },
      ended,
      kill: (signal) => this.tell({ type: "kill", rank, signal }),
      send: (value) => this.tell({ type: "send", rank, value }),
      onMessage: (take) => void listeners.push(take),
    });
    // Temporary files are the agent's to remove.
    return Object.assign(worker, { removeTemporaries: () => {} });
  }

  /** Ends the agent, which removes what is left on its host. */
  async close(): Promise<void> {
    this.over = true;
    this.tell({ type: "end" });
    this.child.stdin?.end();
    const late = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await this.gone;
    clearTimeout(late);
  }

  /** Ends the shell at once: for the end of this process. */
  kill(): void {
    this.child.kill("SIGKILL");
  }

  private answer(): Promise<FromAgent> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const late = setTimeout(() => this.child.kill("SIGKILL"), 1000 * this.timeout);
    return new Promise<FromAgent>((resolve, reject) => this.waiting.push({ resolve, reject })).finally(() =>
      clearTimeout(late),
    );
  }

  private note(line: string): void {
    this.said.push(line);
    if (this.said.length > 5) this.said.shift();
  }

  private take(message: FromAgent): void {
    this.heard = performance.now();
    switch (message.type) {
      case "hello":
      case "stored":
        this.waiting.shift()?.resolve(message);
        break;
      case "failed":
        this.fail(new HeddleError(message.code as ErrorCode, `host ${this.host}: ${message.message}`));
        break;
      case "output":
        this.seats.get(message.rank)?.streams[message.stream].write(Buffer.from(message.data, "base64"));
        break;
      case "message":
        this.seats.get(message.rank)?.message(message.value);
        break;
      case "ended":
        this.seats.get(message.rank)?.end({ ...message.exit, at: performance.now() });
        break;
      case "records":
        this.records = message.folder;
        break;
      case "ping":
        break;
    }
  }

  /** Ends everything that waits for the host, and its workers. */
  private fail(error: HeddleError): void {
    this.failure ??= error;
    for (const { reject } of this.waiting.splice(0)) reject(error);
    for (const seat of this.seats.values()) {
      if (seat.exit !== undefined) continue;
      seat.message({ type: "error", message: error.message, code: error.code });
      seat.end({ code: 1, signal: null, at: performance.now() });
    }
  }

  private lose(why: string, resolve: () => void): void {
    clearInterval(this.pulse);
    const text = this.said.length === 0 ? "" : `: ${this.said.join("; ")}`;
    const late = performance.now() - this.heard > 1000 * this.timeout ? ` (no sign of life for ${this.timeout} s)` : "";
    if (!this.over)
      this.fail(
        new HeddleError("world", `host ${this.host} is lost, ${why}${late}${text}`, {
          hint: "does its shell start without a password, and does the host have Node and Heddle at the same paths? (--shell)",
        }),
      );
    resolve();
  }
}
