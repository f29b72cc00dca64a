/**
 * @module Records of a link: a stream of bytes in pieces that are encrypted and authenticated.
 *
 * Each direction has a key of its own, and counts its records: a record that was altered, left out, repeated or moved does not open.
 * A record is its length (u32, little-endian), so many bytes of AES-256-GCM, and the tag of 16 bytes, which covers the length, too.
 */
import { createCipheriv, createDecipheriv, hkdfSync, timingSafeEqual } from "node:crypto";
import { HeddleError } from "../../../util/errors.ts";

export const nonceBytes = 32;
export const proofBytes = 32;
/** Bytes of the shortest secret: a shorter one could be guessed by whoever gets a proof. */
const leastSecret = 16;
/** Plain bytes of the longest record: the most that is held before it is known who sent it. */
const mostPlain = 2 ** 16;
const tagBytes = 16;
const lengthBytes = 4;
const algorithm = "aes-256-gcm";

export type Side = "driver" | "worker";

/** @throws HeddleError `option` for a secret that can be guessed. */
export function checkSecret(secret: string): void {
  const bytes = Buffer.byteLength(secret);
  if (bytes >= leastSecret) return;
  throw new HeddleError("option", `the secret of drivers and workers has ${bytes} bytes, of at least ${leastSecret}`, {
    hint: "make one that nobody guesses, such as openssl rand -hex 32 gives",
  });
}

/** The keys of one link, which both sides derive from the secret and from the random bytes of both. */
export class LinkKeys {
  private readonly secret: string;
  private readonly salt: Buffer;

  constructor(secret: string, driverNonce: Uint8Array, workerNonce: Uint8Array) {
    this.secret = secret;
    this.salt = Buffer.concat([driverNonce, workerNonce]);
  }

  /** What only a side that knows the secret can send. */
  proof(side: Side): Buffer {
    return this.derived(`heddle link 2: ${side} proves`);
  }

  proves(side: Side, proof: Buffer): boolean {
    return timingSafeEqual(proof, this.proof(side));
  }

  /** Seals what a side sends. */
  sealer(side: Side): Sealer {
    return new Sealer(this.derived(`heddle link 2: ${side} sends`));
  }

  /** Opens what a side sends. */
  opener(side: Side): Opener {
    return new Opener(this.derived(`heddle link 2: ${side} sends`));
  }

  private derived(what: string): Buffer {
    return Buffer.from(hkdfSync("sha256", this.secret, this.salt, what, 32));
  }
}

/** The nonces of a direction: the numbers of its records. */
class Counter {
  private readonly bytes = Buffer.alloc(12);
  private count = 0n;

  next(): Buffer {
    this.bytes.writeBigUInt64BE(this.count++, 4);
    return this.bytes;
  }
}

/** Makes records. */
export class Sealer {
  private readonly key: Buffer;
  private readonly counter = new Counter();

  constructor(key: Buffer) {
    this.key = key;
  }

  /** The records for some bytes, in pieces to write one after another. */
  *seal(plain: Uint8Array): Generator<Buffer> {
    for (let at = 0; at < plain.length; at += mostPlain) {
      const part = plain.subarray(at, at + mostPlain);
      const length = Buffer.alloc(lengthBytes);
      length.writeUInt32LE(part.length);
      const cipher = createCipheriv(algorithm, this.key, this.counter.next());
      cipher.setAAD(length);
      const sealed = cipher.update(part);
      cipher.final();
      yield length;
      yield sealed;
      yield cipher.getAuthTag();
    }
  }
}

/** Opens records. */
export class Opener {
  private readonly key: Buffer;
  private readonly counter = new Counter();

  constructor(key: Buffer) {
    this.key = key;
  }

  /** Reads records for ever: asks for exact numbers of bytes, and hands over what it opens; `refuse` ends it. */
  async read(
    bytes: (count: number) => Promise<Buffer>,
    take: (plain: Buffer) => void,
    refuse: (what: string) => void,
  ): Promise<void> {
    for (;;) {
      const length = await bytes(lengthBytes);
      const size = length.readUInt32LE();
      if (size === 0 || size > mostPlain) return refuse(`a record of ${size} bytes`);
      const record = await bytes(size + tagBytes);
      const decipher = createDecipheriv(algorithm, this.key, this.counter.next());
      decipher.setAAD(length);
      decipher.setAuthTag(record.subarray(size));
      const plain = decipher.update(record.subarray(0, size));
      try {
        decipher.final();
      } catch {
        return refuse("a record that does not open: something between both sides has altered the link");
      }
      take(plain);
    }
  }
}
