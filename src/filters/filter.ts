/**
 * @module What a filter of messages between workers and servers is. A filter has two ends for each link and direction, each with the state
 * that it needs: what the sender's end changes, the receiver's end changes back, from the last filter to the first.
 */
import { type SpecKind, Specs } from "../consistency/specs.ts";
import { HeddleError } from "../util/errors.ts";

/** Values of a part, before and after filters that change their kind. */
export type Values = Float32Array | Float64Array | Uint16Array | Uint8Array;

/** What a filter has noted for its other end. Travels beside the values, as JSON. */
export type Note = { readonly filter: string; readonly [name: string]: unknown };

/** Rows of one named tensor. */
export interface Part {
  /** The rows of the whole tensor. */
  readonly count: number;
  /** Values in each row. */
  readonly width: number;
  /**
   * The numbers of the rows, ascending and without repetition, as u64; absent: all rows. A filter that packs them leaves bytes; one
   * whose other end knows them leaves none, and a note.
   */
  readonly rows?: BigUint64Array | Uint8Array;
  /** The rows' values, one row after another. */
  readonly values: Values;
  /** Notes of filters, the last filter's last. */
  readonly notes: readonly Note[];
}

/** Parts by the names of their tensors. */
export type Message = { readonly [tensor: string]: Part };

/** What the sender knows besides the message. */
export interface FilterGiven {
  /** The weights of the same rows as the message's, for filters that look at them. */
  readonly weights?: { readonly [tensor: string]: Float32Array | Float64Array };
  /** Nothing may be held back: the last message before the end. Default false. */
  readonly all?: boolean;
}

/** The end of a filter that sends. */
export interface FilterSender {
  encode(message: Message, given?: FilterGiven): Message;
  /** The receiver has lost its state: nothing is known of what it has. */
  forget?(): void;
  /** A pass over so many rows of data has ended. */
  pass?(examples: number): void;
  /** Nothing is left out any more for what passes before have shown. */
  reset?(): void;
}

/** The end of a filter that receives. */
export interface FilterReceiver {
  /** @throws HeddleError `protocol` for a message that the sender's end does not make */
  decode(message: Message): Message;
}

/** A filter. It has no state of its own: each link and direction has its own ends. */
export interface Filter {
  readonly name: string;
  /** Whether a sender holds something back, which `all` sends. Default false. */
  readonly holds?: boolean;
  /** Whether a receiver keeps what it was sent, for later messages. Default false. */
  readonly remembers?: boolean;
  /** Whether a sender looks at the weights of the rows. Default false. */
  readonly needsWeights?: boolean;
  sender(): FilterSender;
  receiver(): FilterReceiver;
}

const filters = new Specs<Filter>("filter", "registerFilter");

/** Adds a kind of filter. @throws HeddleError `option` for a name that is taken, `argument` for a malformed kind */
export function registerFilter(kind: SpecKind<Filter>): void {
  filters.add(kind);
}

/** All registered kinds of filters, in the order in which they were registered. */
export const filterKinds = (): readonly SpecKind<Filter>[] => filters.kinds;

/** The filter of a spec: `lossless`, `fixed-point:8`. @throws HeddleError `option` for a malformed spec */
export const filterNamed = (spec: string): Filter => filters.named(spec);

/** Several filters as one: the first changes a message first, and the receiver's end undoes it last. */
export function chain(parts: readonly (Filter | string)[]): Filter {
  const all = parts.map((one) => (typeof one === "string" ? filterNamed(one) : one));
  return {
    name: all.map(({ name }) => name).join(" "),
    holds: all.some(({ holds }) => holds),
    remembers: all.some(({ remembers }) => remembers),
    needsWeights: all.some(({ needsWeights }) => needsWeights),
    sender() {
      const senders = all.map((one) => one.sender());
      return {
        encode: (message, given) => senders.reduce((changed, sender) => sender.encode(changed, given), message),
        forget() {
          for (const sender of senders) sender.forget?.();
        },
        pass(examples) {
          for (const sender of senders) sender.pass?.(examples);
        },
        reset() {
          for (const sender of senders) sender.reset?.();
        },
      };
    },
    receiver() {
      const receivers = all.map((one) => one.receiver()).reverse();
      return { decode: (message) => receivers.reduce((changed, receiver) => receiver.decode(changed), message) };
    },
  };
}

/** The bytes of a message: values, row numbers and notes. */
export function bytesOf(message: Message): number {
  return Object.values(message).reduce(
    (sum, { values, rows, notes }) =>
      sum + values.byteLength + (rows?.byteLength ?? 0) + (notes.length === 0 ? 0 : JSON.stringify(notes).length),
    0,
  );
}

/** A message with all rows of a tensor. */
export const wholePart = (values: Float32Array | Float64Array, width = 1): Part => ({
  count: values.length / width,
  width,
  values,
  notes: [],
});

/** Changes each part of a message. */
export function eachPart(message: Message, change: (part: Part, tensor: string) => Part): Message {
  return Object.fromEntries(Object.entries(message).map(([tensor, part]) => [tensor, change(part, tensor)]));
}

/** A part with one more note. */
export const noted = (part: Part, note: Note): Part => ({ ...part, notes: [...part.notes, note] });

/** The part without the last note, if that is this filter's; undefined if the filter changed nothing. */
export function unnoted(part: Part, filter: string): { readonly part: Part; readonly note: Note } | undefined {
  const note = part.notes.at(-1);
  return note?.filter === filter ? { part: { ...part, notes: part.notes.slice(0, -1) }, note } : undefined;
}

/** The values as numbers with a fraction. @throws HeddleError `option` when another filter has packed them */
export function numbersOf(part: Part, filter: string): Float32Array | Float64Array {
  const { values } = part;
  if (values instanceof Float32Array || values instanceof Float64Array) return values;
  throw new HeddleError("option", `filter '${filter}' needs numbers, and a filter before it has packed them`, {
    hint: "put filters that choose rows first, those that pack values after them, and 'lossless' last",
  });
}

/** The numbers of a part's rows. @throws HeddleError `option` when another filter has packed them */
export function rowsOf(part: Part, filter: string): BigUint64Array {
  const { rows, count } = part;
  if (rows instanceof BigUint64Array) return rows;
  if (rows === undefined) return BigUint64Array.from({ length: count }, (_unused, row) => BigInt(row));
  throw new HeddleError("option", `filter '${filter}' needs row numbers, and a filter before it has packed them`);
}

/** The part with the rows at these positions, in their order. */
export function rowsAt(part: Part, positions: readonly number[], filter: string): Part {
  const { width } = part;
  const values = numbersOf(part, filter);
  const all = rowsOf(part, filter);
  if (values.length !== all.length * width)
    throw new HeddleError("option", `filter '${filter}' chooses rows, and a filter before it has left out values`, {
      hint: "put filters that choose rows before 'changed'",
    });
  if (positions.length === all.length) return part;
  const kept = new (values.constructor as Float64ArrayConstructor)(positions.length * width);
  for (const [index, position] of positions.entries())
    kept.set(values.subarray(position * width, (position + 1) * width), index * width);
  return { ...part, rows: BigUint64Array.from(positions, (position) => all[position] as bigint), values: kept };
}

/** An error about a message that no sender's end makes. */
export const malformedPart = (filter: string, tensor: string, problem: string): HeddleError =>
  new HeddleError("protocol", `filter '${filter}': the message for '${tensor}' ${problem}`);
