/** @module Calls that involve other devices, and the device's coordinate. */
import { communicationOf } from "../ir/communication.ts";
import { allOps } from "../ir/op.ts";
import { reduceOps } from "./reduce.ts";
import * as is from "./schema.ts";

/** This device's coordinate on a mesh axis. */
export const axisIndex = is.kernel(
  "axisIndex",
  { axis: is.size(), out: is.writes("i32[]") },
  { doc: "This device's coordinate on a mesh axis." },
);

/** The number of elements that a collective gives for an input of `count`. */
function received(runtime: string, count: number, parts: number): number {
  const op = allOps().find((candidate) => communicationOf({ op: candidate })?.runtime === runtime);
  return op === undefined ? count : (communicationOf({ op })?.received(count, parts) as number);
}

/** A collective of all devices of a mesh axis, such as an all-reduce. */
export const collective = is.kernel(
  "collective",
  {
    op: is.oneOf("CollectiveOp", ["allReduce", "allGather", "reduceScatter", "allToAll", "broadcast", "exchange"]),
    axis: is.size(),
    reduction: is.optional(reduceOps),
    dtype: is.dtype(),
    parts: is.records("PartJson", {
      in: is.reads("[count]", { inPlace: { op: "allReduce" } }),
      out: is.writes("[received]"),
      count: is.size(),
    }),
    label: is.optional(is.text()),
    sends: is.optional(is.pairs()),
    receives: is.optional(is.pairs()),
    relative: is.flag(),
    handle: is.optional(is.word()),
    members: is.optional(is.size()),
  },
  {
    doc: "All parts travel as one message (a bucket); `count` is that of the input.",
    derived: {
      received: {
        native: "collectives::received",
        of: ({ op, axis, receives }, { count }, axes) =>
          // An exchange lists its own counts.
          receives?.reduce((sum, [, size]) => sum + size, 0) ?? received(op, count as number, axes[axis] ?? 1),
      },
    },
    title: ({ op }) => `collective ${op}`,
    communicates: true,
    asyncRole: "starts",
  },
);

/** Waits for an asynchronous collective. */
export const wait = is.kernel(
  "wait",
  { handle: is.word() },
  {
    doc: "Waits for the asynchronous collective that was started with this handle.",
    title: ({ handle }) => `wait ${handle}`,
    asyncRole: "ends",
  },
);

/** Sends a message to another device. */
export const send = is.kernel(
  "send",
  {
    axis: is.size(),
    to: is.size(),
    dtype: is.dtype(),
    parts: is.records("SentJson", { in: is.reads("[count]"), count: is.size() }),
    label: is.optional(is.text()),
    handle: is.optional(is.word()),
  },
  { doc: "Sends all parts as one message to device `to` of the axis.", communicates: true, asyncRole: "starts" },
);

/** Receives a message of another device. */
export const receive = is.kernel(
  "receive",
  {
    axis: is.size(),
    from: is.size(),
    dtype: is.dtype(),
    parts: is.records("ReceivedJson", { out: is.writes("[count]"), count: is.size() }),
    label: is.optional(is.text()),
    handle: is.optional(is.word()),
  },
  { doc: "Waits for a message, and checks its label, dtype and sizes.", communicates: true, asyncRole: "starts" },
);
