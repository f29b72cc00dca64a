/** @module The native executor: lowers programs, and hands them to one native device per local device. */

import { cachedLowering } from "../../cache/lowered.ts";
import type { Machine } from "../../cost/index.ts";
import { bytesOf, formatType } from "../../ir/shape.ts";
import { costOf, type LoweredProgram } from "../../lower/index.ts";
import { deviceAt, deviceCount } from "../../plan/mesh.ts";
import { type Program, stepsWithin } from "../../program/program.ts";
import { type Executable, type Executor, type ExecutorOptions, programsFor, type Run } from "../../runtime/executor.ts";
import { HeddleError } from "../../util/errors.ts";
import { readEnvironment } from "../../util/settings.ts";
import { capturePosition } from "../../util/source.ts";
import { formatBytes } from "../../util/text.ts";
import { nativePasses } from "../passes.ts";
import {
  loadNative,
  type NativeBinding,
  type NativeBuffer,
  type NativeDevice,
  type NativeGroup,
  type NativeProgram,
} from "./binding.ts";
import { byNative, RunError, rethrowNative } from "./error.ts";
import { checkFits } from "./fits.ts";
import { Heap, type NativeMemory } from "./memory.ts";
import type { Ran } from "./origin.ts";
import { type Profiler, sharedProfiler } from "./profile.ts";
import { type Launch, Queue, runFailure } from "./queue.ts";
import type { JoinedWorld } from "./world.ts";

export interface NativeOptions extends ExecutorOptions {
  readonly threads: number;
  /** Instruction set: `avx512`, `avx2` or `scalar`. Default: HEDDLE_ISA, or the best of the processor. */
  readonly isa?: string;
  /** The processes of the run, if not all devices are in this process. */
  readonly world: JoinedWorld | undefined;
}

/** Shorter runs are done in place: a round trip to another thread costs more. */
const shortSeconds = 1e-3;
/** Kernels seldom take longer than this factor times the cost model's estimate. */
const slack = 1.5;

/** Makes the native executor. @throws HeddleError `executor` when the native core does not load. */
export function nativeExecutor(options: NativeOptions): Executor {
  const binding = loadNative();
  if ("error" in binding) throw new HeddleError("executor", `the native core cannot be loaded: ${binding.error}`);
  const groups = groupsOf(binding, options);
  const isa = options.isa ?? readEnvironment().isa;
  const devices = options.devices.map(({ coordinates }, index) => {
    const deviceOptions = { threads: options.threads, coords: [...coordinates], ...(isa === undefined ? {} : { isa }) };
    return byNative(() => new binding.NativeDevice(deviceOptions, groups[index] as NativeGroup[]));
  });
  const numbers = options.devices.map(({ coordinates }) => deviceAt(options, coordinates));
  const queue = new Queue(devices, numbers, deviceCount(options));
  const heap = new Heap(binding, queue);
  const profiler = sharedProfiler();
  if (devices[0] !== undefined) profiler?.measure(devices[0], options.threads, binding.info().isa);
  const compileEach = (programs: readonly Program[]): Executable =>
    compile(programs, options.threads, {
      binding,
      devices,
      queue,
      heap,
      numbers: binding.shareNumbers(new Uint32Array(mostHandles)),
      device: devices.length === 1 ? (devices[0]?.number ?? undefined) : undefined,
      profiler,
      machine: options.machine,
      alone: groups.every((group) => group.length === 0),
    });
  return {
    name: "native",
    devices: devices.length,
    threads: options.threads,
    passes: nativePasses,
    allocate: (bytes) => heap.allocate(bytes, () => "a buffer"),
    gatherRows: (source, rowBytes, rows, target) =>
      binding
        .gatherRows((source as NativeMemory).native, rowBytes, rows, (target as NativeMemory).native, 0)
        .catch(rethrowNative),
    compile: (program) => compileEach(programsFor(program, devices.length)),
    abort: (reason) => {
      options.world?.abort(reason);
      for (const device of devices) device.abort(reason);
    },
    close: () => {
      for (const device of devices) device.close();
    },
  };
}

/** The groups of each local device, one per axis: over the network, or among devices of this process. */
function groupsOf(binding: NativeBinding, { axes, devices, world }: NativeOptions): NativeGroup[][] {
  const count = deviceCount({ axes });
  if (count === 1 || axes.length === 0) return devices.map(() => []);
  const worlds = world === undefined ? binding.NativeWorld.inProcess(count) : [world.native];
  return devices.map(({ coordinates }, index) =>
    axes.map((axis, axisIndex) =>
      (worlds[index] as (typeof worlds)[number]).group(members(axes, coordinates, axisIndex), axis.name),
    ),
  );
}

/** Numbers of the devices whose coordinates differ on one axis only. */
function members(axes: ExecutorOptions["axes"], coordinates: readonly number[], axis: number): number[] {
  return Array.from({ length: axes[axis]?.size as number }, (_unused, coordinate) =>
    deviceAt({ axes }, coordinates.with(axis, coordinate)),
  );
}

/** Most buffers of a run whose handles are passed by shared memory. */
const mostHandles = 1024;

