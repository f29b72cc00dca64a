/**
 * @module The driver's side: devices of a mesh in other processes, which wait for work. This process traces, plans and
 * sends programs; values stay in the workers until they are read.
 */
import { randomBytes } from "node:crypto";
import { connect as connectSocket } from "node:net";
import { environmentMachine } from "../../cost/index.ts";
import { isLoopback } from "../../hosts/launchers.ts";
import { bytesOf } from "../../ir/shape.ts";
import { meaningAt, positionOf } from "../../ir/trace.ts";
import { nodesRun, type Program, type ProgramAxis, printProgram } from "../../program/index.ts";
import { allDevices, type Runtime } from "../../runtime/devices.ts";
import { type DeviceBuffer, type Executable, type Executor, programsFor, type Run } from "../../runtime/executor.ts";
import { HeddleError, refused } from "../../util/errors.ts";
import { capturePosition, describePosition, placeOf, type SourcePosition } from "../../util/source.ts";
import { nativePasses } from "../passes.ts";
import { parseAddress } from "./address.ts";
import { type Channel, greet } from "./channel.ts";
import { type Answer, parseAnswer, WorkerError } from "./messages.ts";
import { checkSecret } from "./seal/records.ts";

/** Options of {@link remoteRuntime}. */
export interface RemoteOptions {
  /** `host:port` of each waiting worker, in row-major order of the mesh. */
  readonly workers: readonly string[];
  /** The secret that driver and workers share. */
  readonly secret: string;
  /** Seconds to wait for a sign of life; default 60. */
  readonly timeout?: number | undefined;
}

/**
 * A mesh of devices in waiting workers (`heddle worker`), one device per worker.
 *
 * @throws HeddleError `mesh` when the numbers of workers and devices differ, `link` when a worker cannot be reached, does not
 * know the secret, or is busy.
 */
export async function remoteRuntime(axes: readonly ProgramAxis[], options: RemoteOptions): Promise<Runtime> {
  const { workers, secret, timeout = 60 } = options;
  checkSecret(secret);
  const local = allDevices(axes);
  if (local.length !== workers.length) {
    throw new HeddleError(
      "mesh",
      `a mesh of ${local.length} devices needs as many workers, ${workers.length} are named: ${workers.join(", ")}`,
    );
  }
  const settled = await Promise.allSettled(workers.map((address, rank) => Link.to(address, rank, secret, timeout)));
  const links = settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const close = (): void => {
    for (const link of links) link.close();
  };
  try {
    for (const result of settled) if (result.status === "rejected") throw result.reason;
    await joinMesh(links, axes, timeout);
  } catch (error) {
    close();
    throw error;
  }
  const executor = new RemoteExecutor(links);
  return {
    axes,
    local,
    executor,
    rank: 0,
    world: 1,
    processes: undefined,
    machine: environmentMachine(),
    close: () => executor.close(),
  };
}

/** Connects the workers with each other: the first opens a store, the others get its port. */
async function joinMesh(links: readonly Link[], axes: readonly ProgramAxis[], timeout: number): Promise<void> {
  const [first] = links as [Link];
  const elsewhere = links.find(({ host }) => !isLoopback(host));
  if (isLoopback(first.host) && elsewhere !== undefined)
    throw new HeddleError(
      "link",
      `worker ${elsewhere.rank} at ${elsewhere.host} cannot reach worker 0 at ${first.host}`,
      {
        hint: "name worker 0 by an address that the other workers can reach",
      },
    );
  const common = {
    type: "join",
    axes: axes.map(({ name, size }) => ({ name, size })),
    size: links.length,
    runId: randomBytes(8).toString("hex"),
    secret: randomBytes(32).toString("hex"),
    timeout,
    host: first.host,
  };
  const opened = first.ask({ ...common, rank: 0 }, "joining");
  const port = links.length === 1 ? undefined : await Promise.race([first.storePort, opened.then(({ port }) => port)]);
  const others = links.slice(1).map((link) => link.ask({ ...common, rank: link.rank, port }, "joining"));
  await Promise.all([opened, ...others]);
}

/** A request without its answer yet. */
interface Waiting {
  /** What the worker does for it, for errors. */
  readonly what: string | undefined;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/** The link to one worker. */
class Link {
  readonly rank: number;
  readonly host: string;
  /** Resolves when the worker has opened the store. */
  readonly storePort: Promise<number>;
  private readonly channel: Channel;
  private readonly name: string;
  private readonly waiting = new Map<number, Waiting>();
  private failure: HeddleError | undefined;
  private next = 1;
  private readonly pulse: NodeJS.Timeout;

