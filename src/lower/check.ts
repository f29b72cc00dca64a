/** @module Checks a lowered program: every access in bounds, no two live values in one place. Independent of the allocator. */

import { dtypes } from "../ir/dtype.ts";
import { type Access, accessesOf, coveredBytes } from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { flightOf } from "./access.ts";
import type { LoweredStep } from "./json.ts";
import type { ArenaValue, LoweredProgram } from "./lower.ts";
import { type Flat, flatten } from "./nest.ts";

/** What {@link checkLowered} looked at. */
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
    const found = accessesOf(step, axes);
    accesses += found.length;
    const where = `op ${index} of program ${lowered.name} (${step.k})`;
    for (const access of found) checkBounds(access, spaces, where);
    checkOverlaps(found, where);
  });
  checkFlights(lowered.name, calls, axes);
  for (const loop of loops) checkLoop(lowered, calls, loop, axes);
  return { steps: calls.length, accesses, shared: checkLives(lowered, calls) };
}

type Loop = Flat<LoweredStep>["loops"][number];

/** What was made before a loop, or is read in it before it is written, keeps its place through all iterations. */
function checkLoop(
  lowered: LoweredProgram,
  calls: readonly LoweredStep[],
  { first, last }: Loop,
  axes: readonly number[],
): void {
  for (const value of lowered.layout) {
    const whole = value.first <= first && value.last >= last;
    if (whole || value.last < first || value.first > last) continue;
    const touches = (access: Access): boolean =>
      access.at[0] === 0 && access.at[1] >= value.offset && access.at[1] < value.offset + value.bytes;
    const start = calls.slice(value.first, value.last + 1).map((call) => accessesOf(call, axes).filter(touches));
    const used = start.find((accesses) => accesses.length > 0) ?? [];
    const inside = value.first > first && value.last < last;
    // Where it takes the place of another value, that one is read.
    if (
      inside &&
      lowered.layout.some((other) => other.last === value.first && other.offset === value.offset && other !== value)
    )
      continue;
    if (!inside || used.some((access) => access.role === "read"))
      fail(
        `${lowered.name}: ${value.label} (steps ${value.first} to ${value.last}) gives way within the loop ${first} to ${last}`,
      );
  }
}

/** What a collective under way writes is not touched, and what it reads not written, until the program has waited. */
function checkFlights(name: string, calls: readonly LoweredStep[], axes: readonly number[]): void {
  const flying = new Map<unknown, { readonly start: number; readonly accesses: readonly Access[] }>();
  const meets = (one: Access, other: Access): boolean => {
    const [a, b] = [coveredBytes(one), coveredBytes(other)];
    return one.at[0] === other.at[0] && a.low < b.high && b.low < a.high;
  };
  calls.forEach((step, index) => {
    const where = `op ${index} of program ${name} (${step.k})`;
    const accesses = accessesOf(step, axes);
    for (const { start, accesses: held } of flying.values()) {
      const hit = accesses.find((access) =>
        held.some((one) => (access.role !== "read" || one.role !== "read") && meets(one, access)),
      );
      if (hit !== undefined) fail(`${where}: ${hit.name} meets what the collective of op ${start} uses`);
    }
    const flight = flightOf(step);
    if (flight === undefined) return;
    if (flight === "ends") {
      if (!flying.delete(step["flight"])) fail(`${where}: flight ${step["flight"]} is not under way`);
      return;
    }
    if (flying.has(step["flight"])) fail(`${where}: flight ${step["flight"]} is still under way`);
    flying.set(step["flight"], { start: index, accesses });
  });
  for (const [flight, { start }] of flying) fail(`${name}: nothing waits for flight ${flight} of op ${start}`);
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
  accesses.forEach((one, index) => {
    for (const other of accesses.slice(0, index)) {
      if (one.at[0] !== other.at[0] || (one.role === "read" && other.role === "read")) continue;
      const [a, b] = [coveredBytes(one), coveredBytes(other)];
      if (a.high <= b.low || b.high <= a.low) continue;
      const written = one.inPlace ? other : one;
      if ((one.inPlace || other.inPlace) && written.role === "write" && viewKey(one) === viewKey(other)) continue;
      fail(`${where}: ${one.name} overlaps ${other.name}`);
    }
  });
}

function checkLives(lowered: LoweredProgram, calls: readonly LoweredStep[]): number {
  const values = [...lowered.layout].sort((left, right) => left.offset - right.offset);
  let shared = 0;
  values.forEach((one, index) => {
    for (let next = index + 1; next < values.length; next++) {
      const other = values[next] as ArenaValue;
      if (other.offset >= one.offset + one.bytes) break;
      if (other.bytes === 0) continue;
      shared++;
      const [early, late] = one.first <= other.first ? [one, other] : [other, one];
      if (early.last < late.first) continue;
      // In one step both may be live only as the same bytes; the check of overlaps has seen the views.
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
