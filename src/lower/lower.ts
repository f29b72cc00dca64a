/** @module Lowering: from a program to kernel calls with offsets in one arena. */

import { foldCopies } from "../copies/fold-copies.ts";
import { type Machine, machineFor, sendingOf } from "../cost/index.ts";
import { isContiguous, type KernelCall, type Ref, type ScalarInstruction, type View, wholeView } from "../ir/kernel.ts";
import { isAbsent, type Node } from "../ir/node.ts";
import { opNamed } from "../ir/op.ts";
import { bytesOf, formatType, type TensorType } from "../ir/shape.ts";
import { flopsOf } from "../ir/walk.ts";
import { aligned, descriptionOf } from "../kernels/index.ts";
import {
  type BranchStep,
  type CollectiveStep,
  devicesOf,
  type LoopStep,
  type Program,
  type RunStep,
  type ValueId,
} from "../program/program.ts";
import { refusesValues } from "../program/split.ts";
import { HeddleError, invariant } from "../util/errors.ts";
import { allAccesses, livesOf } from "./access.ts";
import { withAsyncCollectives } from "./async-collectives.ts";
import type { Cluster } from "./cluster.ts";
import { branchCalls, type Inner, loopCalls } from "./control.ts";
import { workField } from "./cost.ts";
import { donateBuffers } from "./donate.ts";
import {
  type EmitTarget,
  type EmittedCalls,
  emitCopy,
  emitFolded,
  emitGenerated,
  emitGroup,
  emitKernel,
} from "./emit.ts";
import { foldEpilogues } from "./epilogue.ts";
import { expandGraph } from "./expand.ts";
import type { FoldSpace } from "./fold-space.ts";
import { defaultLimits, fuseRegion } from "./fuse.ts";
import { type Address, type LoweredJson, type LoweredStep, originField, resolveCall, writeJson } from "./json.ts";
import type { LoweredArgument, LoweredProgram, LowerTarget } from "./lowered.ts";
import { layOutArena } from "./memory.ts";
import { flatten, replaceStorages } from "./nest.ts";
import { scheduleUnits } from "./schedule.ts";
import { type Storage, StoragePool, storageOf } from "./storage.ts";
import { type OutputCopy, type Unit, unitsFor } from "./units.ts";
import { formOf, kernelOf, RegionValues } from "./values.ts";

/**
 * Lowers a program: expands composites, fuses elementwise nodes, chooses kernels, orders them, and gives every value an
 * offset. Equal programs give equal texts.
 *
 * @throws HeddleError `lower` naming an op that has no native kernel.
 */
export function lowerProgram(program: Program, target: LowerTarget): LoweredProgram {
  return new Lowering(program, target).lower();
}

interface Region {
  readonly step: RunStep;
  readonly values: RegionValues;
  readonly clusters: ReadonlyMap<Storage, Cluster>;
  readonly copies: OutputCopy[];
}

/** The outer program, as far as lowering an inner program needs it. */
interface Surroundings {
  readonly pool: StoragePool;
  readonly inputs: readonly View[];
  /** The storage for each output; undefined: any. */
  readonly storages: readonly (Storage | undefined)[];
  /** Outputs that need no storage, since the outer program reads them from the inputs. */
  readonly read: ReadonlySet<number>;
}

/** Writes an output into its buffer; a generated value exists only there. */
const emitOutput = ({ from, to, generator }: Pick<OutputCopy, "from" | "to" | "generator">): EmittedCalls =>
  generator === undefined ? emitCopy(from, to) : emitGenerated(generator, to);

