/**
 * @module From expressions to values. What is asked for together is one program, cached by the structure of its expressions and the
 * sizes and dtypes of its inputs. A small program is interpreted in its first runs, since compiling takes longer than such a run.
 */

import { jit, Tensor, tensor } from "../functions/index.ts";
import type { Graph } from "../ir/node.ts";
import type { HostTensor, TensorType } from "../ir/shape.ts";
import { evaluateGraph } from "../ops/index.ts";
import { isTracing, traceFunction } from "../tensor/tracing.ts";
import { HeddleError } from "../util/errors.ts";
import { memoryLimit } from "../util/process.ts";
import { formatBytes, formatCount } from "../util/text.ts";
import {
  cells,
  type Expression,
  formatSize,
  hostOf,
  type Operator,
  pendingOrder,
  type Size,
  type Stored,
} from "./expression.ts";
import { others } from "./operators.ts";
import { planRows, type Stage, type Step, textOfPass } from "./rows/plan.ts";
import { runStages } from "./rows/run.ts";

/** A step of a program, by its number, or a change of form before it. */
export interface TogetherLine {
  readonly step?: number;
  readonly how: string;
  readonly bytes?: number;
}

/** How workers compute a program together, for people. */
export interface Together {
  /** The physical operator of each step that is computed, and changes of form with the bytes that all workers send. */
  readonly lines: readonly TogetherLine[];
  /** Bytes that all workers send in the first run, by the formulas. */
  readonly bytes: number;
  /** Bytes that all workers send in all runs, by the formulas. */
  predicted: number;
  /** Bytes that this worker has sent in all runs. */
  sent: number;
}

/** Runs programs with other workers. */
export interface Conductor {
  /** The number of workers. */
  readonly size: number;
  /** The results; undefined where each worker is to run the program by itself. */
  run(program: MatrixProgram, inputs: readonly Stored[]): readonly Stored[] | undefined;
}

let conductor: Conductor | undefined;

