/** @module Functions that every device of a mesh runs on tensors of its own; collectives are the only way between devices. */
import { type Compiled, loadPlanned, runCompiled } from "../compile/compile.ts";
import { passesFor, runPasses } from "../compile/passes.ts";
import type { Value } from "../compile/value.ts";
import { environmentMachine } from "../cost/index.ts";
import { traceFunction, zeros } from "../functions/index.ts";
import type { Graph } from "../ir/node.ts";
import { formatType, range, sameType, type TensorType } from "../ir/shape.ts";
import { nodesWithin } from "../ir/walk.ts";
import * as ops from "../ops/emit.ts";
import type { ExchangeAttrs } from "../ops/exchange.ts";
import { checkSameCollectives, type DeviceClass } from "../plan/classes.ts";
import {
  coordinatesOf,
  deviceAt,
  deviceCount,
  formatLayout,
  type Layout,
  localType,
  type Mesh,
  mesh as makeMesh,
  type Plan,
  planGraph,
  replicated,
  shard,
} from "../plan/index.ts";
import { cutPlan, type DeviceProgram } from "../program/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { meshOf } from "../runtime/mesh.ts";
import { checkFunction, returned } from "../tensor/arguments.ts";
import { Cache } from "../tensor/cache.ts";
import { isTensor, operate, Tensor } from "../tensor/tensor.ts";
import { isTracing } from "../tensor/tracing.ts";
import type { AnyFunction } from "../tensor/transforms.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { type FlatTree, flattenTree, type TreeShape, treeKey, unflattenTree } from "../util/tree.ts";
import { inCallOrder } from "./call-order.ts";
import { runtimeFor } from "./runtime.ts";
import { inScope, Scope, scopeNow } from "./scope.ts";

/** Options of {@link perDevice}. */
export interface PerDeviceOptions {
  /** The devices. Default: those of the arguments, else those of the last `comm.connect()`. */
  readonly runtime?: Runtime;
  /** The name in messages and plans; default the function's name. */
  readonly name?: string;
}

/** A function compiled for the devices of a runtime. */
interface Entry {
  readonly compiled: Compiled;
  readonly captured: readonly Tensor[];
  readonly output: TreeShape;
}

const mostPrograms = 64;

/**
 * Compiles a function that every device of a mesh runs on tensors of its own, as processes under torchrun or `shard_map` of JAX do;
 * `comm.allReduce` and the other collectives in it exchange values. It is traced like a function of `jit`, once per combination of
 * types, and runs as one program with the collectives beside the computation where that pays.
 *
 * An argument is this process's own tensor, which may differ from those of other processes. Of a tensor on the mesh
 * (`distribute`), each device gets its part. Results are tensors of this process; a process with several devices (`localRuntime`)
 * gets them joined along a new first dim, split over the devices. Every process must call the function.
 *
 * @throws HeddleError `world` without a runtime; `trace` if called in another traced function, or if devices return different trees;
 * `plan` if devices run different collectives.
 */
export function perDevice<F extends AnyFunction>(fn: F, options: PerDeviceOptions = {}): F {
  checkFunction("comm.perDevice", fn);
  checkOptions("comm.perDevice", options, ["runtime", "name"]);
  const name = options.name ?? (fn.name === "" ? "function" : fn.name);
  const run = deviceFunction(name, fn);
  return ((...inputs: unknown[]) => {
    if (scopeNow() !== undefined) return fn(...inputs);
    return run(options.runtime, inputs);
  }) as F;
}

/** A function compiled per runtime and types of its arguments. */
export function deviceFunction(name: string, fn: AnyFunction) {
  const cache = new Cache<Entry>(mostPrograms);
  return (wanted: Runtime | undefined, inputs: readonly unknown[]): unknown => {
    if (isTracing())
      throw new HeddleError("trace", `comm: '${name}' exchanges values between devices and cannot be traced here`, {
        hint: "wrap the whole function in comm.perDevice instead of jit; grad and loops go inside it",
      });
    const flat = flattenTree(inputs, isTensor);
    const runtime = runtimeFor(name, wanted, flat.leaves);
    const values = flat.leaves.map((leaf) => valueOn(runtime, leaf.value));
    const layouts = values.map((value) => (value.runtime === runtime ? value.layout : replicated(meshOf(runtime))));
    const types = values.map(({ type }, index) => `${formatType(type)} ${formatLayout(layouts[index] as Layout)}`);
    const entry = cache.of(runtime, `${treeKey(flat.shape)}|${types.join(";")}`, () =>
      compile(name, fn, flat, layouts, runtime),
    );
    const all = [...values, ...entry.captured.map(({ value }) => valueOn(runtime, value))];
    const results = runCompiled(entry.compiled, all).map((value) => Tensor.ofValue(ownValue(value)));
    return unflattenTree(entry.output, results);
  };
}

