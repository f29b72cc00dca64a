/**
 * @module The queue of runs on the devices: its limits, its memory and the outcomes of runs. A loop that never awaits lets no promise
 * settle, so an unbounded queue would grow until memory is exhausted.
 */
import { HeddleError } from "../../util/errors.ts";
import { capturePosition, describePosition, type SourcePosition } from "../../util/source.ts";
import type { NativeDevice } from "./binding.ts";
import { nativeError, RunError } from "./error.ts";
import { type OnDevice, type Ran, refusalOf } from "./origin.ts";

/** A block of a device's memory, independent of its contents. */
export interface Block {
  readonly bytes: number;
  /** Number of queued runs that use the block. */
  users: number;
  /** Whether several buffers are parts of the block: then no run may write over it. */
  shared: boolean;
}

/** Largest number of queued runs; further runs wait. */
const maxRuns = 64;
/** Largest number of bytes that queued runs may keep alive, besides those that the next run uses. */
const maxBytes = 256 * 2 ** 20;

/** A run on all local devices, from its launch until its outcome is known. */
export class Launch {
  settled = false;
  /** The root cause of a failed run, and the failure of each device. */
  failure: HeddleError | undefined;
  failures: readonly (HeddleError | undefined)[] = [];
  /** Resolves, never rejects, when the run has settled. */
  done: Promise<void> = Promise.resolve();
  /** Number among the runs of each device. */
  readonly number: number;
  /** Name of the program. */
  readonly what: string;
  /** The program of each device. */
  readonly ran: readonly Ran[];
  /** Position of the user's call. */
  readonly position: SourcePosition;
  /** Memory that the run keeps alive. */
  buffers: readonly Block[];
  /** Runs that make the run's inputs, until their outcome is known. */
  private causes: readonly Launch[];
  private inherited: HeddleError | undefined;

  constructor(number: number, what: string, ran: readonly Ran[], position: SourcePosition, { buffers, causes }: Needs) {
    this.number = number;
    this.what = what;
    this.ran = ran;
    this.position = position;
    this.buffers = buffers;
    this.causes = causes;
  }

  /** Whether the run has settled, and all runs that it reads from, which may be in other queues. */
  get isDone(): boolean {
    return this.settled && this.openCauses().length === 0;
  }

  /** Its failure, or the failure of a run that it reads from: then its results are invalid. */
  get spoiled(): HeddleError | undefined {
    this.openCauses();
    return this.failure ?? this.inherited;
  }

  /** Resolves, never rejects, when the run is done. */
  async finished(): Promise<void> {
    await this.done;
    for (const cause of this.openCauses()) await cause.finished();
  }

  /** The unfinished causes; takes over the failures of finished ones. */
  openCauses(): readonly Launch[] {
    if (this.causes.length === 0) return this.causes;
    for (const cause of this.causes) if (cause.isDone) this.inherited ??= cause.spoiled;
    this.causes = this.causes.filter((cause) => !cause.isDone);
    return this.causes;
  }
}

/** The needs of a run: memory and other runs. */
export interface Needs {
  /** Memory of the arguments. */
  readonly buffers: readonly Block[];
  /** Unfinished runs that make the inputs. */
  readonly causes: readonly Launch[];
}

/**
 * An error that native code threw in a run, with its code and the user's line: for a refused value the line of the op, otherwise the
 * line of the launch. `what` names the program if the record does not.
 */
export function runFailure(
  thrown: unknown,
  what: string,
  ran?: Ran,
  position = capturePosition(),
  on: OnDevice = {},
): HeddleError {
  const error = nativeError(thrown);
  // Failures of peers keep the fields that the launcher reads.
  if (error instanceof RunError && error.during !== undefined) return error;
  const where = describePosition(position) ?? error.where;
  const refusal =
    error instanceof RunError && ran !== undefined ? refusalOf(error, ran, on, position.by, where) : undefined;
  if (refusal !== undefined) return refusal;
  const { code, plain, fault } = error;
  const message = fault?.program === undefined ? `${what}: ${plain}` : plain;
  return new HeddleError(code, message, { cause: error, fault, ...(where === undefined ? {} : { where }) });
}

/** The first error of several devices that is not about another device. */
function firstCause(failures: readonly (HeddleError | undefined)[]): HeddleError | undefined {
  const errors = failures.filter((error) => error !== undefined);
  return errors.find(({ code }) => code !== "peerAborted" && code !== "peerClosed") ?? errors[0];
}

/** The runs of an executor's devices, in order. */
export class Queue {
  private readonly devices: readonly NativeDevice[];
  /** The number of each device, among all `count` of the mesh. */
  private readonly numbers: readonly number[];
  private readonly count: number;
  private readonly open = new Set<Launch>();
  private launched = 0;
  private bytes = 0;
  /** Number of promises that the event loop has not settled yet; their runs may be done. */
  private promises = 0;

  constructor(devices: readonly NativeDevice[], numbers: readonly number[], count: number) {
    this.devices = devices;
    this.numbers = numbers;
    this.count = count;
  }

  /** Whether no run is queued. */
  get isIdle(): boolean {
    return this.open.size === 0;
  }

  /** Whether the queue has room for a run that uses these buffers. */
  hasRoom(buffers: readonly Block[]): boolean {
    if (this.open.size >= maxRuns) return false;
    const inUse = buffers.reduce((total, buffer) => total + (buffer.users > 0 ? buffer.bytes : 0), 0);
    return this.bytes - inUse <= maxBytes;
  }

  /** Whether the event loop has not turned for so long that promises pile up. */
  get isStarved(): boolean {
    return this.promises >= maxRuns;
  }

  /** Enqueues a run: `start` gives the promise of each device. */
  launch(
    what: string,
    needs: Needs,
    ran: readonly Ran[],
    position: SourcePosition,
    start: (device: NativeDevice, index: number) => Promise<void>,
  ): Launch {
    const runs = this.devices.map(start);
    const launch = new Launch(this.launched++, what, ran, position, needs);
    this.open.add(launch);
    for (const buffer of needs.buffers) if (buffer.users++ === 0) this.bytes += buffer.bytes;
    this.promises++;
    // The outcome of a failed run is known only when all devices have stopped.
    launch.done = Promise.allSettled(runs).then((results) => {
      this.promises--;
      if (launch.settled) return;
      this.settle(
        launch,
        results.map((result, index) =>
          result.status === "rejected" ? this.failureOf(launch, index, result.reason) : undefined,
        ),
      );
    });
    return launch;
  }

  /** Blocks until all runs are done, and settles them. */
  drain(): void {
    const failed = this.devices.map(
      (device) => new Map(device.sync().map(({ run, fault }) => [run, new Error(fault)] as const)),
    );
    for (const launch of [...this.open]) {
      const errors = failed.map((byRun) => byRun.get(launch.number));
      this.settle(
        launch,
        errors.map((error, index) => (error === undefined ? undefined : this.failureOf(launch, index, error))),
      );
    }
  }

  private failureOf({ what, ran, position }: Launch, index: number, thrown: unknown): HeddleError {
    const on = this.count === 1 ? {} : { device: this.numbers[index] as number, devices: this.count };
    return runFailure(thrown, what, ran[index], position, on);
  }

  private settle(launch: Launch, failures: readonly (HeddleError | undefined)[]): void {
    if (launch.settled) return;
    launch.failures = failures;
    launch.failure = firstCause(failures);
    launch.settled = true;
    launch.openCauses();
    this.open.delete(launch);
    for (const buffer of launch.buffers) if (--buffer.users === 0) this.bytes -= buffer.bytes;
    launch.buffers = [];
  }
}
