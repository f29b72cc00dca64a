/**
 * @module Workers whose sums are made by a switch: one device in each process, which interprets its program as the reference executor does. Sums over
 * all workers go through the switch; all other collectives are gathered over the links of the run.
 */
import { type Aggregator, joinSwitch } from "../../in-network/index.ts";
import type { CollectiveAttrs } from "../../ir/communication.ts";
import { dtypes, type TypedArray } from "../../ir/dtype.ts";
import type { HostTensor } from "../../ir/node.ts";
import { communicationNamed } from "../../ir/op.ts";
import { bytesOf, sizeOf } from "../../ir/shape.ts";
import { type CollectiveStep, isTransfer, type Program } from "../../program/program.ts";
import { allDevices } from "../../runtime/devices.ts";
import { type Executor, type ExecutorOptions, type LocalDevice, programsFor } from "../../runtime/executor.ts";
import type { World } from "../../runtime/world.ts";
import { HeddleError } from "../../util/errors.ts";
import { groupOf } from "../meeting.ts";
import { nativePasses } from "../passes.ts";
import { runProgram } from "../reference.ts";
import { LaterBuffer } from "./buffer.ts";

/** Options of {@link switchExecutor}. */
export interface ThroughSwitchOptions extends ExecutorOptions {
  readonly world: World;
  /** The address of the switch. */
  readonly address: string;
  /** Seconds that a sum waits. */
  readonly timeout: number;
}

/** Makes an executor whose sums go through a switch. */
export function switchExecutor(options: ThroughSwitchOptions): Executor {
  const carrier = new Carrier(options);
  const [device] = options.devices as [LocalDevice];
  const coordinate = (axis: string): number =>
    device.coordinates[options.axes.findIndex(({ name }) => name === axis)] as number;
  // Runs follow each other, on every worker in the same order.
  let last: Promise<unknown> = Promise.resolve();
  return {
    name: "switch",
    devices: 1,
    elsewhere: true,
    passes: nativePasses,
    allocate: (bytes) => new LaterBuffer(bytes),
    compile: (programs) => {
      const program = programsFor(programs, 1)[0] as Program;
      return {
        program,
        run: ([inputs = []]) => {
          // Buffers may be given back, or filled anew, before the run begins.
          const given = Promise.all(inputs.map((buffer) => (buffer as LaterBuffer).contents()));
          given.catch(() => {});
          const results = last.then(async () => carrier.run(program, { coordinate }, await given));
          last = results.catch(() => {});
          const outputs = program.outputs.map(({ type }, index) => {
            const bytes = results.then((tensors) =>
              dtypes[type.dtype].bytesOf((tensors[index] as HostTensor).data).slice(),
            );
            bytes.catch(() => {});
            return new LaterBuffer(bytesOf(type), bytes);
          });
          const done = results.then(() => undefined);
          done.catch(() => {});
          return { outputs: [outputs], done };
        },
      };
    },
    abort: () => carrier.close(),
    close: () => carrier.close(),
  };
}

/** Carries out the collectives of one device. */
class Carrier {
  private readonly options: ThroughSwitchOptions;
  private link: Promise<Aggregator> | undefined;
  private closed = false;

  constructor(options: ThroughSwitchOptions) {
    this.options = options;
  }

  async run(
    program: Program,
    context: { coordinate(axis: string): number },
    inputs: readonly Uint8Array[],
  ): Promise<HostTensor[]> {
    const tensors = program.inputs.map(({ type }, index): HostTensor => {
      const { buffer, byteOffset } = inputs[index] as Uint8Array;
      return { ...type, data: dtypes[type.dtype].view(buffer, byteOffset, sizeOf(type.shape)) };
    });
    const device = runProgram(program, context, tensors);
    for (let state = device.next(); ; ) {
      if (state.done === true) return state.value;
      const meeting = state.value;
      // On a condition all agree: it is made of values that all have.
      state = device.next(meeting.kind === "test" ? [] : await this.carry(meeting.step, meeting.inputs));
    }
  }

