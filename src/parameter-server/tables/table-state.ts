/** @module The rows of a table that one server has: created when they are pushed, updated by programs for blocks of rows, removed when unused. */
import type { TypedArray } from "../../ir/dtype.ts";
import { dtypes } from "../../ir/dtype.ts";
import type { TensorType } from "../../ir/shape.ts";
import { parseProgram, verifyProgram } from "../../program/index.ts";
import type { Runtime } from "../../runtime/devices.ts";
import type { DeviceBuffer, Executable } from "../../runtime/executor.ts";
import { HeddleError } from "../../util/errors.ts";
import { leases } from "../shared/leases.ts";
import { initialRows } from "./initial-rows.ts";
import { Pages } from "./pages.ts";
import { RowIndex } from "./row-index.ts";
import { floats, type RowList, type Rows } from "./row-lists.ts";
import { Sketch } from "./sketch.ts";
import { recordBytes, type TableSpec } from "./table-spec.ts";

/** Learning rates, and the number of the step. */
export interface TableStep {
  readonly step: number;
  readonly rates: readonly number[];
}

/** A program for a block of rows, with its buffers: parameter, states, gradient. */
interface Block {
  readonly rows: number;
  readonly program: Executable;
  readonly rate: TensorType;
  buffers: readonly DeviceBuffer[];
  /** For each but the gradient: what is written to it, and read from it. */
  readonly staged: readonly Int32Array<ArrayBuffer>[];
}

/** What is not in the rows themselves, as text: bytes follow. */
export interface TableHead {
  readonly rows: number;
  readonly sketched: boolean;
}

/** The rows of one table on one server. */
export class TableState {
  readonly spec: TableSpec;
  private readonly runtime: Runtime;
  private readonly rowBytes: number;
  private readonly recordBytes: number;
  private readonly initial: ReturnType<typeof initialRows>;
  private readonly index = new RowIndex();
  private readonly pages: Pages;
  private readonly sketch: Sketch | undefined;
  private blocks: Block[] | undefined;
  /** For each record the step that touched it last. */
  private touched = new Int32Array(64);
  private readonly spare: number[] = [];
  private records = 0;

  constructor(spec: TableSpec, runtime: Runtime) {
    this.spec = spec;
    this.runtime = runtime;
    this.rowBytes = spec.size * dtypes[spec.dtype].bytes;
    this.recordBytes = recordBytes(spec);
    this.initial = initialRows(spec);
    this.pages = new Pages(this.recordBytes, spec.memory);
    this.sketch = spec.admit > 1 ? new Sketch() : undefined;
  }

  /** Number of rows that exist. */
  get size(): number {
    return this.index.size;
  }

  /** The values of rows, with a lease: those that do not exist have their initial ones, and still do not exist. */
  pull(list: RowList): Uint8Array<ArrayBuffer> {
    const { rowBytes } = this;
    const values = leases.take(list.length * rowBytes);
    const numbers = floats(values, this.spec.dtype);
    const words = new Int32Array(values.buffer, 0, values.length / 4);
    const { size } = this.spec;
    for (let row = 0; row < list.length; row++) {
      const record = this.index.get(list[row] as number);
      if (record < 0) this.initial(list[row] as number, numbers, row * size, size);
      else this.pages.get(record, 0, words, (row * rowBytes) / 4, rowBytes / 4);
    }
    return values;
  }

  /** One step of the update rule on the rows of a gradient. */
  async step({ ids, values }: Rows, how: TableStep): Promise<void> {
    const admitted = this.admitted(ids);
    let done = 0;
    while (done < admitted.length) {
      const block = this.blockFor(admitted.length - done);
      const rows = admitted.subarray(done, done + block.rows);
      await this.update(block, rows, ids, values, how);
      done += rows.length;
    }
    this.evict(how.step);
  }

