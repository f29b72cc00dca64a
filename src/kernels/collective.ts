/** @module What involves other devices, or the device's own place among them. */
import { communicationOf } from "../ir/communication.ts";
import { allOps } from "../ir/op.ts";
import { reduceOps } from "./reduce.ts";
import { dtype, flag, kernel, oneOf, optional, pairs, reads, records, size, text, word, writes } from "./schema.ts";

export const axisIndex = kernel(
  "axisIndex",
  { axis: size(), out: writes("i32[]") },
  { doc: "This device's coordinate on a mesh axis.", flops: () => 0 },
);

/** Elements that come out of a collective for `count` that go in. */
function received(runtime: string, count: number, parts: number): number {
  const op = allOps().find((one) => communicationOf({ op: one })?.runtime === runtime);
  return op === undefined ? count : (communicationOf({ op })?.received(count, parts) as number);
}

export const collective = kernel(
  "collective",
  {
    op: oneOf("CollectiveOp", ["allReduce", "allGather", "reduceScatter", "allToAll", "broadcast", "exchange"]),
    axis: size(),
    reduction: optional(reduceOps),
    dtype: dtype(),
    parts: records("Part", {
      in: reads("[count]", { inPlace: true }),
      out: writes("[received]"),
      count: size(),
    }),
    label: optional(text()),
    sends: optional(pairs()),
    receives: optional(pairs()),
    relative: flag(),
    flight: optional(word()),
    members: optional(size()),
  },
  {
    doc: "All parts travel as one message (a bucket); `count` is that of the input.",
    derived: {
      received: ({ op, axis, receives }, { count }, axes) =>
        // The counts of an exchange are its own.
        receives?.reduce((sum, [, size]) => sum + size, 0) ?? received(op, count as number, axes[axis] ?? 1),
    },
    flops: () => 0,
    title: ({ op }) => `collective ${op}`,
    communicates: true,
    flight: "starts",
  },
);

export const wait = kernel(
  "wait",
  { flight: word() },
  {
    doc: "Ends when the collective with that number has.",
    flops: () => 0,
    title: ({ flight }) => `wait ${flight}`,
    flight: "ends",
  },
);

export const send = kernel(
  "send",
  {
    axis: size(),
    to: size(),
    dtype: dtype(),
    parts: records("Sent", { in: reads("[count]"), count: size() }),
    label: optional(text()),
  },
  { doc: "Sends all parts as one message to the device at coordinate `to` of the axis.", communicates: true },
);

export const receive = kernel(
  "receive",
  {
    axis: size(),
    from: size(),
    dtype: dtype(),
    parts: records("Received", { out: writes("[count]"), count: size() }),
    label: optional(text()),
  },
  { doc: "Waits for the message of the `send` that matches: label, dtype and sizes are compared.", communicates: true },
);
