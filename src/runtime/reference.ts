/**
 * @module The reference executor: interprets programs by the ops' reference implementations, all devices of the mesh in
 * lockstep in this process. Slow, and the oracle of the others.
 */

import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, sizeOf, type TensorType } from "../ir/shape.ts";
import { evaluateGraph, sliceOf } from "../ops/index.ts";
import type { CollectiveStep, LoopStep, Program, ProgramAxis, Step, WorkStep } from "../program/program.ts";
import { HeddleError } from "../util/errors.ts";
import { type Held, runClasses } from "./classes.ts";
import { runCollective } from "./collectives.ts";
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
  readonly ready = true;
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
    compile: (program) => compile(programsFor(program, options.devices.length), options),
    abort: () => undefined,
    close: () => undefined,
  };
}

function compile(programs: readonly Program[], options: ExecutorOptions): Executable {
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
      try {
        return { outputs: interpret(programs, options, inputs), done: Promise.resolve() };
      } catch (error) {
        // What JavaScript says of an array that it cannot make names neither the op nor the shape.
        if (!(error instanceof RangeError)) throw error;
        const results = program.outputs.map(({ type }) => formatType(type)).join(", ");
        throw new HeddleError("memory", `there is no memory for ${results}, the result of ${program.name}`, {
          cause: error,
        });
      }
    },
  };
}

function interpret(
  programs: readonly Program[],
  options: ExecutorOptions,
  inputs: readonly (readonly DeviceBuffer[])[],
): DeviceBuffer[][] {
  const given = inputs.map((buffers, device) =>
    (programs[device] as Program).inputs.map(({ type }, index) => asTensor(buffers[index] as DeviceBuffer, type)),
  );
  const results = runClasses(programs, options, given, runStep);
  // A value that is an input passed through must not share memory with it.
  return results.map((tensors, device) =>
    tensors.map((tensor) => asBuffer(given[device]?.includes(tensor) === true ? copyOf(tensor) : tensor)),
  );
}

/** Runs a program on all devices, step by step: `inputs[device][input]` to `[device][output]`. */
function runProgram(
  program: Program,
  options: ExecutorOptions,
  inputs: readonly (readonly HostTensor[])[],
): HostTensor[][] {
  const held = inputs.map((tensors) => new Map(tensors.map((tensor, index) => [index, tensor])));
  for (const step of program.steps) runStep(step, options, held);
  return held.map((values) => program.outputs.map(({ value }) => values.get(value) as HostTensor));
}

function runStep(step: Step, options: ExecutorOptions, held: Held): void {
  switch (step.kind) {
    case "free":
      for (const values of held) for (const value of step.values) values.delete(value);
      return;
    case "collective":
      communicate(step, options, held);
      return;
    case "run":
      options.devices.forEach((device, index) => {
        const coordinate = (axis: string): number => coordinateOf(options.axes, device, axis);
        store(step, held, index, evaluateGraph(step.region, argumentsOf(step, held)[index] ?? [], { coordinate }));
      });
      return;
    case "loop":
      runLoop(step, options, held);
      return;
    case "branch": {
      const [tests, given] = [argumentsOf(step, held).map(([test]) => test), argumentsOf(step, held)];
      const taken = step.branches[agreed(tests as HostTensor[], "cond") ? 0 : 1];
      const results = runProgram(
        taken,
        options,
        given.map(([, ...operands]) => operands),
      );
      results.forEach((tensors, device) => {
        store(step, held, device, tensors);
      });
    }
  }
}

const argumentsOf = (step: WorkStep, held: Held): HostTensor[][] =>
  held.map((values) => step.arguments.map((value) => values.get(value) as HostTensor));

function store(step: WorkStep, held: Held, device: number, tensors: readonly HostTensor[]): void {
  step.results.forEach((value, result) => {
    held[device]?.set(value, tensors[result] as HostTensor);
  });
}

/** Devices that went different ways would wait for each other's collectives for ever. */
function agreed(tests: readonly HostTensor[], what: string): boolean {
  const [first, ...others] = tests.map(({ data }) => data[0]);
  if (others.some((other) => other !== first))
    throw new HeddleError("value", `${what}: the condition is not the same on all devices`);
  return first !== 0;
}

function runLoop(step: LoopStep, options: ExecutorOptions, held: Held): void {
  const { body, condition, length, reverse, carries, slices } = step;
  const given = argumentsOf(step, held);
  let state = given.map((tensors) => tensors.slice(0, carries));
  const stacks = given.map(() =>
    body.outputs.slice(carries).map(({ type: { dtype, shape } }): HostTensor => {
      const whole = [length as number, ...shape];
      return { dtype, shape: whole, data: dtypes[dtype].create(sizeOf(whole)) };
    }),
  );
  for (let count = 0; count < (length ?? Infinity); count++) {
    const at = reverse ? (length as number) - 1 - count : count;
    const taken = given.map((tensors, device) => [
      { dtype: "i32" as const, shape: [], data: Int32Array.of(at) },
      ...(state[device] as HostTensor[]),
      ...tensors.slice(carries, carries + slices).map((tensor) => sliceOf(tensor, at)),
      ...tensors.slice(carries + slices),
    ]);
    if (condition !== undefined) {
      const tests = runProgram(condition, options, taken).map(([test]) => test as HostTensor);
      if (!agreed(tests, "while")) break;
    }
    const results = runProgram(body, options, taken);
    state = results.map((tensors) => tensors.slice(0, carries));
    results.forEach((tensors, device) => {
      tensors.slice(carries).forEach(({ data }, place) => {
        stacks[device]?.[place]?.data.set(data, at * data.length);
      });
    });
  }
  held.forEach((_values, device) => {
    store(step, held, device, [...(state[device] as HostTensor[]), ...(stacks[device] as HostTensor[])]);
  });
}

const copyOf = (tensor: HostTensor): HostTensor => ({ ...tensor, data: tensor.data.slice() });

function coordinateOf(axes: readonly ProgramAxis[], device: LocalDevice, axis: string): number {
  return device.coordinates[axes.findIndex(({ name }) => name === axis)] as number;
}

/** Runs one collective in every group of devices that differ on its axis alone. */
function communicate(step: CollectiveStep, options: ExecutorOptions, held: Held): void {
  const axis = options.axes.findIndex(({ name }) => name === step.axis);
  const groups = new Map<string, number[]>();
  options.devices.forEach(({ coordinates }, index) => {
    const key = coordinates.filter((_coordinate, other) => other !== axis).join(",");
    groups.set(key, [...(groups.get(key) ?? []), index]);
  });
  for (const members of groups.values()) {
    members.sort(
      (left, right) =>
        (options.devices[left]?.coordinates[axis] as number) - (options.devices[right]?.coordinates[axis] as number),
    );
    const contributions = members.map((member) =>
      step.arguments.map((value) => held[member]?.get(value) as HostTensor),
    );
    const results = runCollective(step.op, step.attrs, contributions);
    members.forEach((member, place) => {
      step.results.forEach((value, index) => {
        held[member]?.set(value, results[place]?.[index] as HostTensor);
      });
    });
  }
}
