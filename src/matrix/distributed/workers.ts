/**
 * @module The workers of a run that compute matrix programs together. Each of them runs the same program of the user; a matrix lies whole on
 * each worker, or in blocks.
 */

import { allGather, allReduce, connect as connectDevices, rank as ownRank, perDevice } from "../../comm/index.ts";
import { environmentMachine, type Machine, machineFor } from "../../cost/index.ts";
import { type Tensor, tensor } from "../../functions/index.ts";
import type { HostTensor } from "../../ir/shape.ts";
import type { Runtime } from "../../runtime/devices.ts";
import { HeddleError } from "../../util/errors.ts";
import { fingerprint } from "../../util/hash.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { type Apart, cells, type Size, type Stored, storedExpression } from "../expression.ts";
import { Matrix } from "../matrix.ts";
import {
  type Conductor,
  conductedBy,
  type MatrixProgram,
  matrixPrograms,
  sizeOfMatrix,
  tensorOf,
} from "../programs.ts";
import { runStages } from "../rows/run.ts";
import { blockLength, blockLengths, blockStart, type Form, localSize, type Place } from "./layout.ts";
import { Lineage } from "./lineage.ts";
import { type Leaf, type PlanTogether, planTogether } from "./plan.ts";

/** Options of {@link connect}. */
export interface ConnectOptions {
  /** Matrices of at most so many bytes are whole on each worker. Default 65,536. */
  readonly wholeBytes?: number;
}

const defaultWholeBytes = 2 ** 16;

/** A matrix of which each worker has a block. */
export class Block implements Apart {
  readonly dim: 0 | 1;
  /** This worker's block. */
  readonly own: Tensor;
  private readonly size: Size;
  private readonly workers: Workers;

  constructor(own: Tensor, dim: 0 | 1, size: Size, workers: Workers) {
    this.own = own;
    this.dim = dim;
    this.size = size;
    this.workers = workers;
  }

  whole(): HostTensor {
    this.check();
    const { size, runtime } = this.workers;
    const lengths = blockLengths(this.size[this.dim], size);
    const isEven = lengths.every((length) => length === lengths[0]);
    const whole = allGather(this.own, { dim: this.dim, runtime, ...(isEven ? {} : { sizes: lengths }) });
    this.workers.read += 8 * this.own.size * (size - 1);
    return { dtype: "f64", shape: this.size, data: whole.dataSync() };
  }

  /** @throws HeddleError `layout` for a block among workers that are no longer together */
  check(): void {
    if (this.workers === current) return;
    throw new HeddleError("layout", "a matrix in blocks belongs to workers that have parted", {
      hint: "make the matrices of a program within the function that withLineage runs",
    });
  }
}

/** A program as a worker runs it, for inputs in certain forms. */
interface Ready {
  readonly plan: PlanTogether;
  readonly run: (inputs: readonly Tensor[]) => Tensor[];
  /** What this worker sends in a run. */
  readonly sends: () => number;
}

/** The workers at hand. */
export class Workers implements Conductor {
  readonly runtime: Runtime;
  readonly place: Place;
  readonly wholeBytes: number;
  /** What this worker has sent so that values could be read. */
  read = 0;
  readonly machine: Machine;
  private readonly ready = new WeakMap<MatrixProgram, Map<string, Ready>>();
  private readonly lineage: Lineage;

  constructor(runtime: Runtime, wholeBytes: number, lineage: Lineage) {
    this.runtime = runtime;
    this.place = { rank: runtime.rank, size: runtime.world };
    this.wholeBytes = wholeBytes;
    this.machine = machineFor(runtime.world, runtime.machine ?? environmentMachine());
    this.lineage = lineage;
  }

  get size(): number {
    return this.place.size;
  }

  /** Whether a matrix of this size is cut into blocks of rows. */
  isCut(size: Size): boolean {
    return 8 * cells(size) > this.wholeBytes && size[0] >= this.lineage.leastRows;
  }

  /** The sums of the numbers of all workers, element by element. Every worker must ask. */
  sum(numbers: readonly number[]): readonly number[] {
    const own = tensor([...numbers], { dtype: "f64" });
    return [...(allReduce(own, { runtime: this.runtime }).dataSync() as Float64Array)];
  }

