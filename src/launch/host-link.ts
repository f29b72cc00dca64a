/** @module The launcher's link to its agent on one host, and the workers behind it. */
import { PassThrough } from "node:stream";
import type { ErrorCode } from "../util/error-codes.ts";
import { HeddleError } from "../util/errors.ts";
import { version } from "../util/version.ts";
import type { Carrier } from "./carrier.ts";
import type { FromAgent, HelloMessage, StoreMessage, ToAgent } from "./host-messages.ts";
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
  host: string;
  hello: HelloMessage | undefined;
  /** The folder with the host's flight records of a failed run. */
  records: string | undefined;
  /** Resolves when the agent has gone. */
  readonly gone: Promise<void>;
  private readonly carrier: Carrier;
  private readonly timeout: number;
  private readonly seats = new Map<number, Seat>();
  private readonly waiting: { resolve: (message: FromAgent) => void; reject: (error: HeddleError) => void }[] = [];
  /** A message that came before anybody waited for it. */
  private early: FromAgent | undefined;
  private failure: HeddleError | undefined;
  private over = false;
  private heard = performance.now();
  private readonly pulse: NodeJS.Timeout;

  /** @param timeout seconds to wait for a sign of life */
  constructor(host: string, carrier: Carrier, timeout: number) {
    this.host = host;
    this.carrier = carrier;
    this.timeout = timeout;
    carrier.onMessage((message) => this.take(message));
    this.gone = carrier.ended.then(({ why, said }) => this.lose(why, said));
    this.tell({ type: "open", timeout });
    this.pulse = setInterval(() => {
      this.tell({ type: "ping" });
      if (performance.now() - this.heard > 1000 * timeout) carrier.kill();
    }, 250 * timeout);
    this.pulse.unref();
  }

  tell(message: ToAgent): void {
    this.carrier.send(message);
  }

  /** Waits for the agent's first message. @throws HeddleError `world` */
  async greet(): Promise<HelloMessage> {
    const hello = (await this.answer()) as HelloMessage;
    if (hello.version !== version)
      throw new HeddleError("world", `${this.carrier.name} has Heddle ${hello.version}, this one ${version}`, {
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

  /** Ends the agent, which removes what is left on its host; with `keep` not the records of a failed run. */
  async close(keep: boolean): Promise<void> {
    this.over = true;
    this.tell({ type: "end", keep });
    this.carrier.end();
    const late = setTimeout(() => this.carrier.kill(), 5000);
    await this.gone;
    clearTimeout(late);
  }

  /** Ends the way to the agent at once: for the end of this process. */
  kill(): void {
    this.carrier.kill();
  }

  private answer(): Promise<FromAgent> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const { early } = this;
    this.early = undefined;
    if (early !== undefined) return Promise.resolve(early);
    const late = setTimeout(() => this.carrier.kill(), 1000 * this.timeout);
    return new Promise<FromAgent>((resolve, reject) => this.waiting.push({ resolve, reject })).finally(() =>
      clearTimeout(late),
    );
  }

  private take(message: FromAgent): void {
    this.heard = performance.now();
    switch (message.type) {
      case "hello":
      case "stored": {
        const next = this.waiting.shift();
        if (next === undefined) this.early = message;
        else next.resolve(message);
        break;
      }
      case "failed":
        this.fail(new HeddleError(message.code as ErrorCode, `${this.carrier.name}: ${message.message}`));
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
  private fail(error: HeddleError, hostLost = false): void {
    this.failure ??= error;
    for (const { reject } of this.waiting.splice(0)) reject(error);
    for (const seat of this.seats.values()) {
      if (seat.exit !== undefined) continue;
      seat.message({ type: "error", message: error.message, code: error.code });
      seat.end({ code: 1, signal: null, at: performance.now(), hostLost });
    }
  }

  private lose(why: string, said: readonly string[]): void {
    clearInterval(this.pulse);
    const text = said.length === 0 ? "" : `: ${said.join("; ")}`;
    const late = performance.now() - this.heard > 1000 * this.timeout ? ` (no sign of life for ${this.timeout} s)` : "";
    const { name, hint } = this.carrier;
    if (!this.over) this.fail(new HeddleError("world", `${name} is lost, ${why}${late}${text}`, { hint }), true);
  }
}
