/** @module A worker's place in an elastic run, as the launcher tells it. */
import { onMembership, reportToLauncher } from "../launcher-messages/launcher.ts";
import { readEnvironment, setVariables } from "../util/settings.ts";

/** This process as a worker of an elastic run. */
export class Member {
  /** Whether this worker was started in the place of a lost one, and has not been welcomed yet. */
  private isNew: boolean;
  private epoch: number;
  private latest: { readonly epoch: number; readonly rank: number; readonly size: number } | undefined;
  private listeners: (() => void)[] = [];

  constructor({ isNew, epoch }: { readonly isNew: boolean; readonly epoch: number }) {
    this.isNew = isNew;
    this.epoch = isNew ? -1 : epoch;
    onMembership((membership) => {
      if (membership.epoch <= (this.latest?.epoch ?? -1)) return;
      this.latest = membership;
      for (const listener of this.listeners.splice(0)) listener();
    });
  }

  /** Whether an epoch has been announced that this worker has not taken up. */
  get isCalled(): boolean {
    return this.newest > this.epoch;
  }

  /** The newest announced epoch; if none was, the one that this worker was started in. */
  get newest(): number {
    return this.latest?.epoch ?? this.epoch;
  }

  /** Resolves when an epoch is announced that this worker has not taken up; the process lives until then. */
  async called(): Promise<void> {
    // The channel to the launcher does not keep a process alive.
    const alive = setInterval(() => {}, 2 ** 30);
    try {
      while (!this.isCalled) await new Promise<void>((resolve) => this.listeners.push(resolve));
    } finally {
      clearInterval(alive);
    }
  }

  /** The result of `work`, or undefined as soon as another epoch is announced: then `drop` gets what `work` still gives. */
  async unlessCalled<Result>(work: Promise<Result>, drop: (late: Result) => void): Promise<Result | undefined> {
    let over = false;
    const changed = this.isCalled
      ? Promise.resolve(undefined)
      : new Promise<undefined>((resolve) => this.listeners.push(() => resolve(undefined)));
    const result = await Promise.race([work, changed]);
    if (result === undefined) {
      over = true;
      work.then((late) => over && drop(late)).catch(() => {});
    }
    return result;
  }

  /** Begins training number `call` of this process, which takes multiples of `unit` workers; a worker that was started later waits until it is welcomed. */
  async begin(call: number, unit: number): Promise<void> {
    reportToLauncher({ type: "training", call, unit });
    if (!this.isNew) return;
    reportToLauncher({ type: "ready" });
    await this.takeUp();
    this.isNew = false;
  }

  /** Tells the launcher that this worker has the values of the training, or that the training has ended with its result. */
  says(type: "holds" | "trained"): void {
    reportToLauncher({ type });
  }

  /** Tells the launcher that the epoch cannot go on, and why. */
  broken(reason: string): void {
    reportToLauncher({ type: "broken", epoch: this.epoch, reason });
  }

  /** Waits for the next epoch, and takes this worker's place in it. */
  async takeUp(): Promise<void> {
    await this.called();
    const { epoch, rank, size } = this.latest as NonNullable<typeof this.latest>;
    this.epoch = epoch;
    setVariables({ HEDDLE_EPOCH: String(epoch), RANK: String(rank), WORLD_SIZE: String(size) });
  }
}

let member: Member | undefined;

/** This process as a worker of an elastic run; undefined in other runs. */
export function elasticMember(): Member | undefined {
  const { elastic, epoch, launcher } = readEnvironment();
  if (elastic === undefined || launcher === undefined) return undefined;
  member ??= new Member({ isNew: elastic === "new", epoch });
  return member;
}
