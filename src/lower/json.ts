/** @module The lowered program as data (docs/internals/lowered-program.md) and as text. */
import type { KernelCall } from "../ir/kernel.ts";
import { checkFields } from "../kernels/index.ts";
import { workField } from "./cost.ts";
import { mapRefs } from "./nest.ts";
import type { Storage } from "./storage.ts";

/** `[space, byteOffset]`: space 0 is the arena, space `i + 1` is buffer `i`. */
export type Address = readonly [space: number, byteOffset: number];

/** A kernel call with resolved addresses. */
export type LoweredStep = { readonly k: string; readonly [field: string]: unknown };

/** Field of a call with its index among the origins; programs that run do not have the field. */
export const originField = "origin";

/** A lowered program as native code receives it. */
export interface LoweredJson {
  readonly version: 1;
  readonly name: string;
  /** Bytes of the arena. */
  readonly arena: number;
  readonly buffers: readonly { readonly bytes: number }[];
  readonly steps: readonly LoweredStep[];
}

/**
 * The call with its symbolic addresses resolved.
 *
 * @throws HeddleError `lower` naming a field that the kernel does not know, or lacks.
 */
export function resolveCall(call: KernelCall, addressOf: (storage: Storage) => Address): LoweredStep {
  checkFields(call, [originField, workField]);
  return mapRefs(call, ({ origin, byteOffset }) => {
    const [space, offset] = addressOf(origin as Storage);
    return [space, offset + byteOffset];
  }) as LoweredStep;
}

/** Writes JSON; keeps the sign of a negative zero, and leaves out what only costs need. */
export function writeJson(value: unknown): string {
  if (typeof value === "number") return Object.is(value, -0) ? "-0.0" : String(value);
  if (Array.isArray(value)) return `[${value.map(writeJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value)
      .filter(([key]) => key !== workField)
      .map(([key, field]) => `${JSON.stringify(key)}:${writeJson(field)}`)
      .join(",")}}`;
  }
  return JSON.stringify(value);
}
