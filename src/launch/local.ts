/** @module Starts the workers of a run, on this machine or on several hosts, and waits until they have ended. */

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Place, takePlace } from "../hosts/launchers.ts";
import { runSecret } from "../hosts/secret.ts";
import type { RunLog } from "../quorum/log.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment, unknownVariables } from "../util/settings.ts";
import { version } from "../util/version.ts";
import { compiledAhead } from "./ahead/program.ts";
import { threadsPerWorker, usableCores } from "./cores.ts";
import type { Crew } from "./crew.ts";
import { superviseElastic } from "./elastic.ts";
import type { Engine } from "./engines/engine.ts";
import { findEngine } from "./engines/table.ts";
import { namedVariables, type RunEnvironment, workerEnvironment } from "./environment.ts";
import { EventLog } from "./events.ts";
import { readPosition } from "./flight.ts";
import { keepInProject, keepRunDirectory, makeRunDirectory, removeRunDirectory, setRecordsAside } from "./folder.ts";
import { type HostShare, shareHosts } from "./host-list.ts";
import { checkOptions, type LaunchOptions, type LaunchResult } from "./launch-options.ts";
import { nodeArguments } from "./loader.ts";
import { closeMembership, openMembership } from "./membership-log.ts";
import { watchNotices } from "./notices.ts";
import { startOnHosts } from "./on-hosts.ts";
import { freeAddresses, startParameterServers } from "./parameter-servers.ts";
import { describeFailures, orderFailures, type WorkerFailure } from "./report.ts";
import { restartsBefore } from "./restarts.ts";
import { StallWatch } from "./stalls.ts";
import { type Store, startNativeStore } from "./store.ts";
import { defaultGrace, listenForStop, type StopSignal, statusOf, stoppedStatus, superviseServed } from "./supervise.ts";
import { checkEngine, startWithEngine } from "./with-engine.ts";
import { startWorker, type WorkerProcess } from "./worker-process.ts";

/**
 * Runs a file in worker processes on this machine, or on `hosts`. If another launcher, such as srun, has started this process as one of
 * several, runs the file as the one worker that this process stands for, and joins the others.
 *
 * When it resolves, no process, port or temporary file of the run is left. Its folder is kept in `.heddle/runs` of the project; where there is no
 * project, only the records of a failed run are kept, among the temporary files.
 */
export async function launchLocal(options: LaunchOptions): Promise<LaunchResult> {
  const shares = options.hosts === undefined ? undefined : shareHosts(options.hosts, options.workers);
  const workers = shares?.reduce((sum, share) => sum + share.workers, 0) ?? options.workers ?? 1;
  checkOptions(options, workers);
  readEnvironment();
  if (options.quiet !== true) for (const text of unknownVariables()) console.error(`heddle: ${text}`);
  const place = options.plan === undefined ? takePlace() : undefined;
  if (place !== undefined && (shares !== undefined || (options.workers ?? 1) > 1))
    throw new HeddleError(
      "launcher",
      `${place.launcher} has started the ${place.size} workers, of which this is rank ${place.rank}`,
      {
        hint: "leave out --workers and --hosts, or set HEDDLE_ALONE=1",
      },
    );
  if (place !== undefined && (options.restarts ?? 0) > 0)
    throw new HeddleError(
      "option",
      `${place.launcher} starts the workers: let it start them again, and leave out --restarts`,
    );
  const engine = await engineOf(options, place);
  const before = restartsBefore();
  const stop = listenForStop(options.signal);
  let unwatch = (): void => {};
  const leading = options.membership === undefined ? undefined : await openMembership(options, workers, stop);
  if (leading !== undefined && "result" in leading) {
    stop.dispose();
    return leading.result;
  }
  let result: LaunchResult | undefined;
  try {
    if (options.notice !== undefined)
      unwatch = watchNotices(options.notice, (text) => {
        console.error(`heddle: ${text}: ending the run`);
        stop.request("SIGTERM");
      });
    for (let restart = 0; ; restart++) {
      const attempt = leading?.epoch ?? before + restart;
      const started = attempt === 0 ? options : { ...options, resume: true };
      result = await launchOnce({ options: started, workers, shares, place, engine, attempt, log: leading?.log }, stop);
      const again = options.minWorkers === undefined ? (options.restarts ?? 0) : 0;
      if (result.failures.length === 0 || restart >= again) return result;
      options.onRestart?.(result, restart + 1);
    }
  } finally {
    if (leading !== undefined) await closeMembership(leading.log, result);
    unwatch();
    stop.dispose();
  }
}

/** Seconds to save after a notice, where nobody says how many: the shortest notice of a cloud is 30. */
const noticeGrace = 25;

