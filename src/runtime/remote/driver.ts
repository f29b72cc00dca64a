/**
 * @module The driver's side: devices of a mesh in other processes that wait for work. This process traces, plans and
 * sends programs; values stay where they were made until they are read.
 */
import { randomBytes } from "node:crypto";
import { connect as connectSocket } from "node:net";
import { environmentMachine } from "../../cost/index.ts";
import { bytesOf } from "../../ir/shape.ts";
import { meaningAt, positionOf } from "../../ir/trace.ts";
import { nodesRun, type Program, type ProgramAxis, printProgram } from "../../program/index.ts";
import { HeddleError, refused } from "../../util/errors.ts";
import { capturePosition, describePosition, placeOf, type SourcePosition } from "../../util/source.ts";
import { allDevices, type Runtime } from "../devices.ts";
import { type DeviceBuffer, type Executable, type Executor, programsFor, type Run } from "../executor.ts";
import { nativePasses } from "../passes.ts";
import { parseAddress } from "./address.ts";
import { type Channel, greet } from "./channel.ts";
import { type Answer, parseAnswer, WorkerError } from "./messages.ts";

/** Options of {@link remoteRuntime}. */
export interface RemoteOptions {
  /** `host:port` of each waiting worker, in row-major order of the mesh. */
  readonly workers: readonly string[];
  /** What driver and workers know of each other. */
  readonly secret: string;
  /** Seconds to wait for a sign of life; default 60. */
  readonly timeout?: number | undefined;
}

/**
 * A mesh of devices in waiting workers (`heddle worker`), one each.
 *
 * @throws HeddleError `mesh` when there are not as many workers as devices, `link` when one cannot be reached, does not
 * know the secret, or is busy.
 */
export async function remoteRuntime(axes: readonly ProgramAxis[], options: RemoteOptions): Promise<Runtime> {
  const { workers, secret, timeout = 60 } = options;
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

/** Makes the workers meet: the first opens a store, the others are told where. */
async function joinMesh(links: readonly Link[], axes: readonly ProgramAxis[], timeout: number): Promise<void> {
  const [first] = links as [Link];
  const common = {
    type: "join",
    axes: axes.map(({ name, size }) => ({ name, size })),
    size: links.length,
    runId: randomBytes(8).toString("hex"),
    secret: randomBytes(32).toString("hex"),
    timeout,
    host: first.host,
  };
  const opened = first.ask({ ...common, rank: 0 });
  const port = links.length === 1 ? undefined : await Promise.race([first.storePort, opened.then(({ port }) => port)]);
  const others = links.slice(1).map((link) => link.ask({ ...common, rank: link.rank, port }));
  await Promise.all([opened, ...others]);
}

/** The link to one worker. */
class Link {
  readonly rank: number;
  readonly host: string;
  /** Resolves when the worker has opened the store. */
  readonly storePort: Promise<number>;
  private readonly channel: Channel;
  private readonly name: string;
  private readonly waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (error: unknown) => void }>();
  private failure: HeddleError | undefined;
  private next = 1;
  private heard = performance.now();
  private readonly pulse: NodeJS.Timeout;

  /** Reaches a worker. @throws HeddleError `link`. */
  static async to(address: string, rank: number, secret: string, timeout: number): Promise<Link> {
    const place = parseAddress(address);
    if (place === undefined)
      throw new HeddleError("link", `'${address}' is not the address of a worker, such as 127.0.0.1:4100`);
    const { host, port } = place;
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
    const channel = await greet(socket, "driver", { secret, timeout: timeout * 1000, peer: name });
    return new Link(channel, { rank, host, name, timeout });
  }

  private constructor(channel: Channel, about: { rank: number; host: string; name: string; timeout: number }) {
    this.channel = channel;
    this.rank = about.rank;
    this.host = about.host;
    this.name = about.name;
    let opened: (port: number) => void = () => {};
    this.storePort = new Promise((resolve) => {
      opened = resolve;
    });
    channel.onFrame((frame) => {
      this.heard = performance.now();
      const answer = parseAnswer(frame, this.name);
      if (answer === undefined) return channel.close(`${this.name} sent an answer that is none`);
      if (answer.n === 0) {
        if (answer.error !== undefined) this.fail(answer.error);
        else if (answer.port !== undefined) opened(answer.port);
        return;
      }
      const asked = this.waiting.get(answer.n);
      this.waiting.delete(answer.n);
      if (this.waiting.size === 0) channel.hold(false);
      if (answer.error === undefined) asked?.resolve(answer);
      else asked?.reject(answer.error);
    });
    channel.onEnd((error) => this.fail(error ?? new HeddleError("link", `the link to ${this.name} was closed`)));
    this.pulse = setInterval(() => {
      if (performance.now() - this.heard > about.timeout * 1000) {
        channel.close(`${this.name} has not answered for ${about.timeout} s`);
      } else {
        void this.ask({ type: "ping" }).catch(() => {});
      }
    }, about.timeout * 250);
    this.pulse.unref();
  }

  /** Sends a request and waits for its answer. */
  ask(head: { readonly [key: string]: unknown }): Promise<Answer> {
    const { failure } = this;
    if (failure !== undefined) return Promise.reject(failure);
    const n = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(n, { resolve, reject });
      // A program that waits for nothing more may end.
      this.channel.hold(true);
      this.channel.send({ ...head, n });
    });
  }

  /** Sends what no answer is waited for. */
  tell(head: { readonly [key: string]: unknown }, body?: Uint8Array): void {
    this.channel.send(head, body);
  }

  close(): void {
    this.channel.close();
  }

  private fail(error: HeddleError): void {
    this.failure ??= error;
    clearInterval(this.pulse);
    for (const { reject } of this.waiting.values()) reject(this.failure);
    this.waiting.clear();
  }
}