  /** Connects to a worker. @throws HeddleError `link`. */
  static async to(address: string, rank: number, secret: string, timeout: number): Promise<Link> {
    const endpoint = parseAddress(address);
    if (endpoint === undefined)
      throw new HeddleError("link", `'${address}' is not the address of a worker, such as 127.0.0.1:4100`);
    const { host, port } = endpoint;
    const name = `worker ${rank} at ${address}`;
    const socket = connectSocket({ host, port });
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => socket.destroy(new Error("no answer in time")), timeout * 1000);
      socket.once("connect", () => {
        clearTimeout(late);
        socket.removeAllListeners("error");
        resolve();
      });
      socket.once("error", (error) => {
        clearTimeout(late);
        const hint = `is it started? heddle worker --listen ${address}`;
        reject(new HeddleError("link", `${name} cannot be reached: ${error.message}`, { hint, cause: error }));
      });
    });
    const channel = await greet(socket, "driver", {
      secret,
      timeout: timeout * 1000,
      peer: name,
      host,
      says: { timeout },
    });
    return new Link(channel, { rank, host, name, timeout });
  }

  private constructor(channel: Channel, settings: { rank: number; host: string; name: string; timeout: number }) {
    this.channel = channel;
    this.rank = settings.rank;
    this.host = settings.host;
    this.name = settings.name;
    let opened: (port: number) => void = () => {};
    this.storePort = new Promise((resolve) => {
      opened = resolve;
    });
    channel.onFrame((frame) => {
      const answer = parseAnswer(frame, this.name);
      if (answer === undefined) return channel.close(`${this.name} sent a malformed answer`);
      if (answer.n === 0) {
        if (answer.error !== undefined) this.fail(answer.error);
        else if (answer.port !== undefined) opened(answer.port);
        return;
      }
      const request = this.waiting.get(answer.n);
      this.waiting.delete(answer.n);
      if (this.waiting.size === 0) channel.hold(false);
      if (answer.error === undefined) request?.resolve(answer);
      else request?.reject(answer.error);
    });
    channel.onEnd((error) => this.fail(error ?? new HeddleError("link", `the link to ${this.name} was closed`)));
    this.pulse = setInterval(() => {
      if (channel.silence > settings.timeout * 1000) {
        channel.close(`${this.name} has not answered for ${settings.timeout} s`);
      } else {
        void this.ask({ type: "ping" }).catch(() => {});
      }
    }, settings.timeout * 250);
    this.pulse.unref();
  }

  /** Sends a request and waits for its answer. @param what what the worker does for it, such as `joining` */
  ask(head: { readonly [key: string]: unknown }, what?: string): Promise<Answer> {
    const { failure } = this;
    if (failure !== undefined) return Promise.reject(failure);
    const n = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(n, { what, resolve, reject });
      // The process may end when it waits for no answer.
      this.channel.hold(true);
      this.channel.send({ ...head, n });
    });
  }

  /** Sends a request without an answer. */
  tell(head: { readonly [key: string]: unknown }, ...body: readonly Uint8Array[]): void {
    this.channel.send(head, ...body);
  }

  close(): void {
    this.channel.close();
  }

  private fail(error: HeddleError): void {
    const [what] = [...this.waiting.values()].flatMap((request) => request.what ?? []);
    const during = what === undefined ? error.plain : `${error.plain}, while it was ${what}`;
    this.failure ??= new HeddleError(error.code, during, { cause: error });
    clearInterval(this.pulse);
    for (const { reject } of this.waiting.values()) reject(this.failure);
    this.waiting.clear();
  }
}

/** Frees the workers' buffers whose names nobody refers to any more. */
const forgotten = new FinalizationRegistry<() => void>((free) => free());

/** A value in a worker. */
class RemoteBuffer implements DeviceBuffer {
  readonly bytes: number;
  readonly number: number;
  ready = true;
  private readonly link: Link;
  private readonly free: () => void;
  private failure: unknown;
  private filled: Promise<void> = Promise.resolve();

  constructor(link: Link, number: number, bytes: number) {
    this.link = link;
    this.number = number;
    this.bytes = bytes;
    let gone = false;
    this.free = () => {
      if (!gone) link.tell({ type: "free", buffers: [number] });
      gone = true;
    };
    forgotten.register(this, this.free, this);
  }

  /** Records the run that fills the buffer. */
  filledBy(done: Promise<unknown>): void {
    this.ready = false;
    this.filled = done.then(
      () => {
        this.ready = true;
      },
      (error: unknown) => {
        this.failure = error;
        this.ready = true;
      },
    );
  }

  write(data: Uint8Array): void {
    this.link.tell({ type: "write", buffer: this.number, bytes: data.length }, data);
  }

  async read(): Promise<Uint8Array> {
    const answer = this.link.ask({ type: "read", buffer: this.number });
    answer.catch(() => {});
    // The run reports why a value was never made.
    await this.filled;
    if (this.failure !== undefined) throw this.failure;
    // An aligned copy: the frame's bytes may begin at any offset.
    return Uint8Array.from((await answer).data);
  }

  readSync(): Uint8Array {
    throw new HeddleError("link", "a value in another process cannot be read without waiting", {
      hint: "read it with await x.data(), or x.item()",
    });
  }

  dispose(): void {
    forgotten.unregister(this);
    this.free();
  }

  /** The memory now belongs to an output: the name is free already. */
  taken(): void {
    forgotten.unregister(this);
  }
}

