/** @module The agent of `heddle run` on one host, or of one rank under an engine: starts the host's workers, and ends them when its launcher is gone. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { loadNative } from "../executors/native/binding.ts";
import { ownAddresses } from "../hosts/interfaces.ts";
import { openRunStore, type RunStore } from "../hosts/store.ts";
import { HeddleError } from "../util/errors.ts";
import { ownVariables } from "../util/settings.ts";
import { version } from "../util/version.ts";
import { compiledAhead } from "./ahead/program.ts";
import { usableCores } from "./cores.ts";
import { readPosition } from "./flight.ts";
import { keepRunDirectory, makeRunDirectory, removeRunDirectory } from "./folder.ts";
import {
  type AgentSeat,
  type FromAgent,
  readMessages,
  type StartMessage,
  type StoreMessage,
  type ToAgent,
  writeMessage,
} from "./host-messages.ts";
import { nodeArguments } from "./loader.ts";
import { startWorker, type WorkerProcess } from "./worker-process.ts";

/** Time for workers to end by themselves when the launcher is gone. */
const graceMilliseconds = 2000;

/** An agent's way to its launcher. */
export interface LauncherLink {
  send(message: FromAgent): void;
  /** Sets the receiver of messages, and what to call when the launcher is gone. */
  listen(take: (message: ToAgent) => void, gone: () => void): void;
  close(): void;
}

/** The way to the launcher that has started this process by a shell: this process's input and output. */
export const shellLink: LauncherLink = {
  send: (message) => writeMessage(process.stdout, message),
  listen: (take, gone) => {
    for (const event of ["end", "close", "error"]) process.stdin.once(event, gone);
    process.stdout.on("error", gone);
    readMessages(process.stdin, take, () => {});
  },
  close: () => {},
};

/**
 * Serves one launcher; resolves when the run has ended, or the launcher is gone.
 *
 * @param seat where an engine has started this process
 */
export async function serveLauncher(link: LauncherLink = shellLink, seat?: AgentSeat): Promise<void> {
  const agent = new Agent(link);
  const gone = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(signal, () => resolve());
    // An engine may send the signal that announces an end to all of its processes; the launcher gets the signal, too, and passes it on.
    if (process.platform !== "win32") process.on("SIGUSR2", () => {});
    link.listen((message) => agent.take(message, resolve), resolve);
  });
  const place = seat === undefined ? {} : { seat };
  agent.say({ type: "hello", version, addresses: ownAddresses(), cores: usableCores().usable, ...place });
  await gone;
  await agent.end();
  link.close();
}

class Agent {
  private readonly workers: WorkerProcess[] = [];
  private readonly runDirectory = makeRunDirectory();
  private store: RunStore | undefined;
  private failed = false;
  private ended = false;
  private started: Promise<void> = Promise.resolve();
  private heard = performance.now();
  private pulse: NodeJS.Timeout | undefined;
  private readonly link: LauncherLink;

  constructor(link: LauncherLink) {
    this.link = link;
  }

  say(message: FromAgent): void {
    this.link.send(message);
  }

  take(message: ToAgent, resolve: () => void): void {
    this.heard = performance.now();
    switch (message.type) {
      case "open":
        this.pulse = setInterval(() => {
          this.say({ type: "ping" });
          if (performance.now() - this.heard > 1000 * message.timeout) resolve();
        }, 250 * message.timeout);
        break;
      case "store":
        this.openStore(message).then(
          (port) => this.say({ type: "stored", port }),
          (error: unknown) => this.fail(error),
        );
        break;
      case "start":
        this.started = this.start(message).catch((error: unknown) => this.fail(error));
        break;
      case "kill":
        this.whenStarted(message.rank, (worker) => worker.kill(message.signal));
        break;
      case "send":
        this.whenStarted(message.rank, (worker) => worker.send(message.value));
        break;
      case "end":
        this.failed &&= message.keep;
        resolve();
        break;
      case "ping":
        break;
    }
  }

  /** Messages for workers that are being started wait until they are there. */
  private whenStarted(wanted: number, act: (worker: WorkerProcess) => void): void {
    void this.started.then(() => {
      const worker = this.workers.find(({ rank }) => rank === wanted);
      if (worker !== undefined) act(worker);
    });
  }

  private fail(error: unknown): void {
    const code = error instanceof HeddleError ? error.code : "run";
    this.say({ type: "failed", code, message: error instanceof Error ? error.message : String(error) });
  }

  private async openStore(message: StoreMessage): Promise<number> {
    const native = loadNative();
    if ("error" in native) throw new HeddleError("native", `several workers need the native core: ${native.error}`);
    this.store = await openRunStore(() => new native.StoreServer(), message);
    return this.store.port;
  }

  private async start({ folder, file, args, outputToErrors, workers }: StartMessage): Promise<void> {
    if (!existsSync(folder)) throw new HeddleError("file", `there is no folder ${folder}`);
    process.chdir(folder);
    if (!existsSync(file)) throw new HeddleError("file", `there is no file ${file}`);
    const ahead = await compiledAhead(file);
    if (this.ended) return;
    for (const { rank, variables } of workers) {
      const own = {
        ...ownVariables(),
        ...variables,
        HEDDLE_LAUNCHER: String(process.pid),
        HEDDLE_RUN_DIR: this.runDirectory,
      };
      const worker = startWorker({
        rank,
        arguments: nodeArguments(file, args, ahead),
        environment: own,
        inheritOutput: false,
        inheritInput: false,
        outputToErrors,
        relay: {
          output: (stream, bytes) =>
            this.say({ type: "output", rank, stream, data: Buffer.from(bytes).toString("base64") }),
          message: (value) => this.say({ type: "message", rank, value }),
        },
      });
      this.workers.push(worker);
      void worker.ended.then(({ at: _at, ...exit }) => {
        worker.removeTemporaries();
        this.failed ||= exit.code !== 0;
        this.say({ type: "ended", rank, exit: { ...exit, position: readPosition(this.runDirectory, rank) } });
      });
    }
  }

  /** Ends what still runs, and removes what is left, except the records of a failed run. */
  async end(): Promise<void> {
    clearInterval(this.pulse);
    this.ended = true;
    await this.started;
    const alive = this.workers.filter(({ exit }) => exit === undefined);
    for (const worker of alive) worker.kill("SIGTERM");
    const late = setTimeout(() => {
      for (const worker of alive) if (!worker.gone) worker.kill("SIGKILL");
    }, graceMilliseconds);
    await Promise.all(alive.map(({ ended }) => ended));
    clearTimeout(late);
    for (const worker of this.workers) worker.removeTemporaries();
    await this.store?.close(0);
    if (this.failed && this.workers.some(({ rank }) => existsSync(join(this.runDirectory, `rank-${rank}.flight`))))
      this.say({ type: "records", folder: keepRunDirectory(this.runDirectory) });
    else removeRunDirectory(this.runDirectory);
  }
}
