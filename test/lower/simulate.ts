/** @module A plain interpreter of lowered programs over typed arrays: what native code must do, in slow loops. */
import {
  type DType,
  dtypes,
  type HostTensor,
  opNamed,
  otherDims,
  type Shape,
  sizeOf,
  stridesOf,
  type TensorType,
  type TypedArray,
  traceGraph,
} from "heddle/ir";
import type { LoweredProgram } from "heddle/lower";
import { evaluateNode } from "heddle/ops";
import { type Access, accessesOf } from "../../src/kernels/index.ts";
import type { LoweredStep } from "../../src/lower/json.ts";

/** Runs a lowered program on one device; returns the outputs in order. */
export function simulate(lowered: LoweredProgram, inputs: readonly HostTensor[]): HostTensor[] {
  return simulateMesh(lowered, [], [inputs])[0] as HostTensor[];
}

interface Device {
  readonly coordinates: readonly number[];
  readonly memory: Memory;
}

/** Runs all devices of a mesh in step; devices are numbered row-major over the axes. */
export function simulateMesh(
  lowered: LoweredProgram,
  axes: readonly number[],
  inputs: readonly (readonly HostTensor[])[],
): HostTensor[][] {
  const strides = stridesOf(axes);
  const devices = inputs.map((given, rank): Device => {
    const memory = new Memory(lowered);
    lowered.arguments.forEach((argument, index) => {
      if (argument.input !== undefined) memory.fill(index + 1, given[argument.input] as HostTensor);
    });
    return { memory, coordinates: axes.map((size, axis) => Math.floor(rank / (strides[axis] as number)) % size) };
  });
  // As a consumer of the text would see it.
  const json = JSON.parse(lowered.text) as { steps: LoweredStep[] };
  runSteps(json.steps, devices, axes);
  return devices.map(({ memory }) => {
    const outputs: HostTensor[] = [];
    lowered.arguments.forEach((argument, index) => {
      if (argument.output !== undefined) outputs[argument.output] = memory.tensor(index + 1, argument.type);
    });
    return outputs;
  });
}

function runSteps(steps: readonly LoweredStep[], devices: readonly Device[], axes: readonly number[]): void {
  // At the latest: an async collective is carried out when it is waited for.
  const pending = new Map<unknown, LoweredStep>();
  for (const step of steps) {
    if (step.k === "wait") communicate(pending.get(step["handle"]) as LoweredStep, devices, axes);
    else if (step["handle"] !== undefined) pending.set(step["handle"], step);
    else if (step.k === "loop") runLoop(step, devices, axes);
    else if (step.k === "branch")
      runSteps(step[holds(step, devices) ? "steps" : "otherwise"] as LoweredStep[], devices, axes);
    else if (step.k === "collective" && axes.length > 0) communicate(step, devices, axes);
    else for (const device of devices) run(step, device);
  }
}

/** Whether the test of a loop or branch holds; all devices must agree. */
function holds(step: LoweredStep, devices: readonly Device[]): boolean {
  const test = accessesOf(step).find((access) => access.name === "test") as Access;
  const values = new Set(devices.map(({ memory }) => memory.read(test).data[0]));
  if (values.size !== 1) throw new Error("devices go different ways");
  return !values.has(0);
}

function runLoop(step: LoweredStep, devices: readonly Device[], axes: readonly number[]): void {
  const count = step["count"] as number | undefined;
  const place = accessesOf(step)[0] as Access;
  for (let index = 0; index < (count ?? Infinity); index++) {
    const at = step["reverse"] === true ? (count as number) - 1 - index : index;
    for (const { memory } of devices) memory.write(place, Int32Array.of(at));
    runSteps((step["condition"] ?? []) as LoweredStep[], devices, axes);
    if (count === undefined && !holds(step, devices)) return;
    runSteps(step["steps"] as LoweredStep[], devices, axes);
  }
}