async function launchOnce(wanted: Wanted, stop: ReturnType<typeof listenForStop>): Promise<LaunchResult> {
  const runDirectory = makeRunDirectory();
  const events = new EventLog(runDirectory);
  let kept: string | undefined;
  try {
    writeBeginning(events, wanted);
    const result = await launchIn(runDirectory, wanted, stop);
    writeEnd(events, result);
    const recorded = result.failures.some(({ rank }) => existsSync(join(runDirectory, `rank-${rank}.flight`)));
    if (wanted.options.plan === undefined && wanted.options.profile === undefined)
      kept = keepInProject(runDirectory, process.cwd());
    if (recorded) kept ??= keepRunDirectory(runDirectory);
    return recorded && kept !== undefined ? { ...result, records: kept } : result;
  } finally {
    if (kept === undefined) removeRunDirectory(runDirectory);
  }
}

/** Notes what is started, and how. */
function writeBeginning(events: EventLog, { options, workers, place, attempt }: Wanted): void {
  const { signal: _signal, startStore: _store, onRestart: _restart, ...given } = options;
  events.write("config.json", {
    heddle: version,
    node: process.version,
    ...given,
    workers,
    environment: namedVariables(),
  });
  events.add("start", { file: options.file, workers: place?.size ?? workers, attempt });
}

/** Notes how a run has ended. */
function writeEnd(events: EventLog, { status, failures, stoppedBy, size, straggler }: LaunchResult): void {
  for (const failure of failures) {
    const [text] = describeFailures([failure], size).split("\n", 1);
    const { at, ...more } = failure;
    events.add("failure", { text, ...more, after: at });
  }
  events.add("end", { status, stoppedBy, straggler });
}

/** The engine that is to start the workers, if it can. @throws HeddleError `option`, `launcher` */
async function engineOf(options: LaunchOptions, place: Place | undefined): Promise<Engine | undefined> {
  if (options.with === undefined) return undefined;
  const engine = findEngine(options.with);
  if (place !== undefined)
    throw new HeddleError("launcher", `${place.launcher} has started the ${place.size} workers already`, {
      hint: "leave out --with",
    });
  if (engine.agents === undefined)
    throw new HeddleError("option", `${engine.title} takes whole runs: use the command heddle run`);
  if (options.hosts !== undefined && !engine.agents.takesHosts)
    throw new HeddleError("option", `${engine.title} chooses the hosts: leave out --hosts`, {
      hint: "--engine-args gives it arguments of its own",
    });
  await checkEngine(engine);
  return engine;
}

/** A run as it is to be started. */
interface Wanted {
  readonly options: LaunchOptions;
  /** Number of workers that this process starts. */
  readonly workers: number;
  readonly shares: readonly HostShare[] | undefined;
  readonly place: Place | undefined;
  readonly engine: Engine | undefined;
  /** How often the run was started before; with a log of epochs, the first epoch. */
  readonly attempt: number;
  /** The log of the membership, if a store of several machines has it. */
  readonly log: RunLog | undefined;
}

async function launchIn(
  runDirectory: string,
  wanted: Wanted,
  stop: ReturnType<typeof listenForStop>,
): Promise<LaunchResult> {
  const { options, workers, shares, place, engine, attempt } = wanted;
  const size = place?.size ?? workers;
  const started = performance.now();
  let early: StopSignal | undefined;
  void stop.requested.then((signal) => {
    early = signal;
  });
  let crew: Crew;
  try {
    const elastic = options.minWorkers === undefined ? {} : ({ elastic: "member" } as const);
    const run = { ...options, ...elastic, size: workers, epoch: attempt };
    if (engine !== undefined) crew = await startWithEngine(engine, shares, run, stop.requested);
    else if (shares !== undefined) crew = await startOnHosts(shares, run, stop.requested);
    else crew = await startHere(runDirectory, run, place, sayFor(options));
  } catch (error) {
    if (early === undefined) throw error;
    return { status: statusOf(early), failures: [], stoppedBy: early, size };
  }
  const result = await watch(crew, { ...wanted, size, started, runDirectory }, stop);
  const folders = crew.records?.() ?? [];
  return folders.length === 0 ? result : { ...result, records: folders.join(", ") };
}

interface Watched extends Wanted {
  readonly size: number;
  readonly started: number;
  readonly runDirectory: string;
}

/** Prints lines of the launcher to the error stream. */
const sayFor =
  ({ quiet }: LaunchOptions) =>
  (text: string): void => {
    // A progress bar stands in the line; it is drawn again.
    if (quiet !== true) process.stderr.write(`${process.stderr.isTTY ? "\r\x1b[K" : ""}heddle: ${text}\n`);
  };

