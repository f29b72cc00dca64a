/** @module The schedules that Heddle brings: each makes the messages of a collective, or undefined where it does not fit. */
import { range } from "../ir/shape.ts";
import type { Message, Schedule, Task } from "./schedule.ts";
import type { Topology } from "./topology.ts";

/** A way to carry out collectives. */
export interface ScheduleMaker {
  readonly name: string;
  /** What it does, in a sentence. */
  readonly doc: string;
  /** Number of chunks and the messages; undefined where it does not fit. */
  readonly make: (task: Task, topology: Topology) => Pick<Schedule, "chunks" | "messages"> | undefined;
}

const modulo = (value: number, by: number): number => ((value % by) + by) % by;
const after = (rounds: number, messages: readonly Message[]): Message[] =>
  messages.map((message) => ({ ...message, round: message.round + rounds }));
const lastRound = (messages: readonly Message[]): number =>
  messages.reduce((last, { round }) => Math.max(last, round + 1), 0);
const inTurn = (...parts: readonly (readonly Message[])[]): Message[] =>
  parts.reduce<Message[]>((all, part) => all.concat(after(lastRound(all), part)), []);
const isPowerOfTwo = (value: number): boolean => value > 0 && (value & (value - 1)) === 0;
const message = (round: number, from: number, to: number, chunk: number, combine: boolean): Message => ({
  round,
  from,
  to,
  chunk,
  combine,
});

/** Reduce-scatter around a ring of ranks, over chunks: chunk `chunks[i]` ends at member `i`. */
const ringReduce = (members: readonly number[], chunks: readonly number[]): Message[] =>
  range(members.length - 1).flatMap((round) =>
    members.map((from, at) => {
      const to = members[(at + 1) % members.length] as number;
      return message(round, from, to, chunks[modulo(at - round - 1, members.length)] as number, true);
    }),
  );

/** All-gather around a ring: chunk `chunks[i]` starts at member `i`. */
const ringGather = (members: readonly number[], chunks: readonly number[]): Message[] =>
  range(members.length - 1).flatMap((round) =>
    members.map((from, at) => {
      const to = members[(at + 1) % members.length] as number;
      return message(round, from, to, chunks[modulo(at - round, members.length)] as number, false);
    }),
  );

const ring: ScheduleMaker = {
  name: "ring",
  doc: "Each rank sends to the next one; the fewest bytes, and twice as many rounds as ranks.",
  make: ({ collective, ranks }) => {
    const all = range(ranks);
    const parts = {
      allReduce: inTurn(ringReduce(all, all), ringGather(all, all)),
      reduceScatter: ringReduce(all, all),
    };
    const messages = { ...parts, allGather: ringGather(all, all) }[collective as "allReduce"];
    return messages && { chunks: ranks, messages };
  },
};

/** Of pairs at distances 4, 2, 1: halves of what a rank still has go to the partner, which combines them. */
const halving = (ranks: number): Message[] =>
  range(Math.log2(ranks)).flatMap((round) => {
    const distance = ranks / 2 ** (round + 1);
    const isIn = (rank: number, chunk: number): boolean => Math.floor(chunk / distance) === Math.floor(rank / distance);
    return range(ranks).flatMap((rank) =>
      range(ranks)
        .filter((chunk) => isIn(rank ^ distance, chunk))
        .map((chunk) => message(round, rank, rank ^ distance, chunk, true)),
    );
  });

/** Of pairs at distances 1, 2, 4: all that a rank has goes to the partner. */
const doubling = (ranks: number): Message[] =>
  range(Math.log2(ranks)).flatMap((round) => {
    const distance = 2 ** round;
    return range(ranks).flatMap((rank) =>
      range(ranks)
        .filter((chunk) => Math.floor(chunk / distance) === Math.floor(rank / distance))
        .map((chunk) => message(round, rank, rank ^ distance, chunk, false)),
    );
  });