/** Carries out a collective among the devices that differ in its axis only. */
function communicate(step: LoweredStep, devices: readonly Device[], axes: readonly number[]): void {
  const axis = step["axis"] as number;
  const groups = new Map<string, Device[]>();
  for (const device of devices) {
    const key = device.coordinates.filter((_coordinate, index) => index !== axis).join();
    groups.set(key, [...(groups.get(key) ?? []), device]);
  }
  for (const group of groups.values()) {
    const accesses = accessesOf(step, axes);
    for (let part = 0; part < accesses.length; part += 2) {
      const [from, to] = [accesses[part] as Access, accesses[part + 1] as Access];
      const given = group.map((device) => device.memory.read(from).data);
      group.forEach((device, rank) => {
        device.memory.write(to, combine(step, given, rank, sizeOf(to.shape)));
      });
    }
  }
}

function combine(step: LoweredStep, given: readonly TypedArray[], rank: number, count: number): TypedArray {
  const { create } = dtypes[step["dtype"] as DType];
  const block = (source: TypedArray, index: number): number[] => [
    ...source.subarray((index * source.length) / given.length, ((index + 1) * source.length) / given.length),
  ];
  const rules: { readonly [reduction: string]: (x: number, y: number) => number } = {
    sum: (x, y) => x + y,
    max: Math.max,
    min: Math.min,
  };
  const rule = rules[step["reduction"] as string] as (x: number, y: number) => number;
  const reduced = (): TypedArray =>
    create(
      Array.from(given[0] as TypedArray, (_value, index) => given.map((data) => data[index] as number).reduce(rule)),
    );
  switch (step["op"]) {
    case "allReduce":
      return reduced();
    case "allGather":
      return create(given.flatMap((data) => [...data]));
    case "reduceScatter":
      return create(block(reduced(), rank));
    case "allToAll":
      return create(given.flatMap((data) => block(data, rank)));
    default:
      throw new Error(`collective ${String(step["op"])} of ${count} elements`);
  }
}

class Memory {
  private readonly spaces: ArrayBuffer[];
  private readonly views = new Map<string, TypedArray>();

  constructor(lowered: LoweredProgram) {
    this.spaces = [lowered.json.arena, ...lowered.json.buffers.map((buffer) => buffer.bytes)].map(
      (bytes) => new ArrayBuffer(Math.ceil(bytes / 8) * 8),
    );
    // Nothing may depend on what memory held before.
    for (const space of this.spaces) new Uint8Array(space).fill(0xa5);
  }

  fill(space: number, tensor: HostTensor): void {
    this.array(space, tensor.dtype).set(tensor.data);
  }

  tensor(space: number, type: TensorType): HostTensor {
    return { ...type, data: this.array(space, type.dtype).slice(0, sizeOf(type.shape)) };
  }

  array(space: number, dtype: DType): TypedArray {
    const key = `${space} ${dtype}`;
    let view = this.views.get(key);
    if (view === undefined) {
      const buffer = this.spaces[space] as ArrayBuffer;
      view = dtypes[dtype].view(buffer, 0, Math.floor(buffer.byteLength / dtypes[dtype].bytes));
      this.views.set(key, view);
    }
    return view;
  }

  read(access: Access): HostTensor {
    const source = this.array(access.at[0], access.dtype);
    const data = dtypes[access.dtype].create(sizeOf(access.shape));
    eachPlace(access, (linear, offset) => {
      data[linear] = source[offset] as number;
    });
    return { dtype: access.dtype, shape: access.shape, data };
  }

  write(access: Access, data: TypedArray): void {
    const target = this.array(access.at[0], access.dtype);
    eachPlace(access, (linear, offset) => {
      target[offset] = data[linear] as number;
    });
  }
}

