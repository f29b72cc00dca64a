/**
 * @module A link between a driver and a worker: mutual proof of a shared secret, then framed messages in sealed records.
 *
 * The hello has fixed sizes, so that nothing is parsed before both sides are known: the driver sends a magic number and 32 random bytes,
 * the worker 32 random bytes; then the driver proves that it knows the secret, and only then the worker does, so that a stranger gets
 * nothing from which the secret could be guessed. What follows is sealed (`seal/records.ts`). A frame is the length of its head and of its
 * body (u32 each, little-endian), the head as JSON, and the body, raw bytes. The first frame of each side says its version.
 */
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { HeddleError } from "../../util/errors.ts";
import { readEnvironment } from "../../util/settings.ts";
import { version } from "../../util/version.ts";
import { checkSecret, LinkKeys, nonceBytes, type Opener, proofBytes, type Sealer, type Side } from "./seal/records.ts";
import { readCertificates } from "./tls/certificates.ts";
import { secured } from "./tls/secured.ts";

/** A message: a head, and bytes. */
export interface Frame {
  readonly head: { readonly [key: string]: unknown };
  readonly body: Uint8Array;
}

/** An authenticated link. */
export interface Channel {
  /** Sends a message, whose body is made of these parts. */
  send(head: Frame["head"], ...body: readonly Uint8Array[]): void;
  /** Called for each message, in order. */
  onFrame(take: (frame: Frame) => void): void;
  /** Called once, when the link has ended; with the reason unless this side closed it on purpose. */
  onEnd(take: (error: HeddleError | undefined) => void): void;
  /** Milliseconds since the other side has sent anything. */
  readonly silence: number;
  /** Bodies of more bytes are refused before there is memory for them. */
  mostBody: number;
  /** What the other side said in its first frame. */
  readonly greeting: Frame["head"];
  /** Sets whether the link keeps this process alive; at first it does. */
  hold(alive: boolean): void;
  close(reason?: string): void;
}

const magic = Buffer.from("heddle\0\x02");
// A program is far smaller; a tensor of a checkpoint may come near.
const maxHead = 2 ** 28;
const maxBody = 2 ** 32 - 1;
/** Bytes that a side may send before it has proved that it knows the secret. */
const mostUnproven = 2 ** 16;
/** Bytes of a body that goes into one record with its head. */
const smallBody = 2 ** 14;
/** Time for sent data to go out before a link is closed on purpose. */
const drainMilliseconds = 2000;

/** Reads exact numbers of bytes from a socket; further bytes wait. */
class Reader {
  available = 0;
  private readonly parts: Buffer[] = [];
  private request: { bytes: number; take: (bytes: Buffer) => void } | undefined;

  push(part: Buffer): void {
    this.parts.push(part);
    this.available += part.length;
    while (this.request !== undefined && this.available >= this.request.bytes) {
      const { bytes, take } = this.request;
      this.request = undefined;
      take(this.pull(bytes));
    }
  }

  /** Calls `take` once, when enough bytes have arrived. */
  want(bytes: number, take: (bytes: Buffer) => void): void {
    this.request = { bytes, take };
    // Not recursively: many small frames in one part would overflow the stack.
    if (this.available >= bytes) queueMicrotask(() => this.push(Buffer.alloc(0)));
  }

  /** The next bytes. */
  bytes(count: number): Promise<Buffer> {
    return new Promise((resolve) => this.want(count, resolve));
  }

  private pull(bytes: number): Buffer {
    const result = Buffer.allocUnsafeSlow(bytes);
    for (let done = 0; done < bytes; ) {
      const part = this.parts[0] as Buffer;
      const used = Math.min(part.length, bytes - done);
      part.copy(result, done, 0, used);
      done += used;
      if (used === part.length) this.parts.shift();
      else this.parts[0] = part.subarray(used);
    }
    this.available -= bytes;
    return result;
  }
}

/** Options of the hello. */
export interface HelloOptions {
  readonly secret: string;
  /** Milliseconds for the hello. */
  readonly timeout: number;
  /** Name of the other side in messages. */
  readonly peer: string;
  /** The host that this side has dialled: with certificates the other side's must name it. Default: the address. */
  readonly host?: string;
  /** The folder of this side's certificates; default that of `HEDDLE_TLS`, or none. */
  readonly tls?: string | undefined;
  /** What this side says beside its version. */
  readonly says?: Frame["head"];
  /** Another version than that of this library, in tests. */
  readonly version?: string;
}

