/** @module The log of an elastic run's membership in a store of several machines, where `--membership` names one. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { etcdStore, parseQuorumAddress } from "../quorum/etcd.ts";
import { openLog, type RunLog } from "../quorum/log.ts";
import { HeddleError } from "../util/errors.ts";
import type { LaunchOptions, LaunchResult } from "./launch-options.ts";
import { type StopRequest, type StopSignal, statusOf } from "./supervise.ts";

/** The log that a launcher leads, and the first epoch of its workers; or how the run has ended, where this launcher only stood by. */
export type Leading = { readonly log: RunLog; readonly epoch: number } | { readonly result: LaunchResult };

/**
 * Waits until this launcher leads the run of the option `membership`, and writes its first epoch into the log.
 *
 * @throws HeddleError `option` for a malformed address, a run that is not elastic, or one that has ended; `store` if no majority answers
 */
export async function openMembership(options: LaunchOptions, workers: number, stop: StopRequest): Promise<Leading> {
  if (options.minWorkers === undefined)
    throw new HeddleError("option", "--membership is for elastic runs", {
      hint: "give --workers a range, such as 2:8",
    });
  const { run, lease, endpoints } = parseQuorumAddress(options.membership as string);
  let early: StopSignal | undefined;
  void stop.requested.then((signal) => {
    early = signal;
  });
  const holder = `${hostname()}/${process.pid}/${randomBytes(6).toString("hex")}`;
  const clock = { now: () => performance.now() / 1000, sleep: (seconds: number) => sleep(1000 * seconds) };
  const say = (line: string): void => {
    if (options.quiet !== true) console.error(`heddle: ${line}`);
  };
  const store = etcdStore({ endpoints }, lease / 6);
  const result = { failures: [], size: workers };
  try {
    const log = await openLog({ store, run, holder, lease, clock, say, stopped: () => early !== undefined });
    if (typeof log === "number") {
      say(`the run ${run} has ended with status ${log}`);
      return { result: { ...result, status: log } };
    }
    const epoch = log.nextEpoch;
    const members = Array.from({ length: workers }, (_unused, worker) => worker);
    if (await log.append({ type: "epoch", epoch, members })) return { log, epoch };
    throw new HeddleError("store", `this launcher lost the run ${run} at once: ${await log.lost}`);
  } catch (error) {
    if (early === undefined) throw error;
    return { result: { ...result, status: statusOf(early), stoppedBy: early } };
  }
}

/** Gives the run up. If it has ended by itself or by Ctrl-C, no launcher that stands by goes on with it. */
export async function closeMembership(log: RunLog, result: LaunchResult | undefined): Promise<void> {
  const ends = result !== undefined && (result.stoppedBy === undefined || result.stoppedBy === "SIGINT");
  await log.close(ends && log.leads ? result.status : undefined);
}
