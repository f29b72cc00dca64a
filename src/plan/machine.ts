/** @module What the planner assumes of a machine: a roofline for compute, latency and bandwidth for communication. */

import { communicationNamed } from "../ir/communication.ts";
import type { Attrs } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";

/** Rates of one device and of the links between devices. */
export interface Machine {
  /** Arithmetic operations per second. */
  readonly flops: number;
  /** Bytes per second to and from memory. */
  readonly memory: number;
  /** Seconds before the first byte of a message arrives. */
  readonly latency: number;
  /** Bytes per second of a link. */
  readonly bandwidth: number;
}

/** One core with AVX-512 and TCP on one host: orders of magnitude, good enough to rank plans. */
export const defaultMachine: Machine = { flops: 2e11, memory: 3e10, latency: 5e-5, bandwidth: 3e9 };

/** Seconds for one collective among the devices of an axis, for local inputs of these types. */
export function collectiveSeconds(machine: Machine, op: string, inputs: readonly TensorType[], attrs: Attrs): number {
  const { rounds, bytes } = communicationNamed(op).traffic(inputs, attrs);
  return rounds * machine.latency + bytes / machine.bandwidth;
}