/**
 * Makes a channel from a connected socket; by mutual TLS where this side has certificates.
 *
 * @throws HeddleError `link` when the other side does not prove that it knows the secret, or not in time, or is not trusted; `mismatch` when it has
 * another version; `option` for a secret that is too short; `link` or `file` when something is wrong with this side's certificates.
 */
export async function greet(socket: Socket, side: Side, options: HelloOptions): Promise<Channel> {
  checkSecret(options.secret);
  const folder = options.tls ?? readEnvironment().tls;
  if (folder === undefined) return hello(socket, side, options);
  try {
    return await hello(await secured(socket, side, readCertificates(folder), options), side, options);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function hello(socket: Socket, side: Side, options: HelloOptions): Promise<Channel> {
  const { secret, timeout, peer } = options;
  const reader = new Reader();
  socket.setNoDelay(true);
  // So that the system notices a machine that vanished silently.
  socket.setKeepAlive(true, 10_000);
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      clearTimeout(late);
      socket.off("error", onError);
      socket.off("close", onClose);
    };
    const fail = (problem: string | HeddleError): void => {
      settle();
      socket.on("error", () => {});
      socket.destroy();
      reject(problem instanceof HeddleError ? problem : new HeddleError("link", `${peer}: ${problem}`));
    };
    const late = setTimeout(() => fail("no hello in time"), timeout);
    const onError = (error: Error): void => fail(error.message);
    const onClose = (): void =>
      fail(
        "ended the hello; are the secrets and the versions of Heddle the same, and has it HEDDLE_TLS if this side has?",
      );
    socket.on("error", onError);
    socket.on("close", onClose);
    let proved = false;
    socket.on("data", (part: Buffer) => {
      reader.push(part);
      if (!proved && reader.available > mostUnproven) fail("sends too much before its proof");
    });
    const own = { heddle: options.version ?? version, ...options.says };
    const proven = async (): Promise<SocketChannel | undefined> => {
      const keys = await exchangeNonces(socket, side, reader, secret);
      if (keys === undefined)
        return void fail("does not speak this protocol, or speaks TLS, for which this side needs HEDDLE_TLS");
      const other = side === "driver" ? "worker" : "driver";
      // The driver proves first: it has chosen the address, a stranger has not.
      if (side === "driver") socket.write(keys.proof(side));
      if (!keys.proves(other, await reader.bytes(proofBytes))) return void fail("does not know the secret of this run");
      proved = true;
      if (side === "worker") socket.write(keys.proof(side));
      return new SocketChannel(socket, reader, { peer, sealer: keys.sealer(side), opener: keys.opener(other), own });
    };
    void proven().then((channel) => {
      if (channel === undefined) return;
      settle();
      const slow = setTimeout(() => channel.close(`${peer}: no hello in time`), timeout);
      void channel.greeted.then((problem) => {
        clearTimeout(slow);
        if (problem === undefined) resolve(channel);
        else reject(problem);
      });
    });
  });
}

/** Exchanges random bytes, from which both sides derive keys; undefined if the other side speaks something else. */
async function exchangeNonces(
  socket: Socket,
  side: Side,
  reader: Reader,
  secret: string,
): Promise<LinkKeys | undefined> {
  const own = randomBytes(nonceBytes);
  if (side === "driver") {
    socket.write(Buffer.concat([magic, own]));
    return new LinkKeys(secret, own, await reader.bytes(nonceBytes));
  }
  const first = await reader.bytes(magic.length + nonceBytes);
  if (!first.subarray(0, magic.length).equals(magic)) return undefined;
  socket.write(own);
  return new LinkKeys(secret, first.subarray(magic.length), own);
}

/** What a channel needs of its hello. */
interface Greeted {
  readonly peer: string;
  readonly sealer: Sealer;
  readonly opener: Opener;
  /** The first frame of this side. */
  readonly own: { readonly heddle: string } & Frame["head"];
}

class SocketChannel implements Channel {
  greeting: Frame["head"] = {};
  /** Resolves when the other side has said its version; with the reason if the link does not come about. */
  readonly greeted: Promise<HeddleError | undefined>;
  private readonly socket: Socket;
  private readonly peer: string;
  private readonly sealer: Sealer;
  private take: ((frame: Frame) => void) | undefined;
  private readonly waiting: Frame[] = [];
  private ended: { error: HeddleError | undefined } | undefined;
  private readonly enders: ((error: HeddleError | undefined) => void)[] = [];
  private heard = performance.now();
  mostBody = maxBody;

