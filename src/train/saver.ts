/** @module Checkpoints of a run: copied between two steps, written while the next steps run. */

import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { absolutePlace, isLocal, openStorage } from "../checkpoints/drivers.ts";
import type { CheckpointState } from "../checkpoints/file.ts";
import { seesLock } from "../checkpoints/lock.ts";
import { commitParts, type PartsPlace, writePart } from "../checkpoints/parts.ts";
import { Ages, type Best, type Retention } from "../checkpoints/retention.ts";
import { messageOf, removeOld, saveCheckpoint } from "../checkpoints/series.ts";
import { below, type Storage, type WriteOptions } from "../checkpoints/storage.ts";
import { checkpointFolderName } from "../io/checkpoint-name.ts";
import { reportToLauncher } from "../launcher-messages/launcher.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { World } from "../runtime/world.ts";
import { HeddleError } from "../util/errors.ts";
import { checkMatches, matching } from "../util/pattern.ts";
import { readEnvironment } from "../util/settings.ts";
import { version } from "../util/version.ts";
import { placeBelow, setAside } from "./checkpoint-folder.ts";
import type { TrainStart } from "./history.ts";
import type { Moment, Saver, SaverOptions } from "./host-interface.ts";
import { logsOf, watched } from "./logs.ts";
import type { CheckpointOptions } from "./options.ts";
import { exportPieces, exportState, historyOf, type Includes, type RunState, type Staging } from "./state.ts";

/** Where and when one series of checkpoints is written, and what is in it. */
interface SeriesOptions extends Omit<CheckpointOptions, "every" | "parts" | "format"> {
  readonly every?: "epoch" | "end" | number;
  /** Default: all values. */
  readonly includes?: Includes;
}

/** What all savers do: at most one save is under way, and the next one waits for it. */
abstract class Writing implements Saver {
  path: string | undefined;
  protected readonly given: SaverOptions;
  protected readonly options: SeriesOptions;
  protected readonly abort = new AbortController();
  protected failure: unknown;
  /** Whether an earlier run's checkpoints may be in the folder, which is not this run's series. */
  protected first: boolean;
  /** What is known of the checkpoints that are there, which rules of retention look at. */
  protected readonly ages = new Ages();
  protected readonly retention: Retention;
  private readonly temporaries = new Set<string>();
  private savedAt: number | undefined;

  constructor(given: SaverOptions, options: SeriesOptions) {
    this.given = given;
    this.options = options;
    const { resumedFrom } = given;
    const { directory } = given.settings.checkpoint as CheckpointOptions;
    const continues = resumedFrom !== undefined && dirname(resumedFrom) === absolutePlace(directory);
    this.first = !continues && !given.continues;
    if (continues) this.path = resumedFrom;
    const { keep = 3, keepHours, keepBest } = this.options;
    const { settings, metrics } = given;
    const start = { metrics, validates: settings.evaluate !== undefined };
    this.retention = {
      newest: keep,
      hours: keepHours,
      best: keepBest === undefined ? undefined : bestBy(keepBest, start),
    };
  }

  /** Copies the values and starts to write. */
  protected abstract write(state: RunState): Promise<void>;
  abstract finished(): Promise<void>;
  abstract end(milliseconds: number): Promise<void>;
  abstract check(): void;

  start(steps: number): void {
    this.savedAt = steps;
  }

  isDue(moment: Moment, steps: number): boolean {
    const { every = "epoch" } = this.options;
    if (moment === "end") return this.savedAt !== steps;
    return typeof every === "number" ? steps % every === 0 : moment === every;
  }

  async save(moment: Moment, state: RunState): Promise<void> {
    const { steps } = state.position;
    if (!this.isDue(moment, steps)) return;
    await this.write(state);
    this.savedAt = steps;
  }

  removeTemporaries(): void {
    for (const path of this.temporaries) rmSync(path, { force: true });
  }