/** Names of buffers that nobody refers to any more are given back to their worker. */
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

  /** Notes the run that fills it. */
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
    const asked = this.link.ask({ type: "read", buffer: this.number });
    asked.catch(() => {});
    // What there is to say of a value that never came to be is said by its run.
    await this.filled;
    if (this.failure !== undefined) throw this.failure;
    // A copy of its own, and aligned: the frame's bytes begin anywhere.
    return Uint8Array.from((await asked).data);
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

  /** Its memory has become an output's: the name is free already. */
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
  /** What ended the session of several workers: one's failure leaves the others waiting for it. */
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
    const texts = new Map([...new Set(programs)].map((one) => [one, printProgram(one)]));
    const compiled = this.links.map((link, device) =>
      link.ask({ type: "compile", program: number, text: texts.get(programs[device] as Program) }),
    );
    let calls = 0;
    const ready = Promise.all(compiled).then(([first]) => {
      calls = first?.calls ?? 0;
    });
    // An error is told by the first run, which waits for it.
    ready.catch(() => {});
    return {
      program: programs[0] as Program,
      get calls() {
        return calls;
      },
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
    const outputs = programs.map(({ outputs: made, donated }, device) =>
      made.map(({ type }, output) => {
        const giver = donated[output];
        if (giver !== undefined) inputs[device]?.[giver]?.taken();
        return this.allocate(bytesOf(type), device);
      }),
    );
    const runs = this.links.map((link, device) =>
      link.ask({
        type: "run",
        program: number,
        inputs: (inputs[device] ?? []).map((buffer) => buffer.number),
        outputs: (outputs[device] ?? []).map((buffer) => buffer.number),
      }),
    );
    const told = runs.map((run, device) =>
      run.catch((error: unknown) => {
        throw this.fail(toldOf(error, programs[device] as Program, position));
      }),
    );
    // Each may fail before they are waited for.
    for (const one of told) one.catch(() => {});
    const done = ready.then(() => this.rootOf(told)).then(() => undefined);
    done.catch(() => {});
    for (const list of outputs) for (const buffer of list) buffer.filledBy(done);
    return { outputs, done };
  }

  /** Notes the first failure, and frees the workers that wait for the one that has it. */
  private fail(error: unknown): unknown {
    if (this.links.length === 1 || this.failed !== undefined || isConsequence(error)) return error;
    this.failed = error;
    this.abort(error instanceof HeddleError ? error.plain : String(error));
    return error;
  }

  /** Waits for all; of several errors the one that is not the consequence of another is thrown. */
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

/** Codes of errors that say that another one has failed. */
const consequences = ["aborted", "peer", "peerClosed", "peerAborted"];

const isConsequence = (error: unknown): boolean => error instanceof HeddleError && consequences.includes(error.code);

/** A worker's error with the user's line: of the node that it names, else of the run. */
function toldOf(error: unknown, program: Program, launch: SourcePosition): unknown {
  if (!(error instanceof WorkerError)) return error;
  const { peer, said, mark, code, hint, fault } = error;
  const node = mark === undefined ? undefined : nodesRun(program)[mark];
  const line = describePosition(launch);
  if (fault === undefined || node === undefined) {
    const more = { ...(hint === undefined ? {} : { hint }), ...(line === undefined ? {} : { where: line }) };
    return new HeddleError(code, `${peer}: ${said}`, { ...more, fault, cause: error });
  }
  const position = positionOf(node);
  const by = position === undefined ? launch.by : position.by;
  const place = { says: meaningAt(node, by), where: placeOf(position) ?? line };
  return refused({ ...fault, worker: peer, by: by?.name ?? fault.by }, place, error);
}
