/** @module Text of programs. */
import { printGraph, quoted } from "../ir/print.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { canonicalJson, type Plain } from "../util/text.ts";
import { type BranchStep, type LoopStep, type Program, programsOf, type Step, type ValueId } from "./program.ts";

/**
 * Prints a program; regions are indented graphs.
 *
 * ```text
 * program @step {
 *   axis data 2
 *   input %0 f32[4] x
 *   %1 f32[4] = run(%0)
 *     graph @region0(%0 x: f32[4]) {
 *       …
 *     }
 *   %2 f32[4] = allReduce(%1) {"axis":"data",…}
 *   free %1
 *   output %2 y
 * }
 * ```
 *
 * A loop is followed by the program of its body (and that of its condition), a branch by those of both branches.
 *
 * The line of an output that takes over the buffer of an input ends with `<- %0`.
 */
export function printProgram(program: Program): string {
  const lines = [`program @${quoted(program.name)} {`];
  for (const axis of program.axes) lines.push(`  axis ${axis.name} ${axis.size}`);
  program.inputs.forEach((input, id) => {
    lines.push(`  input %${id} ${formatType(input.type)} ${input.name}`.trimEnd());
  });
  for (const step of program.steps) lines.push(...printStep(step, program.values));
  program.outputs.forEach((output, index) => {
    const donor = program.donated[index];
    const name = output.name === "" ? "" : ` ${output.name}`;
    lines.push(`  output %${output.value}${name}${donor === undefined ? "" : ` <- %${donor}`}`);
  });
  return `${lines.join("\n")}\n}\n`;
}

const list = (values: readonly ValueId[]): string => values.map((value) => `%${value}`).join(", ");

function printStep(step: Step, types: readonly TensorType[]): string[] {
  if (step.kind === "free") return [`  free ${list(step.values)}`];
  const results = step.results.map((value) => `%${value} ${formatType(types[value] as TensorType)}`).join(", ");
  if (step.kind === "collective")
    return [`  ${results} = ${step.op}(${list(step.arguments)}) ${canonicalJson(step.attrs as Plain)}`];
  const head = `  ${results} = ${step.kind}(${list(step.arguments)})`;
  if (step.kind !== "run")
    return [`${head}${controlText(step)}`, ...programsOf(step).flatMap((program) => indented(printProgram(program)))];
  return [head, ...indented(printGraph(step.region))];
}

const indented = (text: string): string[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => (line === "" ? "" : `    ${line}`));

function controlText(step: LoopStep | BranchStep): string {
  if (step.kind === "branch") return "";
  const { length, reverse, carries, slices } = step;
  return ` ${canonicalJson({ ...(length === undefined ? {} : { length }), reverse, carries, slices })}`;
}