/** What the trace for one device gave. */
interface DeviceTrace {
  readonly device: number;
  readonly graph: Graph;
  readonly captured: readonly Tensor[];
  readonly output: FlatTree<Tensor>;
  /** Whether other devices may have another graph. */
  readonly isOwn: boolean;
}

function compile(
  name: string,
  fn: AnyFunction,
  flat: FlatTree<Tensor>,
  layouts: readonly Layout[],
  runtime: Runtime,
): Entry {
  const mesh = meshOf(runtime);
  const traces = traceDevices(name, fn, flat, layouts, runtime);
  const [first] = traces as [DeviceTrace, ...DeviceTrace[]];
  const captured = [...new Set(traces.flatMap((trace) => trace.captured))];
  for (const tensor of captured) checkCaptured(name, tensor, runtime);
  const inputs = [
    ...flat.leaves.map(({ shape, dtype }, index) => ({
      name: flat.paths[index] as string,
      type: { shape, dtype },
      layout: layouts[index] as Layout,
    })),
    ...captured.map(({ shape, dtype }, index) => ({
      name: `captured${index}`,
      type: { shape, dtype },
      layout: replicated(mesh),
    })),
  ];
  const isJoined = runtime.local.length > 1;
  const outputs = first.output.leaves.map(({ shape, dtype }, index) => ({
    name: first.output.paths[index] as string,
    type: { dtype, shape: isJoined ? [runtime.local.length, ...shape] : shape },
    layout: isJoined ? mesh.axes.map(() => shard(0)) : replicated(mesh),
  }));
  const classes = traces.map(
    (trace): DeviceClass => ({
      // A trace that does not depend on the device is that of all devices.
      devices: traces.length === 1 ? range(deviceCount(mesh)) : [trace.device],
      local: optimized(trace, runtime),
      inputs: [...flat.leaves.keys(), ...trace.captured.map((tensor) => flat.leaves.length + captured.indexOf(tensor))],
    }),
  );
  checkSameCollectives(classes);
  if (traces.length === deviceCount(mesh)) checkAmounts(classes, mesh);
  const { local } = classes[0] as DeviceClass;
  const plan: Plan = { name, mesh, formats: [], inputs, outputs, local, classes };
  const programs = cutPlan(plan);
  const { program } = programs[0] as DeviceProgram;
  const compiled = loadPlanned({ plan, programs, program }, runtime);
  return { compiled, captured, output: first.output.shape };
}

/** @throws HeddleError `plan` where a device sends another amount than the receiver expects: devices would wait for ever */
function checkAmounts(classes: readonly DeviceClass[], mesh: Mesh): void {
  const [sent, due] = [new Map<string, number>(), new Map<string, number>()];
  for (const { devices, local } of classes) {
    const [device] = devices as readonly [number];
    for (const { attrs } of nodesWithin(local).filter(
      (node) => node.op.name === "exchange" && !node.attrs["relative"],
    )) {
      const { axis, label, sends, receives } = attrs as ExchangeAttrs;
      const peerAt = (coordinate: number): number =>
        deviceAt(
          mesh,
          coordinatesOf(mesh, device).map((own, at) => (mesh.axes[at]?.name === axis ? coordinate : own)),
        );
      for (const [peer, , count] of sends) sent.set(`${label}: device ${device} sends device ${peerAt(peer)}`, count);
      for (const [peer, , count] of receives) due.set(`${label}: device ${peerAt(peer)} sends device ${device}`, count);
    }
  }
  for (const pair of new Set([...sent.keys(), ...due.keys()])) {
    const [count, expected] = [sent.get(pair) ?? 0, due.get(pair) ?? 0];
    if (count !== expected) throw new HeddleError("plan", `${pair} ${count} elements, which expects ${expected}`);
  }
}

/** The passes of a compile, and the formats of matrices, for the graph of one device. */
function optimized({ graph, isOwn }: DeviceTrace, runtime: Runtime): Graph {
  const { before, after } = passesFor(runtime.executor);
  const machine = runtime.machine ?? environmentMachine();
  const simplified = runPasses(graph, before);
  const orderly = isOwn ? inCallOrder(simplified) : simplified;
  return planGraph(orderly, makeMesh({}), { machine, finish: (local) => runPasses(local, after) }).local;
}

