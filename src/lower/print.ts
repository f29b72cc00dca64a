/** @module A lowered program as short text: one line per kernel call. */

import { formatShape, type Shape } from "../ir/shape.ts";
import { type Access, accessesOf, descriptionOf } from "../kernels/index.ts";
import { formatBytes } from "../util/text.ts";
import { asyncRoleOf } from "./access.ts";
import type { LoweredStep } from "./json.ts";
import type { LoweredProgram } from "./lowered.ts";
import { nestedIn } from "./nest.ts";

/**
 * Prints the kernel calls with the shapes of their inputs and outputs; `*` marks an output in place of an input.
 *
 *     0 dot f32[128,784] f32[784,512] -> f32[128,512]
 *     1 fused 2 ops [128,512] f32 f32(512) -> f32*
 *
 * An async collective is `start 0 collective …`, and `wait 0` is where it must have ended.
 * Offsets are left out, so that the text changes only when the work does.
 */
export function printLowered(lowered: LoweredProgram, axes: readonly number[] = []): string {
  const head = `lowered @${lowered.name}: ${lowered.json.steps.length} calls, arena ${formatBytes(lowered.arenaBytes)}`;
  return `${[head, ...printSteps(lowered.json.steps, axes, "")].join("\n")}\n`;
}

/** One line per call, the nested calls of a loop or branch indented below it. */
function printSteps(steps: readonly LoweredStep[], axes: readonly number[], indent: string): string[] {
  return steps.flatMap((step, index) => {
    const inner = nestedIn(step).flatMap((list, index) => [
      ...(index === 0 ? [] : [`${indent}  then`]),
      ...printSteps(list, axes, `${indent}  `),
    ]);
    return [`${indent}${index} ${printCall(step, axes)}`, ...inner];
  });
}

/** One call in a line, as {@link printLowered} has it. */
export function printCall(step: LoweredStep, axes: readonly number[] = []): string {
  const { control, asyncRole, space, title } = descriptionOf(step);
  const name = title?.(step as never) ?? [step.k, ...epilogueOf(step)].join("+");
  if (control !== undefined || asyncRole === "ends") return name;
  const accesses = accessesOf(step, axes);
  const reads = accesses.filter((access) => access.role === "read");
  const writes = accesses.filter((access) => access.role === "write");
  const text = space === undefined ? operand : fusedOperand(step[space] as Shape);
  const inPlace = (access: Access): string =>
    reads.some((read) => read.at[0] === access.at[0] && read.at[1] === access.at[1]) ? "*" : "";
  const start = asyncRoleOf(step) === "starts" ? `start ${step["handle"]} ` : "";
  return `${start}${name}${reads.map((read) => ` ${text(read)}`).join("")} -> ${writes.map((write) => `${text(write)}${inPlace(write)}`).join(" ")}`;
}

const epilogueOf = (step: LoweredStep): string[] => [
  ...(step["bias"] === undefined ? [] : ["bias"]),
  ...(["relu", "gate"] as const).filter((field) => step[field] === true),
];

const operand = (access: Access): string => `${access.dtype}${formatShape(access.shape)}`;

/** A fused operand has the shape of the call; its own shape and its strides are shown only where they differ. */
const fusedOperand =
  (shape: Shape) =>
  (access: Access): string => {
    let rowMajor = true;
    let stride = 1;
    for (let dim = access.shape.length - 1; dim >= 0; dim--) {
      if (access.shape[dim] !== 1 && access.strides[dim] !== stride) rowMajor = false;
      stride *= access.shape[dim] as number;
    }
    const strides = rowMajor ? "" : `(${access.strides.join(",")})`;
    return access.shape.length < shape.length ? `${operand(access)}${strides}` : `${access.dtype}${strides}`;
  };