  /** The places of the rows that exist, or begin to. */
  private admitted(ids: RowList): Int32Array {
    const { sketch, spec } = this;
    const places = new Int32Array(ids.length);
    let size = 0;
    for (let place = 0; place < ids.length; place++) {
      const id = ids[place] as number;
      if (sketch === undefined || this.index.get(id) >= 0 || sketch.add(id) >= Math.min(spec.admit, 255))
        places[size++] = place;
    }
    return places.subarray(0, size);
  }

  private async update(
    block: Block,
    places: Int32Array,
    ids: RowList,
    grads: Uint8Array,
    how: TableStep,
  ): Promise<void> {
    const records = places.map((place) => this.recordOf(ids[place] as number, how.step));
    const widths = this.widths.map((width) => width / 4);
    let offset = 0;
    for (const [part, width] of widths.entries()) {
      const words = block.staged[part] as Int32Array;
      for (let row = 0; row < records.length; row++)
        this.pages.get(records[row] as number, offset, words, row * width, width);
      offset += width;
    }
    await this.run(block, rowsAt(grads, places, this.rowBytes, block.rows), how);
    offset = 0;
    for (const [part, width] of widths.entries()) {
      const words = block.staged[part] as Int32Array;
      for (let row = 0; row < records.length; row++)
        this.pages.set(records[row] as number, offset, words, row * width, width);
      offset += width;
    }
  }

  /** Bytes of a row of the parameter, and of each state. */
  private get widths(): number[] {
    const { slots, dtype } = this.spec;
    return [this.rowBytes, ...slots.map(({ width }) => width * dtypes[dtype].bytes)];
  }

  /** The update of what is staged, in place. */
  private async run(block: Block, gradient: Uint8Array, { step, rates }: TableStep): Promise<void> {
    const { executor } = this.runtime;
    const { program, rate, buffers } = block;
    const staged = block.staged.map((words) => new Uint8Array(words.buffer));
    for (const [index, bytes] of [...staged, gradient].entries()) buffers[index]?.write(bytes);
    const scalar = (data: TypedArray): DeviceBuffer => {
      const buffer = executor.allocate(data.byteLength);
      buffer.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      return buffer;
    };
    const scalars = [scalar(Int32Array.of(step)), scalar(dtypes[rate.dtype].create(rates as number[]))];
    const run = program.run([[...buffers, ...scalars]]);
    await run.done;
    const outputs = run.outputs[0] as readonly DeviceBuffer[];
    block.buffers = [...outputs, buffers.at(-1) as DeviceBuffer];
    for (const buffer of scalars) buffer.dispose();
    for (const [index, bytes] of staged.entries()) await (outputs[index] as DeviceBuffer).read(bytes);
  }

  /** The smallest block that has room for rows, or the largest. */
  private blockFor(rows: number): Block {
    this.blocks ??= this.compiled();
    const fitting = this.blocks.filter((block) => block.rows >= rows);
    return (fitting.at(-1) ?? this.blocks[0]) as Block;
  }

  private compiled(): Block[] {
    const { spec, runtime, rowBytes, widths } = this;
    const { executor } = runtime;
    return spec.blocks.map(({ rows, program: text }) => {
      const program = parseProgram(text);
      verifyProgram(program);
      const expected = spec.slots.length + 4;
      if (program.inputs.length !== expected)
        throw new HeddleError("link", `an update rule of ${program.inputs.length} inputs for ${expected} values`);
      return {
        rows,
        program: executor.compile(program),
        rate: (program.inputs.at(-1) as { readonly type: TensorType }).type,
        buffers: [...widths, rowBytes].map((width) => executor.allocate(rows * width)),
        staged: widths.map((width) => new Int32Array((rows * width) / 4)),
      };
    });
  }

  /** The record of a row, which is created if it does not exist. */
  private recordOf(id: number, step: number): number {
    const known = this.index.get(id);
    const record = known >= 0 ? known : (this.spare.pop() ?? this.records++);
    if (known < 0) {
      this.index.set(id, record);
      this.fill(id, this.pages.at(record, true));
    }
    if (record >= this.touched.length) {
      const longer = new Int32Array(2 * this.touched.length);
      longer.set(this.touched);
      this.touched = longer;
    }
    this.touched[record] = step;
    return record;
  }

