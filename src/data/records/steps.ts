/** @module Steps that choose and order records: each is a function of a node. */
import { HeddleError } from "../../util/errors.ts";
import { order } from "../order.ts";
import { hashOf } from "./identity.ts";
import { type Epoch, type Node, type Reading, readPicked, someNode, upTo } from "./node.ts";
import { chosen, cut, joined, lastAtMost, type Piece } from "./piece.ts";

/** The first `count` records. */
export function taken(node: Node, count: number): Node {
  const length = node.length === undefined ? undefined : Math.min(count, node.length);
  return {
    chain: [...node.chain, `take ${count}`],
    length,
    read: (reading) => upTo(node.read(reading), count - reading.from),
    pick: node.pick,
  };
}

/** All but the first `count` records. */
export function skipped(node: Node, count: number): Node {
  const { pick } = node;
  return {
    chain: [...node.chain, `skip ${count}`],
    length: node.length === undefined ? undefined : Math.max(0, node.length - count),
    read: (reading) => node.read({ ...reading, from: reading.from + count }),
    pick:
      pick &&
      ((rows, epoch) =>
        pick(
          Float64Array.from(rows, (row) => row + count),
          epoch,
        )),
  };
}

/** Several times the records of an epoch; each time counts as an epoch of its own to the steps before. */
export function repeated(node: Node, times: number): Node {
  const { pick, length } = node;
  const turnOf = (epoch: Epoch, turn: number): Epoch => ({ ...epoch, epoch: epoch.epoch * times + turn });
  return {
    chain: [...node.chain, `repeat ${times}`],
    length: length === undefined ? undefined : length * times,
    async *read({ from, ...epoch }) {
      let left = from;
      for (let turn = length === undefined || length === 0 ? 0 : Math.floor(from / length); turn < times; turn++) {
        if (length !== undefined) {
          yield* node.read({ ...turnOf(epoch, turn), from: turn === Math.floor(from / length) ? from % length : 0 });
          continue;
        }
        // Without a known length, the records before `from` are read and left out.
        for await (const piece of node.read({ ...turnOf(epoch, turn), from: 0 })) {
          if (left < piece.length) yield cut(piece, left, piece.length);
          left = Math.max(0, left - piece.length);
        }
      }
    },
    pick:
      pick && length !== undefined
        ? (rows, epoch) =>
            byPart(
              rows,
              (row) => [Math.floor(row / length), row % length],
              (turn, own) => pick(own, turnOf(epoch, turn)),
            )
        : undefined,
  };
}

/** Picks rows that lie in several parts: each part is asked once, and the records come back in their order. */
async function byPart(
  rows: ArrayLike<number>,
  find: (row: number) => readonly [part: number, own: number],
  pick: (part: number, own: Float64Array) => Promise<Piece>,
): Promise<Piece> {
  const parts = new Map<number, { own: number[]; at: number[] }>();
  for (let at = 0; at < rows.length; at++) {
    const [part, own] = find(rows[at] as number);
    const entry = parts.get(part) ?? { own: [], at: [] };
    parts.set(part, entry);
    entry.own.push(own);
    entry.at.push(at);
  }
  const pieces = await Promise.all([...parts].map(([part, { own }]) => pick(part, Float64Array.from(own))));
  const positions = new Float64Array(rows.length);
  [...parts.values()]
    .flatMap(({ at }) => at)
    .forEach((at, index) => {
      positions[at] = index;
    });
  return chosen(joined("pick", pieces), positions);
}

/** The records of several nodes, one node after another. */
export function concatenated(nodes: readonly Node[]): Node {
  const lengths = nodes.map(({ length }) => length);
  const known = lengths.every((length) => length !== undefined) ? (lengths as number[]) : undefined;
  const starts = known?.map((_length, at) => known.slice(0, at).reduce((sum, length) => sum + length, 0));
  const picks = nodes.map(({ pick }) => pick);
  return {
    chain: [nodes.map(({ chain }) => [...chain]), "concat"],
    length: known?.reduce((sum, length) => sum + length, 0),
    async *read(reading) {
      let left = reading.from;
      for (const node of nodes) {
        if (node.length !== undefined) {
          if (left < node.length) yield* node.read({ ...reading, from: left });
          left = Math.max(0, left - node.length);
          continue;
        }
        for await (const piece of node.read({ ...reading, from: 0 })) {
          if (left < piece.length) yield cut(piece, left, piece.length);
          left = Math.max(0, left - piece.length);
        }
      }
    },
    pick:
      starts !== undefined && picks.every((pick) => pick !== undefined)
        ? (rows, epoch) =>
            byPart(
              rows,
              (row) => {
                const part = lastAtMost(starts, row);
                return [part, row - (starts[part] as number)];
              },
              (part, own) => (picks[part] as NonNullable<Node["pick"]>)(own, epoch),
            )
        : undefined,
    parts: async () => {
      const found: number[] = [];
      let first = 0;
      for (const node of nodes) {
        const own = node.parts === undefined ? [0] : Array.from(await node.parts());
        found.push(...own.map((start) => start + first));
        if (node.length === undefined) break;
        first += node.length;
      }
      return found;
    },
  };
}