/** The meanings of `HEDDLE_OVERLAP`. */
const overlaps = { on: "paying", off: "none", all: "all" } as const;

interface Machinery {
  readonly binding: NativeBinding;
  readonly devices: readonly NativeDevice[];
  readonly queue: Queue;
  readonly heap: Heap;
  /** From which the native core takes the handles of a run in place. */
  readonly numbers: Uint32Array;
  /** The number of the only device. */
  readonly device: number | undefined;
  /** Whether the devices wait for no other. */
  readonly alone: boolean;
  readonly profiler: Profiler | undefined;
  readonly machine: Machine | undefined;
}

/** The compiled program of one device. */
interface Ready extends Ran {
  readonly lowered: LoweredProgram;
  readonly native: NativeProgram;
  /** Number of the native program. */
  readonly number: number;
  /** Bytes of each output. */
  readonly bytes: readonly number[];
}

function compile(programs: readonly Program[], threads: number, machinery: Machinery): Executable {
  const { machine } = machinery;
  const target = { slots: threads, overlap: overlaps[readEnvironment().overlap ?? "on"], machine };
  const lowerings = new Map([...new Set(programs)].map((program) => [program, cachedLowering(program, target)]));
  checkFits(
    (programs[0] as Program).name,
    programs.map((program) => lowerings.get(program) as LoweredProgram),
  );
  const byProgram = new Map(
    [...lowerings].map(([program, lowered]): [Program, Ready] => {
      const native = loadProgram(program, lowered, machinery.binding);
      const bytes = program.outputs.map(({ type }) => bytesOf(type));
      return [program, { program, target, lowered, native, number: native.number, bytes }];
    }),
  );
  const ready = programs.map((program) => byProgram.get(program) as Ready);
  const { program, lowered } = ready[0] as Ready;
  const alone = machinery.alone && machinery.devices.length === 1;
  const note = machinery.profiler?.program(lowered, machine);
  const short = note === undefined && alone && isShort(program, lowered, machine);
  const keeps = program.donated.every((input) => input === undefined);
  const prepared = { programs: ready, alone, short, quick: short && keeps, note };
  return {
    program,
    arenaBytes: Math.max(...ready.map((program) => program.native.arenaBytes)),
    run: (inputs) => run(prepared, machinery, inputs as readonly (readonly NativeMemory[])[]),
  };
}

function loadProgram(program: Program, lowered: LoweredProgram, binding: NativeBinding): NativeProgram {
  try {
    return new binding.NativeProgram(lowered.text);
  } catch (error) {
    const largest = Math.max(lowered.workBytes, ...program.outputs.map(({ type }) => bytesOf(type)));
    const failure = runFailure(error, program.name);
    if (failure.code !== "memory") throw failure;
    const values = program.outputs.map(({ type }) => formatType(type)).join(", ");
    throw new HeddleError(
      "memory",
      `there is no memory for ${values} (${formatBytes(largest)}), the result of ${program.name}`,
      { cause: failure },
    );
  }
}

/** A program that is ready to run. */
interface Prepared {
  /** The program of each device. */
  readonly programs: readonly Ready[];
  /** Whether no other device waits for this one while it runs. */
  readonly alone: boolean;
  readonly short: boolean;
  /** Whether the run is short and donates no input. */
  readonly quick: boolean;
  /** Takes the times of the first device's runs under a profiler. */
  readonly note: ((times: Float64Array) => void) | undefined;
}

/** Whether a run is too short to delay the event loop. Loops with a condition may be long. */
const isShort = (program: Program, lowered: LoweredProgram, machine: Machine | undefined): boolean =>
  slack * costOf(lowered, machine).seconds < shortSeconds &&
  !stepsWithin(program).some((step) => step.kind === "loop" && step.length === undefined);

/** Memory for a program's outputs on a device: new memory, or that of donated inputs. */
const outputsOf = (
  { program, bytes }: Ready,
  inputs: readonly NativeMemory[],
  { heap }: Machinery,
): readonly NativeMemory[] =>
  program.outputs.map(({ type }, output) => {
    const donated = program.donated[output];
    return donated === undefined
      ? heap.allocate(bytes[output] as number, () => `${formatType(type)}, the result of ${program.name}`)
      : (inputs[donated] as NativeMemory).again();
  });

/** The buffers of a native call, in order. */
const buffersOf = (
  { lowered }: Ready,
  inputs: readonly NativeMemory[],
  outputs: readonly NativeMemory[],
): NativeBuffer[] =>
  lowered.arguments.map(
    ({ input, output }) => ((input === undefined ? outputs[output as number] : inputs[input]) as NativeMemory).native,
  );

const nothingToWaitFor = Promise.resolve();

