/**
 * @module From expressions to values. What is asked for together is one program, cached by the structure of its expressions and the
 * sizes and dtypes of its inputs. A small program is interpreted in its first runs, since compiling takes longer than such a run.
 */

import { jit, Tensor, tensor } from "../functions/index.ts";
import type { Graph } from "../ir/node.ts";
import type { HostTensor } from "../ir/shape.ts";
import { evaluateGraph } from "../ops/index.ts";
import { isTracing, traceFunction } from "../tensor/tracing.ts";
import { HeddleError } from "../util/errors.ts";
import { memoryLimit } from "../util/process.ts";
import { formatBytes } from "../util/text.ts";
import {
  cells,
  type Expression,
  formatSize,
  hostOf,
  type MatrixAttrs,
  type Operator,
  pendingOrder,
  type Size,
  type Stored,
} from "./expression.ts";
import { others } from "./operators.ts";

/** One operation of a program: its operands are the program's inputs, then the results of earlier operations. */
interface Step {
  readonly operator: Operator;
  readonly attrs: MatrixAttrs;
  readonly size: Size;
  readonly operands: readonly number[];
}

/** A program for one structure of expressions. */
export interface MatrixProgram {
  /** The operators with their results' sizes, for people. */
  readonly text: string;
  /** Dtypes and sizes of the inputs, whose numbers come before those of the operators. */
  readonly inputs: string;
  /** Roughly how many floating-point operations a run takes. */
  readonly work: number;
  runs: number;
  compiles: number;
  milliseconds: number;
  /** @internal */
  readonly steps: readonly Step[];
  /** @internal */
  readonly outputs: readonly number[];
  /** @internal */
  graph: Graph | undefined;
  /** @internal */
  compiled: ((inputs: readonly Tensor[]) => Tensor[]) | undefined;
}

// Compiling takes some 10 ms, in which the interpreter does about this much.
const interpretedRuns = 3;
const interpretedWork = 300_000;
/** Most programs that are kept; then all are forgotten. */
const mostPrograms = 4096;

const programs = new Map<string, MatrixProgram>();

/** The programs that were made in this process, in the order in which they were made. */
export const matrixPrograms = (): readonly MatrixProgram[] => [...programs.values()];

/** Whether expressions keep what they were computed from, for a gradient. */
let recording = 0;
/** The parameters of the gradients that are recorded. */
let parameters: readonly Expression[] = [];

/** Runs `body`, whose gradient with respect to `given` is wanted; expressions that get values meanwhile keep their inputs. */
export function recorded<Result>(given: readonly Expression[], body: () => Result): Result {
  const before = parameters;
  recording++;
  parameters = [...before, ...given];
  try {
    return body();
  } finally {
    recording--;
    parameters = before;
  }
}

/** Whether a gradient is recorded, so that a value that is read stands for its expression later on. */
export const isRecording = (): boolean => recording > 0;

/** Whether an expression depends on a parameter of a gradient that is recorded: its value is then no constant. */
export function isRecorded(expression: Expression): boolean {
  if (parameters.length === 0) return false;
  const given = new Set(parameters);
  return given.has(expression) || dependents([expression], given).has(expression);
}

const tensorOfHost = ({ data, shape, dtype }: HostTensor): Tensor => tensor(data, { shape, dtype });

/** The tensor of a stored value. */
export function tensorOf(stored: Stored): Tensor {
  stored.tensor ??= tensorOfHost(hostOf(stored));
  return stored.tensor;
}

/** Applies the steps of a program to its inputs. */
function replay({ steps, outputs }: MatrixProgram, inputs: readonly Tensor[]): Tensor[] {
  const values = [...inputs];
  for (const { operator, attrs, size, operands } of steps)
    values.push(
      operator.build(
        operands.map((index) => values[index] as Tensor),
        attrs,
        size,
      ),
    );
  return outputs.map((index) => values[index] as Tensor);
}

interface Planned {
  readonly program: MatrixProgram;
  readonly leaves: readonly Expression[];
}

const typeText = ({ stored }: Expression): string => {
  const value = stored?.host ?? stored?.tensor;
  return value === undefined ? "" : `${value.dtype} ${value.shape.join("x")}`;
};

