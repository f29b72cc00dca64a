/** @module Compiling functions over trees of tensors: jit, and compiling ahead of the first call, as training does. */

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
import { checkFunction, returned } from "./arguments.ts";
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
  /** The name in messages and plans; default the function's name. */
  readonly name?: string;
  /**
   * Arguments whose memory the outputs may take over; they cannot be used afterwards. By index, or by the name of a field if the
   * first argument is a record: `jit(({ state, x }) => …, { donate: ["state"] })`.
   */
  readonly donate?: readonly (number | string)[];
  /** The machine that the planner assumes; default that of `--machine`, or the planner's default. */
  readonly machine?: Machine;
}

/** A compiled function of trees. */
interface CompiledTree {
  readonly compiled: Compiled;
  readonly captured: readonly Tensor[];
  readonly output: TreeShape;
}

/** Runs a compiled function on the leaves of its arguments. */
function runTree({ compiled, captured, output }: CompiledTree, leaves: readonly Tensor[]): unknown {
  const values = [...leaves, ...captured].map(({ value }) => value);
  return unflattenTree(output, runCompiled(compiled, values, leaves).map(Tensor.ofValue));
}

// The most programs kept per function; older ones are compiled again when needed.
const jitLimit = 64;

/**
 * Compiles a function over trees of tensors: it is traced once per combination of shapes, dtypes, layouts and static
 * arguments (everything that is not a tensor), and runs as one program. The last 64 programs are kept. If one dim or one static
 * argument makes it compile for the eighth time, a warning (`HEDDLE_RECOMPILES`) names it, once per function.
 *
 * @throws HeddleError `trace` if the function reads a traced value or keeps one; `option` for a donated argument that a call lacks.
 */
export function jit<F extends AnyFunction>(fn: F, options: JitOptions = {}): F {
  checkOptions("jit", options, ["name", "donate", "machine"]);
  const machine = options.machine && checkMachine("jit: machine", options.machine);
  checkFunction("jit", fn);
  checkDonate("jit", options.donate ?? []);
  const cache = new Cache<CompiledTree>(jitLimit);
  const donated = (options.donate ?? []).map((key) => (typeof key === "number" ? String(key) : `0.${key}`));
  const name = options.name ?? (fn.name === "" ? "function" : fn.name);
  const churn = new Churn(name, capturePosition());
  let last: LastCall<CompiledTree> | undefined;
  const run = (...inputs: unknown[]): unknown => {
    if (isTracing()) return fn(...inputs);
    const again = last?.leavesOf(inputs);
    if (last !== undefined && again !== undefined) return runTree(last.entry, again);
    const flat = flattenTree(inputs, isTensor);
    for (const wanted of donated) checkHas(name, wanted, inputs, flat.paths);
    const values = flat.leaves.map((leaf) => leaf.value);
    const runtime =
      values.find((value) => value.runtime.axes.length > 0)?.runtime ?? values[0]?.runtime ?? deviceRuntime();
    const layouts = values.map((value) => (value.runtime === runtime ? value.layout : undefined));
    const key = `${treeKey(flat.shape)}|${flat.leaves.map((leaf, index) => `${formatType(leaf)} ${formatLayout(layouts[index] ?? [])}`).join(";")}`;
    const entry = cache.of(runtime, key, () => {
      const donate = flat.paths.flatMap((path, index) => (donated.some((key) => isWithin(path, key)) ? [index] : []));
      const traced = traceTree(name, fn, { ...flat, paths: namedPaths(flat.paths, inputs) });
      const compiled = compileGraph(traced.graph, runtime, {
        inputs: [...layouts, ...traced.captured.map(() => undefined)],
        donate,
        machine,
      });
      const warning = churn.note(flat);
      if (warning !== undefined) process.emitWarning(warning, { type: "HeddleWarning", code: "HEDDLE_RECOMPILES" });
      return { compiled, captured: traced.captured, output: traced.output };
    });
    last = new LastCall(entry, flat.shape, flat.leaves, values);
    return runTree(entry, flat.leaves);
  };
  return run as F;
}

function checkDonate(what: string, donate: readonly (number | string)[]): void {
  for (const key of donate) if (typeof key !== "string") checkInteger(what, "an entry of donate", key);
}

/** Whether a path is `whole`, or within it. */
const isWithin = (path: string, whole: string): boolean => path === whole || path.startsWith(`${whole}.`);

