/** @module `train`: from a model, data, a loss and an optimizer to a trained model. */

import type { FolderLock } from "../checkpoints/lock.ts";
import { localRuntime } from "../executors/runtime.ts";
import { connect, distribute, meshOf, random } from "../functions/index.ts";
import { takePlace } from "../hosts/launchers.ts";
import { isTensorType } from "../ir/shape.ts";
import type { Layer, ParamsOf } from "../nn/index.ts";
import { formatMesh, mesh as makeMesh, parseMesh, printPlan, replicated } from "../plan/index.ts";
import { printPipeline, printPrediction, printRankMemory, type TrainingMemory } from "../report/index.ts";
import { planSummary } from "../report/summary.ts";
import { unusedAxes, unusedLines } from "../report/unused.ts";
import type { Runtime } from "../runtime/devices.ts";
import { executorNamed } from "../runtime/registry.ts";
import { environmentMesh } from "../tensor/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { called } from "../util/source.ts";
import { flattenTree } from "../util/tree.ts";
import { agree } from "./agree.ts";
import { namesIn } from "./columns.ts";
import { Elastic, fitted, unitOf } from "./elastic.ts";
import { Ending } from "./ending.ts";
import { batched } from "./evaluate.ts";
import { Feed } from "./feed.ts";
import { checkCompressed, forMesh } from "./for-mesh.ts";
import { checkOtherBatches, modelTypes } from "./functions.ts";
import { withGivenPlan } from "./given.ts";
import { host } from "./host.ts";
import type { HostProcess } from "./host-interface.ts";
import { layoutAxes } from "./layouts.ts";
import { wholeTraining, workerAxis } from "./local-training.ts";
import { LocalUpdates } from "./local-updates.ts";
import { trainingMemory } from "./memory.ts";
import { noFiles } from "./no-files.ts";
import type { RecordTrainOptions, Settings, TrainOptions } from "./options.ts";
import type { RunParts } from "./parts.ts";
import { pipelineMesh } from "./pipeline.ts";
import { type CompiledStep, Programs } from "./programs.ts";
import { type Reporter, silentReporter } from "./progress.ts";
import { resolveOptions } from "./resolve-options.ts";
import { resultOf, type TrainResult } from "./result.ts";
import { restore } from "./resume.ts";
import { Run } from "./run.ts";
import { startValues } from "./start.ts";
import { beginning, type Restored, type RunState, stateBytes } from "./state.ts";
import { Interrupted, listenForStop, type StopRequest } from "./stop.ts";
import { suspicions } from "./suspicions.ts";
import { tablesOf } from "./tables.ts";
import type { Updates } from "./updates.ts";
import { keyType, type ModelTypes } from "./values.ts";

/**
 * Trains a model. The same call trains in one process and in many: under `heddle run --workers n` every worker makes
 * the call, and each computes its part of every batch. The result does not depend on the number of workers, apart from rounding.
 *
 * Under `heddle plan` the plan is printed, and the process ends. Under `heddle profile` the process ends after a number of
 * steps, and no checkpoint is read or written. In a browser, which has no files, checkpoints are refused.
 *
 * @throws HeddleError `option`, `shape`, `dtype` or `data` before anything is computed; `nan` if the loss is not
 * finite; `disk` or `file`, before the first step, if checkpoints cannot be written; the reason of `signal` if it
 * fires, and `peerAborted` on the ranks where it does not. Ctrl-C ends the process with status 130 after the current step.
 */
export function train(options: RecordTrainOptions): Promise<TrainResult>;
export function train<Model extends Layer>(options: TrainOptions<Model>): Promise<TrainResult<ParamsOf<Model>>>;
export function train(options: TrainOptions | RecordTrainOptions): Promise<TrainResult> {
  return called(() => trained(options as TrainOptions));
}

async function trained(options: TrainOptions): Promise<TrainResult> {
  const resolved = resolveOptions(host.process?.profiledSteps() === undefined ? options : forProfile(options));
  refuseFiles(resolved);
  const evaluate = resolved.evaluate === undefined ? {} : { evaluate: batched(resolved.evaluate, resolved.data) };
  const given = onServersIfAsked(withGivenPlan({ ...resolved, ...evaluate }));
  const givenTypes = modelTypes(given);
  checkOtherBatches(given, givenTypes);
  checkCompressed(given, givenTypes);
  const { plan: planned } = readEnvironment();
  if (planned !== undefined && host.process !== undefined)
    return host.process.planAndEnd(given, givenTypes, planned.split(";").map(parseMesh));
  takePlace();
  const member = host.process?.member();
  if (member === undefined) return trainWith(given, givenTypes, undefined);
  if (given.localSteps !== undefined)
    throw new HeddleError("option", "train: localSteps does not go with an elastic run", {
      hint: "start a fixed number of workers, as heddle run --workers 4 does, with checkpoints",
    });
  const elastic = new Elastic(member);
  return elastic.through(workersOf(given), () => trainWith({ ...given, keepsValues: true }, givenTypes, elastic));
}

