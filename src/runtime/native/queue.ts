/**
 * @module Runs that are queued on the devices: how many there may be, what memory they hold, what became of them. A loop
 * that never awaits lets no promise settle, so a queue without bounds would grow until memory ends.
 */
import { HeddleError } from "../../util/errors.ts";
import { capturePosition, describePosition, type SourcePosition } from "../../util/source.ts";
import type { NativeBuffer, NativeDevice } from "./binding.ts";
import { nativeError, RunError } from "./error.ts";
import { type OnDevice, type Ran, refusalOf } from "./origin.ts";

/** Memory of a device, whatever it holds at the time. */
export interface Block {
  readonly native: NativeBuffer;
  readonly bytes: number;
  /** Queued runs that use it. */
  users: number;
  /** Whether several buffers are parts of it: then no run may write over it. */
  shared: boolean;
}

/** Most runs in flight; more must wait. */
const mostRuns = 64;
/** Most bytes that queued runs may keep alive besides those that the next run uses itself. */
const mostBytes = 256 * 2 ** 20;

/** One run on all local devices, from its launch until it is known how it went. */
export class Launch {
  settled = false;
  /** The first cause, where it has failed, and what became of each device. */
  failure: HeddleError | undefined;
  failures: readonly (HeddleError | undefined)[] = [];
  /** Resolves, never rejects, when the run has settled. */
  done: Promise<void> = Promise.resolve();
  /** Its place among the runs of each device. */
  readonly number: number;
  /** Name of the program. */
  readonly what: string;
  /** What each device runs. */
  readonly ran: readonly Ran[];
  /** Where the user launched it. */
  readonly position: SourcePosition;
  /** Memory that it keeps alive. */
  buffers: readonly Block[];
  /** Runs that make what it reads, as long as it is not known how they went. */
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

  /** Whether it has settled, and all runs that it reads from: those of its own queue have before it. */
  get isDone(): boolean {
    return this.settled && this.openCauses().length === 0;
  }

  /** Its failure, or that of a run that it reads from: then what it has made is of no use. */
  get spoiled(): HeddleError | undefined {
    this.openCauses();
    return this.failure ?? this.inherited;
  }

  /** Resolves, never rejects, when it is done. */
  async finished(): Promise<void> {
    await this.done;
    for (const cause of this.openCauses()) await cause.finished();
  }

  /** The causes that are not done; takes over the failure of others. */
  openCauses(): readonly Launch[] {
    if (this.causes.length === 0) return this.causes;
    for (const cause of this.causes) if (cause.isDone) this.inherited ??= cause.spoiled;
    this.causes = this.causes.filter((cause) => !cause.isDone);
    return this.causes;
  }
}

/** What a run works on. */
export interface Needs {
  /** The memory of its arguments. */
  readonly buffers: readonly Block[];
  /** Runs that are not done, and make what it reads. */
  readonly causes: readonly Launch[];
}

/**
 * What native code threw in a run, with its code and the user's line: of a value that was refused the op's in the function that ran, else
 * that of the launch. `what` names the program where the record does not.
 */
export function runFailure(
  thrown: unknown,
  what: string,
  ran?: Ran,
  position = capturePosition(),
  on: OnDevice = {},
): HeddleError {
  const error = nativeError(thrown);
  // Failures of peers keep what the launcher reads of them.
  if (error instanceof RunError && error.during !== undefined) return error;
  const where = describePosition(position) ?? error.where;
  const refusal =
    error instanceof RunError && ran !== undefined ? refusalOf(error, ran, on, position.by, where) : undefined;
  if (refusal !== undefined) return refusal;
  const { code, plain, fault } = error;
  const message = fault?.program === undefined ? `${what}: ${plain}` : plain;
  return new HeddleError(code, message, { cause: error, fault, ...(where === undefined ? {} : { where }) });
}

/** Of several devices' errors the one that is not about another device. */
function firstCause(failures: readonly (HeddleError | undefined)[]): HeddleError | undefined {
  const found = failures.filter((error) => error !== undefined);
  return found.find(({ code }) => code !== "peerAborted" && code !== "peerClosed") ?? found[0];
}

/** The runs of an executor's devices, in order. */
export class Queue {
  private readonly devices: readonly NativeDevice[];
  /** Of each device, among all `count` of the mesh. */
  private readonly numbers: readonly number[];
  private readonly count: number;
  private readonly open = new Set<Launch>();
  private launched = 0;
  private bytes = 0;
  /** Promises that the event loop has not settled yet, of runs that may be done. */
  private promises = 0;

  constructor(devices: readonly NativeDevice[], numbers: readonly number[], count: number) {
    this.devices = devices;
    this.numbers = numbers;
    this.count = count;
  }

  /** Whether no run is in flight. */
  get isIdle(): boolean {
    return this.open.size === 0;
  }

  /** Whether the runs in flight leave room for one that uses these buffers. */
  hasRoom(buffers: readonly Block[]): boolean {
    if (this.open.size >= mostRuns) return false;
    const own = buffers.reduce((total, buffer) => total + (buffer.users > 0 ? buffer.bytes : 0), 0);
    return this.bytes - own <= mostBytes;
  }

  /** Whether the event loop has not turned for so long that further promises would only pile up. */
  get isStarved(): boolean {
    return this.promises >= mostRuns;
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
    // What a failed run has left behind is known only when no device runs any more.
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

  /** Waits, blocking, until all runs are done, and settles them. */
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
