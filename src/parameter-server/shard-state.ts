/**
 * @module The values of a shard on a server, its update rule as a compiled program whose state is donated, and the pushes that wait for
 * the log to name them. Everything runs in the order of the calls.
 */
import "../functions/composites/index.ts";
import type { TypedArray } from "../ir/dtype.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, sizeOf, type TensorType } from "../ir/shape.ts";
import { parseProgram, verifyProgram } from "../program/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer, Executable } from "../runtime/executor.ts";
import { concatenated } from "../util/bytes.ts";
import { HeddleError } from "../util/errors.ts";
import type { Entry, Part, PushRequest, RunningMean } from "./requests.ts";
import { bytesOfPieces, type Shard } from "./shards.ts";

/** A push that the log has not named yet. */
interface Kept {
  readonly incarnation: number;
  readonly rates: readonly number[];
  readonly grads: Uint8Array;
}

/** Sums of a running mean: of the pushes so far, and of what the steps have applied. */
interface Sums {
  readonly sum: Uint8Array;
  readonly applied: Uint8Array;
}

/** What is known of pushes, as text; the bytes follow each other. */
interface Known {
  readonly version: number;
  readonly steps: number;
  readonly settled: readonly (readonly [worker: number, clock: number])[];
  readonly pushes: readonly (readonly [worker: number, clock: number, Omit<Kept, "grads">])[];
  readonly means: readonly number[];
}

/** One shard on one server. */
export class ShardState {
  readonly spec: string;
  /** Bytes of the gradients of a push, and of the parameters. */
  readonly paramBytes: number;
  /** Bytes of parameters and states. */
  readonly stateBytes: number;
  /** Entries of the log that are applied. */
  version = 0;
  /** Steps of the update rule. */
  steps = 0;
  private readonly runtime: Runtime;
  private readonly shard: Shard;
  private readonly program: Executable | undefined;
  private readonly pushes = new Map<number, Map<number, Kept>>();
  /** For each worker the first clock that the log has not named. */
  private readonly settled = new Map<number, number>();
  private readonly means = new Map<number, Sums>();
  private params: DeviceBuffer[] | undefined;
  private slots: DeviceBuffer[] = [];
  private grads: DeviceBuffer[] = [];
  private pulled: Promise<Uint8Array> | undefined;
  private tail: Promise<unknown> = Promise.resolve();
  private waiting: { readonly version: number; readonly resolve: () => void }[] = [];

  /** @throws HeddleError `parse` or `verify` for a malformed program, `link` for a program of other values */
  constructor(spec: string, runtime: Runtime) {
    this.spec = spec;
    this.runtime = runtime;
    this.shard = parseShard(spec);
    this.paramBytes = bytesOfPieces(this.shard.params);
    this.stateBytes = this.paramBytes + bytesOfPieces(this.shard.slots);
    this.program = this.shard.params.length === 0 ? undefined : this.compiled();
  }

  /** Whether the shard has values. */
  get isLoaded(): boolean {
    return this.params !== undefined;
  }

  /** The number of clocks of a worker that the log has named. */
  settledOf(worker: number): number {
    return this.settled.get(worker) ?? 0;
  }

  /** Takes first values: parameters, then states. @throws HeddleError `link` for another number of bytes */
  load(bytes: Uint8Array, steps: number): void {
    if (this.isLoaded) return;
    this.checkBytes("first values", bytes, this.stateBytes);
    const { params, slots } = this.shard;
    const buffers = this.split(
      bytes,
      [...params, ...slots].map(({ type }) => type),
    );
    this.params = buffers.slice(0, params.length);
    this.slots = buffers.slice(params.length);
    this.steps = steps;
    this.wake();
  }