/** From now on `next` runs programs, or nobody but this process. */
export function conductedBy(next: Conductor | undefined): void {
  conductor = next;
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
  /** Time of all runs. */
  milliseconds: number;
  /** Time of the first run by compiled code, compiling included. */
  compiling: number;
  /** Of each operator the bytes of a dense result, and an estimate of its elements that are not 0, for people. */
  readonly estimates: readonly (readonly string[])[];
  /** What is computed a block of rows at a time, as text; only compiled programs do so. */
  readonly passes: readonly string[];
  /** How the workers of a run compute it together; undefined for a program that each computes by itself. */
  together?: Together | undefined;
  /** @internal */
  readonly types: readonly TensorType[];
  /** @internal */
  readonly stages: readonly Stage[];
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

/** The type of an input; without a value it is a parameter of a gradient. */
function typeOf({ stored, size }: Expression): TensorType {
  const { dtype, shape } = stored?.host ?? stored?.tensor ?? { dtype: "f64", shape: size };
  return { dtype, shape };
}

const typeText = ({ dtype, shape }: TensorType): string => `${dtype} ${shape.join("x")}`;

const estimateOf = ({ size, nonzeros }: Expression): readonly string[] => [
  formatBytes(8 * cells(size)),
  `${formatCount(nonzeros)} not 0`,
];

/** The size of a matrix; positions are none. */
export const sizeOfMatrix = ({ dtype, shape }: TensorType): Size | undefined =>
  dtype === "f64" && shape.length === 2 ? (shape as unknown as Size) : undefined;

/** The program that computes `roots`, and the stored expressions that are its inputs. */
export function programOf(roots: readonly Expression[], isLeaf?: (expression: Expression) => boolean): Planned {
  const { pending: all, leaves } = pendingOrder(roots, isLeaf);
  const place = new Map<Expression, number>();
  for (const leaf of leaves) place.set(leaf, place.size);
  const [pending, steps, lines]: [Expression[], Step[], string[]] = [[], [], []];
  const known = new Map<string, number>();
  for (const expression of all) {
    const { operator, attrs, size, inputs } = expression as Expression & { readonly operator: Operator };
    const operands = inputs.map((input) => place.get(input) as number);
    const of = Object.keys(attrs).length === 0 ? "" : JSON.stringify(attrs);
    const line = `${operator.name}${of}(${operands.join(",")}) ${formatSize(size)}`;
    // Equal operations of equal operands are one step.
    const same = known.get(line);
    place.set(expression, same ?? leaves.length + steps.length);
    if (same !== undefined) continue;
    known.set(line, leaves.length + steps.length);
    pending.push(expression);
    steps.push({ operator, attrs, size, operands });
    lines.push(line);
  }
  const outputs = roots.map((root) => place.get(root) as number);
  const types = leaves.map(typeOf);
  const key = `${types.map(typeText).join(",")}|${lines.join(" ")}|${outputs.join(",")}`;
  let program = programs.get(key);
  if (program === undefined) {
    pending.forEach(checkFits);
    if (programs.size >= mostPrograms) programs.clear();
    const stages = planRows({ inputs: types.map(sizeOfMatrix), steps, outputs });
    program = {
      text: lines.map((line, index) => `${leaves.length + index} = ${line}`).join("\n"),
      inputs: types.map(typeText).join(", "),
      work: pending.reduce((sum, expression) => sum + workOf(expression), 0),
      runs: 0,
      compiles: 0,
      milliseconds: 0,
      compiling: 0,
      estimates: pending.map(estimateOf),
      types,
      passes: stages.flatMap(({ pass }) => (pass === undefined ? [] : [textOfPass(pass)])),
      stages,
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
  const bytes = (8 * cells(size)) / (conductor?.size ?? 1);
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
  const before = program.compiles;
  const results = (isTracing() ? undefined : conductor?.run(program, stored)) ?? run(program, stored);
  const took = performance.now() - started;
  program.runs++;
  program.milliseconds += took;
  if (program.compiles > before) program.compiling += took;
  wanted.forEach((expression, index) => {
    expression.stored = results[index];
    if (recording === 0 && !isTracing() && expression.operator?.kept !== true) expression.inputs = [];
  });
}

function run(program: MatrixProgram, inputs: readonly Stored[]): Stored[] {
  // Within a function that is being traced, a value is part of the function's graph.
  if (isTracing()) return replay(program, inputs.map(tensorOf)).map((value) => ({ tensor: value }));
  const small = program.work <= interpretedWork && inputs.every(({ tensor: held }) => !held?.isTraced);
  // Workers that run a program each by itself have to get the same bits, however often each has run it.
  if (small && conductor === undefined && program.runs < interpretedRuns) {
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
    const { stages, steps, outputs } = program;
    program.compiled = jit((leaves: readonly Tensor[]) => runStages(stages, steps, outputs, leaves), {
      name: "matrix program",
    });
  }
  return program.compiled(inputs.map(tensorOf)).map((value) => ({ tensor: value }));
}

/** The program of `roots` over some expressions, whatever their values are, and over values that are there. */
function programOver(roots: readonly Expression[], given: { has(expression: Expression): boolean }): Planned {
  const depends = dependents(roots, given);
  return programOf(
    roots,
    (expression) => given.has(expression) || (expression.stored !== undefined && !depends.has(expression)),
  );
}

/** Reads from the workers what {@link applied} needs of them: while a function is traced, nothing is sent. */
export function gatherFor(roots: readonly Expression[], given: ReadonlySet<Expression>): void {
  for (const { stored } of programOver(roots, given).leaves) if (stored?.apart !== undefined) hostOf(stored);
}

/** Applies the program of `roots` to tensors in the place of some expressions, as part of a function that is being traced. */
export function applied(roots: readonly Expression[], given: ReadonlyMap<Expression, Tensor>): Tensor[] {
  const { program, leaves } = programOver(roots, given);
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
