/** @module The exports of the native core, and loading it. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ownPlace, requires } from "../../runtime/packages.ts";
import { readEnvironment, setVariables } from "../../util/settings.ts";
import { finalizesAtOnce, ownPlatform } from "./platform.ts";

/** Memory outside the JavaScript heap. Freed by `dispose` or by the garbage collector. */
export interface NativeBuffer {
  readonly bytes: number;
  /** @throws Error while a queued run uses the buffer, out of range, or after `dispose`. */
  write(src: Uint8Array, offset?: number): void;
  /** @throws Error while a queued run writes the buffer, out of range, or after `dispose`. */
  read(dst: Uint8Array, offset?: number): void;
  /** Harmless when repeated. A queued run keeps the memory until it is done. */
  dispose(): void;
}

/** A lowered program, parsed and verified. */
export interface NativeProgram {
  /** Bytes of the arena that a device needs for the program, including kernels' scratch memory. */
  readonly arenaBytes: number;
  /** Its number for `runHandles`. */
  readonly number: number;
}

/** One device: a thread with a queue, its helpers, and an arena as large as the largest program it has run. */
export interface NativeDevice {
  /** Its number for `runHandles`; null once closed. */
  readonly number: number | null;
  run(program: NativeProgram, args: readonly NativeBuffer[]): Promise<void>;
  /** Blocks until everything queued before and this run are done. */
  runSync(program: NativeProgram, args: readonly NativeBuffer[]): void;
  /** Blocks until everything queued is done. Gives the runs that failed since the last call, by their order from 0. */
  sync(): { run: number; fault: string }[];
  /** Ends the running program after its current step (a wait in a collective at once) and refuses all later ones. */
  abort(reason: string): void;
  /**
   * Like `run`, and gives times: the run's start in microseconds since the epoch, and its length; then for each step, at any depth and
   * in order, its first start, its total time and how often it ran. Times are in nanoseconds.
   */
  profile(program: NativeProgram, args: readonly NativeBuffer[]): Promise<Float64Array>;
  /** The peak operations and bytes per second of all threads. Blocks for about a tenth of a second. */
  limits(): { flops: number; bytes: number };
  /** Blocks until everything queued is done, then ends the threads. Harmless when repeated. */
  close(): void;
}

/** Members of a mesh axis. Calls of all members must come in the same order. */
export interface NativeGroup {
  readonly size: number;
  readonly index: number;
  barrier(label?: string): Promise<void>;
  /** The bytes of the member at position `root`; all lengths are equal. */
  broadcast(bytes: Uint8Array, root: number, label?: string): Promise<Uint8Array>;
  /** The bytes of all members, one after another; all lengths are equal. */
  allGather(bytes: Uint8Array, label?: string): Promise<Uint8Array>;
}

/** This rank's membership among ranks that run collectives together. */
export interface NativeWorld {
  readonly rank: number;
  readonly size: number;
  readonly failed: boolean;
  /** Why there is no flight recorder although it was requested, or null. */
  readonly warning: string | null;
  /** Why ranks of this host cannot use shared memory, or null. */
  readonly fallback: string | null;
  /** `ranks` are in the order of the blocks, and must contain this rank. */
  group(ranks: readonly number[], name: string): NativeGroup;
  abort(reason: string): void;
  /** Records the training step in the flight recorder. */
  setStep(step: number): void;
  /** Harmless when repeated. */
  close(): void;
}

/** A client of the key-value store. Times are in seconds. */
export interface NativeStore {
  set(key: string, value: string): Promise<void>;
  /** Waits for the key; `waitingFor` names in the error who should have set the key. */
  get(key: string, timeout: number, waitingFor?: string): Promise<string>;
  tryGet(key: string): Promise<string | null>;
  /** Adds to a counter; resolves to its new value. */
  add(key: string, delta: number): Promise<number>;
  /** `expected` null: absent. `current` is the actual value, if any. */
  compareAndSet(key: string, expected: string | null, value: string): Promise<{ swapped: boolean; current?: string }>;
  /** Closes the connections that no call uses. */
  rest(): void;
}

export interface NativeStoreServer {
  /** Listens (port 0: any free one); resolves to the port. */
  start(host: string, port: number, secret: string, runId: string): Promise<number>;
  /** Number of its connections. */
  readonly connections: number;
  stop(): void;
}

export interface NativeWorldOptions {
  runId: string;
  rank: number;
  size: number;
  /** Where the store listens. */
  host: string;
  port: number;
  secret: string;
  /** Membership epoch: a re-formed world takes a new one. */
  epoch?: number;
  /** Tells apart worlds of one run. */
  name?: string;
  /** Addresses to listen on; loopback if absent. */
  bind?: readonly string[];
  /** The first and the last port to listen on; any free one if absent. */
  ports?: readonly [first: number, last: number];
  /** Seconds. */
  timeout?: number;
  /** File of the flight recorder. */
  flight?: string;
  /** The transport; `auto` if absent. */
  transport?: "auto" | "tcp" | "shared" | "mpi" | "checked";
  /** The path of the MPI library; the first that is found if absent. */
  mpi?: string;
}

/** A collective in the record of a rank's flight recorder. */
export interface NativeFlightItem {
  /** Identity of the group, the same on all its ranks. */
  group: string;
  /** Number of the collective in its group. */
  sequence: number;
  step: number;
  description: string;
  /** Milliseconds since the Unix epoch. */
  started: number;
  /** The same; absent while the collective runs. */
  finished?: number;
  failed: boolean;
}