class Lowering {
  private readonly program: Program;
  private readonly target: LowerTarget;
  private readonly machine: Machine;
  private readonly emitTarget: EmitTarget;
  private readonly outer: Surroundings | undefined;
  private readonly pool: StoragePool;
  /** Storages with a smaller number belong to the outer program. */
  private readonly firstOwn: number;
  private readonly views = new Map<ValueId, View>();
  private readonly inputs: readonly Storage[];
  private readonly generators = new Map<ValueId, ScalarInstruction | undefined>();
  private readonly regions = new Map<number, Region>();
  /** Last step that uses a piece of memory. */
  private readonly lastStep = new Map<Storage, number>();
  private readonly outputs = new Map<number, Storage>();
  private calls: KernelCall[] = [];
  private readonly inPlace: (readonly [Storage, Storage])[] = [];

  constructor(program: Program, target: LowerTarget, around?: Surroundings) {
    this.program = program;
    this.target = target;
    this.machine = machineFor(devicesOf(program), target.machine);
    this.outer = around;
    this.pool = around?.pool ?? new StoragePool();
    this.firstOwn = this.pool.all.length;
    this.emitTarget = { slots: target.slots, axisIndex: (axis) => this.axisIndex(axis) };
    this.inputs = program.inputs.map((input, index) => {
      const view = around?.inputs[index] ?? this.pool.tensor("input", input.type, input.name, index);
      this.views.set(index, view);
      return storageOf(view);
    });
  }

  lower(): LoweredProgram {
    this.emitAll();
    return this.assemble();
  }

  /** Lowers a program that runs inside another one. */
  lowerInner(): Inner {
    this.emitAll();
    const replacements = new Map<Storage, Storage>();
    const outputs = new Array<View | undefined>(this.program.outputs.length).fill(undefined);
    for (const storage of this.pool.all.slice(this.firstOwn)) {
      const index = storage.output;
      if (index === undefined) continue;
      const donor = this.donorOf(index);
      if (donor !== undefined) replacements.set(storage, donor);
      else outputs[index] = wholeView(storage, this.outputTypes()[index] as TensorType);
      storage.output = undefined;
    }
    const inPlace = this.inPlace.map(
      ([from, to]) => [replacements.get(from) ?? from, replacements.get(to) ?? to] as const,
    );
    return { calls: replaceStorages(this.calls, replacements), outputs, inPlace };
  }

  private emitAll(): void {
    this.placeValues();
    this.claimOutputs();
    this.program.steps.forEach((step, index) => {
      if (step.kind === "run") this.runRegion(this.regions.get(index) as Region, index);
      else if (step.kind === "collective") this.add(this.collective(step));
      else if (step.kind !== "free") this.calls.push(...this.control(step));
    });
    // Outputs of a program without any region.
    for (const copy of this.looseCopies) this.add(emitOutput(copy));
    const donors = new Map(this.donations());
    if (this.target.epilogues !== "apart")
      this.calls = foldEpilogues(foldCopies(this.calls, (memory) => donors.has(memory as Storage)));
    donateBuffers(
      this.calls,
      donors,
      this.inPlace,
      this.pool,
      (from, to) => this.add(emitCopy(from, to)),
      this.outputTypes(),
    );
  }

  private control(step: LoopStep | BranchStep): KernelCall[] {
    const results = step.results.map((value) => this.view(value));
    const context = {
      pool: this.pool,
      view: (value: ValueId) => this.view(value),
      generator: (value: ValueId) => this.generators.get(value),
      lower: (
        program: Program,
        inputs: readonly View[],
        storages: readonly (Storage | undefined)[],
        read: ReadonlySet<number>,
      ): Inner => {
        const inner = new Lowering(program, this.target, {
          pool: this.pool,
          inputs,
          storages,
          read,
        }).lowerInner();
        this.inPlace.push(...inner.inPlace);
        return inner;
      },
    };
    return step.kind === "loop" ? loopCalls(step, results, context) : branchCalls(step, results, context);
  }

  /** The memory that an output takes over. */
  private donorOf(output: number): Storage | undefined {
    if (this.outer !== undefined) return this.outer.storages[output];
    const donor = this.program.donated[output];
    return donor === undefined ? undefined : this.inputs[donor];
  }