  /** Keeps a push until the log names it. One that is there already, or was named, does nothing. @throws HeddleError `link` */
  push({ client, incarnation, clock, rates }: PushRequest, grads: Uint8Array): void {
    this.checkBytes("gradients", grads, this.paramBytes);
    if (rates.length !== this.shard.rates)
      throw new HeddleError("link", `a push with ${rates.length} learning rates for ${this.shard.rates}`);
    if (clock < this.settledOf(client)) return;
    const own = this.pushes.get(client) ?? new Map<number, Kept>();
    this.pushes.set(client, own);
    const there = own.get(clock);
    if (there !== undefined && there.incarnation >= incarnation) return;
    own.set(clock, { incarnation, rates, grads });
  }

  /** Applies entries of the log; those that are applied already are left out. Resolves with the new version. */
  apply(from: number, entries: readonly Entry[]): Promise<number> {
    return this.inOrder(async () => {
      await this.reached(0);
      // A copy that began anew may be behind: the sender goes back to the version that it is told.
      if (from <= this.version)
        for (const entry of entries.slice(this.version - from)) {
          await this.one(entry);
          this.version++;
        }
      this.wake();
      return this.version;
    });
  }

  /** The parameters, once so many entries are applied, and the number of entries that are. */
  async pull(version: number): Promise<{ readonly bytes: Uint8Array; readonly version: number }> {
    await this.reached(version);
    return this.inOrder(async () => {
      this.pulled ??= this.joined(this.params as DeviceBuffer[]);
      return { bytes: await this.pulled, version: this.version };
    });
  }

  /** Parameters and states, once so many entries are applied; for a copy with what is known of pushes before them. */
  async snapshot(version: number, copy: boolean): Promise<{ readonly known: string; readonly bytes: Uint8Array }> {
    await this.reached(version);
    return this.inOrder(async () => {
      const values = await this.joined([...(this.params as DeviceBuffer[]), ...this.slots]);
      const pushes = [...this.pushes].flatMap(([worker, own]) =>
        [...own].map(([clock, { grads, ...more }]) => ({ head: [worker, clock, more] as const, grads })),
      );
      const known: Known = {
        version: this.version,
        steps: this.steps,
        settled: [...this.settled],
        pushes: copy ? pushes.map(({ head }) => head) : [],
        means: copy ? [...this.means.keys()] : [],
      };
      const more = copy
        ? [
            ...pushes.map(({ grads }) => grads),
            ...[...this.means.values()].flatMap(({ sum, applied }) => [sum, applied]),
          ]
        : [];
      return { known: JSON.stringify(known), bytes: concatenated([values, ...more]) };
    });
  }

  /** Becomes what another server's snapshot with `copy` has. */
  restore(text: string, bytes: Uint8Array): void {
    const known = JSON.parse(text) as Known;
    const { paramBytes, stateBytes } = this;
    this.checkBytes("a copy", bytes, stateBytes + paramBytes * (known.pushes.length + 2 * known.means.length));
    const at = (index: number): Uint8Array =>
      bytes.slice(stateBytes + index * paramBytes, stateBytes + (index + 1) * paramBytes);
    this.load(bytes.subarray(0, stateBytes), known.steps);
    this.version = known.version;
    for (const [worker, clock] of known.settled) this.settled.set(worker, clock);
    for (const [index, [worker, clock, more]] of known.pushes.entries()) {
      const own = this.pushes.get(worker) ?? new Map<number, Kept>();
      this.pushes.set(worker, own.set(clock, { ...more, grads: at(index) }));
    }
    for (const [index, group] of known.means.entries())
      this.means.set(group, {
        sum: at(known.pushes.length + 2 * index),
        applied: at(known.pushes.length + 2 * index + 1),
      });
    this.wake();
  }

  private async one(entry: Entry): Promise<void> {
    switch (entry.type) {
      case "step":
        await this.step(entry.parts, entry.mean);
        break;
      case "drop":
        this.take(entry.worker, entry.clock);
        break;
      case "close":
        this.means.delete(entry.group);
        break;
      case "left":
        for (const clock of [...(this.pushes.get(entry.worker)?.keys() ?? [])])
          if (clock >= entry.clock) this.pushes.get(entry.worker)?.delete(clock);
        break;
    }
  }

