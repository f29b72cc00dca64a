/** @module Room behind the arena for what kernels need beside their operands, known before anything is loaded. */
import { aligned, descriptionOf } from "../kernels/index.ts";
import type { LoweredStep } from "./json.ts";
import { flatten } from "./nest.ts";

/** Bytes that a device needs to run such steps, beside the buffers that they are given. */
export function workBytes(arena: number, steps: readonly LoweredStep[]): number {
  const partials = flatten(steps).calls.map((step) => descriptionOf(step).work?.(step as never) ?? 0);
  return aligned(arena) + partials.reduce((most, bytes) => Math.max(most, bytes), 0);
}
