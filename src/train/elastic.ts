/**
 * @module A training that outlives its workers. Each worker holds the values after the last finished step. When a worker is lost, the
 * others meet in a new epoch, agree on the newest step that one of them holds, and go on from there in the same processes. The batches
 * are those of an undisturbed run: their order depends on seed and epoch alone, and each is split over the workers at hand.
 */
import { isLoss } from "../elastic/losses.ts";
import type { Member } from "../elastic/member.ts";
import { isTensor, type Tensor } from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { sizeOf } from "../ir/shape.ts";
import type { Mesh } from "../plan/index.ts";
import { mesh as makeMesh } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { World } from "../runtime/world.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import type { Checkpoint, CheckpointState } from "./checkpoint.ts";
import { Regrouping } from "./ending.ts";
import type { Settings } from "./options.ts";
import { disposeState, exportState, type RunPosition } from "./state.ts";
import type { TrainState } from "./values.ts";

/** Values of a training, and the position to which they belong. */
export interface Held {
  readonly values: TrainState;
  readonly key: Tensor;
  readonly position: RunPosition;
}

/** The number of the training in this process. */
let calls = 0;

/** What a training keeps from one epoch of its workers to the next. */
export class Elastic {
  /** Digests of the data, which an epoch need not compute again. */
  readonly digests = new Map<string, string>();
  private readonly member: Member;
  /** What the run holds on its devices. */
  private held: Held | undefined;
  /** The same in this process's memory, between two epochs. */
  private carried: CheckpointState | undefined;
  /** Whether an epoch has ended: this training has begun before. */
  private hasMoved = false;

  constructor(member: Member) {
    this.member = member;
  }

  /** Whether other workers are to take part from now on. */
  readonly isCalled = (): boolean => this.member.isCalled;

  /** Whether the values of the run come from the memory of a worker. */
  get fromMemory(): boolean {
    return this.hasMoved && this.carried !== undefined;
  }

  /** Runs a training until it ends with its result, or with an error that is not the loss of a worker. */
  async through<Result>(attempt: () => Promise<Result>): Promise<Result> {
    await this.member.begin(++calls);
    for (;;) {
      try {
        const result = await attempt();
        this.member.says("trained");
        return result;
      } catch (error) {
        if (!(error instanceof Regrouping) && !isLoss(error)) throw error;
        if (error instanceof HeddleError) this.member.broken(error.message);
        await this.member.takeUp();
        this.hasMoved = true;
      } finally {
        this.held = undefined;
      }
    }
  }

  /** Joins the others, unless other workers are called meanwhile. */
  async join(connecting: Promise<Runtime>): Promise<Runtime> {
    const runtime = await this.member.unlessCalled(connecting, (late) => late.close());
    if (runtime === undefined) throw new Regrouping();
    return runtime;
  }

  /** Takes the values after a step that has ended; those of an earlier step are freed. */
  hold(held: Held): void {
    const earlier = this.held;
    this.held = held;
    if (earlier === undefined) this.member.says("holds");
    else if (earlier.values !== held.values) disposeState(earlier.values);
  }

  /**
   * Copies what the run holds, and gives its devices up: after a loss only what this process has of it. Other errors end the training, and
   * nothing is copied.
   */
  async leave(error: unknown, settings: Settings, runtime: Runtime): Promise<void> {
    const isIntact = error instanceof Regrouping;
    if (!isIntact && !isLoss(error)) return;
    const { held } = this;
    // Before the first step of an epoch, what was carried into it is still the newest.
    if (held !== undefined) {
      const isHere = isIntact || isWhole(held.values);
      this.carried = isHere ? await exportState(settings, held.values, held.key, held.position) : undefined;
    }
    // Sharded values are gathered above, in which all take part.
    if (isIntact) await runtime.processes?.barrier("another number of workers");
    runtime.close();
  }

