/** @module `train`: from a model, data, a loss and an optimizer to a trained model. */
import { dirname, resolve } from "node:path";
import colors from "picocolors";
import { lowerProgram } from "../lower/index.ts";
import { type Mesh, mesh as makeMesh, parseMesh, printPlan, replicated } from "../plan/index.ts";
import { printPipeline, printProgram } from "../program/index.ts";
import { defaultThreads, localRuntime, type Runtime } from "../runtime/runtime.ts";
import { connect, distribute, meshOf, random } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { canonicalJson } from "../util/text.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { loadCheckpoint } from "./checkpoint.ts";
import { batched } from "./evaluate.ts";
import { batchParts, Feed } from "./feed.ts";
import { keyType, type ModelTypes, modelTypes } from "./functions.ts";
import { resolveOptions, type Settings, type TrainOptions } from "./options.ts";
import { pipelineMesh } from "./pipeline.ts";
import { type CompiledStep, Programs, planPipelineStep, planStep } from "./programs.ts";
import { makeReporter, type Reporter, silentReporter } from "./progress.ts";
import { resultOf, type TrainResult } from "./result.ts";
import { Run, type RunParts } from "./run.ts";
import { findCheckpoint, Saver } from "./saver.ts";
import { beginning, importState } from "./state.ts";
import { Interrupted, listenForStop, type StopRequest } from "./stop.ts";
import { planSummary } from "./summary.ts";

/**
 * Trains a model. The same call trains on one process and on many: under `heddle run --workers n` every worker makes
 * it, and each computes its part of every batch. The result does not depend on the number of workers but for rounding.
 *
 * Under `heddle plan` the plan is printed, and the process ends.
 *
 * @throws HeddleError `option`, `shape`, `dtype` or `data` before anything is computed; `nan` when the loss is not
 * finite; the reason of `signal` when that fires. Ctrl-C ends the process with status 130 after the current step.
 */
export async function train(options: TrainOptions): Promise<TrainResult> {
  const given = resolveOptions(options);
  const evaluate = given.evaluate === undefined ? {} : { evaluate: batched(given.evaluate, given.data) };
  const settings = { ...given, ...evaluate };
  const types = modelTypes(settings);
  const planned = process.env["HEDDLE_PLAN"];
  if (planned !== undefined && planned !== "") return printAndEnd(settings, types, parseMesh(planned));
  const stop = listenForStop(settings.signal);
  let runtime: Runtime | undefined;
  let reporter = silentReporter;
  try {
    stop.signal.throwIfAborted();
    runtime = await connectAs(settings);
    if (runtime.rank === 0) reporter = reporterFor(settings);
    stop.onForced(() => reporter.stop());
    const parts = { settings, types, runtime, reporter, signal: stop.signal };
    return await trainOn({ ...parts, programs: new Programs(settings, types, runtime), feed: new Feed(runtime) }, stop);
  } catch (error) {
    reporter.stop();
    if (stop.signal.reason instanceof Interrupted) process.exit(stop.signal.reason.exitStatus);
    if (runtime?.processes !== undefined)
      runtime.processes.abort(error instanceof Error ? error.message : String(error));
    throw error;
  } finally {
    reporter.stop();
    stop.dispose();
  }
}

/** The runtime that options and environment ask for. */
async function connectAs(settings: Settings): Promise<Runtime> {
  const { executor, pipeline } = settings;
  const world = Number(process.env["WORLD_SIZE"] ?? "1");
  const mesh = settings.mesh ?? (pipeline === undefined ? undefined : pipelineMesh(pipeline, world));
  const named = process.env["HEDDLE_EXECUTOR"];
  if (world > 1 && executor === "reference") {
    throw new HeddleError("executor", `train: the reference executor runs in one process, not in ${world} workers`, {
      hint: "leave out --workers",
    });
  }
  if (world > 1 || executor === undefined || (named !== undefined && named !== "")) return connect(mesh);
  return localRuntime({ axes: (mesh ?? makeMesh({ data: 1 })).axes, executor });
}

function reporterFor(settings: Settings): Reporter {
  const rank = settings.data.columns.get(settings.input)?.shape.length;
  return makeReporter(settings.report, { unit: rank === 4 ? "images" : "examples" });
}

/** Time for a checkpoint under way when a training is ended. */
const saveMilliseconds = 500;

async function trainOn(given: Omit<RunParts, "saver">, stop: StopRequest): Promise<TrainResult> {
  const { settings, runtime, reporter } = given;
  await agree(given);
  summarise(given);
  const warn = (text: string): void => reporter.line(colors.yellow(text));
  const checkpoint = await checkpointOf(given, warn);
  const { directory } = settings.checkpoint ?? {};
  const resumed =
    checkpoint !== undefined && directory !== undefined && dirname(checkpoint.path) === resolve(directory);
  const writes = settings.checkpoint !== undefined && runtime.rank === 0;
  const saver = writes ? new Saver({ ...settings.checkpoint, resumed, warn }) : undefined;
  if (saver !== undefined && resumed) saver.path = checkpoint.path;
  stop.onForced(() => saver?.removeTemporaries());
  const parts: RunParts = { ...given, saver };
  try {
    const run = await beginRun(parts, checkpoint);
    await run.train();
    return resultOf(run, parts);
  } catch (error) {
    await saver?.end(saveMilliseconds);
    throw error;
  }
}

