/**
 * @module The reference executor: interprets programs by the ops' reference implementations, all devices of the mesh in
 * this process. Slow, and the oracle of the others.
 */

import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, sizeOf, type TensorType } from "../ir/shape.ts";
import { evaluateGraph, sliceOf } from "../ops/index.ts";
import type { LoopStep, Program, ProgramAxis, WorkStep } from "../program/program.ts";
import { HeddleError, inIteration, onDevice, refusedBy } from "../util/errors.ts";
import { speakerNow } from "../util/source.ts";
import {
  type DeviceBuffer,
  type Executable,
  type Executor,
  type ExecutorOptions,
  type LocalDevice,
  programsFor,
  type Run,
} from "./executor.ts";
import { type DeviceRun, type Meeting, together } from "./meeting.ts";
import { nativePasses } from "./passes.ts";
import type { ExecutorPlugin } from "./registry.ts";

const live = { buffers: 0, bytes: 0 };

function gone(bytes: number): void {
  live.buffers--;
  live.bytes -= bytes;
}

const collected = new FinalizationRegistry(gone);

class HostBuffer implements DeviceBuffer {
  readonly bytes: number;
  readonly ready = true;
  data: Uint8Array | undefined;
  private readonly owned: boolean;

  /** `owned`: not memory of another buffer. */
  constructor(data: Uint8Array, owned = true) {
    this.bytes = data.byteLength;
    this.data = data;
    this.owned = owned;
    if (!owned) return;
    live.buffers++;
    live.bytes += this.bytes;
    collected.register(this, this.bytes, this);
  }

  part(offset: number, bytes: number): HostBuffer {
    return new HostBuffer(this.held().subarray(offset, offset + bytes), false);
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
    if (this.data === undefined) return;
    this.data = undefined;
    if (!this.owned) return;
    collected.unregister(this);
    gone(this.bytes);
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
  return new HostBuffer(dtypes[tensor.dtype].bytesOf(tensor.data));
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
    passes: nativePasses,
    // Typed views need alignment, which a fresh ArrayBuffer has.
    allocate: (bytes) => new HostBuffer(new Uint8Array(bytes)),
    compile: (program) => compile(programsFor(program, options.devices.length), options),
    abort: () => undefined,
    close: () => undefined,
  };
}

/** The reference executor, which runs anywhere. */
export const referencePlugin: ExecutorPlugin = {
  name: "reference",
  unavailable: () => undefined,
  passes: nativePasses,
  make: referenceExecutor,
  memory: () => ({ liveBuffers: live.buffers, liveBytes: live.bytes, peakBytes: live.bytes }),
};

function compile(programs: readonly Program[], options: ExecutorOptions): Executable {
  const program = programs[0] as Program;
  const calls = program.steps.reduce(
    (total, step) => total + (step.kind === "run" ? step.region.outputs.length : 1),
    0,
  );
  return {
    program,
    calls,
    run: (inputs): Run => {
      try {
        return { outputs: interpret(programs, options, inputs), done: Promise.resolve() };
      } catch (error) {
        // What JavaScript says of an array that it cannot make names neither the op nor the shape.
        if (!(error instanceof RangeError)) throw saidNow(error);
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
  const given = programs.map((program, device) =>
    program.inputs.map(({ type }, index) => asTensor(inputs[device]?.[index] as DeviceBuffer, type)),
  );
  const results = together(
    programs.map((program, device) =>
      toldOn(device, programs.length, runProgram(program, contextOf(options, device), given[device] as HostTensor[])),
    ),
    programs,
    options,
  );
  // A value that is an input passed through must not share memory with it.
  return results.map((tensors, device) =>
    tensors.map((tensor) => asBuffer(given[device]?.includes(tensor) === true ? copyOf(tensor) : tensor)),
  );
}

interface Context {
  readonly coordinate: (axis: string) => number;
}

const contextOf = ({ axes, devices }: ExecutorOptions, device: number): Context => ({
  coordinate: (axis) => coordinateOf(axes, devices[device] as LocalDevice, axis),
});

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
      const [test] = yield* within(at, runProgram(condition, context, taken));
      if (!(yield* agreed(test as HostTensor, "while"))) break;
    }
    const results = yield* within(at, runProgram(body, context, taken));
    state = results.slice(0, carries);
    results.slice(carries).forEach(({ data }, place) => {
      stacks[place]?.data.set(data, at * data.length);
    });
  }
  return [...state, ...stacks];
}

/** Of a program that is kept for many calls, in the name of the one under way. */
function saidNow(error: unknown): unknown {
  const by = speakerNow();
  return by === undefined ? error : refusedBy(by, error);
}

/** A run in an iteration of a loop, which its errors name. */
const within = (count: number, run: DeviceRun): DeviceRun => told(run, (error) => inIteration(count, error));

/** A run on one of several devices, which its errors name. */
const toldOn = (device: number, devices: number, run: DeviceRun): DeviceRun =>
  told(run, (error) => onDevice(device, devices, error));

function* told(run: DeviceRun, say: (error: unknown) => unknown): DeviceRun {
  try {
    return yield* run;
  } catch (error) {
    throw say(error);
  }
}

const copyOf = (tensor: HostTensor): HostTensor => ({ ...tensor, data: tensor.data.slice() });

function coordinateOf(axes: readonly ProgramAxis[], device: LocalDevice, axis: string): number {
  return device.coordinates[axes.findIndex(({ name }) => name === axis)] as number;
}