class RemoteExecutor implements Executor {
  readonly name = "remote";
  readonly elsewhere = true;
  readonly passes = nativePasses;
  readonly devices: number;
  private readonly links: readonly Link[];
  private nextBuffer = 1;
  private nextProgram = 1;
  /** The error that ended the session of several workers: one worker's failure leaves the others waiting. */
  private failed: unknown;

  constructor(links: readonly Link[]) {
    this.links = links;
    this.devices = links.length;
  }

  allocate(bytes: number, device = 0): RemoteBuffer {
    return new RemoteBuffer(this.links[device] as Link, this.nextBuffer++, bytes);
  }

  compile(program: Program | readonly Program[]): Executable {
    const number = this.nextProgram++;
    const programs = programsFor(program, this.devices);
    const texts = new Map([...new Set(programs)].map((distinct) => [distinct, printProgram(distinct)]));
    const compiled = this.links.map((link, device) =>
      link.ask(
        { type: "compile", program: number, text: texts.get(programs[device] as Program) },
        `compiling '${programs[device]?.name}'`,
      ),
    );
    const ready = Promise.all(compiled).then(() => {});
    // The first run waits for the compile and reports its error.
    ready.catch(() => {});
    return {
      program: programs[0] as Program,
      run: (inputs) => this.run(programs, number, ready, inputs as readonly (readonly RemoteBuffer[])[]),
    };
  }

  private run(
    programs: readonly Program[],
    number: number,
    ready: Promise<unknown>,
    inputs: readonly (readonly RemoteBuffer[])[],
  ): Run {
    const position = capturePosition();
    const outputs = programs.map(({ outputs: outputsOfProgram, donated }, device) =>
      outputsOfProgram.map(({ type }, output) => {
        const giver = donated[output];
        if (giver !== undefined) inputs[device]?.[giver]?.taken();
        return this.allocate(bytesOf(type), device);
      }),
    );
    const runs = this.links.map((link, device) =>
      link.ask(
        {
          type: "run",
          program: number,
          inputs: (inputs[device] ?? []).map((buffer) => buffer.number),
          outputs: (outputs[device] ?? []).map((buffer) => buffer.number),
        },
        `running '${programs[device]?.name}'`,
      ),
    );
    const explainedRuns = runs.map((run, device) =>
      run.catch((error: unknown) => {
        throw this.fail(explained(error, programs[device] as Program, position));
      }),
    );
    // A run may fail before it is awaited.
    for (const run of explainedRuns) run.catch(() => {});
    const done = ready.then(() => this.rootOf(explainedRuns)).then(() => undefined);
    done.catch(() => {});
    for (const list of outputs) for (const buffer of list) buffer.filledBy(done);
    return { outputs, done };
  }

  /** Records the first failure, and releases the workers that wait for the failed one. */
  private fail(error: unknown): unknown {
    if (this.links.length === 1 || this.failed !== undefined || isConsequence(error)) return error;
    this.failed = error;
    this.abort(error instanceof HeddleError ? error.plain : String(error));
    return error;
  }

  /** Waits for all runs; throws the error that is not a consequence of another. */
  private async rootOf(runs: readonly Promise<unknown>[]): Promise<void> {
    const errors = (await Promise.allSettled(runs)).flatMap((result) =>
      result.status === "rejected" ? [result.reason as unknown] : [],
    );
    if (errors.length === 0) return;
    const root = errors.find((error) => !isConsequence(error));
    if (root !== undefined || !(this.failed instanceof HeddleError)) throw root ?? errors[0];
    const { plain, where } = this.failed;
    throw new HeddleError("aborted", `the workers have ended with an earlier run: ${plain}`, {
      ...(where === undefined ? {} : { where }),
      cause: this.failed,
    });
  }

  abort(reason: string): void {
    for (const link of this.links) link.tell({ type: "abort", reason });
  }

  close(): void {
    for (const link of this.links) link.close();
  }
}

/** Codes of errors that are consequences of another worker's failure. */
const consequences = ["aborted", "peer", "peerClosed", "peerAborted"];

const isConsequence = (error: unknown): boolean => error instanceof HeddleError && consequences.includes(error.code);

/** A worker's error with the user's line: the line of the node that it names, otherwise of the run. */
function explained(error: unknown, program: Program, launch: SourcePosition): unknown {
  if (!(error instanceof WorkerError)) return error;
  const { peer, said, mark, code, hint, fault } = error;
  const node = mark === undefined ? undefined : nodesRun(program)[mark];
  const line = describePosition(launch);
  if (fault === undefined || node === undefined) {
    const more = { ...(hint === undefined ? {} : { hint }), ...(line === undefined ? {} : { where: line }) };
    return new HeddleError(code, said, { by: peer, ...more, fault, cause: error });
  }
  const position = positionOf(node);
  const by = position === undefined ? launch.by : position.by;
  const location = { says: meaningAt(node, by), where: placeOf(position) ?? line };
  return refused({ ...fault, worker: peer, by: by?.name ?? fault.by }, location, error);
}
