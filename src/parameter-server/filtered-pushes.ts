/**
 * @module Filters of what workers push: at the worker an end for each server, and at the server the gradient that arrives. A part is the rows
 * of one server of one parameter; rows that do not arrive are zeros.
 */
import {
  chain,
  type Filter,
  type FilterSender,
  filterNamed,
  type Message,
  type Part,
  wholePart,
} from "../filters/index.ts";
import { concatenated } from "../util/bytes.ts";
import { HeddleError } from "../util/errors.ts";
import { listed } from "../util/text.ts";
import type { Piece, Shard } from "./shards.ts";
import { floats } from "./tables/row-lists.ts";

const arrays = { Float32Array, Float64Array, Uint16Array, Uint8Array, BigUint64Array } as const;
type Kind = keyof typeof arrays;

/** One part as text: its values, and its row numbers where it has some, follow as bytes. */
interface Head {
  readonly values: readonly [kind: Kind, bytes: number];
  readonly rows?: readonly [kind: Kind, bytes: number];
  readonly notes: Part["notes"];
}

/** Filters by which a training can push, from the first to the last. @throws HeddleError `option` */
export function pushFilters(specs: readonly string[]): Filter {
  for (const one of specs.map(filterNamed))
    if (one.remembers === true)
      throw new HeddleError("option", `filter '${one.name}' does not go with pushes to servers`, {
        hint: `its receiver keeps what it was sent, which a server that comes back has lost; take others, such as ${listed(["significant:0.01", "lossless"])}`,
      });
  const filter = chain(specs);
  // Zeros, which each filter packs, show what those after it cannot take.
  const zeros = new Float32Array(64);
  filter.sender().encode({ zeros: wholePart(zeros) }, { weights: { zeros }, all: true });
  return filter;
}

const widthOf = ({ type, rows }: Piece): number => type.shape.reduce((size, count) => size * count, 1) / rows;

/** The ends at a worker, one for each server. */
export class FilteredPushes {
  private readonly filter: Filter;
  private readonly senders: FilterSender[];
  /** Whether everything goes, as in the last push. */
  private all = false;
  private holdsBack = false;
  private weights: ReadonlyMap<string, Uint8Array> | undefined;

  /** @throws HeddleError `option` */
  constructor(specs: readonly string[], servers: number) {
    this.filter = pushFilters(specs);
    this.senders = Array.from({ length: servers }, () => this.filter.sender());
  }

  /** Whether something of the pushes until now may be held back for a later one. */
  get isHolding(): boolean {
    return this.holdsBack;
  }

  /** Whether senders look at the parameters. */
  get needsWeights(): boolean {
    return this.filter.needsWeights === true;
  }

  /** The parameters of which the next gradients are. */
  look(weights: ReadonlyMap<string, Uint8Array>): void {
    this.weights = weights;
  }

  /** From now on pushes hold nothing back, and bring what those before held. */
  sendAll(): void {
    this.all = this.filter.holds === true;
  }

  /** A pass over so many rows of data has ended; the next one is the last, in which nothing is left out for what passes before have shown. */
  passed(examples: number, isNextLast: boolean): void {
    for (const sender of this.senders) {
      sender.pass?.(examples);
      if (isNextLast) sender.reset?.();
    }
  }