/** Waits until the workers have ended, and ends them when one fails or a signal comes. */
async function watch(
  crew: Crew,
  { options, workers, size, started, runDirectory, attempt, log }: Watched,
  stop: ReturnType<typeof listenForStop>,
): Promise<LaunchResult> {
  const { processes } = crew;
  const events = new EventLog(runDirectory);
  const say = sayFor(options);
  const stalls = new StallWatch(runDirectory, processes, events, say);
  // When the launcher ends, for any reason, the workers end, too.
  process.once("exit", crew.kill);
  try {
    const failures: WorkerFailure[] = [];
    const isElastic = options.minWorkers !== undefined;
    const observe = (worker: WorkerProcess): void => {
      events.add("worker", { rank: worker.rank, pid: worker.pid });
      void worker.ended.then(({ code, signal }) =>
        events.add("ended", { rank: worker.rank, code, signal, step: worker.step }),
      );
      void worker.ended.then(({ code, signal, at, startError, position }) => {
        worker.removeTemporaries();
        if (code === 0 || worker.stopping) return;
        const record = position ?? readPosition(runDirectory, worker.rank);
        const { rank, error, doing } = worker;
        // Steps count from 1: a record of step 0 is from before the first.
        const step = record.step || worker.step;
        failures.push({
          rank,
          exitCode: code,
          signal,
          at: at - started,
          step,
          doing: signal === null ? undefined : doing,
          during: record.during,
          error,
          startError,
        });
      });
      void worker.ended.then(() => crew.servers?.lost(worker.rank));
      void worker.ended.then(({ code }) => {
        // In an elastic run the others go on in an epoch of their own.
        if (code !== 0 || worker.stopping || isElastic) return;
        for (const other of processes) if (!other.gone) other.peerEnded(worker.rank);
      });
    };
    processes.forEach(observe);
    const saves = options.grace !== undefined || options.notice !== undefined;
    const grace = 1000 * (options.grace ?? (options.notice === undefined ? defaultGrace : noticeGrace));
    const { stoppedBy, forgiven, lost } = isElastic
      ? await superviseElastic(crew, stop, {
          limits: { min: options.minWorkers as number, max: workers, restarts: options.restarts ?? 0 },
          epoch: attempt,
          log,
          grace,
          saves,
          say: (line) => {
            events.add("membership", { line });
            say(line);
          },
          onEpoch: (epoch) => setRecordsAside(runDirectory, epoch - 1),
          onStart: observe,
        })
      : { ...(await superviseServed(crew, stop, { grace, saves, say })), lost: undefined };
    if (lost !== undefined) return { status: 1, failures: [], size };
    const counted = failures.filter(({ rank }) => !forgiven.has(rank));
    crew.failed ||= stoppedBy !== undefined || counted.length > 0;
    crew.stopped = stoppedBy !== undefined;
    const straggler = stalls.stop();
    if (stoppedBy !== undefined)
      return {
        status: stoppedStatus(
          processes.filter(({ rank }) => !forgiven.has(rank)),
          stoppedBy,
        ),
        failures: [],
        stoppedBy,
        size,
      };
    if (!isElastic) counted.push(...deserters(counted, processes, started));
    const plan = processes[0]?.plan;
    const ended = summarise(counted);
    const alone = ended.status === 0 && plan === undefined && !processes.some(({ joined }) => joined);
    const apart = workers > 1 && alone;
    const unusedMesh = size === 1 && alone && options.on === undefined ? options.mesh : undefined;
    const unusedPlan = ended.status === 0 && !processes.some(({ byPlan }) => byPlan) ? options.planFile : undefined;
    return {
      ...ended,
      size,
      ...(straggler === undefined ? {} : { straggler }),
      ...(plan === undefined ? {} : { plan }),
      ...(apart ? { apart } : {}),
      ...(unusedMesh === undefined ? {} : { unusedMesh }),
      ...(unusedPlan === undefined ? {} : { unusedPlan }),
    };
  } finally {
    stalls.stop();
    crew.kill();
    process.off("exit", crew.kill);
    for (const worker of processes) worker.removeTemporaries();
    await crew.close();
  }
}