  /**
   * The newest values that a worker holds, on all workers; undefined if none holds any. Every worker must call this function.
   *
   * @throws HeddleError `mismatch` if the workers are in different trainings of their scripts
   */
  async exchange({ settings, runtime }: { settings: Settings; runtime: Runtime }): Promise<Checkpoint | undefined> {
    const { processes: world } = runtime;
    if (world === undefined) return this.found(runtime.rank, settings);
    const own = Float64Array.of(this.carried?.step ?? -1, calls);
    const all = new Float64Array((await world.allGather(new Uint8Array(own.buffer), "steps at hand")).slice().buffer);
    const steps = all.filter((_value, index) => index % 2 === 0);
    const newest = Math.max(...steps);
    if (newest < 0) {
      this.carried = undefined;
      return undefined;
    }
    const holders = [...steps.keys()].filter((rank) => steps[rank] === newest);
    const source = holders[0] as number;
    const call = all[2 * source + 1];
    const other = holders.concat([...steps.keys()]).find((rank) => all[2 * rank + 1] !== call);
    if (other !== undefined)
      throw new HeddleError(
        "mismatch",
        `rank ${source} is in training ${call} of the script, rank ${other} in training ${all[2 * other + 1]}`,
      );
    if (holders.length < runtime.world) this.carried = await share(world, source, this.carried);
    return this.found(source, settings);
  }

  private found(source: number, { checkpoint }: Settings): Checkpoint | undefined {
    const { carried } = this;
    if (carried === undefined) return undefined;
    // In the folder of the checkpoints, so that their series goes on.
    const path = `${checkpoint === undefined ? "" : `${checkpoint.directory}/`}the memory of rank ${source}`;
    return { extra: {}, ...carried, path, library: "" };
  }

  /** Where to look for a checkpoint if no worker holds the values. */
  resumeFrom({ resumeFrom, checkpoint }: Settings): string | undefined {
    return resumeFrom ?? (this.hasMoved ? checkpoint?.directory : undefined);
  }
}

/** Whether a device has all of every value. */
const isWhole = (values: TrainState): boolean =>
  flattenTree(values, isTensor).leaves.every((leaf) =>
    (leaf as Tensor).value.layout.every(({ kind }) => kind === "replicate"),
  );

/** Sends a rank's state to all; those of others are dropped. */
async function share(world: World, source: number, own: CheckpointState | undefined): Promise<CheckpointState> {
  const isSource = world.rank === source;
  const send = async (bytes: Uint8Array | undefined, length: number, what: string): Promise<Uint8Array> =>
    world.broadcast(bytes ?? new Uint8Array(length), source, what);
  const { tensors: ownTensors = new Map<string, HostTensor>(), ...rest } = isSource && own !== undefined ? own : {};
  const types = [...ownTensors].map(([name, { shape, dtype }]) => ({ name, shape, dtype }));
  const head = isSource ? new TextEncoder().encode(JSON.stringify({ rest, types })) : undefined;
  const size = new Float64Array(1).fill(head?.length ?? 0);
  const sized = await send(new Uint8Array(size.buffer), 8, "the size of a state");
  const length = new Float64Array(sized.slice().buffer)[0] as number;
  const text = new TextDecoder().decode(await send(head, length, "a state"));
  const read = JSON.parse(text) as { rest: Omit<CheckpointState, "tensors">; types: typeof types };
  const tensors = new Map<string, HostTensor>();
  for (const { name, shape, dtype } of read.types) {
    const data = ownTensors.get(name)?.data ?? dtypes[dtype].create(sizeOf(shape));
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const got = await send(bytes, bytes.length, name);
    if (!isSource) bytes.set(got);
    tensors.set(name, { shape, dtype, data });
  }
  return { ...read.rest, tensors };
}

/**
 * A mesh for so many workers: its axis `data` grows or shrinks, the others keep their sizes.
 *
 * @throws HeddleError `mesh` if the number is no multiple of the other axes' devices
 */
export function fitted(mesh: Mesh, workers: number): Mesh {
  const others = mesh.axes.reduce((product, { name, size }) => (name === "data" ? product : product * size), 1);
  const has = mesh.axes.some(({ name }) => name === "data");
  if (others === workers && !has) return mesh;
  if (!has || workers % others !== 0)
    throw new HeddleError("mesh", `an elastic run with ${workers} workers cannot use this mesh`, {
      hint: `axes other than data take ${others} workers, and data takes what is left`,
    });
  const sizes = mesh.axes.map(({ name, size }) => [name, name === "data" ? workers / others : size] as const);
  return makeMesh(Object.fromEntries(sizes));
}