function eachPlace(access: Access, visit: (linear: number, offset: number) => void): void {
  const count = sizeOf(access.shape);
  const first = access.at[1] / dtypes[access.dtype].bytes;
  for (let linear = 0; linear < count; linear++) {
    let rest = linear;
    let offset = first;
    for (let dim = access.shape.length - 1; dim >= 0; dim--) {
      const size = access.shape[dim] as number;
      offset += (rest % size) * (access.strides[dim] as number);
      rest = Math.floor(rest / size);
    }
    visit(linear, offset);
  }
}

function run(step: LoweredStep, { memory, coordinates }: Device): void {
  const accesses = accessesOf(step);
  const inputs = accesses.filter((access) => access.role === "read").map((access) => memory.read(access));
  const outputs = accesses.filter((access) => access.role === "write");
  for (const access of accesses)
    if (access.role === "scratch") memory.write(access, new Uint8Array(sizeOf(access.shape)).fill(0xa5));
  if (outputs.every((access) => access.shape.includes(0))) return;
  const results = compute(step, inputs, coordinates);
  outputs.forEach((access, index) => {
    memory.write(access, results[index] as TypedArray);
  });
}

function compute(
  step: LoweredStep,
  inputs: readonly HostTensor[],
  coordinates: readonly number[],
): readonly TypedArray[] {
  if (step.k === "fused") return fused(step, inputs);
  if (step.k === "fusedRows" || step.k === "fusedColumns") return folded(step, inputs);
  if (step.k === "axisIndex") return [Int32Array.of(coordinates[step["axis"] as number] ?? 0)];
  // A device without a mesh is alone on every axis.
  if (step.k === "collective") return inputs.map((input) => input.data);
  const bias = step["bias"] === undefined ? undefined : inputs.at(-1);
  const call = asOp(step, bias === undefined ? inputs : inputs.slice(0, -1));
  const results = applyOp(call.op, call.inputs, call.attrs).map(({ data }) => data);
  finish(step, results[0] as TypedArray, bias, inputs[0] as HostTensor);
  return results;
}

/** What a kernel does to its results in place of a fused call. Arrays round as they are written. */
function finish(step: LoweredStep, data: TypedArray, bias: HostTensor | undefined, input: HostTensor): void {
  for (let index = 0; index < data.length; index++) {
    if (bias !== undefined) data[index] = (data[index] as number) + (bias.data[index % bias.data.length] as number);
    if (step["relu"] === true) data[index] = Math.max(data[index] as number, 0);
    if (step["gate"] === true && (input.data[index] as number) <= 0) data[index] = 0;
  }
}

type Attrs = { readonly [key: string]: unknown };

/** Evaluates one op by its reference implementation. */
function applyOp(name: string, inputs: readonly HostTensor[], attrs: Attrs): readonly HostTensor[] {
  const op = opNamed(name);
  let results: readonly HostTensor[] = [];
  traceGraph(
    name,
    inputs.map((type, index) => ({ name: `x${index}`, type })),
    (...nodes) => {
      const types = op.infer(
        nodes.map((node) => node.types[0] as TensorType),
        attrs,
      );
      const list = (Array.isArray(types) ? types : [types]) as TensorType[];
      const first = list[0] as TensorType;
      results = evaluateNode({ id: 0, op, inputs: nodes, attrs: attrs as never, types: list, ...first }, inputs);
      return nodes;
    },
  );
  return results;
}

const applyToOne = (name: string, inputs: readonly HostTensor[], attrs: Attrs): HostTensor =>
  applyOp(name, inputs, attrs)[0] as HostTensor;

const list = (step: LoweredStep, field: string): number[] => step[field] as number[];

interface OpCall {
  readonly op: string;
  readonly inputs: readonly HostTensor[];
  readonly attrs: Attrs;
}