/** An all-reduce of a power of two of ranks, with further ranks that give their values to one of those, and get the result. */
function withRest(ranks: number, chunks: number, core: number, messages: readonly Message[]): Message[] {
  const rest = range(ranks - core).flatMap((index) =>
    range(chunks).map((chunk) => [core + index, index, chunk] as const),
  );
  return inTurn(
    rest.map(([from, to, chunk]) => message(0, from, to, chunk, true)),
    messages,
    rest.map(([to, from, chunk]) => message(0, from, to, chunk, false)),
  );
}

const coreOf = (ranks: number): number => 2 ** Math.floor(Math.log2(ranks));

const halvingDoubling: ScheduleMaker = {
  name: "halvingDoubling",
  doc: "Pairs at halved and doubled distances; few bytes in few rounds, best for powers of two (Rabenseifner).",
  make: ({ collective, ranks }) => {
    const core = coreOf(ranks);
    if (collective === "allReduce")
      return { chunks: core, messages: withRest(ranks, core, core, inTurn(halving(core), doubling(core))) };
    if (!isPowerOfTwo(ranks)) return undefined;
    if (collective === "reduceScatter") return { chunks: ranks, messages: halving(ranks) };
    return collective === "allGather" ? { chunks: ranks, messages: doubling(ranks) } : undefined;
  },
};

const recursiveDoubling: ScheduleMaker = {
  name: "recursiveDoubling",
  doc: "Pairs at doubled distances exchange all they have; the fewest rounds, for small values.",
  make: ({ collective, ranks }) => {
    if (collective !== "allReduce") return undefined;
    const core = coreOf(ranks);
    const messages = range(Math.log2(core)).flatMap((round) =>
      range(core).map((rank) => message(round, rank, rank ^ (2 ** round), 0, true)),
    );
    return { chunks: 1, messages: withRest(ranks, 1, core, messages) };
  },
};

/** The edges of a binomial tree, parents before children: in round k, each of the first 2^k ranks from the root has a child. */
const binomialEdges = (ranks: number, root: number): { round: number; parent: number; child: number }[] =>
  range(Math.ceil(Math.log2(ranks))).flatMap((round) =>
    range(2 ** round)
      .filter((rank) => rank + 2 ** round < ranks)
      .map((rank) => ({ round, parent: (rank + root) % ranks, child: (rank + 2 ** round + root) % ranks })),
  );

const down = (ranks: number, root: number, chunk: number): Message[] =>
  binomialEdges(ranks, root).map(({ round, parent, child }) => message(round, parent, child, chunk, false));
const up = (ranks: number, root: number, chunk: number): Message[] => {
  const last = Math.ceil(Math.log2(ranks)) - 1;
  return binomialEdges(ranks, root).map(({ round, parent, child }) =>
    message(last - round, child, parent, chunk, true),
  );
};

/** The parts of a subtree travel together: those of the ranks from `child` to its last descendant. */
function treeParts({ ranks, root }: Task, isUp: boolean): Message[] {
  const rounds = Math.ceil(Math.log2(ranks));
  return range(rounds).flatMap((level) => {
    const span = 2 ** (rounds - 1 - level);
    return range(ranks)
      .filter((rank) => rank % (2 * span) === 0 && rank + span < ranks)
      .flatMap((rank) =>
        range(Math.min(span, ranks - rank - span)).map((offset) => {
          const [parent, child] = [(rank + root) % ranks, (rank + span + root) % ranks];
          const chunk = (rank + span + offset + root) % ranks;
          return isUp
            ? message(rounds - 1 - level, child, parent, chunk, false)
            : message(level, parent, child, chunk, false);
        }),
      );
  });
}

const binomial: ScheduleMaker = {
  name: "binomial",
  doc: "A binomial tree, whose depth is the logarithm of the number of ranks.",
  make: (task) => {
    const { collective, ranks, root } = task;
    switch (collective) {
      case "broadcast":
        return { chunks: 1, messages: down(ranks, root, 0) };
      case "reduce":
        return { chunks: 1, messages: up(ranks, root, 0) };
      case "allReduce":
        return { chunks: 1, messages: inTurn(up(ranks, 0, 0), down(ranks, 0, 0)) };
      case "gather":
      case "scatter":
        return { chunks: ranks, messages: treeParts(task, collective === "gather") };
      default:
        return undefined;
    }
  },
};

/** Chunks of each tree of {@link doubleTree}. */
const depth = 4;

