/** @module Checks of what users hand over. */
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type Link, type Message, type Schedule, scheduled, type Task, type Topology } from "./types.ts";

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** @throws HeddleError `argument` unless the value has the form of a schedule */
export function checkIsSchedule(what: string, value: unknown): asserts value is Schedule {
  const { messages, name } = (value ?? {}) as Partial<Schedule>;
  if (typeof name === "string" && Array.isArray(messages) && messages.every((one: Message) => isRecord(one))) {
    for (const field of ["ranks", "chunks"] as const) checkInteger(what, field, (value as Schedule)[field], 1, 2 ** 24);
    return;
  }
  throw new HeddleError("argument", `${what}: takes a schedule, as scheduleNamed makes it, got ${shown(value)}`);
}

/** Number of ranks up to which there are schedules; chunks of an all-to-all are as many as its pairs. */
export const mostRanks = { most: 256, allToAll: 64 };

/** @throws HeddleError `argument` unless the value is a task, `option` for more ranks than the limit */
export function checkTask(what: string, value: unknown, limit = mostRanks): asserts value is Task {
  const { collective, ranks, root } = (value ?? {}) as Partial<Task>;
  if (!isRecord(value) || !scheduled.includes(collective as Task["collective"]))
    throw new HeddleError("argument", `${what}: takes { collective, ranks, root }, got ${shown(value)}`, {
      hint: `collectives are ${scheduled.join(", ")}`,
    });
  checkInteger(what, "ranks", ranks as number, 1, collective === "allToAll" ? limit.allToAll : limit.most);
  checkInteger(what, "root", root as number, 0, (ranks as number) - 1);
}

/** @throws HeddleError `argument` unless the value is a topology of so many ranks */
export function checkTopology(what: string, value: unknown, ranks: number): asserts value is Topology {
  const { hosts, link } = (value ?? {}) as Partial<Topology>;
  if (Array.isArray(hosts) && hosts.every((host) => Array.isArray(host)) && typeof link === "function") {
    const all = (hosts as Topology["hosts"]).flat().sort((left, right) => left - right);
    if (all.length === ranks && all.every((rank, index) => rank === index)) return;
    throw new HeddleError("argument", `${what}: the topology has the ranks ${shown(all)}, not those below ${ranks}`);
  }
  throw new HeddleError("argument", `${what}: takes a topology, as hostsOf and uniform make it, got ${shown(value)}`);
}

/** @throws HeddleError `option` unless the value is a number of bytes */
export const checkBytes = (what: string, bytes: unknown): void => checkNumber(what, "bytes", bytes as number, 0);

/** @throws HeddleError `argument` or `option` unless the value is a link */
export function checkLink(what: string, value: unknown): asserts value is Link {
  if (!isRecord(value))
    throw new HeddleError("argument", `${what}: a link is { latency, bandwidth }, got ${shown(value)}`);
  checkNumber(what, "latency", value["latency"] as number, 0);
  checkNumber(what, "bandwidth", value["bandwidth"] as number, Number.MIN_VALUE);
}