  private take(worker: number, clock: number): Kept {
    const own = this.pushes.get(worker);
    const kept = own?.get(clock);
    if (kept === undefined)
      throw new HeddleError(
        "log",
        `the log names clock ${clock} of worker ${worker}, whose push this server does not have`,
      );
    own?.delete(clock);
    this.settled.set(worker, Math.max(this.settledOf(worker), clock + 1));
    return kept;
  }

  private async step(parts: readonly Part[], mean: RunningMean | undefined): Promise<void> {
    const kept = parts.map(({ worker, clock }) => this.take(worker, clock));
    this.pulled = undefined;
    const [first] = kept;
    if (first === undefined) return;
    if (this.program !== undefined) await this.update(this.gradient(parts, kept, mean), first.rates);
    this.steps++;
  }

  /** The weighted sum of pushes, or what is new in a running mean. */
  private gradient(parts: readonly Part[], kept: readonly Kept[], mean: RunningMean | undefined): Uint8Array {
    const alone = kept.length === 1 && parts[0]?.weight === 1 && mean === undefined;
    if (alone) return (kept[0] as Kept).grads;
    const types = this.shard.params.map(({ type }) => type);
    const before = mean === undefined ? undefined : this.means.get(mean.group);
    const sum = before?.sum ?? new Uint8Array(this.paramBytes);
    for (const [index, { weight }] of parts.entries()) addScaled(types, sum, (kept[index] as Kept).grads, weight);
    if (mean === undefined) return sum;
    // What the steps of the group have not applied yet.
    const applied = before?.applied ?? new Uint8Array(this.paramBytes);
    const fresh = new Uint8Array(this.paramBytes);
    addScaled(types, fresh, sum, mean.scale);
    addScaled(types, fresh, applied, -1);
    addScaled(types, applied, fresh, 1);
    this.means.set(mean.group, { sum, applied });
    return fresh;
  }

  private async update(gradient: Uint8Array, rates: readonly number[]): Promise<void> {
    const { executor } = this.runtime;
    const { program, params = [], slots } = this;
    const { inputs } = (program as Executable).program;
    const types = this.shard.params.map(({ type }) => type);
    // No run is under way: the buffers of the last gradients are free.
    if (this.grads.length === 0) this.grads = types.map((type) => executor.allocate(bytesOf(type)));
    let offset = 0;
    for (const [index, type] of types.entries()) {
      this.grads[index]?.write(gradient.subarray(offset, offset + bytesOf(type)));
      offset += bytesOf(type);
    }
    const scalar = (data: TypedArray): DeviceBuffer => {
      const buffer = executor.allocate(data.byteLength);
      buffer.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      return buffer;
    };
    const rateType = (inputs.at(-1) as { readonly type: TensorType }).type;
    const step = scalar(Int32Array.of(this.steps));
    const rate = scalar(dtypes[rateType.dtype].create(rates as number[]));
    const run = (program as Executable).run([[...params, ...slots, ...this.grads, step, rate]]);
    await run.done;
    const outputs = run.outputs[0] as readonly DeviceBuffer[];
    this.params = outputs.slice(0, params.length);
    this.slots = outputs.slice(params.length);
    step.dispose();
    rate.dispose();
  }

  private compiled(): Executable {
    const program = parseProgram(this.shard.program);
    verifyProgram(program);
    const expected = 2 * this.shard.params.length + this.shard.slots.length + 2;
    if (program.inputs.length !== expected)
      throw new HeddleError("link", `an update rule of ${program.inputs.length} inputs for ${expected} values`);
    return this.runtime.executor.compile(program);
  }

  private checkBytes(what: string, bytes: Uint8Array, expected: number): void {
    if (bytes.length !== expected)
      throw new HeddleError("link", `${what} of ${bytes.length} bytes for a shard that needs ${expected}`);
  }

