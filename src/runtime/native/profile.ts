/** @module The times of kernel calls under `heddle profile`: noted in each worker, written to a file when it ends. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { descriptionOf } from "../../kernels/index.ts";
import { costOf, type LoweredProgram, numberedCalls, printCall } from "../../lower/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { readEnvironment } from "../../util/settings.ts";
import type { NativeDevice } from "./binding.ts";

/** What `heddle profile` asks of a worker, as JSON in HEDDLE_PROFILE. */
export interface ProfileRequest {
  /** Where each worker writes `rank-<n>.json`. */
  readonly directory: string;
  /** Runs of each program that count. */
  readonly steps: number;
  /** Runs before them. */
  readonly warmUp: number;
}

/** A kernel call of a program. */
export interface ProfiledCall {
  readonly kernel: string;
  /** The call in a line: operations, shapes and dtypes. */
  readonly text: string;
  /** How deep in loops and branches. */
  readonly depth: number;
  /** A collective under way beside other calls: its time is that of another thread. */
  readonly beside?: true;
  /** Of one execution. */
  readonly flops: number;
  readonly bytes: number;
}

/** A program and its runs. */
export interface ProgramProfile {
  readonly name: string;
  readonly calls: readonly ProfiledCall[];
  /** Runs that are left out of `runs`. */
  readonly warmUp: number;
  /**
   * Of each run its beginning (microseconds since the epoch) and length, then of each call its first beginning in the
   * run, its time in all and how often it ran. Nanoseconds.
   */
  readonly runs: readonly (readonly number[])[];
}

/** What a worker tells. */
export interface RankProfile {
  readonly version: 1;
  readonly rank: number;
  readonly threads: number;
  readonly isa: string;
  /** Measured: f32 operations per second, and bytes per second from memory, of all threads. */
  readonly limits: { readonly flops: number; readonly bytes: number };
  readonly programs: readonly ProgramProfile[];
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
  const request = shared === undefined ? requested() : undefined;
  if (request !== undefined) {
    const profiler = new Profiler(request);
    process.once("exit", () => profiler.write());
    shared = profiler;
  }
  return shared;
}

interface Noted {
  readonly lowered: LoweredProgram;
  readonly axes: readonly number[];
  readonly runs: Float64Array[];
}

/** Programs beyond so many are not kept: eager code can make any number of them. */
const mostPrograms = 500;

/** Keeps the times of the first runs of each program. */
export class Profiler {
  private readonly request: ProfileRequest;
  private readonly programs: Noted[] = [];
  private machine: Omit<RankProfile, "version" | "rank" | "programs"> | undefined;

  constructor(request: ProfileRequest) {
    this.request = request;
  }

  /** Measures what the first device can do at most. */
  measure(device: Pick<NativeDevice, "limits">, threads: number, isa: string): void {
    this.machine ??= { threads, isa, limits: device.limits() };
  }

  /** What takes the times of a program's runs; undefined when there are too many programs. */
  program(lowered: LoweredProgram, axes: readonly number[]): ((times: Float64Array) => void) | undefined {
    if (this.programs.length >= mostPrograms) return undefined;
    const noted: Noted = { lowered, axes, runs: [] };
    this.programs.push(noted);
    const most = this.request.warmUp + this.request.steps;
    return (times) => {
      if (noted.runs.length < most) noted.runs.push(times);
    };
  }

  /** What is known so far. */
  profile(rank: number): RankProfile {
    const machine = this.machine ?? { threads: 0, isa: "", limits: { flops: 0, bytes: 0 } };
    const programs = this.programs.filter(({ runs }) => runs.length > 0).map((noted) => this.describe(noted));
    return { version: 1, rank, ...machine, programs };
  }

  /** Writes the file of this rank. */
  write(): void {
    const rank = readEnvironment().rank ?? 0;
    writeFileSync(join(this.request.directory, `rank-${rank}.json`), JSON.stringify(this.profile(rank)));
  }

  private describe({ lowered, axes, runs }: Noted): ProgramProfile {
    // A program that ran a few times only has all its last run at least.
    const warmUp = Math.min(this.request.warmUp, runs.length - 1);
    const calls = numberedCalls(lowered.json.steps).map(({ call, depth }): ProfiledCall => {
      const { title, communicates, flight } = descriptionOf(call);
      return {
        kernel: communicates ? (title?.(call as never) ?? call.k) : call.k,
        text: printCall(call, axes),
        depth,
        ...(call["flight"] !== undefined && flight === "starts" ? { beside: true as const } : {}),
        ...costOf(call, axes),
      };
    });
    return { name: lowered.name, calls, warmUp, runs: runs.slice(warmUp).map((times) => Array.from(times)) };
  }
}

/** Reads a worker's file. @throws HeddleError `profile` when it is none. */
export function parseRankProfile(text: string): RankProfile {
  const found = JSON.parse(text) as Partial<RankProfile>;
  if (found.version === 1 && Array.isArray(found.programs)) return found as RankProfile;
  throw new HeddleError("profile", "the file is not a profile of a worker");
}