async function beginRun(parts: RunParts, checkpoint: Checkpoint | undefined): Promise<Run> {
  const { settings, types, runtime, programs, reporter } = parts;
  if (checkpoint === undefined) {
    // Made on the one-device runtime, which may have another executor.
    const seedKey = distribute(runtime, await random.key(settings.seed).data(), keyType, replicated(meshOf(runtime)));
    const { key, ...values } = programs.initialise().run(seedKey);
    return new Run(parts, values, key, beginning());
  }
  const { values, key, position } = importState(checkpoint, settings, types, runtime);
  const { epoch, batch } = position;
  const where = epoch >= settings.epochs ? "after the last epoch" : `at epoch ${epoch + 1}, batch ${batch + 1}`;
  reporter.line(`going on from ${checkpoint.path}, ${where}`);
  return new Run(parts, values, key, position);
}

/** What every rank must have in common, compared before the first step. */
async function agree({ settings, runtime, programs, types }: Omit<RunParts, "saver">): Promise<void> {
  if (runtime.processes === undefined) return;
  const { data, epochs, seed, evaluate, optimizer } = settings;
  const lines = [
    ...Object.entries(data.describe(seed)).map(([name, value]) => `data: ${name} ${canonicalJson(value)}`),
    ...Object.entries(evaluate?.describe(seed) ?? {}).map(
      ([name, value]) => `evaluate: ${name} ${canonicalJson(value)}`,
    ),
    `epochs: ${epochs}`,
    `seed: ${seed}`,
    `metrics: ${Object.keys(types.metrics).join(", ")}`,
    `optimizer: ${optimizer.name}`,
    stepText(programs.step(data.batchSizes[0] as number)),
  ];
  await runtime.processes.agree("program", lines.join("\n"));
}

const stepText = (step: CompiledStep): string =>
  "compiled" in step
    ? printPlan(step.plan)
    : printPipeline(step.plan) + step.plan.ranks.map(({ program }) => printProgram(program)).join("");

/** Shows on rank 0 what is about to happen. */
function summarise({ settings, types, runtime, programs, reporter }: Omit<RunParts, "saver">): void {
  const rows = settings.data.batchSizes[0] as number;
  const mesh = meshOf(runtime);
  const step = programs.step(rows);
  if (!("compiled" in step)) {
    for (const line of printPipeline(step.plan).trimEnd().split("\n")) reporter.line(line);
    return;
  }
  const { plan, program, compiled } = step;
  const { executable } = compiled;
  const native = runtime.executor.name === "native";
  const lines = planSummary({
    plan,
    program,
    types,
    processes: runtime.world,
    executor: runtime.executor.name,
    threads: native ? defaultThreads(runtime.local.length) : 1,
    arenaBytes: native ? executable.arenaBytes : undefined,
  });
  for (const line of lines) reporter.line(line);
  const parts = batchParts(mesh);
  if (rows % parts !== 0) {
    const near = Math.max(parts, Math.round(rows / parts) * parts);
    reporter.line(
      colors.yellow(
        `a batch of ${rows} rows cannot be split evenly over ${parts} devices: each computes all of it; ${near} rows would be split`,
      ),
    );
  }
}

/** The checkpoint to go on from, the same one on every rank: rank 0 looks, the others are told. */
async function checkpointOf(
  parts: Omit<RunParts, "saver">,
  warn: (text: string) => void,
): Promise<Checkpoint | undefined> {
  const { settings, runtime, signal, reporter } = parts;
  if (settings.resumeFrom === undefined) return undefined;
  if (runtime.rank === 0) {
    const checkpoint = await findCheckpoint(settings.resumeFrom, { signal, warn });
    await runtime.processes?.share("checkpoint", checkpoint?.path ?? "");
    if (checkpoint === undefined)
      reporter.line(`no checkpoint in ${resolve(settings.resumeFrom)} yet: starting at the beginning`);
    return checkpoint;
  }
  const path = await runtime.processes?.share("checkpoint", undefined);
  return path === undefined || path === "" ? undefined : loadCheckpoint(path, { signal });
}

/** Prints the plan and ends the process: nothing after `train` would have a model to work with. */
function printAndEnd(settings: Settings, types: ModelTypes, mesh: Mesh): Promise<never> {
  const text = planText(settings, types, mesh);
  return new Promise(() => process.stdout.write(text, () => process.exit(0)));
}

function planText(settings: Settings, types: ModelTypes, mesh: Mesh): string {
  if (settings.pipeline !== undefined)
    return printPipeline(planPipelineStep(settings, settings.pipeline, types, mesh).plan);
  const { plan, program } = planStep(settings, types, mesh);
  const threads = defaultThreads(1);
  const summary = planSummary({
    plan,
    program,
    types,
    processes: 0,
    executor: "native",
    threads,
    arenaBytes: lowerProgram(program, { slots: threads }).arenaBytes,
  });
  return `${summary.join("\n")}\n\n${printPlan(plan)}`;
}
