/**
 * @module S3 and object stores that speak its protocol as places for checkpoints, `s3://bucket/runs/1`. AWS's client is loaded when such an
 * address is used; region, endpoint and credentials are those of AWS's own variables and files.
 */
import { createHash } from "node:crypto";
import type { S3Client } from "@aws-sdk/client-s3";
import { s3Options } from "../data/sources/s3.ts";
import type { CommitContent } from "../io/commit.ts";
import { requires } from "../runtime/packages.ts";
import { HeddleError } from "../util/errors.ts";
import type { Storage, StorageDriver, WriteOptions } from "./storage.ts";

type Library = typeof import("@aws-sdk/client-s3");

const install = "npm install @aws-sdk/client-s3@3.1175.0";

/** Bytes of one part of an upload; S3 takes at most 10,000 parts of at least 5 MiB. */
const smallestPart = 8 * 2 ** 20;
const mostParts = 10_000;

/** The client, as users have installed it: bundlers do not see its name, and put no copy of it into every program. */
function library(): Library {
  for (const load of requires()) {
    try {
      return load("@aws-sdk/client-s3") as Library;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new HeddleError("file", "there is no @aws-sdk/client-s3 here, which s3:// addresses need", { hint: install });
}

/** The driver of `s3://` addresses. */
export const s3Driver: StorageDriver = {
  scheme: "s3",
  open: async (address) => {
    const [, bucket = "", prefix = ""] = /^s3:\/\/([a-z0-9][a-z0-9.-]+)(?:\/(.*))?$/.exec(address) ?? [];
    if (bucket === "" || /(^|\/)\.{0,2}(\/|$)/.test(prefix === "" ? "x" : prefix))
      throw new HeddleError("option", `"${address}" is not an address of S3`, { hint: "write s3://bucket/folder" });
    const aws = library();
    const client = new aws.S3Client(s3Options());
    return new S3Storage(aws, client, bucket, prefix);
  },
};

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("base64");

/** A folder in a bucket. */
class S3Storage implements Storage {
  readonly place: string;
  private readonly aws: Library;
  private readonly client: S3Client;
  private readonly bucket: string;
  private readonly prefix: string;

  constructor(aws: Library, client: S3Client, bucket: string, prefix: string) {
    this.aws = aws;
    this.client = client;
    this.bucket = bucket;
    this.prefix = prefix === "" ? "" : `${prefix}/`;
    this.place = `s3://${bucket}${prefix === "" ? "" : `/${prefix}`}`;
  }

  private at(name: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.bucket, Key: `${this.prefix}${name}` };
  }

  /** Throws an error of the store in words. */
  private failed(what: string, name: string, error: unknown): never {
    const {
      name: kind,
      message,
      $metadata,
    } = (error ?? {}) as Error & {
      readonly $metadata?: { readonly httpStatusCode?: number };
    };
    if (error instanceof HeddleError || kind === "AbortError") throw error;
    const place = name === "" ? this.place : `${this.place}/${name}`;
    const missing = $metadata?.httpStatusCode === 404 && kind !== "NoSuchBucket";
    const reason = missing ? "no such file" : `${kind}${message === kind ? "" : `: ${message}`}`;
    throw new HeddleError("file", `cannot ${what} ${place}: ${reason}`, {
      cause: missing ? Object.assign(error as Error, { code: "ENOENT" }) : error,
    });
  }

  async list(folder: string): Promise<string[]> {
    const prefix = `${this.prefix}${folder === "" ? "" : `${folder}/`}`;
    const names: string[] = [];
    let token: string | undefined;
    do {
      const page = await this.client
        .send(
          new this.aws.ListObjectsV2Command({
            Bucket: this.bucket,
            Prefix: prefix,
            Delimiter: "/",
            ...(token === undefined ? {} : { ContinuationToken: token }),
          }),
        )
        .catch((error: unknown) => this.failed("list", folder, error));
      for (const { Prefix = "" } of page.CommonPrefixes ?? []) names.push(Prefix.slice(prefix.length, -1));
      for (const { Key = "" } of page.Contents ?? []) names.push(Key.slice(prefix.length));
      token = page.NextContinuationToken;
    } while (token !== undefined);
    return names.filter((name) => name !== "");
  }

  async open(name: string) {
    const head = await this.client
      .send(new this.aws.HeadObjectCommand(this.at(name)))
      .catch((error: unknown) => this.failed("read", name, error));
    const { ContentLength: bytes = 0, ETag } = head;
    return {
      bytes,
      read: async (offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> => {
        if (length === 0) return new Uint8Array();
        const range = `bytes=${offset}-${offset + length - 1}`;
        // A file that was replaced meanwhile is another one.
        const command = new this.aws.GetObjectCommand({
          ...this.at(name),
          Range: range,
          ...(ETag && { IfMatch: ETag }),
        });
        const { Body } = await this.client
          .send(command, signal === undefined ? {} : { abortSignal: signal })
          .catch((error: unknown) => this.failed("read", name, error));
        // A copy with memory of its own: values are viewed in it.
        const read = Uint8Array.from((await Body?.transformToByteArray()) ?? []);
        if (read.length === length) return read;
        throw new HeddleError("format", `${this.place}/${name} ends before byte ${offset + length}`);
      },
      close: async () => undefined,
    };
  }

  async write(name: string, content: CommitContent, { signal }: WriteOptions = {}): Promise<void> {
    const options = signal === undefined ? {} : { abortSignal: signal };
    signal?.throwIfAborted();
    const part = Math.max(smallestPart, Math.ceil(content.bytes / mostParts));
    if (content.bytes > part) return this.writeParts(name, content, part, options);
    const [bytes = new Uint8Array()] = [...patched(piecesOf(content, part), content)];
    await this.client
      .send(new this.aws.PutObjectCommand({ ...this.at(name), Body: bytes, ChecksumSHA256: sha256(bytes) }), options)
      .catch((error: unknown) => this.failed("write", name, error));
  }

  /** Uploads in parts, each with its checksum; the object appears when all are there. */
  private async writeParts(name: string, content: CommitContent, part: number, options: { abortSignal?: AbortSignal }) {
    const { aws, client } = this;
    const at = this.at(name);
    const { UploadId } = await client
      .send(new aws.CreateMultipartUploadCommand({ ...at, ChecksumAlgorithm: "SHA256" }), options)
      .catch((error: unknown) => this.failed("write", name, error));
    const upload = { ...at, UploadId };
    try {
      const Parts: { ETag: string | undefined; PartNumber: number; ChecksumSHA256: string }[] = [];
      const total = Math.ceil(content.bytes / part);
      let index = 0;
      for (const bytes of patched(piecesOf(content, part), content)) {
        // A patch makes the first piece come last.
        const PartNumber = content.patch === undefined ? index + 1 : index === total - 1 ? 1 : index + 2;
        index++;
        const ChecksumSHA256 = sha256(bytes);
        const { ETag } = await client.send(
          new aws.UploadPartCommand({ ...upload, PartNumber, Body: bytes, ChecksumSHA256 }),
          options,
        );
        Parts.push({ ETag, PartNumber, ChecksumSHA256 });
      }
      Parts.sort((left, right) => left.PartNumber - right.PartNumber);
      await client.send(new aws.CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } }), options);
    } catch (error) {
      await client.send(new aws.AbortMultipartUploadCommand(upload)).catch(() => undefined);
      this.failed("write", name, error);
    }
  }

  async create(name: string, bytes: Uint8Array): Promise<boolean> {
    try {
      const condition = { Body: bytes, IfNoneMatch: "*", ChecksumSHA256: sha256(bytes) };
      await this.client.send(new this.aws.PutObjectCommand({ ...this.at(name), ...condition }));
      return true;
    } catch (error) {
      const status = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
      // 409: another conditional write of this name was under way.
      if (status === 412 || status === 409) return false;
      return this.failed("write", name, error);
    }
  }

  async remove(name: string): Promise<void> {
    for (const inside of await this.list(name)) await this.remove(`${name}/${inside}`);
    await this.client
      .send(new this.aws.DeleteObjectCommand(this.at(name)))
      .catch((error: unknown) => this.failed("remove", name, error));
  }

  async age(name: string): Promise<number | undefined> {
    try {
      const { LastModified } = await this.client.send(new this.aws.HeadObjectCommand(this.at(name)));
      return LastModified === undefined ? undefined : Date.now() - LastModified.getTime();
    } catch (error) {
      if ((error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode === 404) return undefined;
      return this.failed("read", name, error);
    }
  }
}

/** The bytes of a content in pieces of this size, the last one shorter. */
function* piecesOf({ bytes, chunks }: CommitContent, size: number): Generator<Uint8Array> {
  let [left, filled] = [bytes, 0];
  let piece = new Uint8Array(Math.min(size, left));
  for (const chunk of chunks) {
    for (let done = 0; done < chunk.length; ) {
      const taken = chunk.subarray(done, done + piece.length - filled);
      piece.set(taken, filled);
      filled += taken.length;
      done += taken.length;
      if (filled < piece.length) continue;
      yield piece;
      left -= filled;
      filled = 0;
      piece = new Uint8Array(Math.min(size, left));
    }
  }
  if (bytes === 0) yield piece;
}

/** The pieces, with the first one last if it is written over: what is written is known when all else has been taken. */
function* patched(pieces: Generator<Uint8Array>, { patch }: CommitContent): Generator<Uint8Array> {
  if (patch === undefined) return yield* pieces;
  const { value: first } = pieces.next();
  yield* pieces;
  const { position, bytes } = patch();
  if (first === undefined || position + bytes.length > first.length)
    throw new HeddleError("format", `the header of a file has more than ${smallestPart} bytes`);
  first.set(bytes, position);
  yield first;
}