/** The records of several nodes side by side, in one record each; the shortest ends. */
export function zipped(nodes: readonly Node[]): Node {
  const lengths = nodes.map(({ length }) => length);
  const picks = nodes.map(({ pick }) => pick);
  const beside = (pieces: readonly Piece[]): Piece => {
    const columns = new Map<string, Piece["columns"][string]>();
    for (const piece of pieces)
      for (const [name, values] of Object.entries(piece.columns)) {
        if (columns.has(name)) throw new HeddleError("data", `zip: two of the datasets have a column "${name}"`);
        columns.set(name, values);
      }
    const [first] = pieces as [Piece];
    return { length: first.length, columns: Object.fromEntries(columns), place: first.place };
  };
  return {
    chain: [nodes.map(({ chain }) => [...chain]), "zip"],
    length: lengths.every((length) => length !== undefined) ? Math.min(...(lengths as number[])) : undefined,
    async *read(reading) {
      const readers = nodes.map((node) => node.read(reading)[Symbol.asyncIterator]());
      const held: (Piece | undefined)[] = nodes.map(() => undefined);
      try {
        for (;;) {
          for (const [at, reader] of readers.entries()) {
            while (held[at] === undefined || held[at].length === 0) {
              const { value, done } = await reader.next();
              if (done === true) return;
              held[at] = value;
            }
          }
          const pieces = held as Piece[];
          const count = Math.min(...pieces.map(({ length }) => length));
          yield beside(pieces.map((piece) => cut(piece, 0, count)));
          for (const [at, piece] of pieces.entries()) held[at] = cut(piece, count, piece.length);
        }
      } finally {
        await Promise.all(readers.map((reader) => reader.return?.()));
      }
    },
    pick: picks.every((pick) => pick !== undefined)
      ? async (rows, epoch) =>
          beside(await Promise.all(picks.map((pick) => (pick as NonNullable<Node["pick"]>)(rows, epoch))))
      : undefined,
  };
}

/** Options of a shuffle of records. */
export interface Shuffle {
  readonly seed: number | undefined;
  readonly reshuffle: boolean;
  readonly window: number;
  /** Distinguishes several shuffles of a chain. */
  readonly ordinal: number;
}

/**
 * The records in another order in each epoch: all orders where the source can pick records; else parts in another order, and records
 * within windows of the order in which they are read.
 */
export function shuffled(node: Node, options: Shuffle): Node {
  const { pick, length } = node;
  const { window, ordinal } = options;
  const orderOf = ({ epoch, seed }: Epoch, count: number, turn: number) =>
    order(options.seed ?? seed, options.reshuffle ? epoch : 0, count, ordinal + turn);
  const chain = [
    ...node.chain,
    `shuffle ${options.seed ?? "run"} ${options.reshuffle} ${pick === undefined && node.some === undefined ? window : "all"}`,
  ];
  if (pick !== undefined && length !== undefined) {
    const picked: NonNullable<Node["pick"]> = (rows, epoch) => {
      const { at } = orderOf(epoch, length, 0);
      return pick(Float64Array.from(rows, at), epoch);
    };
    return { chain, length, pick: picked, read: (reading) => readPicked(picked, length, reading) };
  }
  const { some } = node;
  if (some !== undefined)
    return someNode(chain, {
      ...some,
      pick: (rows, epoch) => some.pick(Float64Array.from(rows, orderOf(epoch, some.count, 0).at), epoch),
    });
  return {
    chain,
    length,
    async *read({ from, ...epoch }) {
      const pieces = inParts(node, epoch, (count) => orderOf(epoch, count, 0));
      let turn = 1;
      let left = from;
      for await (const whole of windows(pieces, window)) {
        const current = turn++;
        if (left >= whole.length) {
          left -= whole.length;
          continue;
        }
        const { at } = orderOf(epoch, whole.length, current);
        const indices = Float64Array.from({ length: whole.length - left }, (_unused, index) => at(index + left));
        left = 0;
        yield chosen(whole, indices);
      }
    },
  };
}

