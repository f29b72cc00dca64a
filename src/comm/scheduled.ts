/** @module Collectives by a schedule: each of its rounds is one exchange, and a device combines what it receives. */
import { type Link, machineFor } from "../cost/index.ts";
import { concat, zeros } from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import { range } from "../ir/shape.ts";
import * as ops from "../ops/emit.ts";
import {
  checkSchedule,
  chooseSchedule,
  type Message,
  type Schedule,
  type Scheduled,
  scheduleNamed,
  uniform,
} from "../schedules/index.ts";
import { chunkLengths, hasAtStart, needsAtEnd, roundsOf } from "../schedules/schedule.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { emit, evenSizes, type Place, part, startsOf } from "./call.ts";

/** `count` elements from `start` on, to or from a coordinate of the axis. */
export type Piece = readonly [peer: number, start: number, count: number];

/** Slices of a dim, from and to coordinates of the axis. */
interface Slices {
  readonly dim?: number;
  /** Size of the dim in the result. */
  readonly size: number;
  readonly sends: readonly Piece[];
  readonly receives: readonly Piece[];
  readonly reduction?: string;
}

/** Each device sends slices to others, and combines what it receives; elements that receive nothing are 0. */
export function exchange(x: Tensor, place: Place, { dim = 0, size, reduction = "sum", ...pieces }: Slices): Tensor {
  const shape = x.shape.map((old, at) => (at === dim ? size : old));
  return emit("exchange", x, place, { take: dim, put: dim, shape, ...pieces, reduction, relative: false });
}

/** Options of collectives that can go by a schedule. */
export interface ScheduleOptions {
  /**
   * The messages: the name of a schedule, `"auto"` for the fastest one by the links of the machine that plans assume, or a schedule.
   * Default: that of the transport.
   */
  readonly schedule?: string | Schedule;
}

/** The schedule of an option, for a whole of `length` elements. @throws HeddleError `option` or `schedule` */
function scheduleOf(option: unknown, place: Place, collective: Scheduled, root: number, bytes: number): Schedule {
  const task = { collective, ranks: place.parts, root };
  if (option === "auto") return chooseSchedule(task, bytes, uniform(place.parts, linkOf(place)));
  if (typeof option === "string") return scheduleNamed(option, task);
  if (typeof option !== "object" || option === null)
    throw new HeddleError("option", `${place.what}: schedule is a name, "auto" or a schedule, got ${shown(option)}`);
  const schedule = option as Schedule;
  if (schedule.collective !== collective || schedule.ranks !== place.parts || schedule.root !== root)
    throw new HeddleError(
      "schedule",
      `${place.what}: the schedule is for ${schedule.collective} of ${schedule.ranks} ranks with root ${schedule.root}, not of ${place.parts} with root ${root}`,
    );
  checkSchedule(schedule);
  return schedule;
}

function linkOf({ scope, axis }: Place): Link {
  const machine = machineFor(
    scope.mesh.axes.reduce((count, { size }) => count * size, 1),
    scope.machine,
  );
  return machine.links?.[axis.name] ?? machine;
}

/** What a collective by a schedule works on: vectors, whose parts are equal. */
interface Work {
  readonly collective: Scheduled;
  readonly root?: number;
  readonly fold?: (left: Tensor, right: Tensor) => Tensor;
}

/**
 * Carries out a schedule on a vector: the whole of `allReduce`, `reduce`, `broadcast`, `reduceScatter`, `scatter` and `allToAll`, the
 * device's part of `allGather` and `gather`. Gives a vector; zeros where a device needs nothing.
 */
export function bySchedule(x: Tensor, place: Place, option: unknown, { collective, root = 0, fold }: Work): Tensor {
  const { parts } = place;
  const me = place.scope.coordinate(place.axis);
  const isPart = collective === "allGather" || collective === "gather";
  const length = isPart || collective === "allToAll" ? x.size * parts : x.size;
  const bytes = (collective === "allToAll" ? x.size : length) * dtypes[x.dtype].bytes;
  const schedule = scheduleOf(option, place, collective, root, bytes);
  const lengths = chunkLengths(length, schedule.chunks);
  const state = startOf(x, schedule, lengths, me, isPart);
  const received = roundsOf(schedule).map((round) => send(round, state, x, place, { me, lengths, fold }));
  return tied(endOf(x, schedule, lengths, me, state), received, place.what);
}

/**
 * The result, which needs every exchange, so that all devices run all of them: the way there, and, since nothing of each is joined to
 * the result, the way back.
 */
