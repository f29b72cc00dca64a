/**
 * @module Schedules of collectives as data: a table of messages over chunks, in rounds. One description is checked, printed, simulated and
 * run.
 */
import { range } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkIsSchedule } from "./given.ts";
import { type Message, type Schedule, type Scheduled, scheduled } from "./types.ts";

export { type Message, type Schedule, type Scheduled, scheduled, type Task } from "./types.ts";

/** Whether ranks combine what they have; else chunks only move. */
export const combines = (collective: Scheduled): boolean =>
  collective === "allReduce" || collective === "reduceScatter" || collective === "reduce";

/** The rank whose part a chunk is. */
export const ownerOf = (chunk: number, { ranks, chunks }: Pick<Schedule, "ranks" | "chunks">): number =>
  Math.floor((chunk * ranks) / chunks);

/** Whether a rank has a chunk before the first round. */
export function hasAtStart(
  { collective, ranks, chunks, root }: Omit<Schedule, "messages">,
  rank: number,
  chunk: number,
): boolean {
  if (combines(collective)) return true;
  if (collective === "broadcast" || collective === "scatter") return rank === root;
  return (collective === "allToAll" ? Math.floor(chunk / ranks) : ownerOf(chunk, { ranks, chunks })) === rank;
}

/** Whether a rank needs a chunk after the last round. */
export function needsAtEnd(
  { collective, ranks, chunks, root }: Omit<Schedule, "messages">,
  rank: number,
  chunk: number,
): boolean {
  if (collective === "allReduce" || collective === "allGather" || collective === "broadcast") return true;
  if (collective === "reduce" || collective === "gather") return rank === root;
  return (collective === "allToAll" ? chunk % ranks : ownerOf(chunk, { ranks, chunks })) === rank;
}

/** The messages of each round, in order; rounds without messages are left out. */
export function roundsOf({ messages }: Pick<Schedule, "messages">): Message[][] {
  const rounds = new Map<number, Message[]>();
  for (const message of messages) {
    const known = rounds.get(message.round);
    if (known === undefined) rounds.set(message.round, [message]);
    else known.push(message);
  }
  return [...rounds].sort(([left], [right]) => left - right).map(([, list]) => list);
}

/**
 * Follows every chunk through the messages, and checks that each rank ends with what it needs: all contributions, each of them once.
 *
 * @throws HeddleError `schedule` naming the first message that is wrong, or what is missing in the end
 */
export function checkSchedule(schedule: Schedule): void {
  checkIsSchedule("checkSchedule", schedule);
  const { name, ranks, chunks, messages, collective, root } = schedule;
  const fail = (what: string): never => {
    throw new HeddleError("schedule", `schedule '${name}' of ${ranks} ranks: ${what}`);
  };
  const whole = (value: unknown, below: number): boolean =>
    Number.isInteger(value) && (value as number) >= 0 && (value as number) < below;
  if (!scheduled.includes(collective)) fail(`there is no collective '${String(collective)}'`);
  if (!whole(ranks - 1, 2 ** 20) || !whole(chunks - 1, 2 ** 24) || !whole(root, ranks))
    fail("ranks, chunks and root do not fit");
  const isParted = collective !== "allReduce" && collective !== "broadcast" && collective !== "reduce";
  if (isParted && chunks % ranks !== 0) fail(`${chunks} chunks are not equally many for each rank`);
  if (collective === "allToAll" && chunks !== ranks * ranks) fail(`an all-to-all has ${ranks * ranks} chunks`);
  // What each rank has of each chunk: a bit for each rank whose contribution is in it.
  const bits = range(ranks).map((rank) => 1n << BigInt(rank));
  const held = bits.map((bit, rank) =>
    range(chunks).map((chunk) => (hasAtStart(schedule, rank, chunk) ? bit : undefined)),
  );
  for (const round of roundsOf({ messages })) {
    if (!Number.isInteger(round[0]?.round)) fail(`there is no round ${round[0]?.round}`);
    const sent = round.map(({ from, to, chunk }) => {
      if (!whole(from, ranks) || !whole(to, ranks) || from === to || !whole(chunk, chunks))
        fail(`there is no message of chunk ${chunk} from ${from} to ${to}`);
      return held[from]?.[chunk] ?? fail(`${say(round, from)} does not have chunk ${chunk}, and sends it to ${to}`);
    });
    const arrived = new Map<string, boolean>();
    round.forEach(({ from, to, chunk, combine }, index) => {
      const place = `${to} ${chunk}`;
      if (arrived.has(place) && !(combine && arrived.get(place)))
        fail(`${say(round, to)} gets chunk ${chunk} twice, and the result would depend on the order`);
      arrived.set(place, combine);
      const [coming, present] = [sent[index] as bigint, held[to]?.[chunk]];
      if (combine && present !== undefined && (present & coming) !== 0n)
        fail(
          `${say(round, to)} would have the contribution of ${bits.findIndex((bit) => (bit & present & coming) !== 0n)} to chunk ${chunk} twice`,
        );
      if (combine && (present === undefined || !combines(collective)))
        fail(`${say(round, to)} has nothing to combine with chunk ${chunk} from ${from}`);
      (held[to] as (bigint | undefined)[])[chunk] = combine ? (present as bigint) | coming : coming;
    });
  }
  const due = combines(collective) ? ranks : 1;
  const countOf = (have = 0n): number => bits.filter((bit) => (bit & have) !== 0n).length;
  const all = (1n << BigInt(ranks)) - 1n;
  for (const rank of range(ranks)) {
    for (const chunk of range(chunks)) {
      const have = held[rank]?.[chunk];
      if (!needsAtEnd(schedule, rank, chunk) || (combines(collective) ? have === all : have !== undefined)) continue;
      fail(`in the end rank ${rank} has ${countOf(have)} of ${due} contributions to chunk ${chunk}`);
    }
  }
}

const say = ([first]: readonly Message[], rank: number): string => `in round ${first?.round} rank ${rank}`;

/** The length of each chunk of a tensor of `length` elements. */
export const chunkLengths = (length: number, chunks: number): number[] =>
  range(chunks).map((chunk) => Math.floor((length * (chunk + 1)) / chunks) - Math.floor((length * chunk) / chunks));

/** A schedule as text: a line for each round, with its messages as `from→to chunks`; `+` combines. */
export function printSchedule(schedule: Schedule): string {
  checkIsSchedule("printSchedule", schedule);
  const { name, collective, ranks, chunks, root } = schedule;
  const rooted = ["broadcast", "reduce", "gather", "scatter"].includes(collective) ? `, root ${root}` : "";
  const lines = roundsOf(schedule).map((round, index) => {
    const links = new Map<string, number[]>();
    for (const { from, to, chunk, combine } of round) {
      const key = `${from}→${to} ${combine ? "+" : ""}`;
      links.set(key, [...(links.get(key) ?? []), chunk]);
    }
    return `round ${index}: ${[...links].map(([link, list]) => `${link}${runs(list)}`).join(", ")}`;
  });
  return [`${name}: ${collective} of ${ranks} ranks, ${chunks} chunks${rooted}`, ...lines].join("\n");
}

/** `0-3 5`. */
function runs(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((left, right) => left - right);
  const parts: [first: number, last: number][] = [];
  for (const number of sorted) {
    const last = parts.at(-1);
    if (last !== undefined && last[1] + 1 === number) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(" ");
}