  private split(bytes: Uint8Array, types: readonly TensorType[]): DeviceBuffer[] {
    let offset = 0;
    return types.map((type) => {
      const buffer = this.runtime.executor.allocate(bytesOf(type));
      buffer.write(bytes.subarray(offset, offset + bytesOf(type)));
      offset += bytesOf(type);
      return buffer;
    });
  }

  private async joined(buffers: readonly DeviceBuffer[]): Promise<Uint8Array> {
    return concatenated(await Promise.all(buffers.map((buffer) => buffer.read())));
  }

  private inOrder<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    const result = this.tail.then(work);
    this.tail = result.catch(() => {});
    return result;
  }

  private reached(version: number): Promise<void> {
    if (this.isLoaded && this.version >= version) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push({ version, resolve }));
  }

  private wake(): void {
    const isDue = ({ version }: { readonly version: number }): boolean => this.isLoaded && this.version >= version;
    const due = this.waiting.filter(isDue);
    this.waiting = this.waiting.filter((one) => !isDue(one));
    for (const { resolve } of due) resolve();
  }
}

/** Reads what a shard is. @throws HeddleError `link` */
function parseShard(text: string): Shard {
  const malformed = new HeddleError("link", "what a shard is, is malformed");
  const isPiece = (value: unknown): boolean => {
    const { path, type } = (value ?? {}) as { path?: unknown; type?: Partial<TensorType> };
    const { dtype = "", shape } = type ?? {};
    return (
      typeof path === "string" &&
      Object.hasOwn(dtypes, dtype) &&
      Array.isArray(shape) &&
      shape.every((size) => Number.isSafeInteger(size) && size >= 0)
    );
  };
  let value: Partial<Shard> | null;
  try {
    value = JSON.parse(text) as Partial<Shard> | null;
  } catch {
    throw malformed;
  }
  const { params, slots, program, rates } = value ?? {};
  if (!Array.isArray(params) || !Array.isArray(slots) || ![...params, ...slots].every(isPiece)) throw malformed;
  if (typeof program !== "string" || !Number.isSafeInteger(rates)) throw malformed;
  return value as Shard;
}

/** `sum += weight · x`, tensor by tensor. */
function addScaled(types: readonly TensorType[], sum: Uint8Array, x: Uint8Array, weight: number): void {
  let offset = 0;
  for (const type of types) {
    const [into, from] = [sum, x].map((bytes) => asFloats(type, bytes, offset)) as [Float64Array, Float64Array];
    for (let index = 0; index < into.length; index++)
      into[index] = (into[index] as number) + weight * (from[index] as number);
    if (into.buffer !== sum.buffer) sum.set(new Uint8Array(into.buffer, into.byteOffset, into.byteLength), offset);
    offset += bytesOf(type);
  }
}

/** The largest magnitude in tensors; the largest number for a NaN or an infinity. */
export function largestMagnitude(types: readonly TensorType[], parts: readonly Uint8Array[]): number {
  let largest = 0;
  for (const [index, type] of types.entries())
    for (const value of asFloats(type, parts[index] as Uint8Array, 0)) {
      const size = Math.abs(value);
      if (!(size <= largest)) largest = size < Infinity ? size : Number.MAX_VALUE;
    }
  return largest;
}

/** A tensor's numbers; a copy if the bytes are not aligned. */
function asFloats(type: TensorType, bytes: Uint8Array, offset: number): Float64Array | Float32Array {
  const size = sizeOf(type.shape);
  const start = bytes.byteOffset + offset;
  const whole = start % dtypes[type.dtype].bytes === 0;
  const source = whole ? bytes.buffer : bytes.slice(offset, offset + bytesOf(type)).buffer;
  const at = whole ? start : 0;
  if (type.dtype === "f64") return new Float64Array(source, at, size);
  if (type.dtype === "f32") return new Float32Array(source, at, size);
  throw new HeddleError("dtype", `parameters on servers are f32 or f64, not ${type.dtype}`);
}
