/** @module A worker that waits for drivers. It serves one session at a time, in which it is a device of the driver's mesh. */
import { createServer, type Socket } from "node:net";
import { markNodes } from "../../ir/trace.ts";
import { nodesRun, parseProgram, verifyProgram } from "../../program/index.ts";
import type { Runtime } from "../../runtime/devices.ts";
import type { DeviceBuffer, Executable } from "../../runtime/executor.ts";
import type { ExecutorName } from "../../runtime/registry.ts";
import { HeddleError } from "../../util/errors.ts";
import { loadNative } from "../native/binding.ts";
import { rethrowNative } from "../native/error.ts";
import { distributedRuntime } from "../native/join.ts";
import { localRuntime } from "../runtime.ts";
import { type Channel, greet } from "./channel.ts";
import { listen } from "./listen.ts";
import { errorHead, type JoinRequest, parseRequest, type Request, type RunRequest } from "./messages.ts";
import { checkSecret } from "./seal/records.ts";

/** Options of {@link serveDrivers}. */
export interface WorkerOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  readonly secret: string;
  /** Number of the device's threads; default the cores of this process. */
  readonly threads?: number | undefined;
  /** The executor when this worker is alone; default native if it loads. */
  readonly executor?: ExecutorName | undefined;
  /** Gets messages about sessions, for people. */
  readonly log?: (text: string) => void;
}

/** A waiting worker. */
export interface WaitingWorker {
  readonly port: number;
  /** Ends the worker; a driver that has it is told why. */
  close(reason?: string): Promise<void>;
}

const helloMilliseconds = 5000;
/** Links that may be in their hello at once; of more, the oldest gives way. */
const mostGreeting = 128;
/** Milliseconds between two lines about refused links. */
const refusalMilliseconds = 60_000;
/** Milliseconds that a worker waits for what runs when it is closed. */
const closeMilliseconds = 500;

/**
 * Waits for drivers at an address. The worker executes only programs of the closed set of ops.
 *
 * @throws HeddleError `port` when it cannot listen on the address, `option` when the secret is shorter than 16 bytes.
 */
export async function serveDrivers(options: WorkerOptions): Promise<WaitingWorker> {
  const { host, port, secret, log = () => {} } = options;
  checkSecret(secret);
  let session: Session | undefined;
  const sockets = new Set<Socket>();
  const greeting = new Set<Socket>();
  const refused = sometimes(log);
  const take = async (socket: Socket): Promise<void> => {
    const peer = `the driver at ${socket.remoteAddress}:${socket.remotePort}`;
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    const [oldest] = greeting.size < mostGreeting ? [] : greeting;
    oldest?.destroy();
    greeting.add(socket);
    const hello = { secret, timeout: helloMilliseconds, peer };
    const channel = await greet(socket, "worker", hello).catch((error: Error) => refused(error.message));
    greeting.delete(socket);
    if (channel === undefined) return;
    if (session !== undefined) {
      channel.send(errorHead(0, new HeddleError("busy", "another driver has this worker")));
      return channel.close();
    }
    log(`${peer} has come`);
    const newSession = new Session(channel, options);
    session = newSession;
    const reason = await newSession.ended;
    session = undefined;
    log(`${peer} has gone${reason === undefined ? "" : `: ${reason.plain}`}`);
  };
  const server = createServer((socket) => void take(socket));
  const bound = await listen(server, host, port);
  return {
    port: bound,
    close: async (reason) => {
      const closed = new Promise((done) => server.close(done));
      const { ended } = session ?? {};
      session?.leave(reason ?? "the worker was closed");
      // What is sent goes out first.
      await new Promise((done) => setImmediate(done));
      for (const socket of sockets) socket.destroy();
      // A worker that waits for a partner does not keep its process.
      const late = new Promise((done) => setTimeout(done, closeMilliseconds).unref());
      await Promise.race([Promise.all([ended, closed]), late]);
    },
  };
}

/** Logs the first line of each minute, with the number of those before it that were left out. */
function sometimes(log: (text: string) => void): (text: string) => undefined {
  let last = Number.NEGATIVE_INFINITY;
  let silent = 0;
  return (text) => {
    if (performance.now() - last < refusalMilliseconds) {
      silent++;
      return undefined;
    }
    log(silent === 0 ? text : `${text} (and ${silent} more were refused since the last such line)`);
    last = performance.now();
    silent = 0;
    return undefined;
  };
}

/** The seconds that a driver may be silent, as it says. */
function secondsOf(timeout: unknown): number {
  if (Number.isSafeInteger(timeout) && (timeout as number) >= 1 && (timeout as number) <= 86_400)
    return timeout as number;
  throw new HeddleError("link", "the driver does not say how long it may be silent");
}

/** The state of one driver's session. */
class Session {
  /** Resolves when the driver has gone; with the reason unless it left on purpose. */
  readonly ended: Promise<HeddleError | undefined>;
  private readonly channel: Channel;
  private readonly options: WorkerOptions;
  private readonly buffers = new Map<number, DeviceBuffer>();
  private readonly programs = new Map<number, Executable>();
  private runtime: Runtime | undefined;
  private closeStore: (() => unknown) | undefined;
  private over = false;