  constructor(socket: Socket, reader: Reader, { peer, sealer, opener, own }: Greeted) {
    this.socket = socket;
    this.peer = peer;
    this.sealer = sealer;
    socket.on("error", (error) => this.finish(`${peer}: ${error.message}`));
    socket.on("close", () => this.finish(`${peer} has ended the link`));
    const opened = new Reader();
    const keep = (plain: Buffer): void => {
      this.heard = performance.now();
      opened.push(plain);
    };
    void opener.read(
      (count) => reader.bytes(count),
      keep,
      (what) => this.refuse(what),
    );
    this.greeted = new Promise((resolve) => {
      this.onEnd((error) => resolve(error ?? new HeddleError("link", `${peer} has ended the link`)));
      this.take = ({ head }) => {
        this.take = undefined;
        this.greeting = head;
        const problem = differentVersion(peer, String(head["heddle"]), own.heddle);
        if (problem !== undefined) this.finish(problem);
        resolve(problem);
      };
    });
    this.read(opened);
    this.send(own);
  }

  get silence(): number {
    return performance.now() - this.heard;
  }

  private read(reader: Reader): void {
    reader.want(8, (lengths) => {
      const [head, body] = [lengths.readUInt32LE(0), lengths.readUInt32LE(4)];
      if (head > maxHead) return this.refuse(`a head of ${head} bytes`);
      if (body > this.mostBody) return this.refuse(`a body of ${body} bytes`);
      reader.want(head + body, (bytes) => {
        const frame = parseFrame(bytes, head);
        if (frame === undefined) return this.refuse("a head that is not a JSON object");
        this.read(reader);
        if (this.take === undefined) this.waiting.push(frame);
        else this.take(frame);
      });
    });
  }

  private refuse(what: string): void {
    this.finish(`${this.peer} sent ${what}`);
  }

  /** Ends the link: immediately after a problem, otherwise when sent data has gone out. */
  private finish(problem: string | HeddleError | undefined): void {
    if (this.ended !== undefined) return;
    this.ended = { error: typeof problem === "string" ? new HeddleError("link", problem) : problem };
    // The other side learns from this side's first frame that the versions differ.
    if (problem === undefined || problem instanceof HeddleError) {
      this.socket.end();
      this.socket.setTimeout(drainMilliseconds, () => this.socket.destroy());
    } else {
      this.socket.destroy();
    }
    for (const take of this.enders) take(this.ended.error);
  }

  send(head: Frame["head"], ...body: readonly Uint8Array[]): void {
    if (this.ended !== undefined) return;
    const text = Buffer.from(JSON.stringify(head));
    const bytes = body.reduce((sum, { length }) => sum + length, 0);
    if (bytes > maxBody) throw new HeddleError("link", `a message of ${bytes} bytes is too large`);
    // All processors that Heddle runs on are little-endian.
    const lengths = Buffer.from(Uint32Array.of(text.length, bytes).buffer);
    this.socket.cork();
    const parts =
      bytes < smallBody ? [Buffer.concat([lengths, text, ...body])] : [Buffer.concat([lengths, text]), ...body];
    for (const part of parts) for (const piece of this.sealer.seal(part)) this.socket.write(piece);
    this.socket.uncork();
  }

  onFrame(take: (frame: Frame) => void): void {
    this.take = take;
    for (const frame of this.waiting.splice(0)) take(frame);
  }

  onEnd(take: (error: HeddleError | undefined) => void): void {
    if (this.ended === undefined) this.enders.push(take);
    else take(this.ended.error);
  }

  hold(alive: boolean): void {
    this.socket[alive ? "ref" : "unref"]();
  }

  close(reason?: string): void {
    this.finish(reason);
  }
}

/** An error that names both versions, if they differ. */
function differentVersion(peer: string, other: string, own: string): HeddleError | undefined {
  if (other === own) return undefined;
  return new HeddleError("mismatch", `${peer} has Heddle ${other}, and this process has ${own}`, {
    hint: "install the same version on both sides",
  });
}

function parseFrame(bytes: Buffer, head: number): Frame | undefined {
  try {
    const value = JSON.parse(bytes.toString("utf8", 0, head)) as unknown;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return { head: value as Frame["head"], body: bytes.subarray(head) };
  } catch {
    return undefined;
  }
}
