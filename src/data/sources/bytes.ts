/** @module Bytes of files by name: local files, HTTP(S) and S3 by range requests, gzip and zstd, globs. */
import { createReadStream, existsSync, readdirSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import { Readable } from "node:stream";
import * as zlib from "node:zlib";
import { requires } from "../../runtime/packages.ts";
import { HeddleError } from "../../util/errors.ts";
import { shown } from "../../util/show.ts";
import { s3Options } from "./s3.ts";

/** A file that can be read from any place. */
export interface ByteFile {
  /** Its path or address. */
  readonly name: string;
  readonly size: number;
  /** Size and time: another text means another content. */
  readonly stamp: string;
  read(position: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** The bytes from a position on. */
  stream(position: number, signal?: AbortSignal): AsyncIterable<Uint8Array>;
}

const unreadable = (name: string, problem: string, cause?: unknown): HeddleError =>
  new HeddleError("file", `cannot read ${name}: ${problem}`, cause === undefined ? {} : { cause });

/** Bytes of one piece of a stream. */
const pieceBytes = 2 ** 20;

/** Opens a file of this machine, `http://`, `https://` or `s3://`. @throws HeddleError `file` */
export function openBytes(name: string): Promise<ByteFile> {
  if (/^https?:\/\//i.test(name)) return openHttp(name);
  if (/^s3:\/\//i.test(name)) return openS3(name);
  return openLocal(name);
}

async function openLocal(path: string): Promise<ByteFile> {
  const stats = (() => {
    try {
      return statSync(path);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      throw unreadable(resolve(path), code === "ENOENT" ? "no such file" : message, error);
    }
  })();
  if (!stats.isFile())
    throw unreadable(resolve(path), stats.isDirectory() ? "it is a folder" : "it is a pipe or a device");
  const { size, mtimeMs } = stats;
  return {
    name: path,
    size,
    stamp: `${size} ${mtimeMs}`,
    async read(position, length) {
      const handle = await open(path).catch((error: unknown) => {
        throw unreadable(resolve(path), (error as Error).message, error);
      });
      try {
        const bytes = new Uint8Array(Math.min(length, Math.max(0, size - position)));
        let filled = 0;
        while (filled < bytes.length) {
          const { bytesRead } = await handle.read(bytes, filled, bytes.length - filled, position + filled);
          if (bytesRead === 0) throw unreadable(resolve(path), "it became shorter while it was read");
          filled += bytesRead;
        }
        return bytes;
      } finally {
        await handle.close();
      }
    },
    stream: (position, signal) =>
      createReadStream(path, {
        start: position,
        highWaterMark: pieceBytes,
        ...(signal === undefined ? {} : { signal }),
      }),
  };
}

async function openHttp(url: string): Promise<ByteFile> {
  const ask = async (headers: { readonly [name: string]: string }, signal?: AbortSignal): Promise<Response> => {
    try {
      return await fetch(url, {
        headers: { "accept-encoding": "identity", ...headers },
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      signal?.throwIfAborted();
      const { cause } = error as { readonly cause?: Error };
      throw unreadable(url, cause?.message ?? (error as Error).message, error);
    }
  };
  // A range request tells the size, and whether the server takes ranges.
  const first = await ask({ range: "bytes=0-0" });
  await first.arrayBuffer();
  const total = /^bytes 0-0\/(\d+)$/.exec(first.headers.get("content-range") ?? "")?.[1];
  const isEmpty = first.status === 416;
  if (!first.ok && !isEmpty) throw unreadable(url, `the server answers with status ${first.status}`);
  if (!isEmpty && (first.status !== 206 || total === undefined))
    throw unreadable(url, "the server takes no range requests");
  const size = isEmpty ? 0 : Number(total);
  const part = async (from: number, to: number, signal?: AbortSignal): Promise<Response> => {
    const response = await ask({ range: `bytes=${from}-${to}` }, signal);
    if (response.status !== 206)
      throw unreadable(url, `the server answers a range request with status ${response.status}`);
    return response;
  };
  return {
    name: url,
    size,
    stamp: `${size} ${first.headers.get("etag") ?? first.headers.get("last-modified") ?? ""}`,
    async read(position, length) {
      if (length === 0 || position >= size) return new Uint8Array(0);
      const bytes = new Uint8Array(await (await part(position, Math.min(size, position + length) - 1)).arrayBuffer());
      if (bytes.length !== Math.min(length, size - position))
        throw unreadable(url, "the server sent another range than it was asked for");
      return bytes;
    },
    async *stream(position, signal) {
      if (position >= size) return;
      const { body } = await part(position, size - 1, signal);
      if (body !== null) yield* Readable.fromWeb(body as never) as AsyncIterable<Uint8Array>;
    },
  };
}

/** What is used of `@aws-sdk/client-s3`. */
interface S3 {
  readonly S3Client: new (options: object) => { send(command: unknown): Promise<S3Answer> };
  readonly HeadObjectCommand: new (input: object) => unknown;
  readonly GetObjectCommand: new (input: object) => unknown;
}
interface S3Answer {
  readonly ContentLength?: number;
  readonly ETag?: string;
  readonly Body?: AsyncIterable<Uint8Array> & { transformToByteArray(): Promise<Uint8Array> };
}

async function openS3(address: string): Promise<ByteFile> {
  const [, Bucket, Key] = /^s3:\/\/([^/]+)\/(.+)$/i.exec(address) ?? [];
  if (Key === undefined) throw unreadable(address, "it has no bucket and key, as in s3://bucket/folder/file.csv");
  const { S3Client, HeadObjectCommand, GetObjectCommand } = packageNamed<S3>("@aws-sdk/client-s3", `read ${address}`);
  const client = new S3Client({ followRegionRedirects: true, ...s3Options() });
  const send = async (command: unknown): Promise<S3Answer> => {
    try {
      return await client.send(command);
    } catch (error) {
      throw unreadable(address, (error as Error).message, error);
    }
  };
  const { ContentLength: size = 0, ETag = "" } = await send(new HeadObjectCommand({ Bucket, Key }));
  const get = (from: number, to: number): Promise<S3Answer> =>
    send(new GetObjectCommand({ Bucket, Key, Range: `bytes=${from}-${to}`, IfMatch: ETag }));
  return {
    name: address,
    size,
    stamp: `${size} ${ETag}`,
    async read(position, length) {
      if (length === 0 || position >= size) return new Uint8Array(0);
      const { Body } = await get(position, Math.min(size, position + length) - 1);
      return new Uint8Array((await Body?.transformToByteArray()) ?? []);
    },
    async *stream(position) {
      if (position < size) yield* (await get(position, size - 1)).Body ?? [];
    },
  };
}

/** A package that users install themselves. @throws HeddleError `file` that says how to install it */
export function packageNamed<Module>(name: string, purpose: string): Module {
  for (const require of requires()) {
    try {
      return require(name) as Module;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new HeddleError("file", `the package ${name} is needed to ${purpose}`, { hint: `npm install ${name}` });
}

/** The bytes of a file, inflated if they are gzip or zstd; undefined `size` of pieces: they are as they come. @throws HeddleError `format` for damaged data */
export async function* plainBytes(file: ByteFile, from = 0, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  const start = await file.read(0, 4);
  const kind =
    start[0] === 0x1f && start[1] === 0x8b
      ? "gzip"
      : start[0] === 0x28 && start[1] === 0xb5 && start[2] === 0x2f && start[3] === 0xfd
        ? "zstd"
        : undefined;
  if (kind === undefined) {
    yield* file.stream(from, signal);
    return;
  }
  let skip = from;
  for await (const piece of inflated(file, kind, signal)) {
    if (skip < piece.length) yield piece.subarray(skip);
    skip = Math.max(0, skip - piece.length);
  }
}

/** Whether a file is compressed: then there is no way to a place in it but from its start. */
export async function isCompressed(file: ByteFile): Promise<boolean> {
  const start = await file.read(0, 4);
  return (
    (start[0] === 0x1f && start[1] === 0x8b) ||
    (start[0] === 0x28 && start[1] === 0xb5 && start[2] === 0x2f && start[3] === 0xfd)
  );
}

interface FZstd {
  readonly Decompress: new (
    onData: (bytes: Uint8Array, last: boolean) => void,
  ) => { push(bytes: Uint8Array, last?: boolean): void };
}

async function* inflated(
  file: ByteFile,
  kind: "gzip" | "zstd",
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const damaged = (cause: unknown): HeddleError =>
    cause instanceof HeddleError
      ? cause
      : new HeddleError("format", `${file.name}: its ${kind} data is damaged (${(cause as Error).message})`, { cause });
  const native = (zlib as unknown as { createZstdDecompress?: (options: object) => zlib.Gunzip }).createZstdDecompress;
  if (kind === "gzip" || native !== undefined) {
    const inflater =
      kind === "gzip"
        ? zlib.createGunzip({ chunkSize: pieceBytes })
        : (native as NonNullable<typeof native>)({ chunkSize: pieceBytes });
    const source = Readable.from(file.stream(0, signal));
    source.on("error", (error) => inflater.destroy(error));
    source.pipe(inflater);
    try {
      for await (const piece of inflater) yield piece as Uint8Array;
    } catch (error) {
      signal?.throwIfAborted();
      throw damaged(error);
    } finally {
      source.destroy();
      inflater.destroy();
    }
    return;
  }
  const { Decompress } = packageNamed<FZstd>("fzstd", `read zstd on Node before 22.15, as in ${file.name}`);
  const ready: Uint8Array[] = [];
  const inflater = new Decompress((bytes) => ready.push(bytes));
  try {
    for await (const piece of file.stream(0, signal)) {
      inflater.push(new Uint8Array(piece));
      yield* ready.splice(0);
    }
    inflater.push(new Uint8Array(0), true);
  } catch (error) {
    throw damaged(error);
  }
  yield* ready.splice(0);
}

/** One or several files: paths, addresses, or patterns with `*`, `?` and `**`. */
export type Places = string | URL | readonly (string | URL)[];

/** The files of places, those of a pattern in the order of their names. @throws HeddleError `file` for a pattern without a file */
export function filesOf(what: string, places: Places): string[] {
  const list = (Array.isArray(places) ? places : [places]) as readonly (string | URL)[];
  if (list.length === 0) throw new HeddleError("argument", `${what}: takes a path, or a list of paths`);
  return list.flatMap((place) => {
    if (place instanceof URL) return [place.protocol === "file:" ? filePath(place) : place.href];
    if (typeof place !== "string" || place === "")
      throw new HeddleError("argument", `${what}: takes the path of a file, got ${shown(place)}`);
    if (!/[*?]/.test(place) || /^\w+:\/\//.test(place) || existsSync(place)) return [place];
    const found = globbed(place);
    if (found.length > 0) return found;
    throw new HeddleError("file", `${what}: no file has a name like ${place}`);
  });
}

/** The size of a file of this machine in a text that describes it; nothing for a file elsewhere, or none. */
export function sizeText(name: string): string {
  try {
    return /^\w+:\/\//.test(name) ? "" : ` ${statSync(name).size}`;
  } catch {
    return "";
  }
}

const filePath = (url: URL): string => decodeURIComponent(url.pathname).replace(/^\/(?=[A-Za-z]:)/, "");

/** Files that match a pattern: `*` and `?` within a name, `**` for any folders. */
function globbed(pattern: string): string[] {
  const parts = pattern.split(/[/\\]/);
  const first = parts.findIndex((part) => /[*?]/.test(part));
  const base = parts.slice(0, first).join("/") || (pattern.startsWith("/") ? "/" : ".");
  const source = parts
    .slice(first)
    .map((part) =>
      part === "**"
        ? "(?:[^/]+/)*"
        : `${part
            .replace(/[.+^${}()|[\]\\]/g, "\\$&")
            .replaceAll("*", "[^/]*")
            .replaceAll("?", "[^/]")}/`,
    )
    .join("")
    .replace(/\/$/, "");
  const expression = new RegExp(`^${source}$`);
  if (!existsSync(base)) return [];
  return readdirSync(base, { recursive: parts.length - first > 1 || source.includes("(?:"), encoding: "utf8" })
    .filter((name) => expression.test(name.split(sep).join("/")))
    .map((name) => join(base, name))
    .filter((path) => statSync(path).isFile())
    .sort();
}