  protected get writeOptions(): WriteOptions {
    const { runId } = readEnvironment();
    return {
      signal: this.abort.signal,
      ...(runId === undefined ? {} : { runId }),
      onTemporary: (path, done) => {
        if (done) this.temporaries.delete(path);
        else this.temporaries.add(path);
        reportToLauncher({ type: "temporary", path, done });
      },
    };
  }

  /** Waits at most this time for work, then ends it. */
  protected async endOf(work: Promise<unknown>, milliseconds: number): Promise<void> {
    const late = setTimeout(() => this.abort.abort(), milliseconds);
    await work;
    clearTimeout(late);
  }

  /** An error of a write on rank 0: that the folder is no longer this run's explains others. */
  protected async explained(error: unknown): Promise<unknown> {
    const cause = await this.given.lock?.check().then(
      () => undefined,
      (lost: unknown) => lost,
    );
    return cause ?? error;
  }

  /** Before a write, on rank 0: the folder must be this run's, and have no other run's checkpoints. */
  protected async prepare(): Promise<void> {
    await this.given.lock?.check();
    if (this.first) await setAside(this.options.directory, this.given.warn);
    this.first = false;
  }
}

/** Writes checkpoints in one file, on rank 0; the other ranks only take part in gathering sharded values. */
class FileSaver extends Writing {
  private writing: Promise<void> = Promise.resolve();

  protected async write(state: RunState): Promise<void> {
    const copy = await exportState(this.given.settings, state, this.options.includes);
    if (this.given.runtime.rank !== 0) return;
    await this.finished();
    this.writing = this.written(copy).catch(async (error: unknown) => {
      this.failure = await this.explained(error);
    });
  }

  async finished(): Promise<void> {
    await this.writing;
    this.check();
  }

  async end(milliseconds: number): Promise<void> {
    await this.endOf(this.writing, milliseconds);
  }

  check(): void {
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }

  private async written(state: CheckpointState): Promise<void> {
    const { newest: keep, ...also } = this.retention;
    await this.prepare();
    const { directory } = this.options;
    const saved = await saveCheckpoint(directory, state, { keep, also, ages: this.ages, ...this.writeOptions });
    this.path = saved.path;
    for (const warning of saved.warnings) this.given.warn(warning);
  }
}

/** Writes checkpoints in parts: every rank writes what it owns, without gathering; rank 0 commits. */
class PartsSaver extends Writing {
  private storage: Storage | undefined;
  private part: Promise<void> = Promise.resolve();
  private commit: Promise<void> = Promise.resolve();
  private commitFailure: unknown;
  private saves = 0;
  private step = 0;
  private pending: string | undefined;
  private checked = false;
  private readonly staging: Staging = new Map();

  /** Starts the write of a copy. What earlier saves met is thrown here on all ranks, before anything is copied. */
  protected async write(state: RunState): Promise<void> {
    const { runtime, settings, tag } = this.given;
    await this.finished();
    const storage = this.storage ?? (await openStorage(this.options.directory));
    this.storage = storage;
    await this.shared(storage);
    const { includes } = this.options;
    const { description, pieces } = await exportPieces(settings, state, runtime, includes, this.staging);
    this.step = description.step;
    const folder = checkpointFolderName(description.step);
    const place: PartsPlace = { storage, folder, ranks: runtime.world, tag: `${tag}${(this.saves++).toString(36)}` };
    const options = this.writeOptions;
    this.pending = below(storage.place, folder);
    this.part = writePart(place, runtime.rank, pieces, options).catch(async (error: unknown) => {
      this.failure = await this.explained(error);
    });
    if (runtime.rank !== 0) return;
    this.commit = this.committed(place, { ...description, library: version }, options).catch(async (error: unknown) => {
      this.commitFailure = await this.explained(error);
    });
  }

