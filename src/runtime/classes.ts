/**
 * @module Several programs side by side in the reference executor: the devices of one program go in lockstep, and a class
 * of devices waits for what another one sends.
 */
import type { HostTensor } from "../ir/node.ts";
import type { CollectiveStep, Program, Step } from "../program/program.ts";
import { HeddleError } from "../util/errors.ts";
import type { ExecutorOptions, LocalDevice } from "./executor.ts";

/** Values by device and number. */
export type Held = readonly Map<number, HostTensor>[];

interface DeviceClass {
  readonly program: Program;
  readonly options: ExecutorOptions;
  /** Numbers among all devices. */
  readonly devices: readonly number[];
  readonly held: Held;
  next: number;
}

/** What has been sent and not received, by sender and receiver, in order. */
type Mail = Map<string, { readonly label: string; readonly values: readonly HostTensor[] }[]>;

/**
 * Runs a program on each device: `inputs[device][input]` to `[device][output]`. `runStep` runs a step that is neither a
 * send nor a receive on the devices that it is given.
 *
 * @throws HeddleError `deadlock` when every class waits for a message.
 */
export function runClasses(
  programs: readonly Program[],
  options: ExecutorOptions,
  inputs: readonly (readonly HostTensor[])[],
  runStep: (step: Step, options: ExecutorOptions, held: Held) => void,
): HostTensor[][] {
  const held = inputs.map((tensors) => new Map(tensors.map((tensor, index) => [index, tensor])));
  const classes = [...new Set(programs)].map((program): DeviceClass => {
    const devices = programs.flatMap((other, device) => (other === program ? [device] : []));
    const members = devices.map((device) => options.devices[device] as LocalDevice);
    return {
      program,
      options: { ...options, devices: members },
      devices,
      held: devices.map((device) => held[device] as Held[number]),
      next: 0,
    };
  });
  const mail: Mail = new Map();
  for (let open = classes; open.length > 0; open = open.filter(({ next, program }) => next < program.steps.length)) {
    const moved = open.map((one) => advance(one, options, mail, runStep));
    if (!moved.includes(true)) throw deadlock(open);
  }
  return held.map((values, device) =>
    (programs[device] as Program).outputs.map(({ value }) => values.get(value) as HostTensor),
  );
}

/** Runs steps until the end or a message that is not there; says whether anything was done. */
function advance(
  one: DeviceClass,
  all: ExecutorOptions,
  mail: Mail,
  runStep: (step: Step, options: ExecutorOptions, held: Held) => void,
): boolean {
  const first = one.next;
  const { steps } = one.program;
  for (; one.next < steps.length; one.next++) {
    const step = steps[one.next] as Step;
    if (step.kind === "collective" && step.op === "send") post(step, one, all, mail);
    else if (step.kind === "collective" && step.op === "receive") {
      if (!collect(step, one, all, mail)) break;
    } else runStep(step, one.options, one.held);
  }
  return one.next > first || first === steps.length;
}

/** The number of the device that differs from this one on the step's axis alone. */
function peerOf(step: CollectiveStep, device: number, { axes, devices }: ExecutorOptions): number {
  const axis = axes.findIndex(({ name }) => name === step.axis);
  const own = (devices[device] as LocalDevice).coordinates;
  return devices.findIndex(({ coordinates }) =>
    coordinates.every((coordinate, index) => coordinate === (index === axis ? step.attrs["peer"] : own[index])),
  );
}

function post(step: CollectiveStep, { devices, held }: DeviceClass, all: ExecutorOptions, mail: Mail): void {
  devices.forEach((device, index) => {
    const key = `${device} ${peerOf(step, device, all)}`;
    const values = step.arguments.map((value) => (held[index] as Held[number]).get(value) as HostTensor);
    mail.set(key, [...(mail.get(key) ?? []), { label: step.label, values }]);
  });
}

function collect(step: CollectiveStep, { devices, held }: DeviceClass, all: ExecutorOptions, mail: Mail): boolean {
  const boxes = devices.map((device) => mail.get(`${peerOf(step, device, all)} ${device}`) ?? []);
  if (boxes.some((box) => box.length === 0)) return false;
  boxes.forEach((box, index) => {
    const { label, values } = box.shift() as { label: string; values: readonly HostTensor[] };
    if (label !== step.label)
      throw new HeddleError("mismatch", `a device receives '${step.label}', but '${label}' was sent to it`);
    step.results.forEach((value, place) => {
      held[index]?.set(value, values[place] as HostTensor);
    });
  });
  return true;
}

function deadlock(open: readonly DeviceClass[]): HeddleError {
  const waits = open.map(({ program, devices, next }) => {
    const step = program.steps[next] as CollectiveStep;
    return `device ${devices[0]} waits for '${step.label}' from ${step.axis} ${String(step.attrs["peer"])}`;
  });
  return new HeddleError("deadlock", `no device can go on: ${waits.join(", ")}`);
}