function tied(result: Tensor, received: readonly Tensor[], what: string): Tensor {
  if (received.length === 0) return result;
  const joined = concat([result, ...received.map((got) => part(got, 0, 0, 0))]);
  return operate(what, (value, ...others) => ops.barrier(value, others), [joined, ...received]);
}

/** The chunks that the device has. */
function startOf(
  x: Tensor,
  schedule: Schedule,
  lengths: readonly number[],
  me: number,
  isPart: boolean,
): Map<number, Tensor> {
  const own = range(schedule.chunks).filter((chunk) => hasAtStart(schedule, me, chunk));
  const starts = startsOf(lengths);
  const first = isPart || schedule.collective === "allToAll" ? (starts[own[0] as number] as number) : 0;
  return new Map(own.map((chunk) => [chunk, part(x, 0, (starts[chunk] as number) - first, lengths[chunk] as number)]));
}

interface Local {
  readonly me: number;
  readonly lengths: readonly number[];
  readonly fold: Work["fold"];
}

/** One round: what the device sends goes as one message to each peer, and likewise what comes. Gives what came. */
function send(
  round: readonly Message[],
  state: Map<number, Tensor>,
  x: Tensor,
  place: Place,
  { me, lengths, fold }: Local,
): Tensor {
  const going = ordered(
    round.filter(({ from }) => from === me),
    ({ to }) => to,
  );
  const coming = ordered(
    round.filter(({ to }) => to === me),
    ({ from }) => from,
  );
  const sent = going.map(({ chunk }) => state.get(chunk) as Tensor);
  const got = exchange(sent.length === 0 ? part(x, 0, 0, 0) : concat(sent), place, {
    size: coming.reduce((sum, { chunk }) => sum + (lengths[chunk] as number), 0),
    sends: pieces(going, ({ to }) => to, lengths),
    receives: pieces(coming, ({ from }) => from, lengths),
  });
  let at = 0;
  for (const { chunk, combine } of coming) {
    const arrived = part(got, 0, at, lengths[chunk] as number);
    const present = state.get(chunk);
    state.set(chunk, combine && present !== undefined && fold !== undefined ? fold(present, arrived) : arrived);
    at += lengths[chunk] as number;
  }
  return got;
}

const ordered = (messages: readonly Message[], peerOf: (message: Message) => number): Message[] =>
  messages.toSorted((left, right) => peerOf(left) - peerOf(right) || left.chunk - right.chunk);

/** The chunks for, or from, one peer are one piece. */
function pieces(messages: readonly Message[], peerOf: (message: Message) => number, lengths: readonly number[]) {
  const found = new Map<number, [peer: number, start: number, count: number]>();
  let at = 0;
  for (const message of messages) {
    const peer = peerOf(message);
    const piece = found.get(peer) ?? [peer, at, 0];
    piece[2] += lengths[message.chunk] as number;
    found.set(peer, piece);
    at += lengths[message.chunk] as number;
  }
  return [...found.values()];
}

/** What the device needs, joined; zeros of the length of the whole where it needs nothing. */
function endOf(
  x: Tensor,
  schedule: Schedule,
  lengths: readonly number[],
  me: number,
  state: ReadonlyMap<number, Tensor>,
): Tensor {
  const needed = range(schedule.chunks).filter((chunk) => needsAtEnd(schedule, me, chunk));
  if (needed.length > 0) return concat(needed.map((chunk) => state.get(chunk) as Tensor));
  return zeros([lengths.reduce((sum, length) => sum + length, 0)], { dtype: x.dtype });
}

/** The tensor as a vector, the dim first. */
export function flatOf(x: Tensor, dim: number): Tensor {
  const order = [dim, ...range(x.shape.length).filter((other) => other !== dim)];
  return x.transpose(order).reshape([x.size]);
}

/** The vector as a tensor like `x` whose dim has another size; the inverse of {@link flatOf}. */
export function dimBack(vector: Tensor, x: Tensor, dim: number, size: number): Tensor {
  const others = range(x.shape.length).filter((other) => other !== dim);
  const order = range(x.shape.length).map((at) => (at === dim ? 0 : others.indexOf(at) + 1));
  return vector.reshape([size, ...others.map((other) => x.shape[other] as number)]).transpose(order);
}

/** Equal sizes of the parts of a schedule. @throws HeddleError `option` for sizes that the user gives */
export function scheduledSizes(
  place: Place,
  x: Tensor | undefined,
  dim: number,
  given: unknown,
): readonly number[] | undefined {
  if (given !== undefined)
    throw new HeddleError("option", `${place.what}: the parts of a schedule are equal; leave out their sizes`);
  return x && evenSizes(place, x, dim);
}
