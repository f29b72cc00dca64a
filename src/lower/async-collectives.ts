/**
 * @module Async collectives: which collectives run beside other calls. An async collective starts at its place in the
 * order, and a call `wait` ends it before the first call that reads or writes its result, or writes its input.
 */
import { type Machine, type Sending, sendSeconds, workSeconds } from "../cost/index.ts";
import type { KernelCall } from "../ir/kernel.ts";
import { type Access, descriptionOf, wait } from "../kernels/index.ts";
import { endBySize } from "../prefetch/in-flight.ts";
import { allAccesses, collide } from "./access.ts";
import { type CallCost, callCost, workField } from "./cost.ts";
import { type Address, resolveCall } from "./json.ts";
import { nestedIn } from "./nest.ts";
import type { Storage } from "./storage.ts";

/** Which collectives are async: those that save more time than they cost, all that can be, or none. */
export type Overlap = "paying" | "all" | "none";

/** The program's memory, axes and costs, as far as the choice depends on them. */
export interface OverlapContext {
  /** The same for storages that are the same memory, such as a donated input and the output that takes its buffer. */
  readonly addressOf: (storage: Storage) => Address;
  /** Devices of each axis. */
  readonly axes: readonly number[];
  readonly overlap: Overlap;
  readonly machine: Machine;
}

/** The calls, with a handle on each async collective, and the calls that wait for these collectives. */
export function withAsyncCollectives(calls: readonly KernelCall[], context: OverlapContext): KernelCall[] {
  const { addressOf, overlap, axes, machine } = context;
  if (overlap === "none" || axes.every((size) => size < 2)) return [...calls];
  const touched = calls.map((call) => allAccesses(resolveCall(call, addressOf), axes));
  /** By the index of the collective: the index of the first call that must wait for it. */
  const waitIndices = new Map<number, number>();
  // From the last call backwards: a collective that is not async first waits for all async collectives before it.
  for (let index = calls.length - 1; index >= 0; index--) {
    const call = calls[index] as KernelCall;
    if (descriptionOf(call).asyncRole !== "starts" || (axes[call["axis"] as number] ?? 1) < 2) continue;
    const own = touched[index] as readonly Access[];
    const firstConflict = touched.findIndex(
      (others, at) => at > index && others.some((other) => own.some((access) => collide(access, other))),
    );
    const waitIndex = firstConflict < 0 ? calls.length : firstConflict;
    const beside = calls.slice(index + 1, waitIndex);
    const settling = beside.findIndex((other, at) => communicates(other) && !waitIndices.has(index + 1 + at));
    const window = settling < 0 ? beside : beside.slice(0, settling);
    const seconds = window.reduce((sum, other) => sum + secondsOf(other, axes, machine), 0);
    const { sends } = call[workField] as CallCost;
    // A message from a device may come at any time.
    const hidden = call["from"] !== undefined ? seconds : Math.min(seconds, sendSeconds(sends as Sending, machine));
    if (overlap === "all" ? window.length > 0 : hidden > 2 * machine.handover) waitIndices.set(index, waitIndex);
  }
  if (waitIndices.size === 0) return [...calls];
  endBySize(waitIndices, touched);
  const handles = new Map(
    [...waitIndices.keys()].sort((left, right) => left - right).map((index, handle) => [index, handle]),
  );
  const waitsAt = (at: number): KernelCall[] =>
    [...handles].filter(([index]) => waitIndices.get(index) === at).map(([, handle]) => wait.call({ handle }));
  return [
    ...calls.flatMap((call, index) => {
      const handle = handles.get(index);
      const members = call.k === "collective" ? { members: axes[call["axis"] as number] } : {};
      return [...waitsAt(index), handle === undefined ? call : { ...call, handle, ...members }];
    }),
    ...waitsAt(calls.length),
  ];
}

/** Whether a call or a nested call communicates with other devices. */
const communicates = (call: KernelCall): boolean =>
  descriptionOf(call).communicates === true || nestedIn(call).some((list) => list.some(communicates));

/** Seconds of computing in a call, from its shapes; 0 for calls that communicate. */
function secondsOf(call: KernelCall, axes: readonly number[], machine: Machine): number {
  if (communicates(call)) return 0;
  const inner = nestedIn(call).flatMap((list) => list.map((nested) => secondsOf(nested, axes, machine)));
  if (inner.length > 0) return Number(call["count"] ?? 1) * inner.reduce((sum, seconds) => sum + seconds, 0);
  return workSeconds(callCost(call, axes), machine);
}
