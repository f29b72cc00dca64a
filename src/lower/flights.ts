/**
 * @module Which collectives are under way beside other calls: one that does so starts where it stands, and a call `wait`
 * ends it before the first call that touches what it brings, or writes what it reads.
 */
import { type Machine, workSeconds } from "../cost/index.ts";
import type { KernelCall } from "../ir/kernel.ts";
import { descriptionOf, wait } from "../kernels/index.ts";
import { eachRef } from "./access.ts";
import { costOf as callCost } from "./cost.ts";
import { type LoweredStep, resolveCall } from "./json.ts";
import { nestedIn } from "./nest.ts";
import type { Storage } from "./storage.ts";

/** Which collectives run beside other calls: those where it saves more than it costs, all that could, none. */
export type Overlap = "paying" | "all" | "none";

/** What is known of the program's memory and axes. */
export interface FlightContext {
  /** Equal for pieces of memory that are one, such as a donated input and the output that takes its buffer. */
  readonly identity: (storage: Storage) => unknown;
  /** Devices of each axis. */
  readonly axes: readonly number[];
  /** Predicted time of a collective. */
  readonly seconds: (collective: KernelCall) => number;
  readonly overlap: Overlap;
  readonly machine: Machine;
}

interface Touched {
  readonly all: ReadonlySet<unknown>;
  readonly written: ReadonlySet<unknown>;
}

/** The calls, with a number on each collective that is under way beside others, and the calls that wait for them. */
export function withFlights(calls: readonly KernelCall[], context: FlightContext): KernelCall[] {
  const { overlap, axes, machine } = context;
  const touched = calls.map((call) => touchedBy(call, context.identity));
  /** By the index of the collective: that of the first call that must wait for it. */
  const ends = new Map<number, number>();
  // From the last on: a collective that runs in its place waits for all before it.
  for (let index = calls.length - 1; index >= 0; index--) {
    const call = calls[index] as KernelCall;
    if (overlap === "none" || descriptionOf(call).flight !== "starts" || (axes[call["axis"] as number] ?? 1) < 2)
      continue;
    const found = touched.findIndex((other, at) => at > index && conflicts(touched[index] as Touched, other));
    const end = found < 0 ? calls.length : found;
    const beside = calls.slice(index + 1, end);
    const settles = beside.findIndex((other, at) => communicates(other) && !ends.has(index + 1 + at));
    const window = settles < 0 ? beside : beside.slice(0, settles);
    const seconds = window.reduce((sum, other) => sum + secondsOf(other, axes, machine), 0);
    const hidden = Math.min(seconds, context.seconds(call));
    if (overlap === "all" ? window.length > 0 : hidden > 2 * machine.handover) ends.set(index, end);
  }
  if (ends.size === 0) return [...calls];
  const numbers = new Map([...ends.keys()].sort((left, right) => left - right).map((index, number) => [index, number]));
  const waitsAt = (at: number): KernelCall[] =>
    [...numbers].filter(([index]) => ends.get(index) === at).map(([, flight]) => wait.call({ flight }));
  return [
    ...calls.flatMap((call, index) => {
      const flight = numbers.get(index);
      const members = axes[call["axis"] as number];
      return [...waitsAt(index), flight === undefined ? call : { ...call, flight, members }];
    }),
    ...waitsAt(calls.length),
  ];
}

function touchedBy(call: KernelCall, identity: FlightContext["identity"]): Touched {
  const all = new Set<unknown>();
  const written = new Set<unknown>();
  eachRef(call, (ref, role) => {
    const memory = identity(ref.origin as Storage);
    all.add(memory);
    if (role !== "read") written.add(memory);
  });
  return { all, written };
}

const meet = (one: ReadonlySet<unknown>, other: ReadonlySet<unknown>): boolean =>
  [...one].some((memory) => other.has(memory));

const conflicts = (flight: Touched, other: Touched): boolean =>
  meet(flight.written, other.all) || meet(flight.all, other.written);

/** Whether a call, or one that it holds, involves other devices. */
const communicates = (call: KernelCall): boolean =>
  descriptionOf(call).communicates === true || nestedIn(call).some((list) => list.some(communicates));

/** Seconds that a call computes, as far as its shapes tell. */
function secondsOf(call: KernelCall, axes: readonly number[], machine: Machine): number {
  if (communicates(call)) return 0;
  const resolved = resolveCall(call, () => [0, 0]);
  const seconds = (step: LoweredStep): number => {
    const inner = nestedIn(step).flatMap((list) => list.map(seconds));
    if (inner.length > 0) return Number(step["count"] ?? 1) * inner.reduce((sum, one) => sum + one, 0);
    return workSeconds(callCost(step, axes), machine);
  };
  return seconds(resolved);
}
