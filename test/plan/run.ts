/** Runs a planned graph on virtual devices by the reference executor, from whole values to whole values. */
import { expect } from "vitest";
import { referenceExecutor } from "../../src/executors/reference.ts";
import { dtypes, type HostTensor, sizeOf, stridesOf } from "../../src/ir/index.ts";
import { eachOffset } from "../../src/ops/host-arrays.ts";
import {
  coordinatesOf,
  deviceCount,
  type Layout,
  localType,
  type Mesh,
  type Plan,
  partStart,
} from "../../src/plan/index.ts";
import { type Program, splitGraph, verifyProgram, verifySameCollectives } from "../../src/program/index.ts";
import type { DeviceBuffer, Executor, ExecutorOptions } from "../../src/runtime/executor.ts";
import { difference } from "../support/tensors.ts";

/** Element offset at which the block of a device begins. */
const blockOffset = (value: HostTensor, layout: Layout, mesh: Mesh, coordinates: readonly number[]): number => {
  const strides = stridesOf(value.shape);
  return partStart(value, layout, mesh, coordinates).reduce(
    (offset, start, dim) => offset + start * (strides[dim] as number),
    0,
  );
};

// A plan is run by several executors.
const programsOf = new WeakMap<Plan, readonly Program[]>();

/** The program of each device of a plan. */
export const devicePrograms = (plan: Plan): Program[] => {
  let programs = programsOf.get(plan);
  if (programs === undefined) {
    programs = plan.classes.map(({ local }) => splitGraph(local, plan.mesh.axes, { name: plan.name }));
    for (const program of programs) verifyProgram(program);
    verifySameCollectives(programs);
    programsOf.set(plan, programs);
  }
  const made = programs;
  return Array.from(
    { length: deviceCount(plan.mesh) },
    (_unused, device) => made[plan.classes.findIndex(({ devices }) => devices.includes(device))] as Program,
  );
};

/** Evaluates a plan; replicated outputs must be equal to the bit on all devices. */
export async function runPlan(
  plan: Plan,
  inputs: readonly HostTensor[],
  make: (options: ExecutorOptions) => Executor = referenceExecutor,
): Promise<HostTensor[]> {
  const { mesh } = plan;
  const devices = Array.from({ length: deviceCount(mesh) }, (_unused, index) => ({
    coordinates: coordinatesOf(mesh, index),
  }));
  const executor = make({ axes: mesh.axes, devices });
  const executable = executor.compile(devicePrograms(plan));
  const buffers = devices.map(({ coordinates }) =>
    plan.inputs.map(({ type, layout }, index) => {
      const value = inputs[index] as HostTensor;
      const local = localType(type, layout, mesh, coordinates);
      const data = dtypes[type.dtype].create(sizeOf(local.shape));
      eachOffset(
        local.shape,
        stridesOf(type.shape),
        blockOffset(value, layout, mesh, coordinates),
        (linear, offset) => {
          data[linear] = value.data[offset] as number;
        },
      );
      const bytes = dtypes[type.dtype].bytesOf(data);
      const buffer = executor.allocate(bytes.byteLength);
      buffer.write(bytes);
      return buffer;
    }),
  );
  const run = executable.run(buffers);
  await run.done;
  const outputs = await Promise.all(
    plan.outputs.map(async ({ type, layout }, index): Promise<HostTensor> => {
      const whole: HostTensor = { ...type, data: dtypes[type.dtype].create(sizeOf(type.shape)) };
      const written = new Map<number, number>();
      for (const [device, { coordinates }] of devices.entries()) {
        const local = localType(type, layout, mesh, coordinates);
        const raw = await ((run.outputs[device] as readonly DeviceBuffer[])[index] as DeviceBuffer).read();
        const part = dtypes[type.dtype].view(raw.buffer, raw.byteOffset, sizeOf(local.shape));
        eachOffset(
          local.shape,
          stridesOf(type.shape),
          blockOffset(whole, layout, mesh, coordinates),
          (linear, offset) => {
            const known = written.get(offset);
            if (known !== undefined && !Object.is(known, part[linear]))
              throw new Error(`devices disagree on output ${index}: ${known} and ${part[linear]}`);
            written.set(offset, part[linear] as number);
            whole.data[offset] = part[linear] as number;
          },
        );
      }
      return whole;
    }),
  );
  executor.close();
  return outputs;
}

/** Fails unless results are those of one device, to 1e-12 of 1 + |value|. */
export function expectAnswers(results: readonly HostTensor[], expected: readonly HostTensor[], what = ""): void {
  results.forEach((result, index) => {
    const text = difference(result.data, (expected[index] as HostTensor).data, 1e-12);
    if (text !== undefined) expect.fail(`${what}output ${index}: ${text}`);
  });
}