  /** What goes to a server in the place of the gradients of its pieces. */
  encode(server: number, { params }: Shard, grads: readonly Uint8Array[]): { parts: string; body: Uint8Array[] } {
    const numbers = (piece: Piece, bytes: Uint8Array) => floats(bytes, piece.type.dtype === "f64" ? "f64" : "f32");
    const message: Record<string, Part> = {};
    const weights: Record<string, Float32Array | Float64Array> = {};
    for (const [index, piece] of params.entries()) {
      const values = numbers(piece, grads[index] as Uint8Array);
      message[piece.path] = { count: piece.rows, width: widthOf(piece), values, notes: [] };
      const whole = this.weights?.get(piece.path);
      if (whole === undefined) continue;
      const from = piece.start * widthOf(piece);
      weights[piece.path] = numbers(piece, whole).subarray(from, from + values.length);
    }
    this.holdsBack = this.filter.holds === true && !this.all;
    const encoded = (this.senders[server] as FilterSender).encode(message, { weights, all: this.all });
    const heads: Record<string, Head> = {};
    const body: Uint8Array[] = [];
    for (const [path, { values, rows, notes }] of Object.entries(encoded)) {
      const stored = (array: Part["values"] | BigUint64Array): readonly [Kind, number] => {
        body.push(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
        // A Buffer is one, too.
        return [array instanceof Uint8Array ? "Uint8Array" : (array.constructor.name as Kind), array.byteLength];
      };
      heads[path] = { values: stored(values), ...(rows !== undefined && { rows: stored(rows) }), notes };
    }
    return { parts: JSON.stringify(heads), body };
  }
}

/** The gradients of a shard's parameters that a message stands for, one after another. @throws HeddleError `link` or `protocol` */
export function decodedPush(filter: Filter, { params }: Pick<Shard, "params">, parts: string, body: Uint8Array) {
  const message = filter.receiver().decode(messageOf(params, parts, body));
  return concatenated(
    params.map((piece) => {
      const { path, type, rows: count } = piece;
      const width = widthOf(piece);
      const part = message[path];
      const Numbers = type.dtype === "f64" ? Float64Array : Float32Array;
      const rows = part?.rows;
      if (!(part?.values instanceof Numbers) || part.notes.length > 0 || rows instanceof Uint8Array)
        throw malformed(`of '${path}' that is not what the filters make`);
      if (part.values.length !== (rows?.length ?? count) * width) throw malformed(`of '${path}' of another size`);
      if (rows === undefined) return new Uint8Array(part.values.slice().buffer);
      const whole = new Numbers(count * width);
      for (let at = 0, before = -1; at < rows.length; at++) {
        const row = Number(rows[at]);
        if (row <= before || row >= count) throw malformed(`of row ${row} of '${path}', which has ${count}`);
        whole.set(part.values.subarray(at * width, (at + 1) * width), row * width);
        before = row;
      }
      return new Uint8Array(whole.buffer);
    }),
  );
}

function messageOf(params: readonly Piece[], parts: string, body: Uint8Array): Message {
  let heads: { readonly [path: string]: Partial<Head> };
  try {
    heads = (JSON.parse(parts) ?? {}) as typeof heads;
  } catch {
    throw malformed("that cannot be read");
  }
  let offset = 0;
  const next = (stored: unknown): Part["values"] | BigUint64Array => {
    const [kind, bytes] = Array.isArray(stored) ? (stored as [Kind, number]) : [];
    const array = Object.hasOwn(arrays, kind ?? "") ? arrays[kind as Kind] : undefined;
    if (
      array === undefined ||
      !Number.isSafeInteger(bytes) ||
      !((bytes as number) >= 0) ||
      (bytes as number) % array.BYTES_PER_ELEMENT
    )
      throw malformed("of an unknown kind");
    if (offset + (bytes as number) > body.length) throw malformed("that is cut short");
    offset += bytes as number;
    return new array(body.slice(offset - (bytes as number), offset).buffer as ArrayBuffer);
  };
  if (Object.keys(heads).length !== params.length) throw malformed("of other parameters");
  const entries = Object.entries(heads).map(([path, { values, rows, notes }]): [string, Part] => {
    const piece = params.find((one) => one.path === path);
    if (piece === undefined || !Array.isArray(notes)) throw malformed("of other parameters");
    const part = { count: piece.rows, width: widthOf(piece), values: next(values) as Part["values"], notes };
    return [path, rows === undefined ? part : { ...part, rows: next(rows) as BigUint64Array }];
  });
  if (offset !== body.length) throw malformed("with more bytes than parts");
  return Object.fromEntries(entries);
}

const malformed = (what: string): HeddleError => new HeddleError("link", `a filtered push ${what}`);