  constructor(channel: Channel, options: WorkerOptions) {
    this.channel = channel;
    this.options = options;
    channel.onFrame((frame) => {
      if (this.over) return;
      let request: Request;
      try {
        request = parseRequest(frame);
      } catch (error) {
        channel.send(errorHead(0, error));
        return channel.close();
      }
      this.take(request);
    });
    const seconds = secondsOf(channel.greeting["timeout"]);
    // The driver sends signs of life four times as often.
    const watch = setInterval(() => {
      if (channel.silence > seconds * 1000) channel.close(`it has sent nothing for ${seconds} s`);
    }, seconds * 250);
    this.ended = new Promise((done) =>
      channel.onEnd((error) => {
        clearInterval(watch);
        void this.finish().then(() => done(error));
      }),
    );
  }

  /** Ends the session, and tells the driver why. */
  leave(reason: string): void {
    this.channel.send(errorHead(0, new HeddleError("link", reason)));
    this.channel.close();
  }

  /** Begins requests in order; long ones are answered when they are done. */
  private take(request: Request): void {
    switch (request.type) {
      case "join":
        this.answer(request.n, () => this.join(request));
        break;
      case "compile":
        this.answer(request.n, () => this.compile(request.program, request.text));
        break;
      case "write":
        this.write(request.buffer, request.bytes, request.data);
        break;
      case "run":
        this.answer(request.n, () => this.run(request));
        break;
      case "read":
        this.answer(request.n, async () => ({ data: await this.buffer(request.buffer).read() }));
        break;
      case "free":
        for (const buffer of request.buffers) this.free(buffer);
        break;
      case "abort":
        this.runtime?.executor.abort(request.reason);
        break;
      case "ping":
        this.channel.send({ n: request.n });
        break;
    }
  }

  private free(number: number): void {
    this.buffers.get(number)?.dispose();
    this.buffers.delete(number);
  }

  private answer(n: number, work: () => Promise<{ data?: Uint8Array; [key: string]: unknown }>): void {
    // Begins immediately, so that runs are enqueued in the order of the requests.
    const started = (async () => work())();
    started.then(
      ({ data, ...head }) => this.channel.send({ n, ...head }, ...(data === undefined ? [] : [data])),
      (error: unknown) => this.channel.send(errorHead(n, error)),
    );
  }

  private async join(request: JoinRequest): Promise<{ port: number | undefined }> {
    if (this.runtime !== undefined) throw new HeddleError("link", "this worker has joined already");
    const { axes, rank, size, runId, secret, timeout, host } = request;
    const devices = axes.reduce((product, axis) => product * axis.size, 1);
    // Before a device is made: there may be more than the memory holds.
    if (devices !== size)
      throw new HeddleError("mesh", `a mesh of ${devices} devices needs as many workers, there are ${size}`);
    const { threads, executor } = this.options;
    if (size === 1) {
      this.runtime = localRuntime({ axes, executor, threads });
      return { port: undefined };
    }
    const port = request.port ?? (await this.openStore(request));
    const joined = distributedRuntime(axes, {
      rank,
      size,
      host,
      port,
      runId,
      epoch: 0,
      secret,
      timeout,
      flight: undefined,
      name: "driver",
      threads,
    });
    // The other workers learn the store's port while this worker waits for them.
    if (request.port === undefined) this.channel.send({ n: 0, port });
    const runtime = await joined;
    if (this.over) runtime.close();
    this.runtime = runtime;
    return { port };
  }

  private async openStore({ secret, runId }: JoinRequest): Promise<number> {
    const native = loadNative();
    if ("error" in native) throw new HeddleError("native", `several workers need the native core: ${native.error}`);
    const store = new native.StoreServer();
    this.closeStore = () => store.stop();
    return store.start(this.options.host, 0, secret, runId).catch(rethrowNative);
  }

  private get joined(): Runtime {
    if (this.runtime === undefined) throw new HeddleError("link", "this worker has joined no mesh yet");
    return this.runtime;
  }

  private async compile(number: number, text: string): Promise<{ readonly data?: Uint8Array }> {
    const program = parseProgram(text);
    verifyProgram(program);
    // By these numbers the driver finds the lines of failing nodes.
    markNodes(nodesRun(program));
    this.programs.set(number, this.joined.executor.compile(program));
    return {};
  }

  private write(number: number, bytes: number, data: Uint8Array): void {
    try {
      const buffer = this.buffers.get(number) ?? this.joined.executor.allocate(bytes);
      this.buffers.set(number, buffer);
      if (data.length > 0) buffer.write(data);
    } catch (error) {
      // A write has no answer; the session cannot continue without the value.
      this.channel.send(errorHead(0, error));
      this.channel.close();
    }
  }

  private async run({ program, inputs, outputs }: RunRequest): Promise<object & { data?: Uint8Array }> {
    const executable = this.programs.get(program);
    if (executable === undefined) throw new HeddleError("link", `there is no program ${program}`);
    const run = executable.run([inputs.map((input) => this.buffer(input))]);
    run.outputs[0]?.forEach((buffer, index) => {
      const donated = executable.program.donated[index];
      if (donated !== undefined) this.buffers.delete(inputs[donated] as number);
      this.buffers.set(outputs[index] as number, buffer);
    });
    await run.done;
    return {};
  }

  private buffer(number: number): DeviceBuffer {
    const buffer = this.buffers.get(number);
    if (buffer === undefined) throw new HeddleError("link", `there is no buffer ${number}`);
    return buffer;
  }

  private async finish(): Promise<void> {
    this.over = true;
    this.runtime?.executor.abort("the driver has gone");
    for (const buffer of this.buffers.values()) buffer.dispose();
    this.buffers.clear();
    this.programs.clear();
    this.runtime?.close();
    await this.closeStore?.();
  }
}