  private axisIndex(axis: string): number {
    const index = this.program.axes.findIndex((candidate) => candidate.name === axis);
    if (index < 0) throw new HeddleError("lower", `program '${this.program.name}' has no axis '${axis}'`);
    return index;
  }

  private view(value: ValueId): View {
    const view = this.views.get(value);
    invariant(view !== undefined, `value %${value} of program '${this.program.name}' is used before it is made`);
    return view;
  }

  /** Decides the storage of every value, before the order of the calls. */
  private placeValues(): void {
    // Values that leave the device or the program are row-major.
    const rowMajor = new Set<ValueId>(this.program.outputs.map((output) => output.value));
    for (const step of this.program.steps)
      if (step.kind !== "run" && step.kind !== "free") for (const value of step.arguments) rowMajor.add(value);
    this.program.steps.forEach((step, index) => {
      if (step.kind === "free") return;
      const arguments_ = step.arguments.map((value) => this.view(value));
      arguments_.forEach((view, position) => {
        // A loop generates first carries that cost nothing.
        const generated =
          step.kind === "loop" && position < step.carries && this.generators.get(step.arguments[position] as ValueId);
        if (generated === undefined || generated === false) this.lastStep.set(storageOf(view), index);
      });
      if (step.kind !== "run") {
        const name = step.kind === "collective" ? step.op : step.kind;
        for (const value of step.results)
          this.views.set(
            value,
            this.pool.tensor("value", this.typeOf(value), `${name} ${formatType(this.typeOf(value))}`),
          );
        return;
      }
      const graph = expandGraph(step.region, this.target.kernels ?? "all");
      const values = new RegionValues(graph, arguments_, this.pool, (result) =>
        rowMajor.has(step.results[result] as ValueId),
      );
      const clusters = fuseRegion(values, this.target.limits ?? defaultLimits);
      this.regions.set(index, { step, values, clusters, copies: [] });
      step.results.forEach((value, result) => {
        const node = graph.outputs[result] as Node;
        this.views.set(value, values.view(node));
        this.generators.set(value, values.generator(node));
      });
    });
  }

  private typeOf(value: ValueId): TensorType {
    return this.program.values[value] as TensorType;
  }

  private readonly looseCopies: OutputCopy[] = [];

  /** Lets each output be written directly into its buffer where possible; other outputs are copied there. */
  private claimOutputs(): void {
    const [lastRegion, last] = [...this.regions].at(-1) ?? [-1, undefined];
    // A region cannot copy the result of a later step.
    const hasLaterStep = this.program.steps.some(
      (step, index) => index > lastRegion && step.kind !== "run" && step.kind !== "free",
    );
    const copies = hasLaterStep || last === undefined ? this.looseCopies : last.copies;
    this.program.outputs.forEach((output, index) => {
      if (this.outer?.read.has(index) === true) return;
      const from = this.view(output.value);
      const storage = storageOf(from);
      const isWholeStorage = from.offset === 0 && isContiguous(from) && storage.bytes === bytesOf(output.type);
      if (isWholeStorage && storage === this.donorOf(index)) return;
      const isOwnValue = storage.kind === "value" && storage.id >= this.firstOwn;
      const generator = this.generators.get(output.value);
      if (generator === undefined && isWholeStorage && isOwnValue && storage.output === undefined) {
        storage.output = index;
        this.outputs.set(index, storage);
        return;
      }
      const to = this.pool.tensor("value", output.type, output.name);
      storageOf(to).output = index;
      this.outputs.set(index, storageOf(to));
      copies.push({ kind: "output", from, to, generator });
    });
  }