/** The program that computes `roots`, and the stored expressions that are its inputs. */
export function programOf(roots: readonly Expression[], isLeaf?: (expression: Expression) => boolean): Planned {
  const { pending, leaves } = pendingOrder(roots, isLeaf);
  const place = new Map<Expression, number>();
  for (const leaf of leaves) place.set(leaf, place.size);
  for (const expression of pending) place.set(expression, place.size);
  const steps = pending.map(({ operator, attrs, size, inputs }) => ({
    operator: operator as Operator,
    attrs,
    size,
    operands: inputs.map((input) => place.get(input) as number),
  }));
  const outputs = roots.map((root) => place.get(root) as number);
  const lines = steps.map(
    ({ operator, attrs, size, operands }) =>
      `${operator.name}${Object.keys(attrs).length === 0 ? "" : JSON.stringify(attrs)}(${operands.join(",")}) ${formatSize(size)}`,
  );
  const key = `${leaves.map(typeText).join(",")}|${lines.join(" ")}|${outputs.join(",")}`;
  let program = programs.get(key);
  if (program === undefined) {
    pending.forEach(checkFits);
    if (programs.size >= mostPrograms) programs.clear();
    program = {
      text: lines.map((line, index) => `${leaves.length + index} = ${line}`).join("\n"),
      inputs: leaves.map(typeText).join(", "),
      work: pending.reduce((sum, expression) => sum + workOf(expression), 0),
      runs: 0,
      compiles: 0,
      milliseconds: 0,
      steps,
      outputs,
      graph: undefined,
      compiled: undefined,
    };
    programs.set(key, program);
  }
  return { program, leaves };
}

/** Smaller matrices are left to the compiler, which refuses programs that do not fit. */
const largeBytes = 2 ** 30;

/** Refuses a matrix that is made whole and cannot fit: a sum over it would take no memory, but hours. */
function checkFits({ operator, size }: Expression): void {
  if (operator !== others.fill && operator !== others.random) return;
  const bytes = 8 * cells(size);
  const limit = memoryLimit();
  if (bytes < largeBytes || bytes <= limit) return;
  throw new HeddleError(
    "memory",
    `a matrix of ${formatSize(size)} takes ${formatBytes(bytes)}, and this process may use ${formatBytes(limit)}`,
    { hint: "make a smaller matrix, or one of entries(…), or set a higher HEDDLE_MEMORY" },
  );
}

const workOf = ({ operator, inputs, size }: Expression): number =>
  operator?.work?.(inputs, size) ?? cells(size) + inputs.reduce((sum, input) => sum + cells(input.size), 0);

/** Computes what has no value yet, as one program. */
export function evaluateExpressions(roots: readonly Expression[]): void {
  const wanted = [...new Set(roots)].filter(({ stored }) => stored === undefined);
  if (wanted.length === 0) return;
  const { program, leaves } = programOf(wanted);
  const stored = leaves.map((leaf) => leaf.stored as Stored);
  const started = performance.now();
  const results = run(program, stored);
  program.runs++;
  program.milliseconds += performance.now() - started;
  wanted.forEach((expression, index) => {
    expression.stored = results[index];
    if (recording === 0 && !isTracing() && expression.operator?.kept !== true) expression.inputs = [];
  });
}

function run(program: MatrixProgram, inputs: readonly Stored[]): Stored[] {
  // Within a function that is being traced, a value is part of the function's graph.
  if (isTracing()) return replay(program, inputs.map(tensorOf)).map((value) => ({ tensor: value }));
  const small = program.work <= interpretedWork && inputs.every(({ tensor: held }) => !held?.isTraced);
  if (small && program.runs < interpretedRuns) {
    const hosts = inputs.map(hostOf);
    program.graph ??= traceFunction<Tensor>(
      "matrix program",
      hosts.map(({ shape, dtype }, index) => ({ name: `in${index}`, type: { shape, dtype } })),
      (nodes) => replay(program, nodes.map(Tensor.ofNode)).map(({ node }) => node),
    ).graph;
    return evaluateGraph(program.graph, hosts).map((host) => ({ host }));
  }
  if (program.compiled === undefined) {
    program.compiles++;
    program.compiled = jit((leaves: readonly Tensor[]) => replay(program, leaves), { name: "matrix program" });
  }
  return program.compiled(inputs.map(tensorOf)).map((value) => ({ tensor: value }));
}

/** Applies the program of `roots` to tensors in the place of some expressions, as part of a function that is being traced. */
export function applied(roots: readonly Expression[], given: ReadonlyMap<Expression, Tensor>): Tensor[] {
  const depends = dependents(roots, given);
  const { program, leaves } = programOf(
    roots,
    (expression) => given.has(expression) || (expression.stored !== undefined && !depends.has(expression)),
  );
  return replay(
    program,
    leaves.map((leaf) => given.get(leaf) ?? tensorOf(leaf.stored as Stored)),
  );
}

/** The expressions that `given` reaches. */
function dependents(
  roots: readonly Expression[],
  given: { has(expression: Expression): boolean },
): ReadonlySet<Expression> {
  const found = new Set<Expression>();
  const { pending } = pendingOrder(roots, (expression) => given.has(expression) || expression.inputs.length === 0);
  for (const expression of pending)
    if (expression.inputs.some((input) => given.has(input) || found.has(input))) found.add(expression);
  return found;
}
