/** @module The native executor: lowers programs, and hands them to one native device per local device. */

import { bytesOf } from "../../ir/shape.ts";
import { type LoweredProgram, lowerProgram } from "../../lower/index.ts";
import { type Program, programsOf } from "../../program/program.ts";
import { HeddleError } from "../../util/errors.ts";
import type { DeviceBuffer, Executable, Executor, ExecutorOptions, Run } from "../executor.ts";
import {
  loadNative,
  type NativeBinding,
  type NativeBuffer,
  type NativeDevice,
  type NativeGroup,
  type NativeProgram,
} from "./binding.ts";
import { nativeError } from "./error.ts";
import type { World } from "./world.ts";

export interface NativeOptions extends ExecutorOptions {
  /** Threads per device. */
  readonly threads: number;
  /** Instruction set to use: `avx512`, `avx2` or `scalar`. Default: HEDDLE_ISA, or the best there is. */
  readonly isa?: string;
  /** The other processes, when not all devices are here. */
  readonly world: World | undefined;
}

/** Runs shorter than this (by the rates below) are done in place: a round trip to another thread costs more. */
const shortSeconds = 2e-4;
const assumedFlops = 2e10;
const assumedBytes = 1e10;

// Promises of work done in place never let the event loop turn by themselves. Without turns, timers and requests wait, and
// the finalizers that free collected buffers do not run.
const turnMilliseconds = 1;
let lastTurn = 0;

function turnWhenDue(): Promise<void> | undefined {
  if (performance.now() - lastTurn < turnMilliseconds) return undefined;
  return new Promise((resolve) => {
    setImmediate(() => {
      lastTurn = performance.now();
      resolve();
    });
  });
}

class NativeMemory implements DeviceBuffer {
  readonly bytes: number;
  readonly native: NativeBuffer;
  /** The run that writes this buffer, until it is done. */
  pending: Promise<void> | undefined;
  private failure: unknown;
  private readonly drain: () => void;

  constructor(native: NativeBuffer, drain: () => void) {
    this.native = native;
    this.bytes = native.bytes;
    this.drain = drain;
  }

  /** Notes the run that will fill the buffer. */
  await(done: Promise<void>): void {
    const settled = done.then(
      () => undefined,
      (error: unknown) => {
        this.failure = error;
      },
    );
    this.pending = settled;
    void settled.then(() => {
      if (this.pending === settled) this.pending = undefined;
    });
  }

  write(data: Uint8Array): void {
    this.native.write(data);
  }

  async read(): Promise<Uint8Array> {
    await this.pending;
    await turnWhenDue();
    return this.contents();
  }

  readSync(): Uint8Array {
    if (this.pending !== undefined) this.drain();
    return this.contents();
  }

  private contents(): Uint8Array {
    if (this.failure !== undefined) throw this.failure;
    const data = new Uint8Array(this.bytes);
    this.native.read(data);
    return data;
  }

  dispose(): void {
    this.native.dispose();
  }
}

/** Makes the native executor. @throws HeddleError `executor` when the native core does not load. */
export function nativeExecutor(options: NativeOptions): Executor {
  const binding = loadNative();
  if ("error" in binding) throw new HeddleError("executor", `the native core cannot be loaded: ${binding.error}`);
  const groups = groupsOf(binding, options);
  const devices = options.devices.map(
    ({ coordinates }, index) =>
      new binding.NativeDevice(
        {
          threads: options.threads,
          coords: [...coordinates],
          ...(options.isa === undefined ? {} : { isa: options.isa }),
        },
        groups[index] as NativeGroup[],
      ),
  );
  const drain = (): void => {
    for (const device of devices) device.sync();
  };
  const allocate = (bytes: number): NativeMemory =>
    new NativeMemory(new binding.NativeBuffer(Math.max(bytes, 1)), drain);
  const compileEach = (programs: readonly Program[]): Executable =>
    compile(programs, options.threads, {
      binding,
      devices,
      allocate,
      alone: groups.every((group) => group.length === 0),
    });
  return {
    name: "native",
    devices: devices.length,
    allocate,
    gatherRows: (source, rowBytes, rows, target) =>
      binding
        .gatherRows((source as NativeMemory).native, rowBytes, rows, (target as NativeMemory).native, 0)
        .catch((error: unknown) => {
          throw nativeError(error);
        }),
    compile: (program) => compileEach(devices.map(() => program)),
    compileEach,
    abort: (reason) => {
      options.world?.abort(reason);
      for (const device of devices) device.abort(reason);
    },
    close: () => {
      for (const device of devices) device.close();
    },
  };
}

