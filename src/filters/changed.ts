/** @module Values that have changed since they were last sent: the significantly modified filter for what servers send. */
import {
  eachPart,
  type Filter,
  type Message,
  malformedPart,
  numbersOf,
  type Part,
  registerFilter,
  rowsAt,
  rowsOf,
} from "./filter.ts";

/**
 * Values: sends a row when an element differs by more than `threshold` from what was sent last; the receiver keeps what it has and
 * gives the same rows as the sender was given. Both ends keep each row once.
 */
export const changed = (threshold: number): Filter => ({
  name: "changed",
  remembers: true,
  sender() {
    const sent = new Map<string, Map<bigint, Float64Array>>();
    return {
      encode: (message: Message) =>
        eachPart(message, (part, tensor) => {
          const known = sent.get(tensor) ?? new Map<bigint, Float64Array>();
          sent.set(tensor, known);
          return withoutKnown(part, known, threshold);
        }),
      forget: () => sent.clear(),
    };
  },
  receiver() {
    const kept = new Map<string, Map<bigint, Float64Array>>();
    return {
      decode: (message: Message) =>
        eachPart(message, (part, tensor) => {
          const known = kept.get(tensor) ?? new Map<bigint, Float64Array>();
          kept.set(tensor, known);
          return withKnown(part, tensor, known);
        }),
    };
  },
});

/** The rows that differ; the note is which of the given ones they are. */
function withoutKnown(part: Part, known: Map<bigint, Float64Array>, threshold: number): Part {
  const { width } = part;
  const values = numbersOf(part, "changed");
  const rows = rowsOf(part, "changed");
  const positions: number[] = [];
  for (const [position, row] of rows.entries()) {
    const own = values.subarray(position * width, (position + 1) * width);
    const before = known.get(row);
    if (before?.every((value, index) => Math.abs(value - (own[index] as number)) <= threshold) === true) continue;
    positions.push(position);
    known.set(row, Float64Array.from(own));
  }
  if (positions.length === rows.length) return part;
  // Row numbers stay whole, since the receiver gives all of them; which have values is one bit each.
  const present = new Uint8Array(Math.ceil(rows.length / 8));
  for (const position of positions) (present[position >> 3] as number) |= 1 << (position & 7);
  const chosen = rowsAt(part, positions, "changed");
  const note = { filter: "changed", present: Buffer.from(present).toString("base64") };
  const { rows: given } = part;
  const { rows: _dropped, ...rest } = chosen;
  return { ...rest, ...(given !== undefined && { rows: given }), notes: [...part.notes, note] };
}

function withKnown(part: Part, tensor: string, known: Map<bigint, Float64Array>): Part {
  const { width, notes } = part;
  const values = numbersOf(part, "changed");
  const rows = rowsOf(part, "changed");
  const note = notes.at(-1);
  const isOurs = note?.filter === "changed";
  const present = isOurs ? Buffer.from(String(note["present"]), "base64") : undefined;
  const all = new (values.constructor as Float64ArrayConstructor)(rows.length * width);
  let at = 0;
  for (const [position, row] of rows.entries()) {
    const has = present === undefined || ((present[position >> 3] ?? 0) & (1 << (position & 7))) !== 0;
    const own = has ? values.subarray(at * width, (at + 1) * width) : known.get(row);
    if (own === undefined || own.length !== width)
      throw malformedPart("changed", tensor, `lacks the values of row ${row}`);
    if (has) {
      at++;
      known.set(row, Float64Array.from(own));
    }
    all.set(own, position * width);
  }
  if (at * width !== values.length) throw malformedPart("changed", tensor, "has more values than rows");
  return { ...part, values: all, notes: isOurs ? notes.slice(0, -1) : notes };
}

registerFilter({
  name: "changed",
  doc: "leaves out rows of values that differ by at most THRESHOLD from what was sent last",
  numbers: [{ name: "THRESHOLD", doc: "the largest difference that is left out", fraction: true }],
  make: (threshold) => changed(threshold as number),
});