/** The settings, where servers have the tables of the model: then the model has none. */
function onServersIfAsked(settings: Settings): Settings {
  if (host.process?.isOnServers(settings) !== true || tablesOf(settings).length === 0) return settings;
  return { ...settings, tables: "absent" };
}

/** The number of workers of which an elastic training has multiples. */
function workersOf({ mesh, pipeline }: Settings): number {
  const wanted = mesh ?? environmentMesh() ?? (pipeline === undefined ? undefined : pipelineMesh(pipeline, 1));
  return wanted === undefined ? 1 : unitOf(wanted);
}

/** Trains with the workers at hand. */
async function trainWith(given: Settings, givenTypes: ModelTypes, elastic: Elastic | undefined): Promise<TrainResult> {
  // With several processes, the ranks first agree to end, after a step.
  const onServers = host.process?.isOnServers(given) === true;
  const alone = onServers || readEnvironment().world <= 1;
  const stop = listenForStop(alone ? given.signal : undefined);
  let ending: Ending | undefined;
  let runtime: Runtime | undefined;
  let reporter = silentReporter;
  let updates: Updates | undefined;
  try {
    stop.signal.throwIfAborted();
    const connecting = onServers
      ? Promise.resolve(host.process?.workerRuntime(given) as Runtime)
      : connectAs(given, elastic);
    runtime = await (elastic === undefined ? connecting : elastic.join(connecting));
    host.process?.report({ type: "doing", what: "compiling" });
    const all = runtime;
    const isLocal = given.localSteps !== undefined;
    const onMesh = isLocal ? wholeTraining(given, all.world) : forMesh(given, givenTypes, meshOf(all));
    const whole = { ...onMesh, programs: new Programs(onMesh.settings, onMesh.types, all) };
    if (isLocal) {
      checkOneEach(all);
      const local = new LocalUpdates(given, whole, all);
      updates = local;
      runtime = local.runtime;
    }
    if (given.server?.replay !== undefined) return await replay({ ...whole, runtime, signal: stop.signal });
    if (onServers) updates = await host.process?.connectServers(whole, runtime);
    const { settings, types, programs } = updates?.own ?? whole;
    if (runtime.rank === 0) reporter = await reporterFor(settings);
    stop.onForced(() => reporter.stop());
    ending = new Ending(runtime, settings, types, elastic?.isCalled);
    const { leave } = ending;
    if (elastic === undefined) stop.onNotice(leave);
    else elastic.onNotice(stop, leave);
    const parts = { settings, types, runtime, reporter, signal: stop.signal, ending, elastic, updates };
    const result = await trainOn({ ...parts, programs, feed: new Feed(runtime, settings.dataMemory) }, stop);
    if (!ending.left) return result;
    reporter.stop();
    return host.process?.endBy("SIGUSR2") ?? result;
  } catch (error) {
    reporter.stop();
    if (stop.signal.reason instanceof Interrupted) host.process?.endBy(stop.signal.reason.signal);
    if (runtime?.processes !== undefined && ending?.agreed !== true)
      runtime.processes.abort(error instanceof Error ? error.message : String(error));
    if (runtime !== undefined) await elastic?.leave(error, given, runtime);
    throw error;
  } finally {
    await updates?.close();
    reporter.stop();
    stop.dispose();
  }
}

/**
 * Prepares the untrained model for evaluation and prediction: nothing is trained, reported, or compared between ranks. Every worker must
 * call this function.
 *
 * @throws HeddleError as {@link train}
 */
export function prepare(options: Omit<TrainOptions, "epochs">): Promise<TrainResult> {
  return called(() => prepared(options));
}

/** Repeats a training on servers from its log. */
async function replay(
  known: Pick<RunParts, "settings" | "types" | "programs" | "runtime" | "signal">,
): Promise<TrainResult> {
  const { settings, types, runtime } = known;
  const ending = new Ending(runtime, settings, types);
  const parts = {
    ...known,
    reporter: silentReporter,
    ending,
    feed: new Feed(runtime),
    saver: undefined,
    elastic: undefined,
  };
  const first = await firstState(parts, undefined);
  const values = await (host.process as HostProcess).replayed(known, runtime, first);
  return resultOf(new Run(parts, values, first.key, first.position), parts);
}

