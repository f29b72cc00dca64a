/** @module Compiling functions over trees of tensors: jit, and the compile that training uses. */

import { type Compiled, compileGraph, type Planned, planProgram, runCompiled } from "../compile/compile.ts";
import type { CompileOptions } from "../compile/options.ts";
import { checkMachine, type Machine } from "../cost/index.ts";
import { formatType, isTensorType, type TensorType } from "../ir/shape.ts";
import { formatLayout, type Layout, type Mesh } from "../plan/index.ts";
import { checkMesh } from "../plan/mesh.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { capturePosition } from "../util/source.ts";
import { flattenTree, isRecord, type TreeShape, treeKey, unflattenTree } from "../util/tree.ts";
import { checkFunction } from "./arguments.ts";
import { Cache } from "./cache.ts";
import { Churn } from "./churn.ts";
import { LastCall } from "./last-call.ts";
import { type FunctionPipeline, pipelineOf } from "./pipeline.ts";
import { deviceRuntime } from "./runtime.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { isTracing, traceFunction } from "./tracing.ts";

// biome-ignore lint/suspicious/noExplicitAny: functions of any arguments; their own types are kept by the generics
export type AnyFunction = (...inputs: any[]) => unknown;

export interface JitOptions {
  /** For messages and plans; default the function's own name. */
  readonly name?: string;
  /**
   * Arguments whose memory the outputs may take over; they cannot be used afterwards. By index, or, of a first argument that is a
   * record, by the name of a field: `jit(({ state, x }) => …, { donate: ["state"] })`.
   */
  readonly donate?: readonly (number | string)[];
  /** What the planner assumes of devices and links; default that of `--machine`, or what it assumes of any. */
  readonly machine?: Machine;
}

/** A compiled function of trees. */
interface CompiledTree {
  readonly compiled: Compiled;
  readonly captured: readonly Tensor[];
  readonly output: TreeShape;
}

/** Runs it on the leaves of its arguments. */
function runTree({ compiled, captured, output }: CompiledTree, leaves: readonly Tensor[]): unknown {
  const values = [...leaves, ...captured].map(({ value }) => value);
  return unflattenTree(output, runCompiled(compiled, values, leaves).map(Tensor.ofValue));
}

// Beyond this many shapes of one function, the oldest is compiled again when it comes back.
const jitLimit = 64;

/**
 * Compiles a function over trees of tensors: it is traced once per combination of shapes, dtypes, layouts and static
 * arguments (everything that is not a tensor), and runs as one program. The last 64 programs are kept. When one dim or one
 * static argument makes it compile for the eighth time, a warning (`HEDDLE_RECOMPILES`) names it, once per function.
 *
 * @throws HeddleError `trace` when the function reads a traced value or keeps one.
 */
export function jit<F extends AnyFunction>(fn: F, options: JitOptions = {}): F {
  checkOptions("jit", options, ["name", "donate", "machine"]);
  const machine = options.machine && checkMachine("jit: machine", options.machine);
  checkFunction("jit", fn);
  checkDonate("jit", options.donate ?? []);
  const cache = new Cache<CompiledTree>(jitLimit);
  const donated = (options.donate ?? []).map((one) => (typeof one === "number" ? String(one) : `0.${one}`));
  const name = options.name ?? (fn.name === "" ? "function" : fn.name);
  const churn = new Churn(name, capturePosition());
  let last: LastCall<CompiledTree> | undefined;
  const run = (...inputs: unknown[]): unknown => {
    if (isTracing()) return fn(...inputs);
    const again = last?.leavesOf(inputs);
    if (last !== undefined && again !== undefined) return runTree(last.entry, again);
    const flat = flattenTree(inputs, isTensor);
    for (const wanted of donated) checkGiven(name, wanted, inputs, flat.paths);
    const values = flat.leaves.map((leaf) => leaf.value);
    const runtime =
      values.find((value) => value.runtime.axes.length > 0)?.runtime ?? values[0]?.runtime ?? deviceRuntime();
    const layouts = values.map((value) => (value.runtime === runtime ? value.layout : undefined));
    const key = `${treeKey(flat.shape)}|${flat.leaves.map((leaf, index) => `${formatType(leaf)} ${formatLayout(layouts[index] ?? [])}`).join(";")}`;
    let entry = cache.get(runtime, key);
    if (entry === undefined) {
      const donate = flat.paths.flatMap((path, index) => (donated.some((one) => isWithin(path, one)) ? [index] : []));
      const traced = traceTree(name, fn, { ...flat, paths: namedPaths(flat.paths, inputs) });
      const compiled = compileGraph(traced.graph, runtime, {
        inputs: [...layouts, ...traced.captured.map(() => undefined)],
        donate,
        machine,
      });
      entry = { compiled, captured: traced.captured, output: traced.output };
      cache.set(runtime, key, entry);
      const warning = churn.note(flat);
      if (warning !== undefined) process.emitWarning(warning, { type: "HeddleWarning", code: "HEDDLE_RECOMPILES" });
    }
    last = new LastCall(entry, flat.shape, flat.leaves, values);
    return runTree(entry, flat.leaves);
  };
  return run as F;
}

