/** @module Compiling functions over trees of tensors: jit, and the compile that training uses. */

import { type Compiled, compileGraph, type Planned, planProgram, runCompiled } from "../compile/compile.ts";
import type { Value } from "../compile/value.ts";
import { checkMachine, type Machine } from "../cost/index.ts";
import { formatType, isTensorType, type TensorType } from "../ir/shape.ts";
import { formatLayout, type Layout, type Mesh } from "../plan/index.ts";
import { checkMesh } from "../plan/mesh.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { capturePosition } from "../util/source.ts";
import { flattenTree, type TreeShape, treeKey, unflattenTree } from "../util/tree.ts";
import { checkFunction } from "./arguments.ts";
import { Cache } from "./cache.ts";
import { Churn } from "./churn.ts";
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

interface JitEntry {
  readonly compiled: Compiled;
  readonly captured: readonly Tensor[];
  readonly output: TreeShape;
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
  const cache = new Cache<JitEntry>(jitLimit);
  const donated = (options.donate ?? []).map((one) => (typeof one === "number" ? String(one) : `0.${one}`));
  const name = options.name ?? (fn.name === "" ? "function" : fn.name);
  const churn = new Churn(name, capturePosition());
  const run = (...inputs: unknown[]): unknown => {
    if (isTracing()) return fn(...inputs);
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
      const traced = traceTree(name, fn, flat);
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
    const all = [...values, ...entry.captured.map((tensor) => tensor.value)];
    checkDonations(name, entry.compiled, all);
    const outputs = runCompiled(entry.compiled, all, flat.leaves);
    return unflattenTree(entry.output, outputs.map(Tensor.ofValue));
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

/** Refuses memory that is both given away and used by another argument: which of the values it would see is undefined. */
function checkDonations(name: string, { program, plan }: Compiled, values: readonly Value[]): void {
  for (const given of program.donated) {
    if (given === undefined) continue;
    const buffer = values[given]?.shards[0];
    const twin = values.findIndex((value, index) => index !== given && value.shards[0] === buffer);
    if (twin < 0) continue;
    const [left, right] = [given, twin].map((index) => `'${plan.inputs[index]?.name}'`);
    throw new HeddleError(
      "donation",
      `${name}: argument ${left} is donated, and argument ${right} is the same tensor`,
      {
        hint: "pass a copy, such as x.add(0), or do not donate it",
      },
    );
  }
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
  /** Names of the arguments, for plans and messages; default their indices. */
  readonly argumentNames?: readonly string[];
  /** Layout of an input by its dotted path (`"2.x"` is field x of argument 2); undefined: replicated. */
  readonly layouts?: (path: string) => Layout | undefined;
  /** Layout an input is used in, by its path, where that is another than it is kept in; see `PlanOptions.uses`. */
  readonly uses?: (path: string) => Layout | undefined;
  /** Layout of an output by its path; undefined: as it comes. */
  readonly outputLayouts?: (path: string) => Layout | undefined;
  /** Arguments whose memory the outputs may take over. */
  readonly donate?: readonly number[];
  /** What the planner assumes of devices and links; default that of `--machine`, or what it assumes of any. */
  readonly machine?: Machine | undefined;
}

/** A function that is planned, with the form of its result. */
export interface PlannedFunction extends Planned {
  readonly outputPaths: readonly string[];
}

/** Tensors or just their types, in any tree. */
export type Example = unknown;

/** `"6.x"` with the name of argument 6: `"batch.x"`. */
function withName(path: string, names: readonly string[] | undefined): string {
  const [index, ...rest] = path.split(".") as [string, ...string[]];
  return [names?.[Number(index)] ?? index, ...rest].join(".");
}

/** Traces a function on its example, with what its compile is told. */
export function prepare(fn: AnyFunction, example: readonly Example[], options: FunctionOptions = {}) {
  checkFunction(options.name ?? "compileFunction", fn);
  if (!Array.isArray(example))
    throw new HeddleError(
      "argument",
      `${options.name ?? fn.name}: the example is an array of arguments, got ${shown(example)}`,
    );
  const flat = flattenTree(example, isTensorType);
  const named = flat.paths.map((path) => withName(path, options.argumentNames));
  const traced = traceTree(options.name ?? fn.name, fn, { ...flat, paths: named });
  const donated = new Set(options.donate ?? []);
  return {
    flat,
    named,
    traced,
    compile: {
      inputs: [...flat.paths.map((path) => options.layouts?.(path)), ...traced.captured.map(() => undefined)],
      uses: flat.paths.map((path) => options.uses?.(path)),
      outputs: traced.names.map((path) => options.outputLayouts?.(path)),
      outputNames: traced.names,
      machine: options.machine && checkMachine(`${options.name ?? fn.name}: machine`, options.machine),
      donate: flat.paths.flatMap((path, index) => (donated.has(Number(path.split(".")[0])) ? [index] : [])),
    },
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
  const expected = treeKey(flat.shape);
  return {
    ...compiled,
    compiled,
    outputPaths: traced.names,
    run: (...inputs) => {
      const given = flattenTree(inputs, isTensor);
      if (treeKey(given.shape) !== expected)
        throw new HeddleError("argument", `${traced.graph.name}: arguments have another form than the example`);
      const all = [...given.leaves, ...traced.captured].map((leaf) => leaf.value);
      checkDonations(traced.graph.name, compiled, all);
      const outputs = runCompiled(compiled, all, given.leaves);
      return unflattenTree(traced.output, outputs.map(Tensor.ofValue)) as ReturnType<F>;
    },
  };
}
