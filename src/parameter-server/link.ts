/** @module A link to a server that comes back: requests without an answer are asked again after a break. Every request may be repeated. */
import { connect as connectSocket } from "node:net";
import { parseAddress } from "../executors/remote/address.ts";
import { type Channel, type Frame, greet } from "../executors/remote/channel.ts";
import { type Answer, parseAnswer } from "../executors/remote/messages.ts";
import { HeddleError } from "../util/errors.ts";
import type { Request } from "./requests.ts";
import { Asking } from "./shared/asking.ts";
import { SharedFile } from "./shared/shared-file.ts";

/** An answer: its fields, and bytes. */
export interface Reply {
  readonly fields: { readonly [name: string]: unknown };
  readonly body: Uint8Array;
}

/** Who asks whom, and how long it waits. */
export interface LinkOptions {
  /** `host:port`. */
  readonly address: string;
  /** What the other side is called in messages, such as `server 1`. */
  readonly name: string;
  readonly secret: string;
  /** Seconds without an answer or a link, after which a request fails. */
  readonly timeout: number;
  readonly role: "worker" | "server";
  readonly client: number;
  readonly incarnation: number;
}

interface Open {
  readonly request: Request;
  readonly body: readonly Uint8Array[];
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: HeddleError) => void;
}

/** Milliseconds between two attempts to connect. */
const pauseMilliseconds = 50;

/** A link to one server. */
export class Link {
  /** Bytes of bodies that were sent and received. */
  sent = 0;
  received = 0;
  readonly name: string;
  private readonly options: LinkOptions;
  private readonly open = new Map<number, Open>();
  private channel: Channel | undefined;
  /** Bodies in memory that both sides have, if the server is on this machine. */
  private asking: Asking | undefined;
  private next = 1;
  private failure: HeddleError | undefined;
  private closed = false;
  private pulse: NodeJS.Timeout | undefined;
  private pause: { readonly timer: NodeJS.Timeout; readonly end: () => void } | undefined;

  constructor(options: LinkOptions) {
    this.options = options;
    this.name = `${options.name} at ${options.address}`;
    void this.connect();
  }

  /**
   * Asks, and waits for the answer, over breaks of the link.
   *
   * @throws HeddleError the server's error; `link` if the server was away for too long
   */
  ask(request: Request, body: readonly Uint8Array[] = []): Promise<Reply> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const n = this.next++;
    return new Promise((resolve, reject) => {
      this.open.set(n, { request, body, resolve, reject });
      if (this.channel !== undefined) this.send(n);
    });
  }

  close(): void {
    this.closed = true;
    clearInterval(this.pulse);
    this.pause?.end();
    this.fail(new HeddleError("link", `the link to ${this.name} was closed`));
    this.channel?.close();
  }

  private send(n: number): void {
    const { channel, asking } = this;
    const { request, body } = this.open.get(n) as Open;
    const bytes = body.reduce((sum, { length }) => sum + length, 0);
    this.sent += bytes;
    if (asking?.mayPlace(request.type, bytes) === true)
      void asking.place(n, request.type, body).then((placed) => {
        // After a break it is asked again.
        if (this.channel === channel) channel?.send({ ...request, ...placed.fields, n }, ...placed.body);
      });
    else channel?.send({ ...request, n }, ...body);
  }

  private take({ n, error }: Answer, fields: Frame["head"], body: Uint8Array): void {
    const asked = this.open.get(n);
    this.received += body.length;
    this.open.delete(n);
    if (error === undefined) asked?.resolve({ fields, body });
    else if (n === 0) this.fail(error);
    else asked?.reject(error);
  }

  private async connect(): Promise<void> {
    const began = performance.now();
    let reason = "";
    while (!this.closed) {
      try {
        const channel = await this.reach();
        if (this.closed) return channel.close();
        return this.use(channel);
      } catch (error) {
        reason = error instanceof HeddleError ? error.plain : String(error);
        if (performance.now() - began > 1000 * this.options.timeout) break;
        await this.rest();
      }
    }
    const [first] = this.open.values();
    const what = first === undefined ? "" : `, while this process waits for the answer to '${first.request.type}'`;
    this.fail(
      new HeddleError("link", `${this.name} was away for ${this.options.timeout} s${what}: ${reason}`, {
        hint: "a server that is lost with all copies of its values comes back from a checkpoint: heddle run --restarts 1",
      }),
    );
  }

  private rest(): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.pause = undefined;
        resolve();
      };
      const timer = setTimeout(end, pauseMilliseconds);
      this.pause = { timer, end };
    });
  }

  private async reach(): Promise<Channel> {
    const { address, secret, timeout } = this.options;
    const endpoint = parseAddress(address);
    if (endpoint === undefined) throw new HeddleError("link", `'${address}' is not an address such as 127.0.0.1:4100`);
    const socket = connectSocket(endpoint);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    socket.removeAllListeners("error");
    return greet(socket, "driver", { secret, timeout: timeout * 1000, peer: this.name, host: endpoint.host });
  }

  private use(channel: Channel): void {
    this.channel = channel;
    const { role, client, incarnation, timeout } = this.options;
    channel.onFrame((frame) => {
      const answer = parseAnswer(frame, this.options.name);
      if (answer === undefined) return channel.close(`${this.name} sent a malformed answer`);
      const { body, head } = frame;
      const { asking } = this;
      if (answer.n === 0 && head["memory"] !== undefined) return asking?.agree(head["memory"]);
      const plain = new Uint8Array(body.buffer, body.byteOffset, body.length);
      const { type = "" } = this.open.get(answer.n)?.request ?? {};
      asking?.learn(type, plain.length);
      if (asking?.isPlaced(answer.n) !== true) return this.take(answer, head, plain);
      void asking.taken(answer.n, type, head["shared"], plain).then((whole) => {
        // Asked again over another link.
        if (whole === undefined) channel.close(`${this.name} sent an answer that is not where it says`);
        else this.take(answer, head, whole);
      });
    });
    channel.onEnd(() => {
      clearInterval(this.pulse);
      this.channel = undefined;
      this.asking?.close();
      this.asking = undefined;
      if (!this.closed && this.failure === undefined) void this.connect();
    });
    this.pulse = setInterval(() => {
      if (channel.silence > 1000 * timeout) channel.close(`${this.name} has not answered for ${timeout} s`);
      else channel.send({ type: "ping", n: 0 });
    }, 250 * timeout);
    this.pulse.unref();
    channel.send({ type: "hello", role, client, incarnation, n: 0 });
    const file = SharedFile.create();
    if (file !== undefined) {
      this.asking = new Asking(file);
      channel.send({ type: "memory", path: file.path, n: 0 });
    }
    for (const n of [...this.open.keys()].sort((a, b) => a - b)) this.send(n);
  }

  private fail(error: HeddleError): void {
    this.failure ??= error;
    for (const { reject } of this.open.values()) reject(this.failure);
    this.open.clear();
  }
}