/** The record of a rank's flight recorder. */
export interface NativeFlight {
  rank: number;
  size: number;
  step: number;
  current?: { step: number; description: string };
  /** The last collectives, oldest first. */
  entries: NativeFlightItem[];
}

/**
 * The exports of the native core. It throws and rejects with `Error`s; the message of an error of a run, or of communication
 * with other ranks, is a record in JSON: see `error.ts`.
 */
export interface NativeBinding {
  info(): { version: string; isa: string; cores: number; cpu: string; features: string[] };
  memory(): { liveBuffers: number; liveBytes: number; peakBytes: number };
  /** Copies rows of `src`, in the order of `rows`, to `dst`; off the JavaScript thread. */
  gatherRows(
    src: NativeBuffer,
    rowBytes: number,
    rows: Int32Array,
    dst: NativeBuffer,
    dstOffset: number,
  ): Promise<void>;
  /**
   * Reads chunks of a file into `target` and compares their sums, off the JavaScript thread. `chunks` has the offset, the bytes and the number of
   * runs of each chunk, `runs` the place in the chunk, the place in the target and the bytes of each run, `expected` the SHA-256 of each chunk, or
   * the CRC32C of each, little-endian. Resolves to -1, or to the first chunk with another sum, whose bytes may be in the target.
   */
  readVerified(
    path: string,
    chunks: Float64Array,
    runs: Float64Array,
    expected: Uint8Array,
    target: NativeBuffer | Uint8Array,
  ): Promise<number>;
  /**
   * SHA-256 and CRC32C (little-endian) of each chunk of some arrays, 36 bytes each, off the JavaScript thread; an array without bytes is one chunk. The
   * arrays must not change meanwhile.
   */
  sumsOf(arrays: readonly Uint8Array[], chunk: number): Promise<Uint8Array>;
  readFlight(path: string): NativeFlight;
  /** Kills this process `grace` seconds after its parent `parent` has ended, even if it is busy. */
  endWithParent(parent: number, grace: number): void;
  /** Makes a buffer, and `owner` keep it alive until `release`; gives its handle. */
  allocate(owner: object, bytes: number): number;
  /** The same for a part of a buffer. The memory is freed when all handles are. */
  share(owner: object, handle: number, offset: number, bytes: number): number;
  /** Frees a buffer before its owner is collected. A queued run keeps the memory until it is done. Harmless when repeated. */
  release(handle: number): void;
  /** @throws Error while a queued run writes the buffer, or after `release`. */
  copyOut(handle: number, target: Uint8Array): void;
  /** The array from which `runHandles` takes handles: the first that was given, as copies of the package share the core. */
  shareNumbers(numbers: Uint32Array): Uint32Array;
  /** Like `runSync` on the first `count` handles, unless the device is busy or closed: then it does nothing and gives 0. */
  runHandles(device: number, program: number, count: number): number;
  /** Tells the garbage collector how many bytes handles own. */
  tellCollector(): void;
  readonly NativeBuffer: {
    new (bytes: number): NativeBuffer;
    /** The buffer of a handle, which lives as long as either. */
    ofHandle(handle: number): NativeBuffer;
  };
  /** @throws Error naming the step, its kernel and what is wrong. */
  readonly NativeProgram: {
    new (json: string): NativeProgram;
    /** The memory accesses of a program's steps, one line each: `name role space low high`, in bytes. */
    accesses(json: string): string[];
  };
  /** `groups`: one per mesh axis; without them every axis has one member. */
  readonly NativeDevice: new (
    options: { threads: number; coords?: number[]; isa?: string },
    groups?: readonly NativeGroup[],
  ) => NativeDevice;
  readonly NativeWorld: {
    connect(options: NativeWorldOptions): Promise<NativeWorld>;
    /** All ranks of a world inside this process. */
    inProcess(size: number): NativeWorld[];
  };
  readonly NativeStore: {
    connect(options: {
      host: string;
      port: number;
      secret: string;
      runId: string;
      timeout: number;
    }): Promise<NativeStore>;
  };
  readonly StoreServer: new () => NativeStoreServer;
}

let loaded: NativeBinding | { error: string } | undefined;

/** Loads the native core once, or gives the reason why it does not load, such as `HEDDLE_NATIVE=off`. */
export function loadNative(): NativeBinding | { error: string } {
  loaded ??= load();
  return loaded;
}

function load(): NativeBinding | { error: string } {
  const { native, finalize } = readEnvironment();
  if (native === "off") return { error: "HEDDLE_NATIVE=off" };
  if (finalize === undefined && !finalizesAtOnce(process.versions.node)) setVariables({ HEDDLE_FINALIZE: "late" });
  const target = ownPlatform();
  const tried = new Set<string>();
  for (const require of requires()) {
    for (const specifier of [`heddle-${target}`, inRepository(target)]) {
      if (specifier === undefined) continue;
      try {
        return require(specifier) as NativeBinding;
      } catch (error) {
        const missing = (error as { code?: unknown }).code === "MODULE_NOT_FOUND";
        tried.add(`${specifier}: ${missing ? "not installed" : (error as Error).message}`);
      }
    }
  }
  return { error: [...tried].join("; ") };
}

/** The file that `native/build.mjs` writes, if this is a checkout. */
function inRepository(target: string): string | undefined {
  if (ownPlace === undefined) return undefined;
  let folder = dirname(fileURLToPath(ownPlace));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
  return join(folder, "native", "npm", target, `heddle.${target}.node`);
}
