/**
 * @module A training that outlives its workers. Each worker holds the values after the last finished step. When a worker is lost, the
 * others meet in a new epoch, agree on the newest step whose values they hold together, and go on from there in the same processes. The
 * batches are those of an undisturbed run: their order depends on seed and epoch alone, and each is split over the workers at hand.
 */
import { isLoss } from "../elastic/losses.ts";
import type { Member } from "../elastic/member.ts";
import { isTensor, meshOf } from "../functions/index.ts";
import { type Mesh, mesh as makeMesh } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import { Regrouping } from "./ending.ts";
import { host } from "./host.ts";
import type { StateLayouts } from "./layouts.ts";
import { newestTogether } from "./memory-of-workers.ts";
import { byStep, Neighbours } from "./neighbours.ts";
import type { Settings } from "./options.ts";
import type { Reporter } from "./progress.ts";
import {
  disposeState,
  exportHeld,
  importState,
  neededBoxes,
  type OwnPieces,
  type Restored,
  type RunState,
} from "./state.ts";
import type { StopRequest } from "./stop.ts";
import type { ModelTypes, TrainState } from "./values.ts";

/** The number of the training in this process. */
let calls = 0;

/** A training on the workers at hand. */
interface Here {
  readonly settings: Settings;
  readonly types: ModelTypes;
  readonly runtime: Runtime;
  readonly programs: { readonly layouts: StateLayouts };
  readonly reporter: Pick<Reporter, "line">;
}

/** What a training keeps from one epoch of its workers to the next. */
export class Elastic {
  /** Digests of the data, which an epoch need not compute again. */
  readonly digests = new Map<string, string>();
  private readonly member: Member;
  /** What the run holds on its devices: after the last step and, where no device has all of it, after the one before it. */
  private held: RunState[] = [];
  /** The same in this process's memory, between two epochs. */
  private carried: readonly OwnPieces[] = [];
  /** Copies of what one worker alone has, in other workers' memories; undefined with one worker or without copies. */
  private neighbours: Neighbours | undefined;
  /** Values that are being copied: whether they are to be freed after it. */
  private readonly copied = new Map<TrainState, boolean>();
  /** Whether an epoch has ended: this training has begun before. */
  private hasMoved = false;
  private isFromMemory = false;
  /** Whether the process was told that it will be ended. */
  private isNoticed = false;

  constructor(member: Member) {
    this.member = member;
  }

  /** Calls back when the process is told that it will be ended, or at once if it was told in an earlier epoch. */
  onNotice(stop: Pick<StopRequest, "onNotice">, leave: () => void): void {
    stop.onNotice(() => {
      this.isNoticed = true;
      leave();
    });
    if (this.isNoticed) leave();
  }

  /** Whether this training goes on with other workers than it began with. */
  get isContinued(): boolean {
    return this.hasMoved;
  }

  /** Whether other workers are to take part from now on. */
  readonly isCalled = (): boolean => this.member.isCalled;

  /** Whether the values of the run come from the memory of its workers. */
  get fromMemory(): boolean {
    return this.isFromMemory;
  }

  /** Runs a training until it ends with its result, or with an error that is not the loss of a worker. */
  async through<Result>(unit: number, attempt: () => Promise<Result>): Promise<Result> {
    const stopListening = host.process?.onNotice(() => {
      this.isNoticed = true;
    });
    try {
      await this.member.begin(++calls, unit);
      return await this.repeated(attempt);
    } finally {
      stopListening?.();
    }
  }