const doubleTree: ScheduleMaker = {
  name: "doubleTree",
  doc: "Two binomial trees, one the mirror of the other, for a half of the chunks each, which follow one another.",
  make: ({ collective, ranks }) => {
    if (collective !== "allReduce") return undefined;
    const mirrored = (list: readonly Message[]): Message[] =>
      list.map((one) => ({ ...one, from: ranks - 1 - one.from, to: ranks - 1 - one.to }));
    const messages = range(2 * depth).flatMap((chunk) => {
      const tree = inTurn(up(ranks, 0, chunk), down(ranks, 0, chunk));
      return after(Math.floor(chunk / 2), chunk % 2 === 0 ? tree : mirrored(tree));
    });
    return { chunks: 2 * depth, messages };
  },
};

const pairwise: ScheduleMaker = {
  name: "pairwise",
  doc: "In each round every rank exchanges with one other, at a distance that grows.",
  make: ({ collective, ranks }) => {
    const steps = range(ranks - 1).flatMap((round) =>
      range(ranks).map((from) => [round, from, (from + round + 1) % ranks] as const),
    );
    if (collective === "allToAll")
      return {
        chunks: ranks ** 2,
        messages: steps.map(([round, from, to]) => message(round, from, to, from * ranks + to, false)),
      };
    if (collective === "reduceScatter")
      return { chunks: ranks, messages: steps.map(([round, from, to]) => message(round, from, to, to, true)) };
    if (collective === "allGather")
      return { chunks: ranks, messages: steps.map(([round, from, to]) => message(round, from, to, from, false)) };
    return undefined;
  },
};

const direct: ScheduleMaker = {
  name: "direct",
  doc: "One round, in which every rank sends to all that need what it has.",
  make: ({ collective, ranks, root }) => {
    const others = range(ranks).filter((rank) => rank !== root);
    switch (collective) {
      case "allToAll":
      case "allGather":
      case "reduceScatter": {
        const { chunks, messages } = pairwise.make({ collective, ranks, root }, undefined as never) as Schedule;
        return { chunks, messages: messages.map((one) => ({ ...one, round: 0 })) };
      }
      case "broadcast":
        return { chunks: 1, messages: others.map((to) => message(0, root, to, 0, false)) };
      case "reduce":
        return { chunks: 1, messages: others.map((from) => message(0, from, root, 0, true)) };
      case "gather":
        return { chunks: ranks, messages: others.map((from) => message(0, from, root, from, false)) };
      case "scatter":
        return { chunks: ranks, messages: others.map((to) => message(0, root, to, to, false)) };
      default:
        return undefined;
    }
  },
};

const hierarchical: ScheduleMaker = {
  name: "hierarchical",
  doc: "Within each host, then across hosts between ranks of the same place, then within each host: slow links carry a share.",
  make: ({ collective, ranks }, { hosts }) => {
    const places = hosts[0]?.length ?? 0;
    if (collective !== "allReduce" || hosts.length < 2 || places < 2 || hosts.some((host) => host.length !== places))
      return undefined;
    if (hosts.length * places !== ranks) return undefined;
    // The place `p` of a host combines the chunks p * hosts … of its host.
    const share = (place: number): number[] => range(hosts.length).map((index) => place * hosts.length + index);
    const local = (by: typeof ringReduce): Message[] =>
      hosts.flatMap((host) =>
        range(hosts.length).flatMap((index) =>
          by(
            host,
            range(places).map((place) => share(place)[index] as number),
          ),
        ),
      );
    const across = (by: typeof ringReduce): Message[] =>
      range(places).flatMap((place) =>
        by(
          hosts.map((host) => host[place] as number),
          share(place),
        ),
      );
    return {
      chunks: places * hosts.length,
      messages: inTurn(local(ringReduce), across(ringReduce), across(ringGather), local(ringGather)),
    };
  },
};

/** The schedules that Heddle brings, in the order in which equally fast ones are preferred. */
export const makers: readonly ScheduleMaker[] = [
  direct,
  recursiveDoubling,
  ring,
  halvingDoubling,
  binomial,
  doubleTree,
  pairwise,
  hierarchical,
];