  private async carry(step: CollectiveStep, inputs: readonly HostTensor[]): Promise<readonly HostTensor[]> {
    const { axes, world } = this.options;
    if (this.closed) throw new HeddleError("disposed", "the runtime is closed");
    if (isTransfer(step))
      throw new HeddleError("executor", `${step.label}: the stages of a pipeline do not send through a switch`);
    const members = groupOf(step, world.rank, { axes, devices: allDevices(axes) });
    const own = members.indexOf(world.rank);
    const { meaning } = communicationNamed(step.op);
    if (members.length === world.size && isSum(step) && inputs.every(({ dtype }) => dtype !== "bool")) {
      const sums: HostTensor[] = [];
      for (const input of inputs) sums.push(await (await this.joined()).sum(input));
      // The sum, and nothing from anyone else.
      const alone = members.map((_member, index) => (index === own ? sums : sums.map(zeros)));
      return meaning(
        alone,
        members.map(() => step.attrs),
      )[own] as HostTensor[];
    }
    const all = await this.gathered(step, inputs);
    const [contributions, attrs] = [
      members.map((member) => all[member]?.inputs ?? []),
      members.map((member) => all[member]?.attrs as CollectiveAttrs),
    ];
    return meaning(contributions, attrs)[own] as HostTensor[];
  }

  /** What every worker puts into a collective. @throws HeddleError `mismatch` where they are in different ones */
  private async gathered(
    step: CollectiveStep,
    inputs: readonly HostTensor[],
  ): Promise<{ inputs: HostTensor[]; attrs: CollectiveAttrs }[]> {
    const { world } = this.options;
    const { op, label, attrs } = step;
    const head = JSON.stringify({ op, label, attrs, types: inputs.map(({ dtype, shape }) => ({ dtype, shape })) });
    const parts = [Buffer.from(head), ...inputs.map(({ dtype, data }) => Buffer.from(dtypes[dtype].bytesOf(data)))];
    const own = Buffer.concat(parts);
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32LE((parts[0] as Buffer).length, 0);
    lengths.writeUInt32LE(own.length, 4);
    const sizes = Buffer.from(await world.allGather(lengths, `${label} sizes`));
    const most = Math.max(...Array.from({ length: world.size }, (_unused, rank) => sizes.readUInt32LE(8 * rank + 4)));
    const bytes = Buffer.from(await world.allGather(Buffer.concat([own, Buffer.alloc(most - own.length)]), label));
    return Array.from({ length: world.size }, (_unused, rank) => {
      let at = rank * most + sizes.readUInt32LE(8 * rank);
      const told = JSON.parse(bytes.toString("utf8", rank * most, at)) as typeof step & { types: HostTensor[] };
      if (told.op !== op || told.label !== label)
        throw new HeddleError(
          "mismatch",
          `rank ${world.rank} is in ${op} '${label}', rank ${rank} in ${told.op} '${told.label}'`,
        );
      const tensors = told.types.map(({ dtype, shape }): HostTensor => {
        const count = sizeOf(shape);
        const part = new Uint8Array(bytes.subarray(at, at + bytesOf({ dtype, shape })));
        at += part.length;
        return { dtype, shape, data: dtypes[dtype].view(part.buffer, 0, count) };
      });
      return { inputs: tensors, attrs: told.attrs as CollectiveAttrs };
    });
  }

  /** The link to the switch, under a number that no other run has. */
  private joined(): Promise<Aggregator> {
    const { world, address, timeout } = this.options;
    this.link ??= world
      .together("switch", async () => JSON.stringify({ address, job: Math.floor(Math.random() * 2 ** 32) }))
      .then((told) =>
        joinSwitch({
          ...(JSON.parse(told) as { address: string; job: number }),
          worker: world.rank,
          workers: world.size,
          timeout,
        }),
      );
    return this.link;
  }

  close(): void {
    this.closed = true;
    this.link?.then((link) => link.close()).catch(() => {});
    this.link = undefined;
  }
}

const zeros = ({ dtype, shape }: HostTensor): HostTensor => ({
  dtype,
  shape,
  data: dtypes[dtype].create(sizeOf(shape)) as TypedArray,
});

const isSum = ({ op, attrs }: CollectiveStep): boolean =>
  (op === "allReduce" || op === "reduceScatter") && attrs["reduction"] === "sum";