/** Checks that a call has an argument that is donated. @throws HeddleError `option` */
function checkHas(name: string, wanted: string, inputs: readonly unknown[], paths: readonly string[]): void {
  const [index, ...field] = wanted.split(".");
  if (field.length === 0 && Number(index) >= inputs.length)
    throw new HeddleError("option", `${name}: argument ${index} cannot be donated: there are ${inputs.length}`);
  if (field.length === 0 || paths.some((path) => isWithin(path, wanted))) return;
  throw new HeddleError(
    "option",
    `${name}: '${field.join(".")}' cannot be donated: the first argument has no such tensors`,
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
    const result = returned(name, fn(...(unflattenTree(flat.shape, nodes.map(Tensor.ofNode)) as unknown[])));
    const flatResult = flattenTree(result, isTensor);
    output = flatResult.shape;
    names = flatResult.paths;
    return flatResult.leaves.map((leaf) => leaf.node);
  });
  return { ...traced, output, names };
}

/** Options of {@link planFunction} and {@link compileFunction}. */
export interface FunctionOptions {
  readonly name?: string;
  /**
   * Names of the arguments, with which the paths of inputs begin; default their indices. If the only argument is a record, paths begin
   * with the names of its fields by default.
   */
  readonly argumentNames?: readonly string[] | undefined;
  /** Layout of an input by its dotted path (`"batch.x"`); undefined: replicated. */
  readonly layouts?: (path: string) => Layout | undefined;
  /** Layout in which an input is used, by its path, if it differs from the layout in which it is kept; see `PlanOptions.uses`. */
  readonly uses?: (path: string) => Layout | undefined;
  /** Layout of an output by its path; undefined: as planned. */
  readonly outputLayouts?: (path: string) => Layout | undefined;
  /** Arguments whose memory the outputs may take over: by index, or by path (`"params"`). */
  readonly donate?: readonly (number | string)[];
  /** The machine that the planner assumes; default that of `--machine`, or the planner's default. */
  readonly machine?: Machine | undefined;
  /** Makes the function a pipeline, on a mesh with an axis `stage`. */
  readonly pipeline?: FunctionPipeline | undefined;
  /**
   * A plan to use, read from its text. A plan with graphs (`parsePlan`) runs as it is; a plan without graphs (`parseLayouts`) gives
   * layouts and schedule, which take precedence over the other options.
   */
  readonly plan?: CompileOptions["plan"] | undefined;
  /** Called after each pass of the compile. */
  readonly onPass?: CompileOptions["onPass"] | undefined;
}

/** A planned function, with the paths of its results. */
export interface PlannedFunction extends Planned {
  readonly outputPaths: readonly string[];
}

/** Tensors or just their types, in any tree. */
export type Example = unknown;

/** Paths with names of arguments in place of indices: `"6.x"` becomes `"batch.x"`; for one record as the only argument so does `"0.batch.x"`. */
function namedPaths(paths: readonly string[], inputs: readonly unknown[], names?: readonly string[]): string[] {
  const isRecordAlone = names === undefined && inputs.length === 1 && isRecord(inputs[0]);
  return paths.map((path) => {
    const [index, ...rest] = path.split(".") as [string, ...string[]];
    return (isRecordAlone ? rest : [names?.[Number(index)] ?? index, ...rest]).join(".");
  });
}

/** Traces a function on its example, and resolves the options of its compile. */
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
    (options.donate ?? []).some((key) => (typeof key === "number" ? isWithin(path, `${key}`) : isWithin(name, key)));
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

/** Plans a function for a mesh that need not exist. `example` has its arguments, as tensors or types. @throws HeddleError `argument` unless it is an array */
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
  /** Enqueues a run; the contents of results come later. Donated arguments cannot be used afterwards. */
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
      const flatInputs = flattenTree(inputs, isTensor);
      if (treeKey(flatInputs.shape) !== expected)
        throw new HeddleError("argument", `${traced.graph.name}: arguments have another form than the example`);
      return runTree(entry, flatInputs.leaves) as ReturnType<F>;
    },
  };
}

/** Options of {@link compilePipeline}. */
export interface PipelineOptions extends Omit<FunctionOptions, "pipeline">, FunctionPipeline {}

/**
 * Compiles a function as a pipeline for a runtime whose mesh has an axis `stage`: {@link compileFunction} with its option `pipeline`. The
 * result equals that of the function on the whole batch: means are over all rows, and dropout takes the bits of the row in the whole
 * batch. A parameter and its optimizer state stay on the devices of their stage; other results are on every stage.
 *
 * @param example the arguments of the whole batch, as tensors or types
 * @throws HeddleError `pipeline` or `schedule` if stages or schedule do not fit.
 */
export const compilePipeline = <F extends AnyFunction>(
  fn: F,
  example: readonly Example[],
  runtime: Runtime,
  options: PipelineOptions,
): CompiledFunction<F> => compileFunction(fn, example, runtime, { ...options, pipeline: options });