async function prepared(options: Omit<TrainOptions, "epochs">): Promise<TrainResult> {
  const given = withGivenPlan(resolveOptions({ ...options, epochs: 0, resume: false, report: "silent" }));
  const givenTypes = modelTypes(given);
  const runtime = await connectAs(given);
  const { settings, types } = forMesh(given, givenTypes, meshOf(runtime));
  const { signal } = new AbortController();
  const programs = new Programs(settings, types, runtime);
  const ending = new Ending(runtime, settings, types);
  const feed = new Feed(runtime, settings.dataMemory);
  const parts = {
    settings,
    types,
    runtime,
    reporter: silentReporter,
    signal,
    ending,
    programs,
    feed,
    saver: undefined,
    elastic: undefined,
  };
  return resultOf(await beginRun(parts, undefined), parts);
}

/** @throws HeddleError `file` naming the option that needs files, if there are none. */
function refuseFiles({ checkpoint, resumeFrom }: Settings): void {
  if (host.files !== undefined) return;
  if (checkpoint !== undefined) throw noFiles("train: the option checkpoint writes files");
  if (resumeFrom !== undefined) throw noFiles("train: the option resume reads a file");
}

/** The options of a profiled training: no files, and no report between the lines of the profile. */
function forProfile({ checkpoint: _checkpoint, resume: _resume, ...options }: TrainOptions): TrainOptions {
  return { ...options, report: "silent" };
}

/** Ends the process of a profiled run when every rank has done its steps: the code after `train` would have no trained model. */
async function endProfile(runtime: Runtime): Promise<void> {
  await runtime.processes?.barrier("profile");
  host.process?.end();
}

/** @throws HeddleError `option` unless each process has one device, and all are on the axis of workers */
function checkOneEach({ axes, world }: Runtime): void {
  if (axes.every(({ name, size }) => size === (name === workerAxis ? world : 1))) return;
  throw new HeddleError(
    "option",
    `train: localSteps needs a process for each device of the mesh, which is ${formatMesh({ axes })}`,
    {
      hint: "leave --mesh out, and start workers by heddle run --workers",
    },
  );
}

/** The runtime for the options and the environment. */
async function connectAs(settings: Settings, elastic?: Elastic): Promise<Runtime> {
  const { pipeline } = settings;
  const executor = settings.executor === undefined ? undefined : executorNamed(settings.executor);
  const { world, executor: named, workers } = readEnvironment();
  const staged = pipeline === undefined ? undefined : pipelineMesh(pipeline, world);
  const wanted = settings.mesh ?? environmentMesh() ?? staged;
  const mesh = elastic === undefined || wanted === undefined ? wanted : fitted(wanted, world);
  if (world > 1 && executor !== undefined && executor.join === undefined) {
    throw new HeddleError(
      "executor",
      `train: the ${executor.name} executor runs in one process, not in ${world} workers`,
      {
        hint: "leave out --workers",
      },
    );
  }
  const elsewhere = world > 1 || workers !== undefined;
  if (elsewhere || executor === undefined || named !== undefined) return connect(mesh);
  host.process?.report({ type: "join" });
  return localRuntime({ axes: (mesh ?? makeMesh({ data: 1 })).axes, executor: executor.name });
}

function reporterFor(settings: Settings): Promise<Reporter> {
  const rank = settings.data.columns.get(namesIn(settings.input)[0] as string)?.shape.length;
  return host.makeReporter(settings.report, rank === 4 ? "images" : "examples");
}

/** Time to finish a checkpoint when a training is ended. */
const saveMilliseconds = 500;

async function trainOn(parts: Omit<RunParts, "saver">, stop: StopRequest): Promise<TrainResult> {
  const { reporter, settings, runtime } = parts;
  await agree(parts);
  host.process?.report({ type: "doing", what: "looking for checkpoints" });
  if (reporter !== silentReporter && parts.elastic?.isContinued !== true)
    for (const line of await suspicions(parts.updates?.whole.settings ?? settings, meshOf(runtime)))
      reporter.warn(line);
  let lock: FolderLock | undefined;
  try {
    const before = async (): Promise<void> =>
      host.files?.takeFolder(settings, {
        bytes: stateBytes(parts.types),
        reporter,
        onLock: (taken) => {
          lock = taken;
        },
      });
    const memory = await parts.elastic?.exchange(parts);
    const resumeFrom = memory === undefined ? (parts.elastic?.resumeFrom(settings) ?? settings.resumeFrom) : undefined;
    if (memory === undefined && parts.elastic?.isContinued === true)
      reporter.warn(
        "a lost worker had the only copy of some values: the training goes back to its last checkpoint, or its beginning",
      );
    const { settings: wholeSettings, ...whole } = parts.updates?.whole ?? parts;
    const { restored, tag } =
      parts.updates?.follows === true
        ? { restored: undefined, tag: "" }
        : await restore({ ...parts, ...whole, settings: { ...wholeSettings, resumeFrom } }, before);
    return await trainFrom(memory ?? restored, { tag, lock }, parts, stop);
  } finally {
    lock?.release();
  }
}