/** The trace of the first device; of each device of this process, where the trace depends on the device. */
function traceDevices(
  name: string,
  fn: AnyFunction,
  flat: FlatTree<Tensor>,
  layouts: readonly Layout[],
  runtime: Runtime,
): DeviceTrace[] {
  const mesh = meshOf(runtime);
  const typesOf = (coordinates: readonly number[]): TensorType[] =>
    flat.leaves.map(({ shape, dtype }, index) =>
      localType({ shape, dtype }, layouts[index] as Layout, mesh, coordinates),
    );
  const traces: Omit<DeviceTrace, "isOwn">[] = [];
  let isOwn = false;
  for (const { coordinates } of runtime.local) {
    const types = typesOf(coordinates);
    isOwn ||= runtime.local.some(
      (other) => !typesOf(other.coordinates).every((type, i) => sameType(type, types[i] as TensorType)),
    );
    const scope = new Scope(mesh, coordinates, runtime.machine ?? environmentMachine());
    traces.push({ ...traceDevice(name, fn, flat, types, scope, runtime), device: deviceAt(mesh, coordinates) });
    isOwn ||= scope.isOwn;
    checkResults(name, traces);
    if (!isOwn) break;
  }
  return traces.map((trace) => ({ ...trace, isOwn }));
}

/** The results of a device after a comparison of the calls: a root or a pair that only one rank knows would go unnoticed. */
function compared(leaves: readonly Tensor[], { calls, mesh }: Scope): readonly Tensor[] {
  const [first, ...rest] = leaves;
  if (first === undefined) return leaves;
  const checks = mesh.axes.flatMap(({ name: axis, size: parts }): Tensor[] => {
    const made = calls.get(axis);
    if (made === undefined) return [];
    const attrs = { axis, parts, label: `comm.check 0 of ${made.join(", ")}`, reduction: "max" };
    return [operate("comm.check", (node) => ops.call("allReduce", [node], attrs), [zeros([1])])];
  });
  return [operate("comm.check", (node, ...others) => ops.barrier(node, others), [first, ...checks]), ...rest];
}

function traceDevice(
  name: string,
  fn: AnyFunction,
  flat: FlatTree<Tensor>,
  types: readonly TensorType[],
  scope: Scope,
  runtime: Runtime,
): Omit<DeviceTrace, "device" | "isOwn"> {
  const [isJoined, isApart] = [runtime.local.length > 1, runtime.local.length < deviceCount(scope.mesh)];
  let output: FlatTree<Tensor> = { leaves: [], paths: [], shape: { kind: "array", items: [] } };
  const specs = types.map((type, index) => ({ name: flat.paths[index] as string, type }));
  const traced = inScope(scope, () =>
    traceFunction<Tensor>(name, specs, (nodes) => {
      output = flattenTree(
        returned(name, fn(...(unflattenTree(flat.shape, nodes.map(Tensor.ofNode)) as unknown[]))),
        isTensor,
      );
      const leaves = isApart && scope.isOwn ? compared(output.leaves, scope) : output.leaves;
      return leaves.map((leaf) => (isJoined ? leaf.reshape([1, ...leaf.shape]) : leaf).node);
    }),
  );
  return { ...traced, output };
}

/** @throws HeddleError `trace` unless the last device returns what the first one does. */
function checkResults(name: string, traces: readonly Omit<DeviceTrace, "isOwn">[]): void {
  const [first, last] = [traces[0], traces.at(-1)] as [DeviceTrace, DeviceTrace];
  const say = ({ output }: DeviceTrace): string =>
    output.leaves.map((leaf, index) => `${output.paths[index]} ${formatType(leaf)}`).join(", ");
  if (say(first) === say(last) && treeKey(first.output.shape) === treeKey(last.output.shape)) return;
  throw new HeddleError(
    "trace",
    `${name}: device ${first.device} returns ${say(first)}, device ${last.device} returns ${say(last)}`,
  );
}

/** Refuses a captured tensor of which a device has a part only. */
function checkCaptured(name: string, tensor: Tensor, runtime: Runtime): void {
  const { value } = tensor;
  if (value.runtime !== runtime || value.layout.every(({ kind }) => kind === "replicate")) return;
  throw new HeddleError(
    "layout",
    `${name}: uses ${formatType(tensor)} from outside, which is ${formatLayout(value.layout)}`,
    {
      hint: "pass it as an argument: each device then gets its part",
    },
  );
}

const owns = new WeakMap<Runtime, Runtime>();

/** This process's device of a mesh as a runtime of its own, with the same queue: its tensors are this process's alone. */
function ownRuntime(runtime: Runtime): Runtime {
  const known = owns.get(runtime);
  if (known !== undefined) return known;
  const own: Runtime = { ...runtime, axes: [], local: [{ coordinates: [] }], rank: 0, world: 1, processes: undefined };
  owns.set(runtime, own);
  return own;
}

/** The value as one of a mesh's runtime; a tensor of this process counts as what its device has. */
const valueOn = (runtime: Runtime, value: Value): Value =>
  value.runtime === owns.get(runtime) ? { ...value, runtime, layout: replicated(meshOf(runtime)) } : value;

/** A result as a tensor of this process. */
const ownValue = (value: Value): Value =>
  value.runtime.local.length > 1 ? value : { ...value, runtime: ownRuntime(value.runtime), layout: [] };