  /** Before the first write: other ranks would write into the folder of an earlier run's checkpoint, or into one that rank 0 does not see. */
  private async shared(storage: Storage): Promise<void> {
    const { processes, rank } = this.given.runtime;
    if (this.checked) return;
    const prepared = async (): Promise<string> => {
      await this.prepare();
      return this.given.lock?.token ?? "";
    };
    const token = await (processes?.together("checkpoint folder", prepared) ?? prepared());
    this.first = false;
    this.checked = true;
    if (processes === undefined || token === "") return;
    let problem: unknown;
    const look = async (): Promise<void> => {
      if (rank === 0 || (await seesLock(storage, token))) return;
      problem = new HeddleError("file", `rank ${rank} does not see what rank 0 writes to ${storage.place}`, {
        hint: 'checkpoints in parts need a folder that all workers share, or an object store; format: "file" needs it only to resume',
      });
    };
    const looking = look().catch((error: unknown) => {
      problem = error;
    });
    const problems = await outcomes(processes, looking, () => problem, "the folder of checkpoints");
    const failed = problems.find((text) => text !== undefined);
    if (failed !== undefined) throw problem ?? new HeddleError("file", failed);
  }

  private async committed(
    place: PartsPlace,
    description: Parameters<typeof commitParts>[1],
    options: WriteOptions,
  ): Promise<void> {
    // The other parts take about as long: who looks for their receipts from the start looks ever more seldom.
    await this.part;
    await this.given.lock?.check();
    await commitParts(place, description, options);
    const { warnings } = await removeOld(place.storage, description.step, this.retention, this.ages);
    for (const warning of warnings) this.given.warn(warning);
  }

  /** Waits for the parts of all ranks and for the commit, and throws what failed, on all ranks. */
  async finished(): Promise<void> {
    if (this.pending === undefined) return;
    const { processes } = this.given.runtime;
    const parts = await outcomes(processes, this.part, () => this.failure, "the parts of a checkpoint");
    // Rank 0 would wait for ever for the receipt of a part that failed.
    if (parts.some((problem) => problem !== undefined)) this.abort.abort();
    else await this.thrown(processes, this.commit, () => this.commitFailure, "write");
    const failed = parts.findIndex((problem) => problem !== undefined);
    if (failed >= 0) throw this.failure ?? this.problemOf(failed, parts[failed] as string);
    this.path = this.pending;
    this.pending = undefined;
  }

  private async thrown(
    processes: World | undefined,
    work: Promise<void>,
    failure: () => unknown,
    what: string,
  ): Promise<void> {
    const problems = await outcomes(processes, work, failure, `the ${what} of a checkpoint`);
    const failed = problems.findIndex((problem) => problem !== undefined);
    if (failed >= 0) throw failure() ?? this.problemOf(failed, problems[failed] as string);
  }

  private problemOf(rank: number, problem: string): HeddleError {
    return new HeddleError(
      "checkpoint",
      `rank ${rank} could not write its part of the checkpoint of step ${this.step}: ${problem}`,
    );
  }

  async end(milliseconds: number): Promise<void> {
    await this.endOf(Promise.all([this.part, this.commit]), milliseconds);
  }

  // The ranks learn of a failure together, at the next save or at the end.
  check(): void {}
}

/** The rule that keeps the best checkpoints; the number of one is that of the epoch that it ends. */
function bestBy(
  given: NonNullable<CheckpointOptions["keepBest"]>,
  start: Pick<TrainStart, "metrics" | "validates">,
): Best {
  const { count = 1, ...monitor } = typeof given === "number" ? { count: given } : given;
  const { name, better } = watched("train: checkpoint.keepBest", monitor, start);
  return {
    count,
    better: (value, other) => better(value, other, 0),
    valueOf: (description) => {
      const last = historyOf(description).at(-1);
      return last === undefined || description.position.step > 0 ? undefined : logsOf(last)[name];
    },
  };
}

/** How often ranks that wait for each other's disks say that they live, in milliseconds; far below the deadline of a collective. */
const aliveMilliseconds = 2000;
const problemBytes = 1024;

