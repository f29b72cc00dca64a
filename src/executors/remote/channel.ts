/**
 * @module A link between a driver and a worker: mutual proof of a shared secret, then framed messages.
 *
 * The hello has fixed sizes, so that nothing is parsed before both sides are known: the driver sends a magic number and 32
 * random bytes; the worker answers with 32 bytes of its own and HMAC-SHA256(secret, "worker" and both); the driver answers with the
 * HMAC for "driver". A frame is the length of its head and of its body (u32 each, little-endian), the head as JSON, and the body,
 * raw bytes.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Socket } from "node:net";
import { HeddleError } from "../../util/errors.ts";

/** A message: a head, and bytes. */
export interface Frame {
  readonly head: { readonly [key: string]: unknown };
  readonly body: Uint8Array;
}

/** An authenticated link. */
export interface Channel {
  send(head: Frame["head"], body?: Uint8Array): void;
  /** Called for each message, in order. */
  onFrame(take: (frame: Frame) => void): void;
  /** Called once, when the link has ended; with the reason unless this side closed it on purpose. */
  onEnd(take: (error: HeddleError | undefined) => void): void;
  /** Sets whether the link keeps this process alive; at first it does. */
  hold(alive: boolean): void;
  close(reason?: string): void;
}

const magic = Buffer.from("heddle\0\x01");
const nonceBytes = 32;
const macBytes = 32;
// A program is far smaller; a tensor of a checkpoint may come near.
const maxHead = 2 ** 28;
const maxBody = 2 ** 32 - 1;
/** Time for sent data to go out before a link is closed on purpose. */
const drainMilliseconds = 2000;
const empty = new Uint8Array(0);

const prove = (secret: string, who: "driver" | "worker", driver: Uint8Array, worker: Uint8Array): Buffer =>
  createHmac("sha256", secret).update(who).update(driver).update(worker).digest();

/** Reads exact numbers of bytes from a socket; further bytes wait. */
class Reader {
  private readonly parts: Buffer[] = [];
  private available = 0;
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

  private pull(bytes: number): Buffer {
    const result = Buffer.alloc(bytes);
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
}

/**
 * Makes a channel from a connected socket.
 *
 * @throws HeddleError `link` when the other side does not prove that it knows the secret, or not in time.
 */
export function greet(socket: Socket, side: "driver" | "worker", options: HelloOptions): Promise<Channel> {
  const { secret, timeout, peer } = options;
  const reader = new Reader();
  socket.setNoDelay(true);
  // So that the system notices a machine that vanished silently.
  socket.setKeepAlive(true, 10_000);
  return new Promise((resolve, reject) => {
    const fail = (problem: string): void => {
      clearTimeout(late);
      socket.destroy();
      reject(new HeddleError("link", `${peer}: ${problem}`));
    };
    const late = setTimeout(() => fail("no hello in time"), timeout);
    const done = (): void => {
      clearTimeout(late);
      socket.off("error", onError);
      socket.off("close", onClose);
      resolve(new SocketChannel(socket, reader, peer));
    };
    const onError = (error: Error): void => fail(error.message);
    const onClose = (): void => fail("ended the hello; are the secrets the same?");
    socket.on("error", onError);
    socket.on("close", onClose);
    socket.on("data", (part: Buffer) => reader.push(part));
    const ownNonce = randomBytes(nonceBytes);
    const checked = (mac: Buffer, expected: Buffer, onProved: () => void): void =>
      timingSafeEqual(mac, expected) ? onProved() : fail("does not know the secret of this run");
    if (side === "driver") {
      socket.write(Buffer.concat([magic, ownNonce]));
      reader.want(nonceBytes + macBytes, (answer) => {
        const workerNonce = answer.subarray(0, nonceBytes);
        checked(answer.subarray(nonceBytes), prove(secret, "worker", ownNonce, workerNonce), () => {
          socket.write(prove(secret, "driver", ownNonce, workerNonce));
          done();
        });
      });
    } else {
      reader.want(magic.length + nonceBytes, (first) => {
        if (!first.subarray(0, magic.length).equals(magic)) return fail("does not speak this protocol");
        const driverNonce = first.subarray(magic.length);
        socket.write(Buffer.concat([ownNonce, prove(secret, "worker", driverNonce, ownNonce)]));
        reader.want(macBytes, (mac) => checked(mac, prove(secret, "driver", driverNonce, ownNonce), done));
      });
    }
  });
}

class SocketChannel implements Channel {
  private readonly socket: Socket;
  private readonly peer: string;
  private take: ((frame: Frame) => void) | undefined;
  private readonly waiting: Frame[] = [];
  private ended: { error: HeddleError | undefined } | undefined;
  private readonly enders: ((error: HeddleError | undefined) => void)[] = [];

  constructor(socket: Socket, reader: Reader, peer: string) {
    this.socket = socket;
    this.peer = peer;
    socket.on("error", (error) => this.finish(`${peer}: ${error.message}`));
    socket.on("close", () => this.finish(`${peer} has ended the link`));
    this.read(reader);
  }

  private read(reader: Reader): void {
    reader.want(8, (lengths) => {
      const [head, body] = [lengths.readUInt32LE(0), lengths.readUInt32LE(4)];
      if (head > maxHead) return this.refuse(`a head of ${head} bytes`);
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
  private finish(problem: string | undefined): void {
    if (this.ended !== undefined) return;
    this.ended = { error: problem === undefined ? undefined : new HeddleError("link", problem) };
    if (problem === undefined) {
      this.socket.end();
      this.socket.setTimeout(drainMilliseconds, () => this.socket.destroy());
    } else {
      this.socket.destroy();
    }
    for (const take of this.enders) take(this.ended.error);
  }

  send(head: Frame["head"], body: Uint8Array = empty): void {
    if (this.ended !== undefined) return;
    const text = Buffer.from(JSON.stringify(head));
    if (body.length > maxBody) throw new HeddleError("link", `a message of ${body.length} bytes is too large`);
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32LE(text.length, 0);
    lengths.writeUInt32LE(body.length, 4);
    this.socket.cork();
    this.socket.write(lengths);
    this.socket.write(text);
    if (body.length > 0) this.socket.write(body);
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
    if (alive) this.socket.ref();
    else this.socket.unref();
  }

  close(reason?: string): void {
    this.finish(reason);
  }
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