async function trainFrom(
  restored: Restored | undefined,
  folder: { readonly tag: string; readonly lock: FolderLock | undefined },
  partsWithoutSaver: Omit<RunParts, "saver">,
  stop: StopRequest,
): Promise<TrainResult> {
  const { settings, runtime, reporter, programs, types } = partsWithoutSaver;
  const { updates } = partsWithoutSaver;
  const saver = host.files?.makeSaver({
    ...folder,
    settings: updates?.whole.runtime === undefined ? settings : updates.whole.settings,
    runtime: updates?.whole.runtime ?? runtime,
    whole: (updates?.whole.runtime === undefined ? programs : updates.whole.programs).layouts.whole,
    names: [types.state.params, types.state.state].flatMap((tree) => flattenTree(tree, isTensorType).paths),
    metrics: [...types.metricSizes.keys()],
    resumedFrom: restored?.path,
    continues: partsWithoutSaver.elastic?.fromMemory === true,
    warn: reporter.warn,
  });
  stop.onForced(() => saver?.removeTemporaries());
  const parts: RunParts = { ...partsWithoutSaver, saver };
  host.process?.report({ type: "doing", what: "making the initial values" });
  try {
    const run = await beginRun(parts, restored);
    const profiled = host.process?.profiledSteps();
    await run.train(profiled ?? Infinity, () => summarise(parts));
    if (profiled !== undefined) await endProfile(runtime);
    return resultOf(run, parts);
  } catch (error) {
    await saver?.end(saveMilliseconds);
    throw error;
  }
}

async function beginRun(parts: RunParts, restored: Restored | undefined): Promise<Run> {
  const first = await firstState(parts, restored);
  const { values, key, position } = (await parts.updates?.begin(first)) ?? first;
  return new Run(parts, values, key, position, restored !== undefined);
}

async function firstState(parts: RunParts, restored: Restored | undefined): Promise<RunState> {
  const { reporter } = parts;
  const { settings, types, programs, runtime = parts.runtime } = parts.updates?.whole ?? parts;
  if (restored === undefined) {
    // Computed on the runtime of one device, which may have another executor.
    const localKey = random.key(settings.seed);
    const seedKey = distribute(runtime, await localKey.data(), keyType, replicated(meshOf(runtime)));
    const { key, ...values } = programs.initialise().run(seedKey);
    for (const seed of [localKey, seedKey]) seed.dispose();
    const { from } = settings;
    const first = from === undefined ? values : await startValues(from, values, types, runtime, programs.layouts);
    return { values: first, key, position: beginning(settings) };
  }
  const { epoch, batch } = restored.state.position;
  const where = epoch >= settings.epochs ? "after the last epoch" : `at epoch ${epoch + 1}, batch ${batch + 1}`;
  reporter.line(`resuming from ${restored.path}, ${where}`);
  return restored.state;
}

/** Reports the plan of the training on rank 0. */
function summarise({ settings, runtime, programs, reporter, elastic, updates }: Omit<RunParts, "saver">): void {
  const step = programs.step();
  const { plan, program } = step;
  if (runtime.rank === 0) host.process?.keep("plan.txt", () => printPlan(plan));
  const [memory] = trainingMemory(
    settings,
    programs.all(),
    (planned) => (planned as CompiledStep).compiled.executable.arenaBytes,
  ) as [TrainingMemory];
  if (plan.pipeline !== undefined) {
    for (const line of printPipeline(plan, step.programs).trimEnd().split("\n")) reporter.line(line);
    // Virtual devices have one arena size for all ranks, that of the largest.
    if (runtime.processes !== undefined && memory.step !== undefined) reporter.line(printRankMemory(memory, 0));
    reporter.line(printPrediction(step.programs, settings.machine));
    return;
  }
  const lines = planSummary({
    plan,
    program,
    run: { processes: runtime.world, executor: runtime.executor },
    memory,
  });
  // With other workers, their number and mesh alone are new. On servers the plan knows one worker, and the lines of the servers know all.
  const from = updates === undefined ? 0 : 1;
  for (const line of elastic?.isContinued === true ? lines.slice(0, 1) : lines.slice(from)) reporter.line(line);
  for (const line of updates?.lines ?? []) reporter.line(line);
  for (const line of unusedLines(unusedAxes(plan, layoutAxes(settings.layoutRules)))) reporter.warn(line);
}
