/** @module A peer's end of the link to the harness: lines of JSON over a loopback socket, one answer per request. */
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import type { ParameterShape, Sizes } from "../kinds/index.ts";
import type { OptimizerSettings } from "../workloads.ts";

/** The settings of a peer, in the file that HEDDLE_BENCH_SPEC names. */
export interface Spec {
  readonly port: number;
  readonly token: string;
  readonly peer: string;
  readonly threads: number;
  readonly processes: number;
  /** Whether the processes divide parameters, gradients and optimizer state. */
  readonly sharded: boolean;
  readonly sizes: Sizes;
  readonly optimizer: OptimizerSettings | null;
  /** The dtype in which layers compute; null: f32. */
  readonly precision: "bf16" | null;
  /** Parameters, f32 inputs and i32 inputs, in the order of the data file. */
  readonly parameters: readonly ParameterShape[];
  readonly inputs: readonly ParameterShape[];
  readonly integers: readonly ParameterShape[];
  readonly data: string;
  /** The network of an inference as Heddle wrote it; null for peers and workloads without. */
  readonly onnx: string | null;
}

/** Runs this many steps. */
export interface StepsRequest {
  readonly run: "steps";
  readonly count: number;
}

/** Three steps from the initial weights without dropout: their losses; of what is not trained, a digest or the result. */
export interface CheckRequest {
  readonly run: "check";
}

/** A request to a peer. */
export type Request = StepsRequest | CheckRequest | { readonly run: "end" };

/** The operations of a peer. */
export interface Peer {
  readonly versions: Readonly<Record<string, string>>;
  check(): Promise<number[]>;
  /** Times of the steps in milliseconds, and the losses of the first and the last one. */
  steps(count: number): Promise<{ milliseconds: number[]; losses: number[] }>;
}

export const readSpec = (): Spec =>
  JSON.parse(readFileSync(process.env["HEDDLE_BENCH_SPEC"] as string, "utf8")) as Spec;

/** A number that stands for a function's result: the mean of its squares, each times its position modulo 7, plus 1. */
export function digest(values: ArrayLike<number | bigint | boolean>): number {
  let sum = 0;
  for (let index = 0; index < values.length; index++) sum += Number(values[index]) ** 2 * (1 + (index % 7));
  return sum / values.length;
}

/** The largest memory of this process so far, in bytes. */
export function peakMemory(): number {
  try {
    return 1024 * Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);
  } catch {
    return 1024 * process.resourceUsage().maxRSS;
  }
}

/** Answers the harness until its request to end. */
export async function serve(spec: Spec, peer: Peer): Promise<void> {
  const socket = connect(spec.port, "127.0.0.1");
  socket.setNoDelay(true);
  const send = (message: unknown): void => void socket.write(`${JSON.stringify(message)}\n`);
  send({ token: spec.token, rank: Number(process.env["RANK"] ?? 0), versions: peer.versions });
  for await (const line of createInterface({ input: socket })) {
    const request = JSON.parse(line) as Request;
    if (request.run === "end") break;
    try {
      send(request.run === "check" ? { losses: await peer.check() } : await peer.steps(request.count));
    } catch (error) {
      send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  }
  await new Promise<void>((resolve) => socket.end(`${JSON.stringify({ peakBytes: peakMemory() })}\n`, resolve));
}
