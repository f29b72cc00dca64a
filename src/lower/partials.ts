/** @module Room after the arena for the memory that kernels need besides their operands, known before a program is loaded. */
import { aligned, descriptionOf } from "../kernels/index.ts";
import type { LoweredStep } from "./json.ts";
import { flatten } from "./nest.ts";

/** Bytes that a device needs to run the steps, besides the argument buffers. */
export function workBytes(arena: number, steps: readonly LoweredStep[]): number {
  const partials = flatten(steps).calls.map((step) => descriptionOf(step).work?.(step as never) ?? 0);
  return aligned(arena) + partials.reduce((largest, bytes) => Math.max(largest, bytes), 0);
}
