/** @module The links that others have to a server: who asks, which lives are old, and what is refused before it is answered. */
import { createServer, type Socket } from "node:net";
import { type Channel, type Frame, greet } from "../executors/remote/channel.ts";
import { listen } from "../executors/remote/listen.ts";
import { errorHead } from "../executors/remote/messages.ts";
import { HeddleError } from "../util/errors.ts";
import { type Asked, parseRequest, type Request } from "./requests.ts";
import { leases } from "./shared/leases.ts";
import { Room } from "./shared/room.ts";
import { leastShared, SharedFile } from "./shared/shared-file.ts";

const helloMilliseconds = 5000;
/** Links that may be in their hello at once; of more, the oldest gives way. */
const mostGreeting = 256;

/** A link from a worker or another server. */
export interface Session {
  readonly channel: Channel;
  readonly peer: string;
  role: "worker" | "server" | undefined;
  client: number;
  incarnation: number;
  /** The file in memory for bodies, if the asker is on this machine. */
  file: SharedFile | undefined;
  /** Room for the bodies in the file. */
  readonly room: Room;
}

/** An answer: its fields, and the parts of its bytes, each with a lease that sending ends. */
export interface Answer {
  readonly [field: string]: unknown;
  readonly body?: readonly Uint8Array[];
}

/** What a server makes of its links. */
export interface SessionOptions {
  readonly secret: string;
  /** Seconds without a sign of life, after which a link is closed. */
  readonly timeout: number;
  /** Bytes of the largest request that can be right. */
  readonly mostBytes: () => number;
  /** Resolves when a request waits for nothing but its turn: only then it takes room. */
  readonly due: (request: Request) => Promise<void>;
  readonly answer: (session: Session, request: Request, body: Uint8Array) => Promise<Answer>;
  /** The newest life of a worker has lost its link. */
  readonly away: (worker: number) => void;
}

/** The links of others. */
export class Sessions {
  /** Bytes of bodies. */
  received = 0;
  sent = 0;
  private readonly options: SessionOptions;
  private readonly server = createServer((socket) => void this.accept(socket));
  private readonly sockets = new Set<Socket>();
  private readonly greeting = new Set<Socket>();
  private readonly lives = new Map<string, number>();
  private readonly workerLinks = new Set<Session>();
  private readonly idleWaits: (() => void)[] = [];

  constructor(options: SessionOptions) {
    this.options = options;
  }

  /** Listens; resolves with the port. @throws HeddleError `port` */
  listen(host: string, port: number): Promise<number> {
    return listen(this.server, host, port);
  }

  /** Resolves when no worker has a link. */
  async idle(): Promise<void> {
    while (this.workerLinks.size > 0) await new Promise<void>((resolve) => this.idleWaits.push(resolve));
  }

  /** Ends all links. */
  end(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.end();
    await closed;
  }

  private async accept(socket: Socket): Promise<void> {
    const { secret, timeout, away } = this.options;
    const peer = `the client at ${socket.remoteAddress}:${socket.remotePort}`;
    this.sockets.add(socket);
    socket.once("close", () => this.sockets.delete(socket));
    const [oldest] = this.greeting.size < mostGreeting ? [] : this.greeting;
    oldest?.destroy();
    this.greeting.add(socket);
    const channel = await greet(socket, "worker", { secret, timeout: helloMilliseconds, peer }).catch(() => undefined);
    this.greeting.delete(socket);
    if (channel === undefined) return;
    channel.mostBody = this.options.mostBytes();
    const session: Session = {
      ...{ channel, peer, role: undefined, client: 0, incarnation: 0, file: undefined },
      room: new Room(),
    };
    channel.onFrame((frame) => void this.take(session, frame));
    const watch = setInterval(() => {
      if (channel.silence > 1000 * timeout) channel.close(`${peer} has sent nothing for ${timeout} s`);
    }, 250 * timeout);
    watch.unref();
    channel.onEnd(() => {
      clearInterval(watch);
      session.file?.close();
      session.file = undefined;
      const { role, client } = session;
      this.workerLinks.delete(session);
      for (const resolve of this.idleWaits.splice(0)) resolve();
      if (role === "worker" && this.lives.get(`worker ${client}`) === session.incarnation) away(client);
    });
  }

