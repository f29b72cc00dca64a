/**
 * @module The reference executor: interprets programs by the ops' reference implementations, all devices of the mesh in
 * lockstep in this process. Slow, and the oracle of the others.
 */

import { communicationNamed } from "../ir/communication.ts";
import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { evaluateGraph, sliceOf } from "../ops/index.ts";
import type { CollectiveStep, LoopStep, Program, ProgramAxis, WorkStep } from "../program/program.ts";
import { HeddleError } from "../util/errors.ts";
import {
  type DeviceBuffer,
  type Executable,
  type Executor,
  type ExecutorOptions,
  type LocalDevice,
  programsFor,
  type Run,
} from "./executor.ts";

class HostBuffer implements DeviceBuffer {
  readonly bytes: number;
  data: Uint8Array | undefined;

  constructor(data: Uint8Array) {
    this.bytes = data.byteLength;
    this.data = data;
  }

  write(data: Uint8Array): void {
    this.held().set(data);
  }

  read(): Promise<Uint8Array> {
    return Promise.resolve(this.readSync());
  }

  readSync(): Uint8Array {
    return this.held().slice();
  }

  dispose(): void {
    this.data = undefined;
  }

  held(): Uint8Array {
    if (this.data === undefined) throw new HeddleError("disposed", "the buffer was disposed");
    return this.data;
  }
}

const asTensor = (buffer: DeviceBuffer, type: TensorType): HostTensor => {
  const { buffer: memory, byteOffset } = (buffer as HostBuffer).held();
  return { ...type, data: dtypes[type.dtype].view(memory, byteOffset, sizeOf(type.shape)) };
};

const asBuffer = (tensor: HostTensor): HostBuffer => {
  const { buffer, byteOffset, byteLength } = tensor.data;
  return new HostBuffer(new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength));
};

/** Makes the reference executor. Every device of the mesh must be local. */
export function referenceExecutor(options: ExecutorOptions): Executor {
  const count = options.axes.reduce((product, axis) => product * axis.size, 1);
  if (options.devices.length !== count) {
    throw new HeddleError(
      "executor",
      `the reference executor runs all devices in one process, but ${options.devices.length} of ${count} are local`,
      {
        hint: "use --workers 1, or the native executor (heddle doctor says why it is missing)",
      },
    );
  }
  return {
    name: "reference",
    devices: count,
    // Typed views need alignment, which a fresh ArrayBuffer has.
    allocate: (bytes) => new HostBuffer(new Uint8Array(bytes)),
    compile: (program) => compile(program, options),
    abort: () => undefined,
    close: () => undefined,
  };
}

function compile(given: Program | readonly Program[], options: ExecutorOptions): Executable {
  const programs = programsFor(given, options.devices.length);
  const program = programs[0] as Program;
  const calls = program.steps.reduce(
    (total, step) => total + (step.kind === "run" ? step.region.outputs.length : 1),
    0,
  );
  return {
    program,
    arenaBytes: 0,
    calls,
    run: (inputs): Run => {
      const outputs = interpret(programs, options, inputs);
      return { outputs, done: Promise.resolve() };
    },
  };
}

function interpret(
  programs: readonly Program[],
  options: ExecutorOptions,
  inputs: readonly (readonly DeviceBuffer[])[],
): DeviceBuffer[][] {
  const given = programs.map((program, device) =>
    program.inputs.map(({ type }, index) => asTensor(inputs[device]?.[index] as DeviceBuffer, type)),
  );
  const results = together(
    programs.map((program, device) =>
      runProgram(program, contextOf(options, device), given[device] as readonly HostTensor[]),
    ),
    options,
  );
  // A value that is an input passed through must not share memory with it.
  return results.map((tensors, device) =>
    tensors.map((tensor) => asBuffer(given[device]?.includes(tensor) === true ? copyOf(tensor) : tensor)),
  );
}

/** What a device waits for the others with: a collective, or a test on which all must agree. */
type Meeting =
  | { readonly kind: "collective"; readonly step: CollectiveStep; readonly inputs: readonly HostTensor[] }
  | { readonly kind: "test"; readonly what: string; readonly value: number };

/** A device's run: it stops at each meeting, and goes on with what comes of it. */
type DeviceRun = Generator<Meeting, HostTensor[], readonly HostTensor[]>;

interface Context {
  readonly coordinate: (axis: string) => number;
}

const contextOf = ({ axes, devices }: ExecutorOptions, device: number): Context => ({
  coordinate: (axis) => coordinateOf(axes, devices[device] as LocalDevice, axis),
});

/** Runs the devices from meeting to meeting. */
function together(runs: readonly DeviceRun[], options: ExecutorOptions): HostTensor[][] {
  let states = runs.map((run) => run.next());
  while (states.some(({ done }) => done !== true)) {
    const meetings = states.map((state) => (state.done === true ? undefined : state.value));
    const replies = meet(meetings, options);
    states = runs.map((run, device) => run.next(replies[device] as readonly HostTensor[]));
  }
  return states.map(({ value }) => value as HostTensor[]);
}

const describe = (meeting: Meeting | undefined): string =>
  meeting === undefined
    ? "the end"
    : meeting.kind === "test"
      ? meeting.what
      : `${meeting.step.op} '${meeting.step.label}'`;

