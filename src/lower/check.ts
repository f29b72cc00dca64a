/**
 * @module Verification of a lowered program: every access is in bounds, and no two live values share memory. Independent
 * of the allocator.
 */

import { dtypes } from "../ir/dtype.ts";
import { type Access, accessesOf, coveredBytes } from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { asyncRoleOf, collide } from "./access.ts";
import type { LoweredStep } from "./json.ts";
import type { ArenaValue, LoweredProgram } from "./lowered.ts";
import { type Flat, flatten } from "./nest.ts";

/** Counts of what {@link checkLowered} checked. */
export interface CheckReport {
  readonly steps: number;
  readonly accesses: number;
  /** Pairs of values that share memory at different times. */
  readonly shared: number;
}

/**
 * Verifies bounds, alignment, overlaps within a step, and that values that share memory are never live together.
 *
 * @throws HeddleError `verify` naming the step and the field or the values.
 */
export function checkLowered(lowered: LoweredProgram, axes: readonly number[] = []): CheckReport {
  const { calls, loops } = flatten(lowered.json.steps);
  const spaces = [lowered.json.arena, ...lowered.json.buffers.map((buffer) => buffer.bytes)];
  let accesses = 0;
  calls.forEach((step, index) => {
    const stepAccesses = accessesOf(step, axes);
    accesses += stepAccesses.length;
    const where = `op ${index} of program ${lowered.name} (${step.k})`;
    for (const access of stepAccesses) checkBounds(access, spaces, where);
    checkOverlaps(stepAccesses, where);
  });
  checkAsyncCollectives(lowered.name, calls, axes);
  for (const loop of loops) checkLoop(lowered, calls, loop, axes);
  return { steps: calls.length, accesses, shared: checkLives(lowered, calls) };
}

type Loop = Flat<LoweredStep>["loops"][number];

/** Checks that a value written before a loop, or read in it before it is written, keeps its memory through all iterations. */
function checkLoop(
  lowered: LoweredProgram,
  calls: readonly LoweredStep[],
  { first, last }: Loop,
  axes: readonly number[],
): void {
  for (const value of lowered.layout) {
    const spansLoop = value.first <= first && value.last >= last;
    if (spansLoop || value.last < first || value.first > last) continue;
    const touchesValue = (access: Access): boolean =>
      access.at[0] === 0 && access.at[1] >= value.offset && access.at[1] < value.offset + value.bytes;
    const byCall = calls.slice(value.first, value.last + 1).map((call) => accessesOf(call, axes).filter(touchesValue));
    const firstUse = byCall.find((accesses) => accesses.length > 0) ?? [];
    const inside = value.first > first && value.last < last;
    // A value that takes over another value's memory in place is not read first.
    if (
      inside &&
      lowered.layout.some((other) => other.last === value.first && other.offset === value.offset && other !== value)
    )
      continue;
    if (!inside || firstUse.some((access) => access.role === "read"))
      fail(
        `${lowered.name}: ${value.label} (steps ${value.first} to ${value.last}) loses its memory within the loop ${first} to ${last}`,
      );
  }
}

/** Checks that until the wait nothing touches memory that an async collective writes, or writes memory that it reads. */
function checkAsyncCollectives(name: string, calls: readonly LoweredStep[], axes: readonly number[]): void {
  const pending = new Map<unknown, { readonly start: number; readonly accesses: readonly Access[] }>();
  calls.forEach((step, index) => {
    const where = `op ${index} of program ${name} (${step.k})`;
    const accesses = accessesOf(step, axes);
    for (const { start, accesses: pendingAccesses } of pending.values()) {
      const conflict = accesses.find((access) => pendingAccesses.some((pending) => collide(pending, access)));
      if (conflict !== undefined)
        fail(`${where}: ${conflict.name} overlaps memory that the async collective of op ${start} uses`);
    }
    const asyncRole = asyncRoleOf(step);
    if (asyncRole === undefined) return;
    if (asyncRole === "ends") {
      if (!pending.delete(step["handle"])) fail(`${where}: async collective ${step["handle"]} is not pending`);
      return;
    }
    if (pending.has(step["handle"])) fail(`${where}: async collective ${step["handle"]} is still pending`);
    pending.set(step["handle"], { start: index, accesses });
  });
  for (const [number, { start }] of pending)
    fail(`${name}: nothing waits for async collective ${number} of op ${start}`);
}

function fail(message: string): never {
  throw new HeddleError("verify", message);
}

function checkBounds(access: Access, spaces: readonly number[], where: string): void {
  const [space, offset] = access.at;
  const bytes = spaces[space] ?? -1;
  if (bytes < 0) fail(`${where}: ${access.name} is in space ${space}, there are ${spaces.length}`);
  if (access.shape.length !== access.strides.length)
    fail(`${where}: ${access.name} has ${access.shape.length} sizes and ${access.strides.length} strides`);
  if (offset % dtypes[access.dtype].bytes !== 0)
    fail(`${where}: ${access.name} at ${offset} is not aligned to ${access.dtype}`);
  const { low, high } = coveredBytes(access);
  if (low < 0 || high > bytes)
    fail(`${where}: ${access.name} covers bytes ${low} to ${high} of ${bytes} in space ${space}`);
}

const viewKey = (access: Access): string =>
  `${access.at.join()} ${access.dtype} ${access.shape.flatMap((size, dim) => (size === 1 ? [] : [`${size}:${access.strides[dim]}`])).join()}`;

function checkOverlaps(accesses: readonly Access[], where: string): void {
  accesses.forEach((access, index) => {
    for (const other of accesses.slice(0, index)) {
      if (!collide(access, other)) continue;
      const writer = access.inPlace ? other : access;
      if ((access.inPlace || other.inPlace) && writer.role === "write" && viewKey(access) === viewKey(other)) continue;
      fail(`${where}: ${access.name} overlaps ${other.name}`);
    }
  });
}

function checkLives(lowered: LoweredProgram, calls: readonly LoweredStep[]): number {
  const values = [...lowered.layout].sort((left, right) => left.offset - right.offset);
  let shared = 0;
  values.forEach((value, index) => {
    for (let next = index + 1; next < values.length; next++) {
      const other = values[next] as ArenaValue;
      if (other.offset >= value.offset + value.bytes) break;
      if (other.bytes === 0) continue;
      shared++;
      const [early, late] = value.first <= other.first ? [value, other] : [other, value];
      if (early.last < late.first) continue;
      // In one step both may be live only as the same bytes; the check of overlaps has compared their views.
      const takesOver = early.last === late.first && early.offset === late.offset && early.bytes === late.bytes;
      const step = calls[early.last];
      if (takesOver && step !== undefined && accessesOf(step).some(({ inPlace }) => inPlace)) continue;
      fail(
        `${lowered.name}: ${early.label} (steps ${early.first} to ${early.last}) and ${late.label} (${late.first} to ${late.last}) share memory`,
      );
    }
  });
  return shared;
}