/** Starts the workers of this machine, and the store if rank 0 is among them. */
async function startHere(
  runDirectory: string,
  options: LaunchOptions & { readonly size: number; readonly epoch: number },
  place: Place | undefined,
  say: (text: string) => void,
): Promise<Crew> {
  const { size: workers } = options;
  const { runId = "default", epoch, host = "127.0.0.1", port = 0, localWorld = 1, timeout = 60 } = readEnvironment();
  const meeting =
    place === undefined
      ? { masterHost: "127.0.0.1", runId: randomBytes(8).toString("hex"), secret: randomBytes(32).toString("hex") }
      : { masterHost: host, runId, epoch, secret: runSecret(host) ?? "" };
  const first = place?.rank ?? 0;
  const file = resolve(options.file);
  const ahead = await compiledAhead(file);
  new EventLog(runDirectory).add("program", ahead);
  const store =
    first === 0
      ? await openStore(options, place === undefined ? workers : place.size, { ...meeting, port })
      : undefined;
  const serve = options.servers === 0;
  const serverAddresses =
    options.servers === undefined ? undefined : await freeAddresses(serve ? workers : options.servers);
  const run = {
    ...options,
    ...meeting,
    serverAddresses,
    serve,
    size: place?.size ?? workers,
    masterPort: store?.port ?? (place === undefined ? (options.port ?? 0) : port),
    runDirectory,
  };
  const localSize = place === undefined ? workers : localWorld;
  const threads = options.threads ?? threadsPerWorker(usableCores().usable, localSize + (options.servers ?? 0));
  const processes: WorkerProcess[] = [];
  const servers =
    serverAddresses === undefined || options.plan !== undefined
      ? undefined
      : startParameterServers({
          addresses: serve ? [] : serverAddresses,
          environment: workerEnvironment(run, { rank: 0, localRank: 0, localSize, threads }, process.env),
          say,
        });
  const crew: Crew = {
    processes,
    failed: false,
    ...(servers === undefined ? {} : { servers }),
    kill: () => {
      servers?.kill();
      for (const worker of processes) if (!worker.gone) worker.kill("SIGKILL");
    },
    // Workers of other launchers may still read what rank 0 has told them.
    close: async () => store?.close(place === undefined || crew.failed ? 0 : (options.timeout ?? timeout)),
  };
  const start = (rank: number, changes: Partial<RunEnvironment> = {}): WorkerProcess => {
    const localRank = place === undefined ? rank : Number(process.env["LOCAL_RANK"] ?? 0);
    const worker = startWorker({
      rank,
      arguments: nodeArguments(file, options.args ?? [], ahead),
      environment: workerEnvironment({ ...run, ...changes }, { rank, localRank, localSize, threads }, process.env),
      inheritOutput: rank === 0 && options.prefix !== "all",
      inheritInput: run.size === 1,
      outputToErrors: options.plan !== undefined || options.outputToErrors === true,
    });
    processes.push(worker);
    return worker;
  };
  for (let index = 0; index < workers; index++) start(first + index);
  // Its rank and the number of workers are told when it is welcomed.
  if (place === undefined) crew.add = (worker) => start(worker, { elastic: "new", size: worker + 1 });
  return crew;
}

/** Workers that ended with status 0 while other workers still needed them. */
function deserters(
  failures: readonly WorkerFailure[],
  processes: readonly WorkerProcess[],
  started: number,
): WorkerFailure[] {
  const missed = new Map(
    failures.flatMap(({ error }) => (error?.code === "peerClosed" ? [[error.peer, error.during] as const] : [])),
  );
  return processes.flatMap(({ rank, exit, step, stopping }) =>
    exit?.code === 0 && !stopping && missed.has(rank)
      ? [{ rank, exitCode: 0, signal: null, at: exit.at - started, step, during: missed.get(rank) }]
      : [],
  );
}

function summarise(failures: readonly WorkerFailure[]): Pick<LaunchResult, "status" | "failures"> {
  const ordered = orderFailures(failures);
  const [first] = ordered;
  // Nobody reads the output any more: the worker ended as it should, and ended the run.
  if (failures.some(({ exitCode, error }) => exitCode === brokenPipe && error === undefined)) {
    return { status: brokenPipe, failures: [] };
  }
  if (first === undefined) return { status: 0, failures: [] };
  // A worker that left the others with status 0 counts as failed.
  const status = first.signal === null ? (first.exitCode ?? 1) : statusOf(first.signal);
  return { status: status === 0 ? 1 : status, failures: ordered };
}

/** Status of a worker whose output nobody reads: 128 + SIGPIPE. */
const brokenPipe = statusOf("SIGPIPE");

async function openStore(
  options: LaunchOptions,
  size: number,
  { masterHost: host, port, secret, runId }: { masterHost: string; port: number; secret: string; runId: string },
): Promise<Store | undefined> {
  // A single worker needs no store.
  if (size === 1) return undefined;
  const start = options.startStore ?? startNativeStore;
  return start({ host, port: options.port ?? port, secret, runId });
}