function meet(meetings: readonly (Meeting | undefined)[], options: ExecutorOptions): HostTensor[][] {
  const first = meetings[0];
  const other = meetings.find((meeting) => describe(meeting) !== describe(first));
  if (other !== undefined || first === undefined)
    throw new HeddleError("mismatch", `device 0 is in ${describe(first)}, another one in ${describe(other)}`);
  if (first.kind === "collective")
    return communicate(meetings as readonly (Meeting & { kind: "collective" })[], options);
  // Devices that went different ways would wait for each other's collectives for ever.
  if (meetings.some((meeting) => (meeting as Meeting & { kind: "test" }).value !== first.value))
    throw new HeddleError("value", `${first.what}: the condition is not the same on all devices`);
  return meetings.map(() => []);
}

/** Runs a program on one device, step by step. */
function* runProgram(program: Program, context: Context, inputs: readonly HostTensor[]): DeviceRun {
  const held = new Map(inputs.map((tensor, index) => [index, tensor]));
  for (const step of program.steps) {
    if (step.kind === "free") {
      for (const value of step.values) held.delete(value);
      continue;
    }
    const given = step.arguments.map((value) => held.get(value) as HostTensor);
    const results = yield* runStep(step, context, given);
    step.results.forEach((value, index) => {
      held.set(value, results[index] as HostTensor);
    });
  }
  return program.outputs.map(({ value }) => held.get(value) as HostTensor);
}

function* runStep(
  step: WorkStep,
  context: Context,
  given: readonly HostTensor[],
): Generator<Meeting, readonly HostTensor[], readonly HostTensor[]> {
  switch (step.kind) {
    case "collective":
      return yield { kind: "collective", step, inputs: given };
    case "run":
      return evaluateGraph(step.region, given, context);
    case "loop":
      return yield* runLoop(step, context, given);
    case "branch": {
      const [test, ...operands] = given as [HostTensor, ...HostTensor[]];
      const taken = yield* agreed(test, "cond");
      return yield* runProgram(step.branches[taken ? 0 : 1], context, operands);
    }
  }
}

function* agreed(test: HostTensor, what: string): Generator<Meeting, boolean, readonly HostTensor[]> {
  const value = test.data[0] as number;
  yield { kind: "test", what, value };
  return value !== 0;
}

function* runLoop(step: LoopStep, context: Context, given: readonly HostTensor[]): DeviceRun {
  const { body, condition, length, reverse, carries, slices } = step;
  let state = given.slice(0, carries);
  const stacks = body.outputs.slice(carries).map(({ type: { dtype, shape } }): HostTensor => {
    const whole = [length as number, ...shape];
    return { dtype, shape: whole, data: dtypes[dtype].create(sizeOf(whole)) };
  });
  for (let count = 0; count < (length ?? Infinity); count++) {
    const at = reverse ? (length as number) - 1 - count : count;
    const taken = [
      { dtype: "i32" as const, shape: [], data: Int32Array.of(at) },
      ...state,
      ...given.slice(carries, carries + slices).map((tensor) => sliceOf(tensor, at)),
      ...given.slice(carries + slices),
    ];
    if (condition !== undefined) {
      const [test] = yield* runProgram(condition, context, taken);
      if (!(yield* agreed(test as HostTensor, "while"))) break;
    }
    const results = yield* runProgram(body, context, taken);
    state = results.slice(0, carries);
    results.slice(carries).forEach(({ data }, place) => {
      stacks[place]?.data.set(data, at * data.length);
    });
  }
  return [...state, ...stacks];
}

const copyOf = (tensor: HostTensor): HostTensor => ({ ...tensor, data: tensor.data.slice() });

function coordinateOf(axes: readonly ProgramAxis[], device: LocalDevice, axis: string): number {
  return device.coordinates[axes.findIndex(({ name }) => name === axis)] as number;
}

/** Runs one collective in every group of devices that differ on its axis alone. */
function communicate(
  meetings: readonly { readonly step: CollectiveStep; readonly inputs: readonly HostTensor[] }[],
  options: ExecutorOptions,
): HostTensor[][] {
  const { op, axis: name } = (meetings[0] as (typeof meetings)[number]).step;
  const axis = options.axes.findIndex((one) => one.name === name);
  const groups = new Map<string, number[]>();
  options.devices.forEach(({ coordinates }, index) => {
    const key = coordinates.filter((_coordinate, other) => other !== axis).join(",");
    groups.set(key, [...(groups.get(key) ?? []), index]);
  });
  const replies: HostTensor[][] = meetings.map(() => []);
  for (const members of groups.values()) {
    members.sort(
      (left, right) =>
        (options.devices[left]?.coordinates[axis] as number) - (options.devices[right]?.coordinates[axis] as number),
    );
    const own = members.map((member) => meetings[member] as (typeof meetings)[number]);
    const results = communicationNamed(op).meaning(
      own.map(({ inputs }) => inputs),
      own.map(({ step }) => step.attrs),
    );
    members.forEach((member, place) => {
      replies[member] = results[place] as HostTensor[];
    });
  }
  return replies;
}