/** Runs on the one device of this process while the caller waits; the error of the run is thrown. */
function runInPlace(
  [first]: readonly Ready[],
  machinery: Machinery,
  inputs: readonly NativeMemory[],
  outputs: readonly NativeMemory[],
  donated: readonly NativeMemory[],
): Run {
  const { program, lowered, native, number } = first as Ready;
  const { binding, numbers, device } = machinery;
  const places = lowered.arguments;
  const fits = device !== undefined && places.length <= numbers.length;
  for (let index = 0; fits && index < places.length; index++) {
    const { input, output } = places[index] as (typeof places)[number];
    numbers[index] = ((input === undefined ? outputs[output as number] : inputs[input]) as NativeMemory).held();
  }
  try {
    // A handle is valid while its owner is reachable, as `inputs` and `outputs` are by what follows.
    if (!fits || binding.runHandles(device, number, places.length) === 0)
      machinery.devices[0]?.runSync(native, buffersOf(first as Ready, inputs, outputs));
  } catch (error) {
    const failure = runFailure(error, program.name, first);
    const unchanged = (): boolean => endedBefore(failure, lowered.firstDonatedWrite);
    for (const input of donated) input.lend({ settled: true, failure, done: nothingToWaitFor }, unchanged);
    throw failure;
  }
  return { outputs: [outputs], done: nothingToWaitFor };
}

/** The inputs, with copies instead of donated memory that other buffers share. */
function unshared(
  programs: readonly Ready[],
  inputsOfDevices: readonly (readonly NativeMemory[])[],
  { heap }: Machinery,
): readonly (readonly NativeMemory[])[] {
  return inputsOfDevices.map((inputs, device) => {
    const { donated } = (programs[device] as Ready).program;
    if (!inputs.some(({ block }, input) => block.shared && donated.includes(input))) return inputs;
    return inputs.map((memory, input) => {
      if (!memory.block.shared || !donated.includes(input)) return memory;
      const copy = heap.allocate(memory.bytes, () => "a copy of an argument that is donated and that others share");
      copy.write(memory.readSync());
      return copy;
    });
  });
}

function run(prepared: Prepared, machinery: Machinery, inputsOfDevices: readonly (readonly NativeMemory[])[]): Run {
  let ready = true;
  for (const memories of inputsOfDevices) {
    for (const memory of memories) {
      memory.checkGood();
      ready &&= memory.ready;
    }
  }
  // Most eager operations: no run is queued, and no input changes.
  if (prepared.quick && ready && machinery.queue.isIdle) {
    const [inputs] = inputsOfDevices as [readonly NativeMemory[]];
    const outputs = outputsOf(prepared.programs[0] as Ready, inputs, machinery);
    return runInPlace(prepared.programs, machinery, inputs, outputs, []);
  }
  return launch(prepared, machinery, unshared(prepared.programs, inputsOfDevices, machinery));
}

/** Runs in place if the run is short or promises have piled up, otherwise queues it. */
function launch(
  { programs, alone, short, note }: Prepared,
  machinery: Machinery,
  inputs: readonly (readonly NativeMemory[])[],
): Run {
  const { queue } = machinery;
  const [first] = programs as [Ready];
  const allInputs = inputs.flat();
  const donated = programs.flatMap(({ program }, device) =>
    program.donated.flatMap((input) => (input === undefined ? [] : [inputs[device]?.[input] as NativeMemory])),
  );
  for (const input of donated) input.giveAway();
  const outputs = programs.map((code, device) => outputsOf(code, inputs[device] as readonly NativeMemory[], machinery));
  const used = [...new Set([...allInputs, ...outputs.flat()].map((memory) => memory.block))];
  if (!queue.hasRoom(used)) queue.drain();
  const ready = allInputs.every((input) => input.ready);
  if ((short && ready) || (alone && queue.isStarved)) {
    if (!ready) queue.drain();
    for (const input of allInputs) input.checkGood();
    return runInPlace(programs, machinery, allInputs, outputs[0] as readonly NativeMemory[], donated);
  }
  const needs = { buffers: used, causes: [...new Set(allInputs.flatMap(({ origin }) => origin ?? []))] };
  const launched = queue.launch(first.program.name, needs, programs, capturePosition(), (device, index) => {
    const code = programs[index] as Ready;
    const uses = buffersOf(code, inputs[index] as readonly NativeMemory[], outputs[index] as readonly NativeMemory[]);
    // Of several devices in this process, the first is profiled.
    if (note !== undefined && index === 0) return byNative(() => device.profile(code.native, uses)).then(note);
    return byNative(() => device.run(code.native, uses));
  });
  for (const output of outputs.flat()) output.comesFrom(launched);
  const unchanged = (): boolean =>
    programs.every(({ lowered }, device) => endedBefore(launched.failures[device], lowered.firstDonatedWrite));
  for (const input of donated) input.lend(launched, unchanged);
  void launched.done.then(() => {
    if (launched.failure === undefined) for (const input of donated) input.returned(launched);
  });
  return {
    outputs,
    get done() {
      return settled(launched);
    },
    unchanged,
  };
}

/** Whether a failed run is known to have ended before this step. */
function endedBefore(failure: HeddleError | undefined, step: number): boolean {
  const native = failure instanceof RunError ? failure : failure?.cause;
  return native instanceof RunError && native.step !== undefined && native.step < step;
}

/** Settles when the run is done, with its failure, or the failure of a run that it reads from. */
async function settled(launched: Launch): Promise<void> {
  await launched.finished();
  if (launched.spoiled !== undefined) throw launched.spoiled;
}
