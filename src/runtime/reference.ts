/**
 * @module The reference executor: interprets programs by the ops' reference implementations, all devices of the mesh in
 * lockstep in this process. Slow, and the oracle of the others.
 */

import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { evaluateGraph } from "../ops/index.ts";
import type { CollectiveStep, Program, ProgramAxis } from "../program/program.ts";
import { HeddleError } from "../util/errors.ts";
import { runCollective } from "./collectives.ts";
import type { DeviceBuffer, Executable, Executor, ExecutorOptions, LocalDevice, Run } from "./executor.ts";

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

function compile(program: Program, options: ExecutorOptions): Executable {
  const calls = program.steps.reduce(
    (total, step) => total + (step.kind === "run" ? step.region.outputs.length : 1),
    0,
  );
  return {
    program,
    arenaBytes: 0,
    calls,
    run: (inputs): Run => {
      const outputs = interpret(program, options, inputs);
      return { outputs, done: Promise.resolve() };
    },
  };
}

function interpret(
  program: Program,
  options: ExecutorOptions,
  inputs: readonly (readonly DeviceBuffer[])[],
): DeviceBuffer[][] {
  const held = inputs.map(
    (buffers) =>
      new Map(program.inputs.map(({ type }, index) => [index, asTensor(buffers[index] as DeviceBuffer, type)])),
  );
  for (const step of program.steps) {
    if (step.kind === "free") for (const values of held) for (const value of step.values) values.delete(value);
    else if (step.kind === "collective") communicate(step, options, held);
    else {
      options.devices.forEach((device, index) => {
        const values = held[index] as Map<number, HostTensor>;
        const coordinate = (axis: string): number => coordinateOf(options.axes, device, axis);
        const results = evaluateGraph(
          step.region,
          step.arguments.map((value) => values.get(value) as HostTensor),
          { coordinate },
        );
        step.results.forEach((value, result) => {
          values.set(value, results[result] as HostTensor);
        });
      });
    }
  }
  // A value that is an input passed through must not share memory with it.
  return held.map((values) =>
    program.outputs.map(({ value }) =>
      asBuffer(
        value < program.inputs.length ? copyOf(values.get(value) as HostTensor) : (values.get(value) as HostTensor),
      ),
    ),
  );
}

const copyOf = (tensor: HostTensor): HostTensor => ({ ...tensor, data: tensor.data.slice() });

function coordinateOf(axes: readonly ProgramAxis[], device: LocalDevice, axis: string): number {
  return device.coordinates[axes.findIndex(({ name }) => name === axis)] as number;
}

/** Runs one collective in every group of devices that differ on its axis alone. */
function communicate(step: CollectiveStep, options: ExecutorOptions, held: readonly Map<number, HostTensor>[]): void {
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