  run(program: MatrixProgram, inputs: readonly Stored[]): readonly Stored[] | undefined {
    if (!this.isShared(program, inputs)) return undefined;
    return this.lineage.through(program.text, inputs, () => this.compute(program, inputs));
  }

  /** Whether the workers compute a program together: something in it is in blocks, or is made and large. */
  private isShared({ steps }: MatrixProgram, inputs: readonly Stored[]): boolean {
    return inputs.some(({ apart }) => apart !== undefined) || steps.some(({ size }) => this.isCut(size));
  }

  private compute(program: MatrixProgram, inputs: readonly Stored[]): Stored[] {
    const forms = inputs.map((stored) => formsOf(stored));
    const { plan, run, sends } = this.readyFor(program, forms);
    const given = plan.inputs.map(({ leaf, form }) => {
      const stored = inputs[leaf] as Stored;
      return form === "whole" ? tensorOf(stored) : (stored.apart as Block).own;
    });
    const results = run(given);
    // Values that are whole are the same on all workers; they are read here, so that a worker's loss shows in the program that it ends.
    const stored = results.map((result, index): Stored => {
      const form = plan.forms[index] as Form;
      const { size } = program.steps[(program.outputs[index] as number) - inputs.length] as { readonly size: Size };
      if (form !== "whole") return { apart: new Block(result, form, size, this) };
      return { host: { dtype: result.dtype, shape: result.shape, data: result.dataSync() } };
    });
    program.together ??= { lines: plan.lines, bytes: plan.bytes, predicted: 0, sent: 0 };
    program.together.predicted += plan.bytes;
    program.together.sent += sends();
    return stored;
  }

  private readyFor(program: MatrixProgram, forms: readonly (readonly Form[])[]): Ready {
    const known = this.ready.get(program) ?? new Map<string, Ready>();
    this.ready.set(program, known);
    const key = forms.join(";");
    let found = known.get(key);
    if (found === undefined) {
      this.compare(program, key);
      found = this.prepared(program, forms);
      known.set(key, found);
      program.compiles++;
    }
    return found;
  }

  /** @throws HeddleError `mismatch` where another worker is at another program or at other sizes, whose values would mix with these */
  private compare({ inputs, text }: MatrixProgram, key: string): void {
    // As many bits as a double holds.
    const own = Number.parseInt(fingerprint(`${inputs}\n${text}\n${key}`).slice(0, 13), 16);
    const numbers = tensor([own, -own], { dtype: "f64" });
    const [most, least] = allReduce(numbers, { runtime: this.runtime, reduction: "max" }).dataSync() as Float64Array;
    if (most === -(least as number)) return;
    throw new HeddleError(
      "mismatch",
      `matrices on several workers: they compute different things; worker ${this.place.rank} computes\n${text}`,
      {
        hint: "all workers must compute the same on matrices of the same sizes, whatever their rank; are their files the same?",
      },
    );
  }

  private prepared(program: MatrixProgram, forms: readonly (readonly Form[])[]): Ready {
    let sent = 0;
    const leaves = program.types.map(
      (type, index): Leaf => ({ size: sizeOfMatrix(type), forms: forms[index] as readonly Form[] }),
    );
    const plan = planTogether(program, leaves, this, (bytes) => {
      sent += bytes;
    });
    const { stages, steps, outputs } = plan;
    const run = perDevice(
      (inputs: readonly Tensor[]) => {
        // The blocks of workers differ, so that the order of collectives is that of the calls.
        ownRank();
        sent = 0;
        return runStages(stages, steps, outputs, inputs);
      },
      { runtime: this.runtime, name: "matrix program" },
    );
    return { plan, run, sends: () => sent };
  }
}

/** In which forms a value is there. */
function formsOf({ host, tensor: held, apart }: Stored): Form[] {
  const forms: Form[] = host !== undefined || held !== undefined ? ["whole"] : [];
  if (apart instanceof Block) {
    apart.check();
    forms.push(apart.dim);
  }
  return forms;
}