  private async repeated<Result>(attempt: () => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        const result = await attempt();
        await this.neighbours?.finished();
        this.member.says("trained");
        return result;
      } catch (error) {
        if (!(error instanceof Regrouping) && !(error instanceof Misfit) && !isLoss(error)) throw error;
        if (error instanceof HeddleError || error instanceof Misfit) this.member.broken(error.message);
        await this.member.takeUp();
        this.hasMoved = true;
      } finally {
        this.neighbours?.close();
        this.held = [];
      }
    }
  }

  /** Joins the others, unless other workers are called meanwhile. */
  async join(connecting: Promise<Runtime>): Promise<Runtime> {
    const runtime = await this.member.unlessCalled(connecting, (late) => late.close());
    if (runtime === undefined) throw new Regrouping();
    return runtime;
  }

  /**
   * Takes the values after a step that has ended; those of earlier steps are freed. Waits for a copy to another worker if the next one
   * is due.
   */
  async hold(state: RunState): Promise<void> {
    const isFirst = this.held.length === 0;
    if (isFirst) this.member.says("holds");
    // Workers may end a step apart: where each has a part only, the step before it is needed, too.
    const most = isWhole(state.values) ? 1 : 2;
    const same = this.held[0]?.values === state.values;
    this.held = [state, ...this.held.slice(same ? 1 : 0)];
    for (const { values } of this.held.splice(most)) this.drop(values);
    const { neighbours } = this;
    if (neighbours?.isDue(state, isFirst && this.isFromMemory) !== true) {
      // Until the first copy, what was carried into the epoch may be all that is left of a part.
      if (isFirst) this.carried = [];
      return;
    }
    const { values } = state;
    this.copied.set(values, false);
    await neighbours.begin(state, () => {
      const isDropped = this.copied.get(values) === true;
      this.copied.delete(values);
      if (isDropped) disposeState(values);
    });
  }

  /** Frees values, or has them freed after they are copied. */
  private drop(values: TrainState): void {
    if (this.copied.has(values)) this.copied.set(values, true);
    else disposeState(values);
  }

  /** Copies what this process's devices hold, and gives them up. After an error that ends the training, nothing is copied. */
  async leave(error: unknown, settings: Settings, runtime: Runtime): Promise<void> {
    if (!(error instanceof Regrouping) && !isLoss(error)) return;
    // Before the first step of an epoch, what was carried into it is still the newest.
    if (this.held.length > 0) {
      const held = await Promise.all(this.held.map((state) => exportHeld(settings, state, runtime)));
      this.carried = byStep([...held, ...(this.neighbours?.kept ?? []), ...this.carried]);
    }
    runtime.close();
  }

  /**
   * The newest values that the workers hold together, on their devices; undefined if none holds any, or what was lost is missing. Every
   * worker must call this function.
   *
   * @throws HeddleError `mismatch` if the workers are in different trainings of their scripts
   */
  async exchange({ settings, types, runtime, programs, reporter }: Here): Promise<Restored | undefined> {
    this.neighbours = this.copiesFor(settings, runtime, reporter);
    const needed = neededBoxes(types, runtime, programs.layouts);
    const memory = await newestTogether(this.carried, needed, runtime, calls);
    this.isFromMemory = memory !== undefined;
    if (memory === undefined) return undefined;
    return { path: memory.path, state: await importState(memory, settings, types, runtime, programs.layouts) };
  }

  private copiesFor(settings: Settings, runtime: Runtime, reporter: Here["reporter"]): Neighbours | undefined {
    const { memoryCopies: every } = settings;
    if (every === false || runtime.processes === undefined || host.process === undefined) return undefined;
    const { rank, world } = runtime;
    const { joinPartners } = host.process;
    return new Neighbours({
      rank,
      world,
      mesh: meshOf(runtime),
      every,
      join: (ranks) => joinPartners(`copies-${calls}`, ranks),
      copy: (state) => exportHeld(settings, state, runtime),
      say: reporter.line,
      hasTold: this.hasMoved,
      onComplete: () => {
        this.carried = [];
      },
    });
  }

  /** Where to look for a checkpoint if the workers do not hold the values. */
  resumeFrom({ resumeFrom, checkpoint }: Settings): string | undefined {
    return resumeFrom ?? (this.hasMoved ? checkpoint?.directory : undefined);
  }
}

/** Whether a device has all of every value. */
const isWhole = (values: TrainState): boolean =>
  flattenTree(values, isTensor).leaves.every(({ value }) => value.layout.every(({ kind }) => kind === "replicate"));

/** Thrown where the number of workers is no multiple of what the mesh needs: others are to take part. */
class Misfit extends Error {}

/** The devices of a mesh's axes other than `data`, of which a run has multiples. */
export const unitOf = (mesh: Mesh): number =>
  mesh.axes.reduce((product, { name, size }) => (name === "data" ? product : product * size), 1);

/**
 * A mesh for so many workers: its axis `data` grows or shrinks, the others keep their sizes.
 *
 * @throws HeddleError `mesh` if a mesh without `data` has another number of devices
 */
export function fitted(mesh: Mesh, workers: number): Mesh {
  const unit = unitOf(mesh);
  if (!mesh.axes.some(({ name }) => name === "data")) {
    if (unit === workers) return mesh;
    throw new HeddleError("mesh", `an elastic run of ${workers} workers needs a mesh with the axis data`, {
      hint: `the mesh given has ${unit} devices, and no axis that can grow or shrink`,
    });
  }
  if (workers % unit !== 0) throw new Misfit(`${workers} workers are no multiple of the ${unit} that the mesh needs`);
  const sizes = mesh.axes.map(({ name, size }) => [name, name === "data" ? workers / unit : size] as const);
  return makeMesh(Object.fromEntries(sizes));
}