/** The pieces of a node, its parts in an order. */
async function* inParts(node: Node, epoch: Epoch, orderOf: (count: number) => ReturnType<typeof order>) {
  const parts = await node.parts?.();
  if (parts === undefined || parts.length < 2) {
    yield* node.read({ ...epoch, from: 0 });
    return;
  }
  const { at } = orderOf(parts.length);
  for (let index = 0; index < parts.length; index++) {
    const part = at(index);
    const [from, end] = [parts[part] as number, parts[part + 1]];
    const pieces = node.read({ ...epoch, from });
    yield* end === undefined ? pieces : upTo(pieces, end - from);
  }
}

/** Pieces of exactly `size` records, the last may be short. */
export async function* windows(pieces: AsyncIterable<Piece>, size: number): AsyncGenerator<Piece> {
  let held: Piece[] = [];
  let count = 0;
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length; ) {
      const to = Math.min(piece.length, from + size - count);
      held.push(cut(piece, from, to));
      count += to - from;
      from = to;
      if (count < size) continue;
      yield joined("records", held);
      [held, count] = [[], 0];
    }
  }
  if (count > 0) yield joined("records", held);
}

/** The records of these numbers, in this order: what a split, or a balance of classes, has chosen. */
export function selected(node: Node, rows: ArrayLike<number>, why: string): Node {
  const { pick } = node;
  const chain = [...node.chain, why, async () => hashOf(Float64Array.from(rows))];
  const { length } = rows;
  if (pick !== undefined) {
    const own: NonNullable<Node["pick"]> = (indices, epoch) =>
      pick(
        Float64Array.from(indices, (index) => rows[index] as number),
        epoch,
      );
    return { chain, length, pick: own, read: (reading) => readPicked(own, length, reading) };
  }
  // Ascending rows of a source that cannot seek are met as it is read.
  return {
    chain,
    length,
    async *read({ from, ...epoch }) {
      const first = rows[from];
      if (first === undefined) return;
      let [at, passed] = [from, first];
      for await (const piece of node.read({ ...epoch, from: first })) {
        const found: number[] = [];
        for (; at < length && (rows[at] as number) < passed + piece.length; at++)
          found.push((rows[at] as number) - passed);
        passed += piece.length;
        if (found.length > 0) yield chosen(piece, found);
        if (at >= length) return;
      }
    },
  };
}

/** Records per block of a mixture; the shares of the nodes are exact in every block. */
const blockSize = 1024;

/**
 * Records of several nodes in turns, in shares that are exact in each block of 1,024. A node that ends begins again, with its next
 * epoch; an epoch of the mixture ends with `length`.
 */
