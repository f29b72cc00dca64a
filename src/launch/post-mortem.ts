/** @module What happened in a run, in three sentences, from the records of all its ranks and the events of its launcher. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { eventsFile, parseEvents, type RunEvent } from "./events.ts";
import { Lateness, type Ring, readRings, type Unfinished, unfinished } from "./rings.ts";

/** What is known of a run. */
export interface PostMortem {
  /** How it ended, where its ranks were, and what came before. */
  readonly sentences: readonly string[];
  readonly events: readonly RunEvent[];
  /** The collectives that were not finished. */
  readonly unfinished: readonly Unfinished[];
}

/** Reads the folder of a run. @throws HeddleError `file` if it is none */
export function postMortem(folder: string): PostMortem {
  const events = readEvents(folder);
  const rings = readRings(folder);
  if (events.length === 0 && rings.length === 0)
    throw new HeddleError(
      "file",
      `${folder} is not the folder of a run: it has neither ${eventsFile} nor records of ranks`,
      {
        hint: "heddle run keeps the folders of the last runs in .heddle/runs of the project",
      },
    );
  const open = unfinished(rings, true);
  const sentences = [ending(events, rings), whereabouts(open, rings), before(events, rings, open)];
  return { sentences, events, unfinished: open };
}

function readEvents(folder: string): RunEvent[] {
  try {
    return parseEvents(readFileSync(join(folder, eventsFile), "utf8"));
  } catch {
    return [];
  }
}

const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;
const time = (at: number): string => new Date(at).toISOString().slice(11, 23);
const ranksNamed = (ranks: readonly number[]): string =>
  ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks.join(", ")}`;
const capital = (text: string): string => `${text[0]?.toUpperCase()}${text.slice(1)}`;

/** Who ended the run, and when. */
function ending(events: readonly RunEvent[], rings: readonly Ring[]): string {
  const [start, end] = [events.find(({ event }) => event === "start"), events.find(({ event }) => event === "end")];
  const after =
    start === undefined ? "" : `, ${seconds((end ?? (events.at(-1) as RunEvent)).at - start.at)} after its start`;
  const failure = events.find(({ event }) => event === "failure");
  if (failure !== undefined) return `${capital(String(failure["text"]))}${after}.`;
  if (end === undefined) {
    const step = rings.reduce((most, ring) => Math.max(most, ring.step), 0);
    return `The launcher ended, or still runs, without a record of the end${after}${step === 0 ? "" : `; the last step was ${step}`}.`;
  }
  if (typeof end["stoppedBy"] === "string") return `The run was stopped by ${end["stoppedBy"]}${after}.`;
  return `The run ended well${after}.`;
}

/** In which collective the ranks were, and since when. */
function whereabouts([first]: readonly Unfinished[], rings: readonly Ring[]): string {
  if (rings.length === 0)
    return "There are no records of collectives: the ranks had not joined, or there was one rank alone.";
  if (first === undefined) return "No rank was in a collective.";
  const { description, step, since, waiting, missing } = first;
  const last = Math.max(
    since,
    ...rings.flatMap(({ entries }) => entries.map(({ started, finished }) => finished ?? started)),
  );
  const what = `${description}${step === 0 ? "" : ` of step ${step}`}`;
  const how = `since ${time(since)} UTC, ${seconds(last - since)} long`;
  const gone =
    rings[0] === undefined
      ? []
      : Array.from({ length: rings[0].size }, (_unused, rank) => rank).filter(
          (rank) => !rings.some((ring) => ring.rank === rank),
        );
  const absent = [...missing, ...gone].sort((left, right) => left - right);
  if (absent.length === 0) return `All ranks were in ${what}, ${how}.`;
  return `${capital(ranksNamed(waiting))} waited for ${ranksNamed(absent)} in ${what}, ${how}.`;
}

/** What the missing rank did last, who was slow, and what was told. */
function before(events: readonly RunEvent[], rings: readonly Ring[], [first]: readonly Unfinished[]): string {
  const parts: string[] = [];
  const suspect = rings.find(({ rank }) => rank === first?.missing[0]);
  const last = suspect?.entries.findLast(({ finished, failed }) => finished !== undefined && !failed);
  if (suspect !== undefined && last?.finished !== undefined && first !== undefined)
    parts.push(
      `the last that rank ${suspect.rank} finished was ${last.description}${last.step === 0 ? "" : ` of step ${last.step}`}, at ${time(last.finished)} UTC`,
    );
  const lateness = new Lateness();
  lateness.add(rings);
  const { slowest } = lateness;
  if (slowest !== undefined && slowest.share >= 0.25)
    parts.push(
      `over the last collectives the other ranks waited for rank ${slowest.rank} for ${Math.round(100 * slowest.share)} % of the time`,
    );
  const told = events.filter(({ event }) => event === "waiting" || event === "slow");
  if (told.length > 0)
    parts.push(
      `${told.length} line${told.length === 1 ? "" : "s"} told of waiting, the last: ${told.at(-1)?.["text"]}`,
    );
  const changes = events.filter(({ event }) => event === "membership");
  if (changes.length > 0)
    parts.push(
      `${changes.length} line${changes.length === 1 ? "" : "s"} told of lost and new workers, the last: ${changes.at(-1)?.["line"]}`,
    );
  return parts.length === 0 ? "Nothing was noted before." : `${capital(parts.join("; "))}.`;
}