  private async take(session: Session, frame: Frame): Promise<void> {
    const { channel } = session;
    let n = 0;
    let leave: (() => void) | undefined;
    try {
      const asked = parseRequest(frame);
      ({ n } = asked);
      const { request } = asked;
      this.admit(session, request);
      if (request.type === "memory") return channel.send({ n, memory: opened(session, request.path) });
      const { region } = asked;
      if (region !== undefined) {
        await this.options.due(request);
        leave = await session.room.take(region.size);
      }
      const body = asked.shared === undefined ? plain(asked.body) : await sharedBody(session, asked);
      this.received += body.length;
      const { body: parts = [], ...fields } = await this.options.answer(session, request, body);
      // The shards say how large a request may be.
      if (request.type === "create") channel.mostBody = this.options.mostBytes();
      const bytes = parts.reduce((sum, { length }) => sum + length, 0);
      this.sent += bytes;
      const isShared = region !== undefined && bytes >= leastShared && bytes <= region.size;
      if (isShared && (await session.file?.write(region.offset, parts)) === true)
        channel.send({ n, ...fields, shared: bytes });
      else channel.send({ n, ...fields }, ...parts);
      for (const one of [body, ...parts]) leases.end(one);
    } catch (error) {
      channel.send(errorHead(n, error));
      // A request that is not in the table is no mistake of an honest client.
      if (session.role === undefined || n === 0) channel.close();
    } finally {
      leave?.();
    }
  }

  /** Refuses what has not said who it is, and older lives. */
  private admit(session: Session, request: Request): void {
    if (request.type === "hello") {
      const name = `${request.role} ${request.client}`;
      const known = this.lives.get(name);
      if (known !== undefined && request.incarnation < known)
        throw new HeddleError("protocol", `${name} has a newer life than the one that asks`);
      this.lives.set(name, request.incarnation);
      if (request.role === "worker") this.workerLinks.add(session);
      Object.assign(session, { role: request.role, client: request.client, incarnation: request.incarnation });
      return;
    }
    const { role, client, incarnation } = session;
    if (role === undefined) throw new HeddleError("link", "a request before the hello");
    if (this.lives.get(`${role} ${client}`) !== incarnation)
      throw new HeddleError("protocol", `${role} ${client} has a newer life than the one that asks`);
    if (role !== "worker") return;
    if (request.type === "apply" || (request.type === "push" && request.client !== client))
      throw new HeddleError("protocol", `worker ${client} asks '${request.type}' for another`);
    if (request.type === "push" && request.incarnation !== incarnation)
      throw new HeddleError("protocol", `a push of another life of worker ${client}`);
  }
}

/** Opens the file of an asker; what is at its beginning, or an empty text. */
function opened(session: Session, path: string): string {
  session.file?.close();
  session.file = SharedFile.open(path);
  session.file?.unname();
  return session.file?.token ?? "";
}

const plain = ({ buffer, byteOffset, length }: Uint8Array): Uint8Array => new Uint8Array(buffer, byteOffset, length);

/** The body of a request in the file. @throws HeddleError `link` for one that is too large, or not there */
async function sharedBody({ channel, file }: Session, { region, shared = 0 }: Asked): Promise<Uint8Array> {
  if (shared > channel.mostBody) throw new HeddleError("link", `a body of ${shared} bytes`);
  const whole = region === undefined ? undefined : await file?.read(region.offset, shared);
  if (whole === undefined) throw new HeddleError("link", "a body that is not in the memory of both sides");
  return whole;
}
