/** @module Hands a whole run over to an engine that takes it from this machine, and shows its output here. */
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import type { Engine } from "./engines/engine.ts";
import { findEngine } from "./engines/table.ts";
import type { LaunchOptions, LaunchResult } from "./launch-options.ts";
import { handedOn } from "./linked-crew.ts";
import { defaultGrace, listenForStop, statusOf } from "./supervise.ts";
import { checkEngine } from "./with-engine.ts";
import { wordsOf } from "./words.ts";

/** The engine that takes the whole run from this machine, if one is to. @throws HeddleError `option` for an unknown engine. */
export function submitter(name: string | undefined): (Engine & Required<Pick<Engine, "submit">>) | undefined {
  const engine = name === undefined ? undefined : findEngine(name);
  if (engine?.submit === undefined || engine.submits?.() === false) return undefined;
  return engine as Engine & Required<Pick<Engine, "submit">>;
}

/**
 * Runs a file in a job of an engine. The job's launcher reports failures in the job's own output, which is printed here.
 *
 * @param heddle the arguments of the command `heddle`, as they were given
 * @throws HeddleError `launcher` if the engine cannot be used, or refuses the job; `option` for options that it cannot take
 */
export async function submitRun(
  engine: NonNullable<ReturnType<typeof submitter>>,
  options: LaunchOptions,
  heddle: readonly string[],
): Promise<LaunchResult> {
  if (options.hosts !== undefined)
    throw new HeddleError("option", `${engine.title} chooses the hosts: leave out --hosts`, {
      hint: "--engine-args gives it arguments of its own",
    });
  const { timeout } = readEnvironment();
  await checkEngine(engine);
  const stop = listenForStop(options.signal);
  let stoppedBy: Awaited<typeof stop.requested> | undefined;
  void stop.requested.then((signal) => {
    stoppedBy = signal;
  });
  try {
    const size = options.workers ?? 1;
    const secrets = /^HEDDLE_(WORKERS_)?SECRET/;
    const variables = Object.fromEntries(
      Object.entries(handedOn()).filter(
        (entry): entry is [string, string] => entry[1] !== undefined && !secrets.test(entry[0]),
      ),
    );
    const status = await engine.submit({
      heddle,
      file: options.file,
      args: options.args ?? [],
      workers: size,
      restarts: options.restarts ?? 0,
      grace: options.grace ?? defaultGrace,
      // A server that is replaced is away for minutes.
      patience: options.timeout ?? timeout ?? 300,
      variables,
      engineArgs: wordsOf(options.engineArgs),
      stopped: stop.requested,
      write: (text) => process.stdout.write(text),
    });
    const ended = stoppedBy === undefined || status === 0 ? status : statusOf(stoppedBy);
    return { status: ended, failures: [], size };
  } finally {
    stop.dispose();
  }
}