  private runRegion(region: Region, index: number): void {
    const { values, clusters, copies, step } = region;
    const stored = step.results
      .filter((value) => this.isStored(value, index))
      .map((value) => storageOf(this.view(value)));
    const units = unitsFor(values, clusters, stored, copies);
    const neededLater = new Set(stored.filter((storage) => (this.lastStep.get(storage) ?? -1) > index));
    const ordered = scheduleUnits({
      units,
      demanded: [...stored, ...copies.map((copy) => storageOf(copy.to))],
      keeps: (storage) =>
        storage.id < this.firstOwn || neededLater.has(storage) || (this.lastStep.get(storage) ?? -1) > index,
      donor: (storage) => (storage.output === undefined ? undefined : this.donorOf(storage.output)),
    });
    const counted = new Set<Node>();
    for (const unit of ordered) this.add(this.marked(unit, this.emit(unit, values), counted));
  }

  /** Whether a result of a step is needed in memory: a generated value that no later step reads is not. */
  private isStored(value: ValueId, step: number): boolean {
    return this.generators.get(value) === undefined || (this.lastStep.get(storageOf(this.view(value))) ?? -1) > step;
  }

  private emit(unit: Unit, values: RegionValues): EmittedCalls {
    const { cluster } = unit;
    if (cluster.kind === "output") return emitOutput(cluster);
    const node = cluster.nodes[0] as Node;
    if (cluster.kind === "group") return emitGroup(cluster.nodes, values, new Set(unit.writes));
    if (cluster.kind === "folded")
      return emitFolded(cluster.nodes, cluster.space as FoldSpace, values, new Set(unit.writes), this.pool);
    if (cluster.kind === "copy") {
      const copy = values.copies.get(node);
      invariant(copy !== undefined, "a copy cluster without a copy");
      return emitCopy(copy.from, copy.to);
    }
    invariant(formOf(node).kind === "kernel", `${node.op.name} is not a kernel`);
    const inputs = node.inputs.map((input) => values.view(input));
    return emitKernel(node, kernelOf(node), inputs, values.results(node), this.pool, this.emitTarget);
  }

  /**
   * The calls of a unit, with the arithmetic of its nodes, and with their origin if the target collects origins. What is computed again
   * costs less than to read, and is not counted.
   */
  private marked({ cluster }: Unit, { calls, inPlace }: EmittedCalls, counted: Set<Node>): EmittedCalls {
    const { origins } = this.target;
    if (cluster.kind === "output") return { calls, inPlace };
    // Of the nodes in a fused call, only some refuse values.
    const refusing = cluster.nodes.filter(refusesValues);
    const nodes = refusing.length > 0 ? refusing : cluster.nodes.slice(0, 1);
    const mark = origins === undefined ? {} : { [originField]: origins.push(nodes) - 1 };
    const kernels = calls.filter((call) => descriptionOf(call).group === undefined);
    const computing = kernels.length > 0 ? kernels : calls.slice(0, 1);
    const first = cluster.nodes.filter((node) => !counted.has(node));
    for (const node of first) counted.add(node);
    const flops = first.reduce((sum, node) => sum + flopsOf(node), 0) / computing.length;
    const work = (call: KernelCall): object => (computing.includes(call) ? { [workField]: { flops } } : {});
    return { calls: calls.map((call) => ({ ...call, ...mark, ...work(call) })), inPlace };
  }

  private collective(step: CollectiveStep): EmittedCalls {
    const op = opNamed(step.op);
    if (isAbsent(op.lower)) throw new HeddleError("lower", `${step.op} has no native kernel`);
    const inputs = step.arguments.map((value) => this.view(value));
    const outputs = step.results.map((value) => this.view(value));
    const emitted = emitKernel({ op, attrs: step.attrs }, op.lower, inputs, outputs, this.pool, this.emitTarget);
    const work = { [workField]: { sends: sendingOf(step.op, inputs, step.attrs) } };
    const calls = emitted.calls.map((call) => (descriptionOf(call).communicates ? { ...call, ...work } : call));
    return { ...emitted, calls };
  }

  private add(emitted: EmittedCalls): void {
    this.calls.push(...emitted.calls);
    this.inPlace.push(...emitted.inPlace);
  }