function asOp(step: LoweredStep, inputs: readonly HostTensor[]): OpCall {
  const [first, second] = inputs as [HostTensor, HostTensor];
  switch (step.k) {
    case "reduce": {
      const keep = list(step, "keep").length;
      return {
        op: "reduce",
        inputs,
        attrs: { op: step["op"], dims: list(step, "over").map((_size, dim) => keep + dim) },
      };
    }
    case "argMax":
      return { op: "argMax", inputs, attrs: { dim: 1 } };
    case "dot":
      return { op: "dot", inputs, attrs: { xBatch: [0], yBatch: [0], xContract: [2], yContract: [1] } };
    case "narrowDot": {
      const attrs = { xBatch: [0], yBatch: [0], xContract: [2], yContract: [1] };
      return { op: "dot", inputs, attrs: step["dtype"] === "bf16" ? attrs : { ...attrs, dtype: step["dtype"] } };
    }
    case "conv":
      return { op: "conv", inputs, attrs: window(step, "b012gf,g012io->b012gf") };
    case "convGroups":
      return { op: "conv", inputs, attrs: window(step, "b012fg,012iog->b012fg") };
    case "convFilter":
      return filterGradient(step, "f012gb,i012go->g012bf", first, second);
    case "convGroupsFilter":
      return filterGradient(step, "f012bg,i012og->012bfg", first, second);
    case "reduceWindow":
    case "selectAndScatter":
    case "windowTake": {
      const around = (field: string, value: unknown): unknown[] => [value, ...(step[field] as unknown[]), value];
      return {
        op: step.k,
        inputs,
        attrs: {
          op: step["op"],
          window: around("window", 1),
          strides: around("strides", 1),
          padding: around("padding", [0, 0]),
          dilation: around("dilation", 1),
        },
      };
    }
    case "gather":
      return { op: "gather", inputs, attrs: { batchDims: 1 } };
    case "scatterAdd":
      return { op: "scatterAdd", inputs, attrs: { batchDims: 1, size: step["size"] } };
    case "entriesDot":
      return { op: "entriesDot", inputs, attrs: { size: step["size"] } };
    case "scatter":
      return { op: "scatter", inputs, attrs: { op: step["op"], batchDims: 1 } };
    case "dynamicSlice":
      return { op: "dynamicSlice", inputs, attrs: { sizes: step["sizes"] } };
    case "randomBits":
      return {
        op: "randomBits",
        inputs,
        attrs: { shape: step["shape"], total: step["total"], stream: step["stream"] },
      };
    case "sort":
      return { op: "sort", inputs, attrs: { descending: step["descending"] } };
    case "topK":
      return { op: "topK", inputs, attrs: { k: step["count"] } };
    case "fft":
      return { op: "fft", inputs, attrs: { kind: step["kind"], length: step["length"] } };
    case "factor":
      return factorisation(step, inputs);
    case "attention":
    case "attentionGrad":
      return attention(step, inputs);
    default:
      return { op: step.k, inputs, attrs: {} };
  }
}

/** The first matrix of a solve is square; all others are m by n, the square ones too. */
function factorisation(step: LoweredStep, inputs: readonly HostTensor[]): OpCall {
  const { what, lower, transpose, unit } = step;
  const [batch, m, n] = ["batch", "m", "n"].map((name) => step[name] as number) as [number, number, number];
  const solves = what === "triangularSolve";
  return {
    op: what as string,
    inputs: inputs.map((input, index) => ({ ...input, shape: [batch, m, solves && index === 0 ? m : n] })),
    attrs: solves ? { lower, transpose, unit } : {},
  };
}

/** The calls read the mask and what drops weights before what the gradient alone reads. */
function attention(step: LoweredStep, inputs: readonly HostTensor[]): OpCall {
  const dropout = step["dropout"] as { readonly factor: number; readonly total: Shape } | undefined;
  const masked = step["mask"] !== undefined;
  const shared = 3 + Number(masked) + (dropout === undefined ? 0 : 2);
  return {
    op: step.k,
    inputs: [...inputs.slice(0, 3), ...inputs.slice(shared), ...inputs.slice(3, shared)],
    attrs: {
      causal: step["causal"],
      scale: step["scale"],
      masked,
      rate: dropout === undefined ? 0 : 1 - 1 / dropout.factor,
      total: dropout?.total ?? [],
    },
  };
}