  private fill(id: number, record: Uint8Array): void {
    const { spec } = this;
    const numbers = floats(record, spec.dtype);
    this.initial(id, numbers, 0, spec.size);
    let offset = spec.size;
    for (const { width, initial } of spec.slots) {
      numbers.fill(initial, offset, offset + width);
      offset += width;
    }
  }

  /** Removes rows that no step has touched for long; in steps that are the same on all copies. */
  private evict(step: number): void {
    const { evict } = this.spec;
    if (evict === 0 || (step + 1) % evict !== 0) return;
    for (const id of this.index.sorted()) {
      const record = this.index.get(id);
      if ((this.touched[record] as number) > step - evict) continue;
      this.index.delete(id);
      this.spare.push(record);
    }
  }

  /** All that the table is: a head, and for each row, ascending, its id, the step that touched it last, and its record; then the sketch. */
  snapshot(): { readonly head: TableHead; readonly bytes: readonly Uint8Array[] } {
    const ids = this.index.sorted();
    const steps = ids.map((id) => this.touched[this.index.get(id)] as number);
    const records = new Uint8Array(ids.length * this.recordBytes);
    for (const [row, id] of ids.entries())
      records.set(this.pages.at(this.index.get(id), false), row * this.recordBytes);
    const rest = this.sketch === undefined ? [] : [this.sketch.counts];
    return {
      head: { rows: ids.length, sketched: this.sketch !== undefined },
      bytes: [ids, steps].map((list) => new Uint8Array(list.buffer)).concat([records, ...rest]),
    };
  }

  /** Bytes of a snapshot. */
  bytesOf({ rows, sketched }: TableHead): number {
    return rows * (8 + this.recordBytes) + (sketched ? new Sketch().counts.length : 0);
  }

  /** Takes the rows of a snapshot that `owns` says; of a table without rows. @throws HeddleError `link` */
  restore({ rows, sketched }: TableHead, bytes: Uint8Array, owns: (id: number) => boolean = () => true): void {
    if (bytes.length !== this.bytesOf({ rows, sketched }))
      throw new HeddleError("link", `rows of table '${this.spec.path}' of ${bytes.length} bytes`);
    const words = new Int32Array(bytes.slice(0, 8 * rows).buffer);
    const records = bytes.subarray(8 * rows);
    for (let row = 0; row < rows; row++) {
      const id = words[row] as number;
      if (!owns(id)) continue;
      const record = this.recordOf(id, words[rows + row] as number);
      this.pages.at(record, true).set(records.subarray(row * this.recordBytes, (row + 1) * this.recordBytes));
    }
    if (this.sketch === undefined || !sketched) return;
    const counts = records.subarray(rows * this.recordBytes);
    // Several servers may have counted: the sum of their sketches is one of all.
    for (const [at, count] of counts.entries())
      this.sketch.counts[at] = Math.min(255, (this.sketch.counts[at] as number) + count);
  }

  /** Frees memory and files. */
  close(): void {
    this.pages.close();
    for (const { buffers } of this.blocks ?? []) for (const buffer of buffers) buffer.dispose();
    this.blocks = undefined;
  }
}

/** The values at some places, ascending, as so many rows; those themselves where they are whole and follow each other. */
function rowsAt(values: Uint8Array, places: Int32Array, rowBytes: number, rows: number): Uint8Array {
  const [first = 0, last = 0] = [places[0], places.at(-1)];
  const follow = last - first + 1 === places.length;
  if (follow && rows === places.length) return values.subarray(first * rowBytes, (last + 1) * rowBytes);
  const chosen = new Uint8Array(rows * rowBytes);
  if (follow) {
    chosen.set(values.subarray(first * rowBytes, (last + 1) * rowBytes));
    return chosen;
  }
  for (const [row, place] of places.entries())
    chosen.set(values.subarray(place * rowBytes, (place + 1) * rowBytes), row * rowBytes);
  return chosen;
}
