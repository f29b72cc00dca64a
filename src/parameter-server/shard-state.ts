/**
 * @module The values of a shard on a server, its update rule as a compiled program whose state is donated, and the pushes that wait for
 * the log to name them. Everything runs in the order of the calls.
 */
import "../functions/composites/index.ts";
import type { Filter } from "../filters/index.ts";
import type { TypedArray } from "../ir/dtype.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { parseProgram, verifyProgram } from "../program/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer, Executable } from "../runtime/executor.ts";
import { concatenated } from "../util/bytes.ts";
import { HeddleError } from "../util/errors.ts";
import { decodedPush } from "./filtered-pushes.ts";
import { type Gradient, gradientBytes, parseGradient, weightedSum } from "./gradients.ts";
import { copied, type GradientHead, type Kept, Pushes, type PushesHead, restored } from "./pushes.ts";
import type { Entry, Part, PushRequest, RunningMean } from "./requests.ts";
import { parseShard } from "./shard-spec.ts";
import { bytesOfPieces, type Shard } from "./shards.ts";
import { leases } from "./shared/leases.ts";
import { ownerOf } from "./tables/ring.ts";
import type { RowList } from "./tables/row-lists.ts";
import { type TableHead, TableState } from "./tables/table-state.ts";

/** Sums of a running mean: of the pushes so far, and of what the steps have applied. */
interface Sums {
  readonly sum: Gradient;
  readonly applied: Gradient;
}

/** What is known of a shard besides its values, as text; the bytes follow each other. */
interface Known {
  readonly version: number;
  readonly steps: number;
  readonly pushes: PushesHead;
  readonly means: readonly { readonly group: number; readonly sum: GradientHead; readonly applied: GradientHead }[];
  readonly tables: readonly TableHead[];
}

