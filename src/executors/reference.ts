/**
 * @module The reference executor: interprets programs by the ops' reference implementations, with all devices of the mesh in
 * this process. It is slow, and the oracle for the other executors.
 */

import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, sizeOf, type TensorType } from "../ir/shape.ts";
import { evaluateGraph, sliceOf } from "../ops/index.ts";
import type { LoopStep, Program, ProgramAxis, WorkStep } from "../program/program.ts";
import {
  type DeviceBuffer,
  type Executable,
  type Executor,
  type ExecutorOptions,
  type LocalDevice,
  programsFor,
  type Run,
} from "../runtime/executor.ts";
import type { ExecutorPlugin } from "../runtime/registry.ts";
import { HeddleError, inIteration, onDevice, refusedBy } from "../util/errors.ts";
import { speakerNow } from "../util/source.ts";
import { type DeviceRun, type Meeting, together } from "./meeting.ts";
import { nativePasses } from "./passes.ts";

const live = { buffers: 0, bytes: 0 };

function countFreed(bytes: number): void {
  live.buffers--;
  live.bytes -= bytes;
}

const collected = new FinalizationRegistry(countFreed);

class HostBuffer implements DeviceBuffer {
  readonly bytes: number;
  readonly ready = true;
  data: Uint8Array | undefined;
  private readonly owned: boolean;

  /** `owned`: whether the buffer does not share another buffer's memory. */
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
    countFreed(this.bytes);
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
  return {
    program,
    run: (inputs): Run => {
      try {
        return { outputs: interpret(programs, options, inputs), done: Promise.resolve() };
      } catch (error) {
        // JavaScript's error for an array that is too large names neither the op nor the shape.
        if (!(error instanceof RangeError)) throw namingCaller(error);
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
  const inputTensors = programs.map((program, device) =>
    program.inputs.map(({ type }, index) => asTensor(inputs[device]?.[index] as DeviceBuffer, type)),
  );
  const results = together(
    programs.map((program, device) =>
      toldOn(
        device,
        programs.length,
        runProgram(program, contextOf(options, device), inputTensors[device] as readonly HostTensor[]),
      ),
    ),
    programs,
    options,
  );
  // A value that is an input passed through must not share memory with it.
  return results.map((tensors, device) =>
    tensors.map((tensor) => asBuffer(inputTensors[device]?.includes(tensor) === true ? copyOf(tensor) : tensor)),
  );
}

interface Context {
  readonly coordinate: (axis: string) => number;
}

const contextOf = ({ axes, devices }: ExecutorOptions, device: number): Context => ({
  coordinate: (axis) => coordinateOf(axes, devices[device] as LocalDevice, axis),
});

/** Runs a program on one device, step by step. */
export function* runProgram(program: Program, context: Context, inputs: readonly HostTensor[]): DeviceRun {
  const values = new Map(inputs.map((tensor, index) => [index, tensor]));
  for (const step of program.steps) {
    if (step.kind === "free") {
      for (const value of step.values) values.delete(value);
      continue;
    }
    const operands = step.arguments.map((value) => values.get(value) as HostTensor);
    const results = yield* runStep(step, context, operands);
    step.results.forEach((value, index) => {
      values.set(value, results[index] as HostTensor);
    });
  }
  return program.outputs.map(({ value }) => values.get(value) as HostTensor);
}

function* runStep(
  step: WorkStep,
  context: Context,
  operands: readonly HostTensor[],
): Generator<Meeting, readonly HostTensor[], readonly HostTensor[]> {
  switch (step.kind) {
    case "collective":
      return yield { kind: "collective", step, inputs: operands };
    case "run":
      return evaluateGraph(step.region, operands, context);
    case "loop":
      return yield* runLoop(step, context, operands);
    case "branch": {
      const [test, ...branchInputs] = operands as [HostTensor, ...HostTensor[]];
      const isTrue = yield* agreed(test, "cond");
      return yield* runProgram(step.branches[isTrue ? 0 : 1], context, branchInputs);
    }
  }
}

function* agreed(test: HostTensor, what: string): Generator<Meeting, boolean, readonly HostTensor[]> {
  const value = test.data[0] as number;
  yield { kind: "test", what, value };
  return value !== 0;
}

function* runLoop(step: LoopStep, context: Context, operands: readonly HostTensor[]): DeviceRun {
  const { body, condition, length, reverse, carries, slices } = step;
  let state = operands.slice(0, carries);
  const stacks = body.outputs.slice(carries).map(({ type: { dtype, shape } }): HostTensor => {
    const stackShape = [length as number, ...shape];
    return { dtype, shape: stackShape, data: dtypes[dtype].create(sizeOf(stackShape)) };
  });
  for (let count = 0; count < (length ?? Infinity); count++) {
    const index = reverse ? (length as number) - 1 - count : count;
    const bodyInputs = [
      { dtype: "i32" as const, shape: [], data: Int32Array.of(index) },
      ...state,
      ...operands.slice(carries, carries + slices).map((tensor) => sliceOf(tensor, index)),
      ...operands.slice(carries + slices),
    ];
    if (condition !== undefined) {
      const [test] = yield* namingIteration(index, runProgram(condition, context, bodyInputs));
      if (!(yield* agreed(test as HostTensor, "while"))) break;
    }
    const results = yield* namingIteration(index, runProgram(body, context, bodyInputs));
    state = results.slice(0, carries);
    results.slice(carries).forEach(({ data }, stack) => {
      stacks[stack]?.data.set(data, index * data.length);
    });
  }
  return [...state, ...stacks];
}

/** Names the current call in an error of a program that is kept for many calls. */
function namingCaller(error: unknown): unknown {
  const by = speakerNow();
  return by === undefined ? error : refusedBy(by, error);
}

/** A run in an iteration of a loop, which its errors name. */
const namingIteration = (count: number, run: DeviceRun): DeviceRun => recast(run, (error) => inIteration(count, error));

/** A run on one of several devices, which its errors name. */
const toldOn = (device: number, devices: number, run: DeviceRun): DeviceRun =>
  recast(run, (error) => onDevice(device, devices, error));

function* recast(run: DeviceRun, say: (error: unknown) => unknown): DeviceRun {
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