function checkDonate(what: string, donate: readonly (number | string)[]): void {
  for (const one of donate) if (typeof one !== "string") checkInteger(what, "an entry of donate", one);
}

/** Whether a value is one, or a part of one, by their paths. */
const isWithin = (path: string, whole: string): boolean => path === whole || path.startsWith(`${whole}.`);

/** @throws HeddleError `option` unless a call has what is to be donated. */
function checkGiven(name: string, wanted: string, inputs: readonly unknown[], paths: readonly string[]): void {
  const [index, ...field] = wanted.split(".");
  if (field.length === 0 && Number(index) >= inputs.length)
    throw new HeddleError("option", `${name}: argument ${index} is to be donated, but there are ${inputs.length}`);
  if (field.length === 0 || paths.some((path) => isWithin(path, wanted))) return;
  throw new HeddleError(
    "option",
    `${name}: '${field.join(".")}' is to be donated, but the first argument has no such tensors`,
    { hint: `it is ${shown(inputs[0])}` },
  );
}

interface Flat {
  readonly leaves: readonly TensorType[];
  readonly paths: readonly string[];
  readonly shape: TreeShape;
}

/** Traces `fn` on the tree's leaves as parameters. */
function traceTree(name: string, fn: AnyFunction, flat: Flat) {
  let output: TreeShape = { kind: "leaf" };
  let names: readonly string[] = [];
  const specs = flat.leaves.map(({ shape, dtype }, index) => ({
    name: flat.paths[index] as string,
    type: { shape, dtype },
  }));
  const traced = traceFunction<Tensor>(name, specs, (nodes) => {
    const result = fn(...(unflattenTree(flat.shape, nodes.map(Tensor.ofNode)) as unknown[]));
    if (result instanceof Promise)
      throw new HeddleError("trace", `${name}: a function that is compiled cannot be async`);
    const made = flattenTree(result, isTensor);
    output = made.shape;
    names = made.paths;
    return made.leaves.map((leaf) => leaf.node);
  });
  return { ...traced, output, names };
}

/** What {@link planFunction} and {@link compileFunction} need to know of a function. */
export interface FunctionOptions {
  readonly name?: string;
  /**
   * Names of the arguments, with which the paths of inputs begin; default their indices. The paths of a function of one record begin with
   * the names of its fields, if nothing is said.
   */
  readonly argumentNames?: readonly string[] | undefined;
  /** Layout of an input by its dotted path (`"batch.x"`); undefined: replicated. */
  readonly layouts?: (path: string) => Layout | undefined;
  /** Layout an input is used in, by its path, where that is another than it is kept in; see `PlanOptions.uses`. */
  readonly uses?: (path: string) => Layout | undefined;
  /** Layout of an output by its path; undefined: as it comes. */
  readonly outputLayouts?: (path: string) => Layout | undefined;
  /** Arguments whose memory the outputs may take over: by index, or what is at a path (`"params"`). */
  readonly donate?: readonly (number | string)[];
  /** What the planner assumes of devices and links; default that of `--machine`, or what it assumes of any. */
  readonly machine?: Machine | undefined;
  /** Makes it a pipeline, on a mesh with an axis `stage`. */
  readonly pipeline?: FunctionPipeline | undefined;
  /**
   * A plan to go by, read from its text: one with graphs (`parsePlan`) is run as it is; of one without (`parseLayouts`) the layouts and
   * the schedule are taken, before what else is said here.
   */
  readonly plan?: CompileOptions["plan"] | undefined;
  /** Is told of each pass of the compile. */
  readonly onPass?: CompileOptions["onPass"] | undefined;
}

/** A function that is planned, with the form of its result. */
export interface PlannedFunction extends Planned {
  readonly outputPaths: readonly string[];
}

/** Tensors or just their types, in any tree. */
export type Example = unknown;