/** Bytes of rows in one request: those that a checkpoint has of all tables may be as many as a message can have. */
const mostRowBytes = 2 ** 32 - 1;

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
  private readonly pushes = new Pushes();
  private readonly tables: readonly TableState[];
  /** Whether rows of a checkpoint are taken: a request may come twice. */
  private hasRows = false;
  private readonly means = new Map<number, Sums>();
  private params: DeviceBuffer[] | undefined;
  private slots: DeviceBuffer[] = [];
  private grads: DeviceBuffer[] = [];
  /** The parameters as bytes, once they were pulled, until the next step; with a lease. */
  private pulled: Uint8Array | undefined;
  private tail: Promise<unknown> = Promise.resolve();
  private waiting: { readonly version: number; readonly resolve: () => void }[] = [];

  /** @throws HeddleError `parse` or `verify` for a malformed program, `link` for a program of other values */
  constructor(spec: string, runtime: Runtime) {
    this.spec = spec;
    this.runtime = runtime;
    this.shard = parseShard(spec);
    this.paramBytes = bytesOfPieces(this.shard.params);
    this.stateBytes = this.paramBytes + bytesOfPieces(this.shard.slots);
    this.tables = this.shard.tables.map((table) => new TableState(table, runtime));
    this.program = this.shard.params.length === 0 ? undefined : this.compiled();
  }

  /** Whether the shard has values. */
  get isLoaded(): boolean {
    return this.params !== undefined;
  }

  /** The number of clocks of a worker that the log has named. */
  settledOf(worker: number): number {
    return this.pushes.settledOf(worker);
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

  /** Takes parameters in the place of its own; states stay. @throws HeddleError `link` for another number of bytes */
  replace(bytes: Uint8Array): Promise<void> {
    this.checkBytes("parameters", bytes, this.paramBytes);
    return this.inOrder(() => {
      let offset = 0;
      for (const buffer of this.params as DeviceBuffer[]) {
        buffer.write(bytes.subarray(offset, offset + buffer.bytes));
        offset += buffer.bytes;
      }
      this.forgetPulled();
    });
  }

  /** Bytes of the largest request that can be right: all values, or a push with rows. */
  get mostBytes(): number {
    if (this.tables.length > 0) return mostRowBytes;
    // With filters a row of one number has its number of 8 bytes beside it.
    return Math.max(this.stateBytes, 3 * this.paramBytes);
  }

  /** The number of tables. */
  get tableCount(): number {
    return this.tables.length;
  }

  /** For each table the number of rows that exist. */
  get tableRows(): number[] {
    return this.tables.map(({ size }) => size);
  }

  /** Checks that the shard has these rows. @throws HeddleError `link` */
  checkRows(lists: readonly RowList[]): void {
    const { index, count, tables } = this.shard;
    if (count === 1) return;
    const owner = ownerOf(count);
    for (const [table, list] of lists.entries()) {
      const other = list.find((id) => owner(id) !== index);
      if (other !== undefined)
        throw new HeddleError("link", `row ${other} of table '${tables[table]?.path}' is not on shard ${index}`);
    }
  }

  /** For each table the number of its rows, which its ids are below. */
  get tableCounts(): number[] {
    return this.shard.tables.map(({ count }) => count);
  }

  /** Keeps a push until the log names it. One that is there already, or was named, does nothing. @throws HeddleError `link` */
  push(
    { client, incarnation, clock, rates, parts }: PushRequest,
    body: Uint8Array,
    lists: readonly RowList[] = [],
    filter?: Filter,
  ): void {
    if ((parts === undefined) !== (filter === undefined))
      throw new HeddleError("link", `a push ${parts === undefined ? "without" : "with"} filters`);
    const grads = filter === undefined || parts === undefined ? body : this.unfiltered(filter, parts, body, lists);
    const gradient = parseGradient(this.shard, lists, grads);
    if (rates.length !== this.shard.rates)
      throw new HeddleError("link", `a push with ${rates.length} learning rates for ${this.shard.rates}`);
    if (!this.pushes.isNew(client, clock, incarnation)) return;
    leases.share(grads);
    this.pushes.keep(client, clock, { incarnation, rates, gradient });
  }

  /** The gradients that a filtered push stands for; rows of tables follow as they are. */
  private unfiltered(filter: Filter, parts: string, body: Uint8Array, lists: readonly RowList[]): Uint8Array {
    const ofTables = gradientBytes({ params: [], tables: this.shard.tables }, lists);
    const end = body.length - ofTables;
    if (end < 0) throw new HeddleError("link", "a filtered push that is cut short");
    return concatenated([decodedPush(filter, this.shard, parts, body.subarray(0, end)), body.subarray(end)]);
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

  /**
   * The parameters, and after them rows of the tables, once so many entries are applied, and the number of entries that are. The rows alone
   * if the asker has the parameters of that version; -1: of whichever.
   */
  async pull(
    version: number,
    lists: readonly RowList[] = [],
    has?: number,
  ): Promise<{ readonly parts: readonly Uint8Array[]; readonly version: number; readonly same: boolean }> {
    await this.reached(version);
    return this.inOrder(async () => {
      const same = has === -1 || has === this.version;
      const rows = lists.map((list, table) => (this.tables[table] as TableState).pull(list));
      if (same) return { parts: rows, version: this.version, same };
      this.pulled ??= await this.readParams();
      leases.share(this.pulled);
      return { parts: [this.pulled, ...rows], version: this.version, same };
    });
  }

  /** Takes the rows of this shard from those of all old shards. Does nothing if the shard has values. @throws HeddleError `link` */
  loadRows(text: string, bytes: Uint8Array): void {
    const heads = parseHeads(text);
    if (this.isLoaded || this.hasRows) return;
    this.hasRows = true;
    const { index, count } = this.shard;
    const owner = ownerOf(count);
    let offset = 0;
    for (const old of heads)
      for (const [table, head] of old.entries()) {
        const state = this.tables[table];
        if (state === undefined) throw new HeddleError("link", "rows of a table that is not there");
        const size = state.bytesOf(head);
        state.restore(head, bytes.subarray(offset, offset + size), (id) => owner(id) === index);
        offset += size;
      }
  }

  /** Parameters and states, once so many entries are applied; for a copy with tables and what is known of pushes before them. */
  async snapshot(version: number, copy: boolean): Promise<{ readonly known: string; readonly bytes: Uint8Array }> {
    await this.reached(version);
    return this.inOrder(async () => {
      const values = await this.joined([...(this.params as DeviceBuffer[]), ...this.slots]);
      const pushes = this.pushes.snapshot(copy);
      const means = [...(copy ? this.means : [])].map(([group, { sum, applied }]) => ({
        ...{ group, sum: copied(sum), applied: copied(applied) },
      }));
      const tables = copy ? this.tables.map((table) => table.snapshot()) : [];
      const known: Known = {
        version: this.version,
        steps: this.steps,
        pushes: pushes.head,
        means: means.map(({ group, sum, applied }) => ({ group, sum: sum.head, applied: applied.head })),
        tables: tables.map(({ head }) => head),
      };
      const more = [
        ...pushes.bytes,
        ...means.flatMap(({ sum, applied }) => [...sum.bytes, ...applied.bytes]),
        ...tables.flatMap(({ bytes }) => bytes),
      ];
      return { known: JSON.stringify(known), bytes: concatenated([values, ...more]) };
    });
  }

  /** Becomes what another server's snapshot with `copy` has. */
  restore(text: string, bytes: Uint8Array): void {
    const known = JSON.parse(text) as Known;
    let offset = 0;
    const next = (size: number): Uint8Array => {
      if (offset + size > bytes.length)
        throw new HeddleError("link", `a copy of ${bytes.length} bytes, which is cut short`);
      offset += size;
      return bytes.subarray(offset - size, offset);
    };
    const values = next(this.stateBytes);
    this.pushes.restore(this.shard, known.pushes, next);
    for (const { group, sum, applied } of known.means)
      this.means.set(group, {
        sum: restored(this.shard, sum, next),
        applied: restored(this.shard, applied, next),
      });
    for (const [index, head] of known.tables.entries()) {
      const table = this.tables[index] as TableState;
      table.restore(head, next(table.bytesOf(head)));
    }
    this.version = known.version;
    this.load(values, known.steps);
  }

  /** The rows of the tables with their states, once so many entries are applied. */
  async tableSnapshot(version: number): Promise<{ readonly heads: readonly TableHead[]; readonly bytes: Uint8Array }> {
    await this.reached(version);
    return this.inOrder(() => {
      const parts = this.tables.map((table) => table.snapshot());
      return { heads: parts.map(({ head }) => head), bytes: concatenated(parts.flatMap((part) => part.bytes)) };
    });
  }

  /** Frees files. */
  close(): void {
    for (const table of this.tables) table.close();
  }

  private async one(entry: Entry): Promise<void> {
    switch (entry.type) {
      case "step":
        await this.step(entry.parts, entry.mean);
        break;
      case "drop":
        endLease(this.pushes.take(entry.worker, entry.clock));
        break;
      case "close":
        this.means.delete(entry.group);
        break;
      case "left":
        for (const push of this.pushes.drop(entry.worker, entry.clock)) endLease(push);
        break;
    }
  }

  private async step(parts: readonly Part[], mean: RunningMean | undefined): Promise<void> {
    const kept = parts.map(({ worker, clock, weight }) => ({ ...this.pushes.take(worker, clock), weight }));
    this.forgetPulled();
    const [first] = kept;
    if (first === undefined) return;
    const gradient = this.gradient(kept, mean);
    if (this.program !== undefined) await this.update(gradient.dense, first.rates);
    for (const [index, table] of this.tables.entries())
      await table.step(gradient.rows[index] as Gradient["rows"][number], { step: this.steps, rates: first.rates });
    this.steps++;
    // A running mean may be the push itself.
    if (mean === undefined) for (const push of kept) endLease(push);
  }

  /** The weighted sum of pushes, or what is new in a running mean. */
  private gradient(kept: readonly (Kept & { readonly weight: number })[], mean: RunningMean | undefined): Gradient {
    const { shard } = this;
    if (mean === undefined) return weightedSum(shard, kept);
    const before = this.means.get(mean.group);
    const known = (gradient: Gradient | undefined) => (gradient === undefined ? [] : [{ gradient, weight: 1 }]);
    const sum = weightedSum(shard, [...known(before?.sum), ...kept]);
    // What the steps of the group have not applied yet.
    const fresh = weightedSum(shard, [
      { gradient: sum, weight: mean.scale },
      ...(before === undefined ? [] : [{ gradient: before.applied, weight: -1 }]),
    ]);
    this.means.set(mean.group, {
      sum,
      applied: weightedSum(shard, [...known(before?.applied), { gradient: fresh, weight: 1 }]),
    });
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

  private forgetPulled(): void {
    if (this.pulled !== undefined) leases.end(this.pulled);
    this.pulled = undefined;
  }

  private async readParams(): Promise<Uint8Array> {
    const whole = leases.take(this.paramBytes);
    let offset = 0;
    for (const buffer of this.params as DeviceBuffer[]) {
      await buffer.read(whole.subarray(offset, offset + buffer.bytes));
      offset += buffer.bytes;
    }
    return whole;
  }

  private async joined(buffers: readonly DeviceBuffer[]): Promise<Uint8Array> {
    return concatenated(await Promise.all(buffers.map((buffer) => buffer.read())));
  }

  private inOrder<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    const result = this.tail.then(work);
    this.tail = result.catch(() => {});
    return result;
  }

  reached(version: number): Promise<void> {
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

/** The bytes of a push are not read any more. */
const endLease = ({ gradient: { dense } }: Kept): void => leases.end(dense);

/** Reads what rows there are of each old shard's tables. @throws HeddleError `link` */
function parseHeads(text: string): readonly (readonly TableHead[])[] {
  const isHead = (value: unknown): boolean => {
    const { rows, sketched } = (value ?? {}) as Partial<TableHead>;
    return Number.isSafeInteger(rows) && (rows as number) >= 0 && typeof sketched === "boolean";
  };
  try {
    const heads = JSON.parse(text) as unknown;
    if (Array.isArray(heads) && heads.every((old) => Array.isArray(old) && old.every(isHead))) return heads;
  } catch {
    // As malformed as any other.
  }
  throw new HeddleError("link", "what rows of tables are, is malformed");
}