let current: Workers | undefined;

/** The workers at hand; undefined where this process computes alone. */
export const workersNow = (): Workers | undefined => current;

/** From now on programs are computed with the workers of a runtime; of one worker, by this process alone. */
export function computeWith(
  runtime: Runtime,
  options: ConnectOptions = {},
  lineage: Lineage = new Lineage(false),
): void {
  const { wholeBytes = defaultWholeBytes } = options;
  checkInteger("connect", "wholeBytes", wholeBytes, 0);
  current = runtime.world > 1 ? new Workers(runtime, wholeBytes, lineage) : undefined;
  if (current !== undefined) lineage.begin(runtime.world, (length) => agreed(runtime, length, "min"));
  conductedBy(current);
}

/** The least or the greatest of the numbers of all workers; each of them must ask. */
export const agreed = (runtime: Runtime, value: number, reduction: "min" | "max"): number =>
  allReduce(tensor([value], { dtype: "f64" }), { runtime, reduction }).dataSync()[0] as number;

/**
 * Joins the other workers of the run (`heddle run --workers 4`): from now on matrices of more than `wholeBytes` lie in blocks of rows, and the
 * workers compute programs on them together. Every worker runs the same program and reads the same values. In a process that is alone
 * nothing changes.
 *
 * @throws HeddleError `option`; `world` if the other workers cannot be reached in time
 */
export async function connect(options: ConnectOptions = {}): Promise<{ readonly rank: number; readonly size: number }> {
  checkOptions("connect", options, ["wholeBytes"]);
  const runtime = await connectDevices();
  computeWith(runtime, options);
  return { rank: runtime.rank, size: runtime.world };
}

/** The rows `[from, to)` of a matrix of this size that this worker has: all where the matrix is whole on each worker. */
export function ownRows(size: Size): readonly [from: number, to: number] {
  if (current?.isCut(size) !== true) return [0, size[0]];
  const from = blockStart(size[0], current.place.rank, current.size);
  return [from, from + blockLength(size[0], current.place)];
}

/**
 * A matrix whose rows come from a function of ranges, such as one that reads a part of a file. Where workers compute together and the matrix is
 * large, each asks for its own rows; otherwise for all.
 *
 * @param read gives rows `[from, to)`, row-major
 * @throws HeddleError `shape` unless the numbers fill the rows
 */
export function rowBlocks(size: Size, read: (from: number, to: number) => Float64Array): Matrix {
  const isSize =
    Array.isArray(size) && size.length === 2 && size.every((side) => Number.isSafeInteger(side) && side >= 0);
  if (!isSize || typeof read !== "function")
    throw new HeddleError(
      "argument",
      `rowBlocks: takes [rows, columns] and a function, got ${shown(size)} and ${shown(read)}`,
    );
  const workers = current?.isCut(size) === true ? current : undefined;
  const [from, to] = ownRows(size);
  const data = read(from, to);
  if (!(data instanceof Float64Array) || data.length !== (to - from) * size[1])
    throw new HeddleError(
      "shape",
      `rowBlocks: ${data?.length} numbers do not fill rows ${from} to ${to} of ${size[1]} columns`,
    );
  if (workers === undefined) return Matrix.of(storedExpression({ host: { dtype: "f64", shape: size, data } }, size));
  const own = tensor(data, { dtype: "f64", shape: localSize(size, 0, workers.place) });
  return Matrix.of(storedExpression({ apart: new Block(own, 0, size, workers) }, size));
}

/** What all workers have sent in programs so far, and what the formulas say; every worker must ask. Undefined where this process computes alone. */
export function trafficSoFar():
  | { readonly workers: number; readonly sent: number; readonly predicted: number; readonly read: number }
  | undefined {
  if (current === undefined) return undefined;
  const { size } = current;
  const together = matrixPrograms().flatMap((program) => program.together ?? []);
  const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
  const own = [total(together.map(({ sent }) => sent)), current.read];
  const [sent = 0, read = 0] = current.sum(own);
  return { workers: size, sent, read, predicted: total(together.map(({ predicted }) => predicted)) };
}