function window(step: LoweredStep, layout: string): Attrs {
  const { strides, padding, inputDilation, kernelDilation } = step;
  return { layout, strides, padding, inputDilation, kernelDilation };
}

/** dW[g,kd,kh,kw,c,o] = sum over n, oh, ow of x at the tap's place times dy: a convolution with batch and features swapped. */
function filterGradient(step: LoweredStep, layout: string, x: HostTensor, dy: HostTensor): OpCall {
  const three = (names: string): number[] => names.split(" ").map((name) => step[name] as number);
  const sizes = three("d h w");
  const [strides, padding] = [list(step, "strides"), step["padding"] as [number, number][]];
  const [dilation, kernelDilation] = [list(step, "inputDilation"), list(step, "kernelDilation")];
  const out = three("od oh ow");
  const dilated = (size: number, by: number): number => (size - 1) * by + 1;
  const trimmed = three("kd kh kw").map((taps, dim): [number, number] => {
    const low = padding[dim]?.[0] as number;
    const covered = dilated(out[dim] as number, strides[dim] as number) + (taps - 1) * (kernelDilation[dim] as number);
    return [low, covered - dilated(sizes[dim] as number, dilation[dim] as number) - low];
  });
  return {
    op: "conv",
    inputs: [x, dy],
    attrs: {
      layout,
      strides: kernelDilation,
      padding: trimmed,
      inputDilation: dilation,
      kernelDilation: strides,
    },
  };
}

function constant(value: unknown): number {
  if (value === "nan") return Number.NaN;
  if (value === "inf") return Infinity;
  return value === "-inf" ? -Infinity : (value as number);
}

/** The registers of a group, each of the whole shape. */
function registersOf(step: LoweredStep, inputs: readonly HostTensor[]): HostTensor[] {
  const shape = step["shape"] as Shape;
  const registers: HostTensor[] = [...inputs];
  const over = foldedDim(step);
  const kept = otherDims(shape.length, [over]);
  for (const [name, dtype, ...operands] of step["ops"] as [string, DType, ...number[]][]) {
    if (name === "const")
      registers.push({ dtype, shape, data: dtypes[dtype].create(sizeOf(shape)).fill(constant(operands[0])) });
    else if (name === "fold") {
      const [op, register] = operands as unknown as [string, number];
      const result = applyToOne("reduce", [registers[register] as HostTensor], { op, dims: [over] });
      registers.push(applyToOne("broadcast", [result], { shape, dims: kept }));
    } else if (name === "iota") registers.push(applyToOne("iota", [], { dtype, shape, dim: operands[0] }));
    else {
      const values = operands.map((register) => registers[register] as HostTensor);
      const attrs = name === "cast" ? { dtype } : {};
      registers.push(applyToOne(name, values, attrs));
    }
  }
  return registers;
}

const foldedDim = (step: LoweredStep): number => (step.k === "fusedColumns" ? 0 : list(step, "shape").length - 1);

function fused(step: LoweredStep, inputs: readonly HostTensor[]): TypedArray[] {
  const registers = registersOf(step, inputs);
  return (step["out"] as readonly { readonly reg: number; readonly strides: readonly number[] }[]).map(
    (out) => (registers[out.reg] as HostTensor).data,
  );
}

/** Outputs with one value per row, or column, have fewer strides. */
function folded(step: LoweredStep, inputs: readonly HostTensor[]): TypedArray[] {
  const registers = registersOf(step, inputs);
  const shape = list(step, "shape");
  return (step["out"] as readonly { readonly reg: number; readonly strides: readonly number[] }[]).map((out) => {
    const register = registers[out.reg] as HostTensor;
    if (out.strides.length === shape.length) return register.data;
    return applyToOne("reduce", [register], { op: "max", dims: [foldedDim(step)] }).data;
  });
}