/** `"6.x"` with the name of argument 6: `"batch.x"`; of a function of one record `"0.batch.x"` is the same. */
function namedPaths(paths: readonly string[], inputs: readonly unknown[], names?: readonly string[]): string[] {
  const isRecordAlone = names === undefined && inputs.length === 1 && isRecord(inputs[0]);
  return paths.map((path) => {
    const [index, ...rest] = path.split(".") as [string, ...string[]];
    return (isRecordAlone ? rest : [names?.[Number(index)] ?? index, ...rest]).join(".");
  });
}

/** Traces a function on its example, with what its compile is told. */
function prepare(fn: AnyFunction, example: readonly Example[], options: FunctionOptions = {}) {
  checkFunction(options.name ?? "compileFunction", fn);
  if (!Array.isArray(example))
    throw new HeddleError(
      "argument",
      `${options.name ?? fn.name}: the example is an array of arguments, got ${shown(example)}`,
    );
  const flat = flattenTree(example, isTensorType);
  const named = namedPaths(flat.paths, example, options.argumentNames);
  const traced = traceTree(options.name ?? fn.name, fn, { ...flat, paths: named });
  const isDonated = (path: string, name: string): boolean =>
    (options.donate ?? []).some((one) => (typeof one === "number" ? isWithin(path, `${one}`) : isWithin(name, one)));
  return {
    flat,
    named,
    traced,
    compile: {
      inputs: [...named.map((path) => options.layouts?.(path)), ...traced.captured.map(() => undefined)],
      uses: named.map((path) => options.uses?.(path)),
      outputs: traced.names.map((path) => options.outputLayouts?.(path)),
      outputNames: traced.names,
      donate: flat.paths.flatMap((path, index) => (isDonated(path, named[index] as string) ? [index] : [])),
      machine: options.machine && checkMachine(`${options.name ?? fn.name}: machine`, options.machine),
      pipeline: options.pipeline && pipelineOf(traced.graph, named, traced.names, options.pipeline),
      plan: options.plan,
      onPass: options.onPass,
    } satisfies CompileOptions,
  };
}

/** Plans a function for a mesh that need not exist. `example` is its arguments, as tensors or types. */
export function planFunction(
  fn: AnyFunction,
  example: readonly Example[],
  mesh: Mesh,
  options: FunctionOptions = {},
): PlannedFunction {
  checkMesh(mesh);
  const { traced, compile } = prepare(fn, example, options);
  return { ...planProgram(traced.graph, mesh, compile), outputPaths: traced.names };
}

/** A compiled function on a runtime. */
export interface CompiledFunction<F extends AnyFunction> extends PlannedFunction {
  readonly compiled: Compiled;
  /** Enqueues a run; the results' contents come later. Donated arguments cannot be used afterwards. */
  run(...inputs: Parameters<F>): ReturnType<F>;
}

/** Compiles a function for a runtime ahead of its first call. */
export function compileFunction<F extends AnyFunction>(
  fn: F,
  example: readonly Example[],
  runtime: Runtime,
  options: FunctionOptions = {},
): CompiledFunction<F> {
  const { flat, traced, compile } = prepare(fn, example, options);
  const compiled = compileGraph(traced.graph, runtime, compile);
  const entry = { compiled, captured: traced.captured, output: traced.output };
  const expected = treeKey(flat.shape);
  return {
    ...compiled,
    compiled,
    outputPaths: traced.names,
    run: (...inputs) => {
      const given = flattenTree(inputs, isTensor);
      if (treeKey(given.shape) !== expected)
        throw new HeddleError("argument", `${traced.graph.name}: arguments have another form than the example`);
      return runTree(entry, given.leaves) as ReturnType<F>;
    },
  };
}

/** What {@link compilePipeline} needs to know. */
export interface PipelineOptions extends Omit<FunctionOptions, "pipeline">, FunctionPipeline {}

/**
 * Compiles a function as a pipeline for a runtime whose mesh has an axis `stage`: {@link compileFunction} with its option `pipeline`. The
 * result is that of the function on the whole batch: means are over all rows, and dropout takes the bits of the row in the whole batch. A
 * parameter and what belongs to it stay on the devices of their stage; other results are on every stage.
 *
 * @param example the arguments of the whole batch, as tensors or types
 * @throws HeddleError `pipeline` or `schedule` when the stages or the schedule do not fit.
 */
export const compilePipeline = <F extends AnyFunction>(
  fn: F,
  example: readonly Example[],
  runtime: Runtime,
  options: PipelineOptions,
): CompiledFunction<F> => compileFunction(fn, example, runtime, { ...options, pipeline: options });
