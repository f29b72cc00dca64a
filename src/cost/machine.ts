/** @module Machines: what devices and the links between them can do, and how long work takes there. */

import { communicationOf } from "../ir/communication.ts";
import type { Attrs } from "../ir/node.ts";
import { opNamed } from "../ir/op.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";

/** A link from one device to another. */
export interface Link {
  /** Seconds before the first byte of a message arrives. */
  readonly latency: number;
  /** Bytes per second. */
  readonly bandwidth: number;
}

/** One thread of a device that has several. */
export interface ThreadRates {
  /** How many the device has. */
  readonly count: number;
  readonly flops: number;
  readonly memory: number;
  /** Seconds that a kernel call takes longer than its part for each thread: to hand the parts over, and to wait for the last. */
  readonly share: number;
}

/** Rates of the devices of a mesh, and of the links between them. */
export interface Machine extends Link {
  /** What it is, for people. */
  readonly name?: string;
  /** Arithmetic operations per second of a device. */
  readonly flops: number;
  /** Bytes per second to and from a device's memory. */
  readonly memory: number;
  /** Seconds that a kernel call takes beside its work. */
  readonly call: number;
  /** Seconds to hand work to another thread, and as many to be woken when it has ended. */
  readonly handover: number;
  /** Rates of one thread alone, by which small work goes that is not worth sharing. Default: all work is shared for nothing. */
  readonly thread?: ThreadRates;
  /** How many devices have these rates each; those of a larger mesh share them. Default: all have. */
  readonly devices?: number;
  /** Links along mesh axes, by name; of the others latency and bandwidth are those of the machine. */
  readonly links?: { readonly [axis: string]: Link };
}

/** One core with AVX-512 and TCP on one host: orders of magnitude, good enough to rank plans. */
const defaultMachine: Machine = {
  flops: 2e11,
  memory: 3e10,
  latency: 5e-5,
  bandwidth: 3e9,
  call: 2e-7,
  handover: 1e-4,
};

/** What each device of a mesh of so many has: its part of what they share. Default: of the assumed machine. */
export function machineFor(devices: number, machine: Machine = defaultMachine): Machine {
  const { devices: own = devices, flops, memory, thread, ...rest } = machine;
  if (devices <= own) return machine;
  const each = own / devices;
  const rates = { ...rest, devices, flops: flops * each, memory: memory * each };
  if (thread === undefined) return rates;
  // With a thread or less for each device, nothing is shared within one.
  if (thread.count <= devices / own) return { ...rates, flops: thread.flops * thread.count * each };
  return { ...rates, thread: { ...thread, count: thread.count * each } };
}

/** What one kernel call computes and moves. */
export interface Work {
  /** Arithmetic operations; a multiply-add counts as two. */
  readonly flops: number;
  /** Bytes to and from memory. */
  readonly bytes: number;
}

/**
 * Seconds of arithmetic or of memory traffic, whichever is longer: the roofline of Williams, Waterman and Patterson (2009). By one
 * thread, where handing parts to the others would take longer.
 */
export function workSeconds({ flops, bytes }: Work, machine: Pick<Machine, "flops" | "memory" | "thread">): number {
  const by = (rates: { readonly flops: number; readonly memory: number }): number =>
    Math.max(flops / rates.flops, bytes / rates.memory);
  const { thread } = machine;
  return thread === undefined ? by(machine) : Math.min(by(thread), by(machine) + thread.share);
}

/** What a device sends in one collective, or in one message. */
export interface Sending {
  /** Name of the op. */
  readonly name: string;
  readonly axis: string;
  readonly label: string;
  /** Number of tensors in it, and their bytes on the device. */
  readonly values: number;
  readonly payload: number;
  /** Messages that wait for one another. */
  readonly rounds: number;
  /** Bytes that the device sends. */
  readonly bytes: number;
}

/** What a node or step that communicates sends, for local inputs of these types. A transfer is one message. */
export function sendingOf(name: string, inputs: readonly TensorType[], attrs: Attrs): Sending {
  const payload = inputs.reduce((sum, type) => sum + bytesOf(type), 0);
  const traffic = communicationOf({ op: opNamed(name) })?.traffic(inputs, attrs) ?? {
    // A message, which costs who sends it.
    rounds: inputs.length === 0 ? 0 : 1,
    bytes: payload,
  };
  return {
    name,
    axis: String(attrs["axis"]),
    label: String(attrs["label"]),
    values: inputs.length,
    payload,
    ...traffic,
  };
}

/** Seconds on a link, by the model of Hockney (1994): a latency for each message, and the bytes at the link's rate. */
export function sendSeconds(
  { axis, rounds, bytes }: Pick<Sending, "axis" | "rounds" | "bytes">,
  machine: Machine,
): number {
  const { latency, bandwidth } = machine.links?.[axis] ?? machine;
  return rounds * latency + bytes / bandwidth;
}

/** Seconds for one collective among the devices of an axis, for local inputs of these types. */
export const collectiveSeconds = (
  machine: Machine,
  name: string,
  inputs: readonly TensorType[],
  attrs: Attrs,
): number => sendSeconds(sendingOf(name, inputs, attrs), machine);