/** Waits for work of all ranks; for each rank what it met, undefined for nothing. */
async function outcomes(
  processes: World | undefined,
  work: Promise<void>,
  failure: () => unknown,
  label: string,
): Promise<(string | undefined)[]> {
  const problem = (): string | undefined => (failure() === undefined ? undefined : messageOf(failure()));
  if (processes === undefined) {
    await work;
    return [problem()];
  }
  for (;;) {
    const waiting = new AbortController();
    const done = await Promise.race([
      work.then(() => true),
      sleep(aliveMilliseconds, false, { signal: waiting.signal }).catch(() => false),
    ]);
    waiting.abort();
    const own = new Uint8Array(problemBytes);
    own[0] = done ? 1 : 0;
    new TextEncoder().encodeInto(done ? (problem() ?? "") : "", own.subarray(1));
    const all = await processes.allGather(own, label);
    const each = Array.from({ length: processes.size }, (_unused, rank) =>
      all.subarray(rank * problemBytes, (rank + 1) * problemBytes),
    );
    if (each.every(([isDone]) => isDone === 1))
      return each.map((bytes) => new TextDecoder().decode(bytes.subarray(1)).replace(/\0+$/, "") || undefined);
  }
}

/**
 * Whether checkpoints are written in parts: where no process holds all values, and in object stores. `format` of the option `checkpoint`
 * decides otherwise.
 */
export function inParts({ directory, format = "auto" }: CheckpointOptions, runtime: Runtime, whole: boolean): boolean {
  if (!isLocal(directory)) return true;
  return format === "auto" ? runtime.processes !== undefined && !whole : format === "parts";
}

/** The saver of this rank; undefined if this rank neither writes nor holds anything that is gathered. */
export function makeSaver(given: SaverOptions): Saver | undefined {
  const { settings, runtime, whole } = given;
  const { checkpoint } = settings;
  if (checkpoint === undefined) return undefined;
  const isWriter = inParts(checkpoint, runtime, whole);
  if (!isWriter && runtime.rank !== 0 && whole) return undefined;
  const savers = seriesOf(checkpoint, given.names).map((options) =>
    isWriter ? new PartsSaver(given, options) : new FileSaver(given, options),
  );
  return savers.length === 1 ? savers[0] : new Savers(savers);
}

/** The series of checkpoints that a training writes: its own first, then those of parts of the model. */
const seriesOf = (checkpoint: CheckpointOptions, names: readonly string[]): SeriesOptions[] => [
  checkpoint,
  ...Object.entries(checkpoint.parts ?? {}).map(([name, { only, ...part }]): SeriesOptions => {
    const what = `train: checkpoint.parts.${name}.only`;
    checkMatches(what, only, names);
    const matches = matching(what, only);
    const includes = (value: string): boolean => {
      const [, path] = /^(?:params|state)\/(.*)$/.exec(value) ?? [];
      return path !== undefined && matches(path);
    };
    return { ...part, directory: placeBelow(checkpoint.directory, name), includes };
  }),
];

/** Several series of checkpoints of one run. */
class Savers implements Saver {
  private readonly savers: readonly Saver[];

  constructor(savers: readonly Saver[]) {
    this.savers = savers;
  }

  get path(): string | undefined {
    return this.savers[0]?.path;
  }

  start(steps: number): void {
    for (const saver of this.savers) saver.start(steps);
  }

  isDue(moment: Moment, steps: number): boolean {
    return this.savers.some((saver) => saver.isDue(moment, steps));
  }

  // One after another: ranks exchange how saves went, in one order.
  async save(moment: Moment, state: RunState): Promise<void> {
    for (const saver of this.savers) await saver.save(moment, state);
  }

  async finished(): Promise<void> {
    for (const saver of this.savers) await saver.finished();
  }

  async end(milliseconds: number): Promise<void> {
    await Promise.all(this.savers.map((saver) => saver.end(milliseconds)));
  }

  check(): void {
    for (const saver of this.savers) saver.check();
  }

  removeTemporaries(): void {
    for (const saver of this.savers) saver.removeTemporaries();
  }
}
