/**
 * @module Schedules made for a topology, as TACCL does (Shah et al., 2023), by a greedy search in place of its solver: the message that
 * arrives first is sent first, over any link, and what has crossed a slow link is passed on within the host.
 */
import { range } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkBytes, checkTask, checkTopology } from "./given.ts";
import { chunkLengths, hasAtStart, type Message, needsAtEnd, type Schedule, type Task } from "./schedule.ts";
import { simulate } from "./simulate.ts";
import type { Topology } from "./topology.ts";

/** The time of the search grows with the fourth power of the number of ranks: seconds at this one. */
const mostRanks = { most: 24, allToAll: 12 };

/** Chunks of each rank's part that are tried. */
const cuts = [1, 2, 4];

/**
 * The fastest schedule that the search finds for `bytes` (the whole tensor). Collectives that combine are the reverse of those that
 * spread: an all-reduce is a reduce-scatter and an all-gather.
 *
 * @throws HeddleError `schedule` where some rank cannot be reached; `option` for more than 24 ranks, or 12 of an all-to-all
 */
export function synthesize(task: Task, bytes: number, topology: Topology): Schedule {
  checkTask("synthesize", task, mostRanks);
  checkBytes("synthesize", bytes);
  checkTopology("synthesize", topology, task.ranks);
  const found = cuts.flatMap((cut) => made(task, bytes, topology, cut));
  const timed = found.map((schedule) => ({ schedule, ...simulate(schedule, bytes, topology) }));
  const [best] = timed.sort((left, right) => left.seconds - right.seconds);
  if (best !== undefined && Number.isFinite(best.seconds)) return best.schedule;
  throw new HeddleError(
    "schedule",
    `no links lead from every rank to every other, for ${task.collective} of ${task.ranks} ranks`,
  );
}

function made(task: Task, bytes: number, topology: Topology, cut: number): Schedule[] {
  const chunks = task.collective === "allToAll" ? task.ranks ** 2 : task.ranks * cut;
  const frame = { name: "synthesized", ...task, chunks };
  const backwards: Topology = {
    ...topology,
    link: (from, to) => topology.link(to, from),
    shared: (from, to) => topology.shared?.(to, from),
  };
  const reversed = (collective: Task["collective"]): Message[] | undefined => {
    const messages = spread({ ...frame, collective }, bytes, backwards);
    const last = Math.max(0, ...(messages ?? []).map(({ round }) => round));
    return messages?.map(({ round, from, to, chunk }) => ({
      round: last - round,
      from: to,
      to: from,
      chunk,
      combine: true,
    }));
  };
  const messages = ((): Message[] | undefined => {
    if (task.collective === "reduceScatter") return reversed("allGather");
    if (task.collective === "reduce") return reversed("broadcast");
    if (task.collective !== "allReduce") return spread(frame, bytes, topology);
    const [first, second] = [reversed("allGather"), spread({ ...frame, collective: "allGather" }, bytes, topology)];
    const rounds = Math.max(0, ...(first ?? []).map(({ round }) => round + 1));
    return first && second && [...first, ...second.map((message) => ({ ...message, round: message.round + rounds }))];
  })();
  return messages === undefined ? [] : [{ ...frame, messages }];
}

/** A chunk that could be sent next. */
interface Candidate {
  readonly from: number;
  readonly to: number;
  readonly chunk: number;
  readonly start: number;
  /** When the sender has sent it, and when the receiver has it. */
  readonly leaves: number;
  readonly arrives: number;
}

/** Messages that bring every chunk from where it is to where it is needed; undefined where no links lead there. */
function spread(frame: Omit<Schedule, "messages">, bytes: number, topology: Topology): Message[] | undefined {
  const { ranks, chunks } = frame;
  const lengths = chunkLengths(bytes, chunks);
  const all = range(ranks);
  const state = new State(all.map((rank) => range(chunks).map((chunk) => hasAtStart(frame, rank, chunk))));
  const missing = new Set(
    all.flatMap((to) =>
      range(chunks)
        .filter((chunk) => needsAtEnd(frame, to, chunk) && !hasAtStart(frame, to, chunk))
        .map((chunk) => to * chunks + chunk),
    ),
  );
  // A chunk for one rank alone may need others on its way.
  const relays =
    frame.collective === "allGather" || frame.collective === "broadcast" ? missing : everywhere(ranks, chunks);
  const messages: Message[] = [];
  while (missing.size > 0) {
    let best: Candidate | undefined;
    for (const place of relays) {
      const [to, chunk] = [Math.floor(place / chunks), place % chunks];
      if (state.has(to, chunk)) continue;
      for (const from of all) {
        const candidate = state.candidate(from, to, chunk, lengths[chunk] as number, topology);
        if (candidate !== undefined && (best === undefined || candidate.arrives < best.arrives)) best = candidate;
      }
    }
    if (best === undefined) return undefined;
    messages.push(state.send(best, topology));
    missing.delete(best.to * chunks + best.chunk);
  }
  return needed(frame, messages);
}

const everywhere = (ranks: number, chunks: number): Set<number> => new Set(range(ranks * chunks));

/** The messages without those that bring what nobody needs. */
function needed(frame: Omit<Schedule, "messages">, messages: readonly Message[]): Message[] {
  const wanted = new Set<string>();
  return messages
    .toReversed()
    .filter(({ from, to, chunk }) => {
      if (!needsAtEnd(frame, to, chunk) && !wanted.has(`${to} ${chunk}`)) return false;
      wanted.add(`${from} ${chunk}`);
      return true;
    })
    .toReversed();
}

/** Who has what since when, and how long ranks and shared links are busy. */
class State {
  /** For each rank and chunk: since when, and since which round; undefined: not there. */
  private readonly held: ({ readonly time: number; readonly round: number } | undefined)[][];
  private readonly sending: number[];
  private readonly receiving: number[];
  /** The last round in which a rank takes part: it goes on in order. */
  private readonly rounds: number[];
  private readonly shared = new Map<string, number>();

  constructor(start: readonly (readonly boolean[])[]) {
    this.held = start.map((row) => row.map((isHere) => (isHere ? { time: 0, round: -1 } : undefined)));
    [this.sending, this.receiving, this.rounds] = [start.map(() => 0), start.map(() => 0), start.map(() => 0)];
  }

  has(rank: number, chunk: number): boolean {
    return this.held[rank]?.[chunk] !== undefined;
  }

  candidate(from: number, to: number, chunk: number, bytes: number, topology: Topology): Candidate | undefined {
    const [here, link] = [this.held[from]?.[chunk], from === to ? undefined : topology.link(from, to)];
    if (here === undefined || link === undefined) return undefined;
    const name = topology.shared?.(from, to);
    const free = name === undefined ? 0 : (this.shared.get(name) ?? 0);
    const start = Math.max(here.time, this.sending[from] as number, this.receiving[to] as number, free);
    const leaves = start + bytes / link.bandwidth;
    return { from, to, chunk, start, leaves, arrives: leaves + link.latency };
  }

  send({ from, to, chunk, leaves, arrives }: Candidate, topology: Topology): Message {
    const before = this.held[from]?.[chunk] as { readonly round: number };
    const round = Math.max(before.round + 1, this.rounds[from] as number, this.rounds[to] as number);
    [this.rounds[from], this.rounds[to]] = [round, round];
    [this.sending[from], this.receiving[to]] = [leaves, leaves];
    (this.held[to] as (typeof this.held)[number])[chunk] = { time: arrives, round };
    const name = topology.shared?.(from, to);
    if (name !== undefined) this.shared.set(name, leaves);
    return { round, from, to, chunk, combine: false };
  }
}