  /** The storage of each output that is to take over an input's buffer, with the input's storage. */
  private donations(): [Storage, Storage][] {
    return [...this.outputs].flatMap(([index, storage]): [Storage, Storage][] => {
      const donor = this.donorOf(index);
      return donor === undefined ? [] : [[storage, donor]];
    });
  }

  private outputTypes(): readonly TensorType[] {
    return this.program.outputs.map((output) => output.type);
  }

  private assemble(): LoweredProgram {
    const arguments_ = this.arguments();
    const space = (storage: Storage): number =>
      storage.input ??
      this.program.donated[storage.output as number] ??
      arguments_.findIndex((argument) => argument.output === storage.output);
    const calls = withAsyncCollectives(this.calls, {
      addressOf: (storage) => [storage.inArena ? -1 - storage.id : space(storage), 0],
      axes: this.program.axes.map((axis) => axis.size),
      overlap: this.target.overlap ?? "paying",
      machine: this.machine,
    });
    const flat = flatten(calls);
    const lives = livesOf(flat);
    const arena = layOutArena(flat.calls, lives, this.inPlace);
    const addressOf = (storage: Storage): Address =>
      storage.inArena ? [0, arena.offsets.get(storage) as number] : [space(storage) + 1, 0];
    const json: LoweredJson = {
      version: 1,
      name: this.program.name,
      arena: arena.bytes,
      buffers: arguments_.map((argument) => ({ bytes: argument.bytes })),
      steps: calls.map((call) => resolveCall(call, addressOf)),
    };
    const argumentBytes = arguments_.reduce((total, argument) => total + argument.bytes, 0);
    const work = workBytes(arena.bytes, json.steps);
    return {
      name: this.program.name,
      axes: this.program.axes,
      json,
      text: writeJson(json),
      arenaBytes: arena.bytes,
      workBytes: work,
      argumentBytes,
      peakBytes: work + argumentBytes,
      arguments: arguments_,
      firstDonatedWrite: this.firstDonatedWrite(calls),
      peak: arena.peak,
      layout: [...lives.values()].flatMap(({ storage, first, lastUse }) =>
        storage.inArena
          ? [
              {
                label: storage.label,
                offset: arena.offsets.get(storage) as number,
                bytes: storage.bytes,
                first,
                last: lastUse,
              },
            ]
          : [],
      ),
    };
  }

  private firstDonatedWrite(calls: readonly KernelCall[]): number {
    const isDonated = ({ input, output }: Storage): boolean =>
      input === undefined && output !== undefined && this.program.donated[output] !== undefined;
    const writes = (call: KernelCall): boolean =>
      allAccesses(call).some(({ role, at }) => role !== "read" && isDonated((at as unknown as Ref).origin as Storage));
    const first = calls.findIndex(writes);
    return first < 0 ? calls.length : first;
  }

  /** The inputs, then the outputs that take over no input's buffer. */
  private arguments(): LoweredArgument[] {
    const { inputs, outputs, donated } = this.program;
    const inputArguments = inputs.map(({ name, type }, input): LoweredArgument => {
      const output = donated.indexOf(input);
      return { name, type, bytes: bytesOf(type), input, ...(output < 0 ? {} : { output }) };
    });
    const outputArguments = outputs.flatMap(({ name, type }, output): LoweredArgument[] =>
      donated[output] === undefined ? [{ name, type, bytes: bytesOf(type), output }] : [],
    );
    return [...inputArguments, ...outputArguments];
  }
}

/** Bytes that a device needs to run the steps, besides the argument buffers. */
export function workBytes(arena: number, steps: readonly LoweredStep[]): number {
  const partials = flatten(steps).calls.map((step) => descriptionOf(step).work?.(step as never) ?? 0);
  return aligned(arena) + partials.reduce((largest, bytes) => Math.max(largest, bytes), 0);
}
