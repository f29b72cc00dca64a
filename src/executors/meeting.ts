/**
 * @module Devices of the reference executor side by side: each runs its own program until it needs other devices, for a
 * collective, a message or a condition on which they must agree.
 */

import type { HostTensor } from "../ir/node.ts";
import { communicationNamed } from "../ir/op.ts";
import { type CollectiveStep, isTransfer, type Program, stepsWithin } from "../program/program.ts";
import type { ExecutorOptions, LocalDevice } from "../runtime/executor.ts";
import { HeddleError } from "../util/errors.ts";

/** A point at which a device waits for others: a collective or a message, or a condition on which all must agree. */
export type Meeting =
  | { readonly kind: "collective"; readonly step: CollectiveStep; readonly inputs: readonly HostTensor[] }
  | { readonly kind: "test"; readonly what: string; readonly value: number };

/** A device's run: it stops at each meeting, and continues with the meeting's results. */
export type DeviceRun = Generator<Meeting, HostTensor[], readonly HostTensor[]>;

type State = IteratorResult<Meeting, HostTensor[]>;

/** Messages that were sent, but not received, by sender and receiver, in order. */
type Mail = Map<string, { readonly label: string; readonly values: readonly HostTensor[] }[]>;

/**
 * Runs the devices from meeting to meeting: `[device][output]`.
 *
 * @throws HeddleError `mismatch` when devices meet with different steps; `deadlock` when all wait.
 */
export function together(
  runs: readonly DeviceRun[],
  programs: readonly Program[],
  options: ExecutorOptions,
): HostTensor[][] {
  const states: State[] = runs.map((run) => run.next());
  const reply = (device: number, values: readonly HostTensor[]): void => {
    states[device] = (runs[device] as DeviceRun).next(values);
  };
  const mail: Mail = new Map();
  const agree = agreeing(programs);
  const advance = (device: number): boolean => {
    const state = states[device] as State;
    if (state.done === true) return false;
    const meeting = state.value;
    if (meeting.kind === "collective" && isTransfer(meeting.step)) {
      const values = transfer(meeting.step, meeting.inputs, device, options, mail);
      if (values === undefined) return false;
      reply(device, values);
      return true;
    }
    const members =
      meeting.kind === "test" ? (agree[device] as readonly number[]) : groupOf(meeting.step, device, options);
    const meetings = members.map((member) => waitingAt(states[member] as State));
    // A member waits for a message or for other devices: try again later.
    if (meetings.some((other) => other === "message" || (other !== undefined && placeOf(other) !== placeOf(meeting))))
      return false;
    const results = meet(members, meetings as (Meeting | undefined)[]);
    members.forEach((member, index) => {
      reply(member, results[index] as readonly HostTensor[]);
    });
    return true;
  };
  while (states.some(({ done }) => done !== true)) {
    const moved = runs.map((_run, device) => advance(device));
    if (!moved.includes(true)) throw deadlock(states, programs);
  }
  return states.map(({ value }) => value as HostTensor[]);
}

const waitingAt = (state: State): Meeting | "message" | undefined => {
  if (state.done === true) return undefined;
  return state.value.kind === "collective" && isTransfer(state.value.step) ? "message" : state.value;
};

/** The axis on which devices meet; undefined: all devices. */
const placeOf = (meeting: Meeting): string | undefined =>
  meeting.kind === "collective" ? meeting.step.axis : undefined;

const describe = (meeting: Meeting | undefined): string =>
  meeting === undefined
    ? "the end"
    : meeting.kind === "test"
      ? meeting.what
      : `${meeting.step.op} '${meeting.step.label}'`;

/** The results of a meeting for each member. */
function meet(members: readonly number[], meetings: readonly (Meeting | undefined)[]): HostTensor[][] {
  const first = meetings[0];
  const other = meetings.findIndex((meeting) => describe(meeting) !== describe(first));
  if (other >= 0 || first === undefined)
    throw new HeddleError(
      "mismatch",
      `device ${members[0]} is in ${describe(first)}, device ${members[other]} in ${describe(meetings[other])}`,
    );
  if (first.kind === "collective") {
    const collectives = meetings as readonly (Meeting & { kind: "collective" })[];
    return communicationNamed(first.step.op).meaning(
      collectives.map(({ inputs }) => inputs),
      collectives.map(({ step }) => step.attrs),
    );
  }
  // Devices that took different branches would wait for each other's collectives for ever.
  if (meetings.some((meeting) => (meeting as Meeting & { kind: "test" }).value !== first.value))
    throw new HeddleError("value", `${first.what}: the condition is not the same on all devices`);
  return meetings.map(() => []);
}

/** For each device, the devices that must agree with it on conditions: all, or in a pipeline those of its stage. */
function agreeing(programs: readonly Program[]): (readonly number[])[] {
  const staged = programs.some(hasTransfer);
  return programs.map((program) => programs.flatMap((other, device) => (!staged || other === program ? [device] : [])));
}

const hasTransfer = (program: Program): boolean =>
  stepsWithin(program).some((step) => step.kind === "collective" && isTransfer(step));

/** The devices that differ from this one only on the step's axis, including itself, in order of their coordinates. */
export function groupOf(step: CollectiveStep, device: number, { axes, devices }: ExecutorOptions): number[] {
  const axis = axes.findIndex(({ name }) => name === step.axis);
  const coords = (devices[device] as LocalDevice).coordinates;
  const coordinateOf = (member: number): number => (devices[member] as LocalDevice).coordinates[axis] as number;
  return devices
    .flatMap(({ coordinates }, member) =>
      coordinates.every((coordinate, index) => index === axis || coordinate === coords[index]) ? [member] : [],
    )
    .sort((left, right) => coordinateOf(left) - coordinateOf(right));
}

/** Sends, or receives a message; undefined if no message has arrived yet. */
function transfer(
  step: CollectiveStep,
  inputs: readonly HostTensor[],
  device: number,
  options: ExecutorOptions,
  mail: Mail,
): readonly HostTensor[] | undefined {
  const peer = groupOf(step, device, options)[step.attrs["peer"] as number] as number;
  if (step.op === "send") {
    const key = `${device} ${peer}`;
    const values = inputs.map((tensor): HostTensor => ({ ...tensor, data: tensor.data.slice() }));
    mail.set(key, [...(mail.get(key) ?? []), { label: step.label, values }]);
    return [];
  }
  const message = mail.get(`${peer} ${device}`)?.shift();
  if (message === undefined) return undefined;
  if (message.label !== step.label)
    throw new HeddleError("mismatch", `a device receives '${step.label}', but '${message.label}' was sent to it`);
  return message.values;
}

function deadlock(states: readonly State[], programs: readonly Program[]): HeddleError {
  const waits = states.flatMap((state, device) => {
    if (state.done === true || programs.indexOf(programs[device] as Program) !== device) return [];
    const { value } = state;
    if (value.kind === "test" || !isTransfer(value.step)) return [`device ${device} waits in ${describe(value)}`];
    const { label, axis, attrs } = value.step;
    return [`device ${device} waits for '${label}' from ${axis} ${String(attrs["peer"])}`];
  });
  return new HeddleError("deadlock", `no device can go on: ${waits.join(", ")}`);
}
