/**
 * @module What a collective says of itself, as data on its op: how many bytes it sends, what the runtime calls it, what it
 * may be bucketed with, what it means. The planner, the program, lowering and the executors read it and never ask which
 * op it is.
 */

import { type Absent, isAbsent } from "./absent.ts";
import type { HostTensor, TensorType } from "./shape.ts";

/** Fields of every op that communicates: the mesh axis, its number of devices, a name for traces and messages. */
export type CollectiveAttrs = { axis: string; parts: number; label: string };

/** What one device does on the wire. */
export interface Traffic {
  /** Messages that wait for one another. */
  readonly rounds: number;
  /** Bytes that the device sends. */
  readonly bytes: number;
}

/** One collective; its change of shape is the op's own `infer`. */
export interface Communication<A> {
  /** By the algorithm that the transport uses, for local inputs of these types. */
  readonly traffic: (inputs: readonly TensorType[], attrs: A) => Traffic;
  /** Name in lowered programs. */
  readonly runtime: string;
  /** Elements that come out of a lowered call on an axis of `parts` for `count` that go in; of unequal parts, about as many. */
  readonly received: (count: number, parts: number, attrs?: A) => number;
  /** Collectives with equal keys may travel as one call. */
  readonly bucket: ((attrs: A) => string) | Absent;
  /**
   * The meaning: given what each device of the axis puts in (`contributions[device][input]`), in order of their
   * coordinates, what each gets. Devices may differ in attributes that hold their own sizes.
   */
  readonly meaning: (contributions: readonly (readonly HostTensor[])[], attrs: readonly A[]) => HostTensor[][];
}

/** How a node communicates, if it does. */
export function communicationOf<A>({
  op,
}: {
  readonly op: { readonly communication: Communication<A> | Absent };
}): Communication<A> | undefined {
  return isAbsent(op.communication) ? undefined : op.communication;
}

/** Whether the op communicates along a mesh axis. */
export const isCollective = ({ op }: { readonly op: { readonly communication: object } }): boolean =>
  !isAbsent(op.communication);