export function mixed(
  nodes: readonly Node[],
  weights: readonly number[],
  length: number,
  seedOf: number | undefined,
): Node {
  const shares = sharesOf(weights);
  // For each place of a block its node.
  const slots = Uint32Array.from(shares.flatMap((share, node) => Array<number>(share).fill(node)));
  const placesIn = (epoch: Epoch, block: number): Uint32Array => {
    const { at } = order(seedOf ?? epoch.seed, epoch.epoch, blockSize, 2 ** 20 + block);
    return slots.map((_slot, index) => slots[at(index)] as number);
  };
  async function* endless(node: Node, epoch: Epoch, from: number): AsyncGenerator<Piece> {
    const { length: own } = node;
    // Without a known length, the records before `from` are read and left out.
    const isKnown = own !== undefined && own > 0;
    let turn = isKnown ? Math.floor(from / own) : 0;
    let start = isKnown ? from % own : 0;
    let left = isKnown ? 0 : from;
    for (; ; turn++) {
      let any = false;
      for await (const piece of node.read({ ...epoch, epoch: epoch.epoch + turn, from: start })) {
        any ||= piece.length > 0;
        if (left < piece.length) yield cut(piece, left, piece.length);
        left = Math.max(0, left - piece.length);
      }
      if (!any && start === 0) throw new HeddleError("data", "mix: one of the datasets has no records");
      start = 0;
    }
  }
  return {
    chain: [nodes.map(({ chain }) => [...chain]), `mix ${shares.join(" ")} of ${length}, seed ${seedOf ?? "run"}`],
    length,
    async *read({ from, ...epoch }: Reading) {
      const first = placesIn(epoch, Math.floor(from / blockSize));
      const begun = nodes.map((_node, which) => {
        const inBlock = first.subarray(0, from % blockSize).filter((other) => other === which).length;
        return Math.floor(from / blockSize) * (shares[which] as number) + inBlock;
      });
      const readers = nodes.map((node, which) => endless(node, epoch, begun[which] as number));
      const held: (Piece | undefined)[] = nodes.map(() => undefined);
      try {
        for (let at = from; at < length; ) {
          const block = Math.floor(at / blockSize);
          const to = Math.min(length, (block + 1) * blockSize);
          const places = placesIn(epoch, block).subarray(at % blockSize, to - block * blockSize);
          const parts: Piece[] = [];
          const position = new Float64Array(places.length);
          let filled = 0;
          for (const [which] of nodes.entries()) {
            const wanted = [...places.keys()].filter((place) => places[place] === which);
            for (let got = 0; got < wanted.length; ) {
              let piece = held[which];
              while (piece === undefined || piece.length === 0) piece = (await readers[which]?.next())?.value as Piece;
              const count = Math.min(piece.length, wanted.length - got);
              parts.push(cut(piece, 0, count));
              held[which] = cut(piece, count, piece.length);
              for (let index = 0; index < count; index++) position[wanted[got + index] as number] = filled + index;
              filled += count;
              got += count;
            }
          }
          yield chosen(joined("mix", parts), position);
          at = to;
        }
      } finally {
        await Promise.all(readers.map((reader) => reader.return(undefined)));
      }
    },
  };
}

/** Whole numbers that add up to the size of a block, in the ratio of the weights: those with the largest remainders are rounded up. */
function sharesOf(weights: readonly number[]): number[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const exact = weights.map((weight) => (weight / total) * blockSize);
  const shares = exact.map(Math.floor);
  const left = blockSize - shares.reduce((sum, share) => sum + share, 0);
  const byRemainder = [...weights.keys()].sort(
    (one, other) => ((exact[other] as number) % 1) - ((exact[one] as number) % 1) || one - other,
  );
  for (const which of byRemainder.slice(0, left)) shares[which] = (shares[which] as number) + 1;
  return shares;
}

/** Keeps the records in memory once they have been read to the end; from then on they can be picked by number. */
export function cached(node: Node): Node {
  const state: { whole: Piece | undefined; filling: Promise<Piece> | undefined } = {
    whole: undefined,
    filling: undefined,
  };
  const fill = async (epoch: Epoch): Promise<Piece> => {
    if (state.whole !== undefined) return state.whole;
    state.filling ??= (async () => {
      const pieces: Piece[] = [];
      for await (const piece of node.read({ ...epoch, epoch: 0, from: 0 })) pieces.push(piece);
      state.whole = joined("cache", pieces);
      return state.whole;
    })();
    state.filling.catch(() => {
      state.filling = undefined;
    });
    return state.filling;
  };
  return {
    chain: [...node.chain, "cache"],
    get length() {
      return state.whole?.length ?? node.length;
    },
    async *read({ from, ...epoch }) {
      const whole = await fill(epoch);
      for (let at = from; at < whole.length; at += blockSize)
        yield cut(whole, at, Math.min(whole.length, at + blockSize));
    },
    get pick() {
      return state.whole === undefined && node.length === undefined
        ? undefined
        : async (rows: ArrayLike<number>, epoch: Epoch) => chosen(await fill(epoch), rows);
    },
  };
}

/** Reads `count` pieces ahead of the step that takes them. */
export const prefetched = (node: Node, count: number): Node => ({
  ...node,
  read: (reading) => readAhead(node.read(reading), count),
});

/** The same pieces, of which so many are read before they are asked for. */
export async function* readAhead(pieces: AsyncIterable<Piece>, count: number): AsyncGenerator<Piece> {
  const reader = pieces[Symbol.asyncIterator]();
  const pending: Promise<IteratorResult<Piece>>[] = [];
  const more = (): void => {
    const next = reader.next();
    next.catch(() => {});
    pending.push(next);
  };
  try {
    for (let ahead = 0; ahead < count; ahead++) more();
    for (;;) {
      const { value, done } = (await pending.shift()) as IteratorResult<Piece>;
      if (done === true) return;
      more();
      yield value;
    }
  } finally {
    await Promise.allSettled(pending);
    await reader.return?.();
  }
}
