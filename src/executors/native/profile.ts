/** @module The times of kernel calls under `heddle profile`: recorded in each worker, and written to a file when the worker ends. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Machine, machineFor, taskSeconds } from "../../cost/index.ts";
import type { KernelCall } from "../../ir/kernel.ts";
import { descriptionOf } from "../../kernels/index.ts";
import { callCost, costOf, type LoweredProgram, numberedCalls, printCall } from "../../lower/index.ts";
import { devicesOf } from "../../program/program.ts";
import { HeddleError } from "../../util/errors.ts";
import { readEnvironment } from "../../util/settings.ts";
import type { NativeDevice } from "./binding.ts";

/** The request of `heddle profile` to a worker, as JSON in HEDDLE_PROFILE. */
export interface ProfileRequest {
  /** The folder in which each worker writes `rank-<n>.json`. */
  readonly directory: string;
  /** Number of measured runs of each program. */
  readonly steps: number;
  /** Number of runs before the measured ones. */
  readonly warmUp: number;
}

/** A kernel call of a program. */
export interface ProfiledCall {
  readonly kernel: string;
  /** The call as a line of text: operations, shapes and dtypes. */
  readonly text: string;
  /** Depth in loops and branches. */
  readonly depth: number;
  /** Set for a collective that overlaps other calls: another thread spends its time. */
  readonly beside?: true;
  /** Operations of one execution. */
  readonly flops: number;
  readonly bytes: number;
  /** What the cost model predicts for one execution. */
  readonly seconds: number;
  /** The rank that a message goes to or comes from, where each rank has one device. */
  readonly peer?: number;
}

/** A program and its runs. */
export interface ProgramProfile {
  readonly name: string;
  readonly calls: readonly ProfiledCall[];
  /** What the cost model predicts for one run. */
  readonly seconds: number;
  /** Number of runs that `runs` leaves out. */
  readonly warmUp: number;
  /**
   * For each run its start (microseconds since the epoch) and length, then for each call its first start in the run, its total
   * time and how often it ran. Times are in nanoseconds.
   */
  readonly runs: readonly (readonly number[])[];
}

/** A worker's profile. */
export interface RankProfile {
  readonly version: 1;
  readonly rank: number;
  readonly threads: number;
  readonly isa: string;
  /** Measured peaks of all threads: f32 operations per second, and bytes per second from memory. */
  readonly limits: { readonly flops: number; readonly bytes: number };
  readonly programs: readonly ProgramProfile[];
  /** Each time that a training waited for its next batch: start (microseconds since the epoch) and length in microseconds. Absent where nothing trains. */
  readonly input?: readonly (readonly [start: number, length: number])[];
}

function requested(): ProfileRequest | undefined {
  const { profile } = readEnvironment();
  return profile === undefined ? undefined : (JSON.parse(profile) as ProfileRequest);
}

/** Training steps after which a profiled run ends; undefined when nothing is profiled. */
export function profiledSteps(): number | undefined {
  const request = requested();
  return request === undefined ? undefined : request.warmUp + request.steps;
}

let shared: Profiler | undefined;

/** This process's profiler, if `heddle profile` asked for one. */
export function sharedProfiler(): Profiler | undefined {
  const request = requested();
  if (shared !== undefined || request === undefined) return shared;
  const profiler = new Profiler(request);
  process.once("exit", () => profiler.write());
  shared = profiler;
  return profiler;
}

interface Noted {
  readonly lowered: LoweredProgram;
  readonly machine: Machine | undefined;
  readonly runs: Float64Array[];
}

/** Largest number of profiled programs: eager code can make any number. */
const maxPrograms = 500;

/** Keeps the times of the first runs of each program. */
export class Profiler {
  private readonly request: ProfileRequest;
  private readonly programs: Noted[] = [];
  private machine: Omit<RankProfile, "version" | "rank" | "programs" | "input"> | undefined;
  private readonly input: (readonly [start: number, length: number])[] = [];

  constructor(request: ProfileRequest) {
    this.request = request;
  }

  /** Measures the peaks of the first device. */
  measure(device: Pick<NativeDevice, "limits">, threads: number, isa: string): void {
    this.machine ??= { threads, isa, limits: device.limits() };
  }

  /** A function that takes the times of a program's runs; undefined when there are too many programs. */
  program(lowered: LoweredProgram, machine: Machine | undefined): ((times: Float64Array) => void) | undefined {
    if (this.programs.length >= maxPrograms) return undefined;
    const noted: Noted = { lowered, machine, runs: [] };
    this.programs.push(noted);
    const maxRuns = this.request.warmUp + this.request.steps;
    return (times) => {
      if (noted.runs.length < maxRuns) noted.runs.push(times);
    };
  }

  /** Takes a wait for a batch, by the milliseconds of `performance.now()`. */
  waited(from: number, to: number): void {
    this.input.push([1e3 * (performance.timeOrigin + from), 1e3 * (to - from)]);
  }

  /** The profile so far. */
  profile(rank: number): RankProfile {
    const machine = this.machine ?? { threads: 0, isa: "", limits: { flops: 0, bytes: 0 } };
    const programs = this.programs.filter(({ runs }) => runs.length > 0).map((noted) => this.describe(noted, rank));
    return { version: 1, rank, ...machine, programs, ...(this.input.length > 0 ? { input: this.input } : {}) };
  }

  /** Writes the file of this rank. */
  write(): void {
    const rank = readEnvironment().rank ?? 0;
    writeFileSync(join(this.request.directory, `rank-${rank}.json`), JSON.stringify(this.profile(rank)));
  }

  private describe({ lowered, machine: given, runs }: Noted, rank: number): ProgramProfile {
    const machine = machineFor(devicesOf(lowered), given);
    const axes = lowered.axes.map(({ size }) => size);
    // A program that ran only a few times keeps at least its last run.
    const warmUp = Math.min(this.request.warmUp, runs.length - 1);
    const calls = numberedCalls(lowered.json.steps).map(({ call, depth }): ProfiledCall => {
      const { title, communicates, asyncRole, control } = descriptionOf(call);
      const { sends, ...work } = callCost(call, axes);
      return {
        kernel: communicates ? (title?.(call as never) ?? call.k) : call.k,
        text: printCall(call, axes),
        depth,
        ...(call["handle"] !== undefined && asyncRole === "starts" ? { beside: true as const } : {}),
        ...work,
        seconds: taskSeconds({ ...work, sends, calls: control === undefined ? 1 : 0 }, machine),
        ...peerOf(call, axes, rank),
      };
    });
    const measured = runs.slice(warmUp).map((times) => Array.from(times));
    return { name: lowered.name, calls, seconds: costOf(lowered, machine).seconds, warmUp, runs: measured };
  }
}

/** The rank at the coordinate `to` or `from` of a message; ranks are numbered along the last axis first. */
function peerOf(call: KernelCall, axes: readonly number[], rank: number): { readonly peer?: number } {
  if (call.k !== "send" && call.k !== "receive") return {};
  const coordinate = (call["to"] ?? call["from"]) as number;
  const axis = call["axis"] as number;
  const stride = axes.slice(axis + 1).reduce((product, size) => product * size, 1);
  return { peer: rank + (coordinate - (Math.floor(rank / stride) % (axes[axis] as number))) * stride };
}

/** Reads a worker's file. @throws HeddleError `profile` for a malformed file. */
export function parseRankProfile(text: string): RankProfile {
  const profile = JSON.parse(text) as Partial<RankProfile>;
  if (profile.version === 1 && Array.isArray(profile.programs)) return profile as RankProfile;
  throw new HeddleError("profile", "the file is not a profile of a worker");
}