/** For each local device, the group of each axis: over the network, or among devices of this process. */
function groupsOf(binding: NativeBinding, { axes, devices, world }: NativeOptions): NativeGroup[][] {
  const count = axes.reduce((product, axis) => product * axis.size, 1);
  if (count === 1 || axes.length === 0) return devices.map(() => []);
  const worlds = world === undefined ? binding.NativeWorld.inProcess(count) : [world.native];
  return devices.map(({ coordinates }, index) =>
    axes.map((axis, place) =>
      (worlds[index] as (typeof worlds)[number]).group(members(axes, coordinates, place), axis.name),
    ),
  );
}

/** Numbers of the devices that differ from these coordinates on one axis alone. */
function members(axes: ExecutorOptions["axes"], coordinates: readonly number[], axis: number): number[] {
  const number = (place: readonly number[]): number =>
    place.reduce((total, coordinate, index) => total * (axes[index]?.size as number) + coordinate, 0);
  return Array.from({ length: axes[axis]?.size as number }, (_unused, coordinate) =>
    number(coordinates.map((old, index) => (index === axis ? coordinate : old))),
  );
}

interface Machinery {
  readonly binding: NativeBinding;
  readonly devices: readonly NativeDevice[];
  readonly allocate: (bytes: number) => NativeMemory;
  /** One device that waits for no other. */
  readonly alone: boolean;
}

/** The program of one device, made ready. */
interface Ready {
  readonly program: Program;
  readonly lowered: LoweredProgram;
  readonly native: NativeProgram;
}

function compile(programs: readonly Program[], threads: number, machinery: Machinery): Executable {
  const prepare = (program: Program): Ready => {
    const lowered = lowerProgram(program, { slots: threads });
    return { program, lowered, native: new machinery.binding.NativeProgram(lowered.text) };
  };
  const byProgram = new Map([...new Set(programs)].map((program) => [program, prepare(program)]));
  const ready = programs.map((program) => byProgram.get(program) as Ready);
  const { program, lowered } = ready[0] as Ready;
  const short = machinery.alone && machinery.devices.length === 1 && predictedSeconds(program) < shortSeconds;
  return {
    program,
    arenaBytes: Math.max(...ready.map((one) => one.lowered.arenaBytes)),
    calls: lowered.json.steps.length,
    run: (inputs) => run(ready, machinery, inputs as readonly (readonly NativeMemory[])[], short),
  };
}

/** The buffer of a device. */
const at = (lists: readonly (readonly NativeMemory[])[], device: number, index: number): NativeMemory =>
  (lists[device] as readonly NativeMemory[])[index] as NativeMemory;

/** A rough upper bound: arithmetic and bytes touched at modest rates. */
function predictedSeconds(program: Program): number {
  const bytes = program.values.reduce((total, type) => total + bytesOf(type), 0);
  let flops = 0;
  let seconds = 0;
  for (const step of program.steps) {
    // How often a condition holds is not known: not on the event loop.
    const times = step.kind === "loop" ? (step.length ?? Infinity) : 1;
    for (const inner of programsOf(step)) seconds += times * predictedSeconds(inner);
    if (step.kind !== "run") continue;
    for (const node of step.region.outputs)
      flops += node.op.cost(
        node.inputs.flatMap((input) => input.types),
        node.types,
        node.attrs,
      );
  }
  return seconds + flops / assumedFlops + bytes / assumedBytes;
}

function run(
  ready: readonly Ready[],
  machinery: Machinery,
  inputs: readonly (readonly NativeMemory[])[],
  short: boolean,
): Run {
  const outputs = ready.map(({ program }, index) =>
    program.outputs.map(({ type }, output) => {
      const donated = program.donated[output];
      return donated === undefined ? machinery.allocate(bytesOf(type)) : at(inputs, index, donated);
    }),
  );
  const buffers = (index: number): NativeBuffer[] =>
    (ready[index] as Ready).lowered.arguments.map(
      ({ input, output }) =>
        (input === undefined ? at(outputs, index, output as number) : at(inputs, index, input)).native,
    );
  if (short && inputs[0]?.every((input) => input.pending === undefined) === true) {
    try {
      machinery.devices[0]?.runSync((ready[0] as Ready).native, buffers(0));
    } catch (error) {
      throw nativeError(error);
    }
    return { outputs, done: Promise.resolve() };
  }
  const done = Promise.all(
    machinery.devices.map((device, index) =>
      device.run((ready[index] as Ready).native, buffers(index)).catch((error: unknown) => {
        throw nativeError(error);
      }),
    ),
  ).then(() => undefined);
  outputs.forEach((list) => {
    for (const output of list) output.await(done);
  });
  return { outputs, done };
}
