/**
 * @module Iterative programs that outlive their workers without a checkpoint (optimistic recovery, Schelter et al. 2013). Each worker has a part
 * of the state. When a worker is lost, the others meet in a new epoch and hand their parts round; a function of the user rebuilds the
 * lost part so that the iteration still comes to the result, and each worker takes its new part. No part is ever saved.
 */
import { isLoss } from "../elastic/losses.ts";
import type { Member } from "../elastic/member.ts";
import { connect } from "../functions/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { World } from "../runtime/world.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { gatherTexts } from "./drift.ts";
import { nextCall } from "./elastic.ts";
import { Regrouping } from "./ending.ts";
import { host } from "./host.ts";

/** What a worker has of the state: arrays by name. */
export interface StatePart {
  readonly [name: string]: Float64Array | Float32Array | Int32Array | Uint32Array;
}

/** A worker among those that take part. */
export interface IterationPlace {
  readonly rank: number;
  /** Number of workers. */
  readonly size: number;
  /** Their runtime, for collectives: `comm.allReduce(x, { runtime })`. */
  readonly runtime: Runtime;
  /** Number of iterations before. */
  readonly iteration: number;
}

/** What is left of the state when other workers take part. */
export interface LeftParts<Part extends StatePart = StatePart> {
  /** The parts by the ranks that their workers had; undefined where a part is lost. */
  readonly parts: readonly (Part | undefined)[];
  /** The ranks whose parts are lost; empty where workers only came, or their ranks changed. */
  readonly lost: readonly number[];
}

/** Options of {@link iterate}. */
export interface IterateOptions<Part extends StatePart> {
  /** The part of this worker at the start. */
  readonly initial: (place: IterationPlace) => Part | Promise<Part>;
  /**
   * One iteration: the next part of this worker, and whether it is the last one, which must be the same on all workers. It may communicate by
   * `place.runtime`, and must not change the part that it gets.
   */
  readonly step: (
    part: Part,
    place: IterationPlace,
  ) => Promise<{ readonly part: Part; readonly done?: boolean }> | { readonly part: Part; readonly done?: boolean };
  /**
   * Rebuilds what is lost: gives this worker's part from what is left of all. Every worker of the new epoch calls the function, with the
   * same parts; it must give a state from which the iteration converges to the same result.
   */
  readonly compensate: (left: LeftParts<Part>, place: IterationPlace) => Part | Promise<Part>;
  /** The most iterations. */
  readonly iterations: number;
}

/** How an iterative program has ended. */
export interface Iterated<Part extends StatePart> extends IterationPlace {
  readonly part: Part;
  /** How often the state was rebuilt. */
  readonly compensations: number;
}

/**
 * Runs an iterative program on all workers. Under `heddle run --workers 2:8` it goes on without lost workers, and with new ones: then
 * `compensate` rebuilds what was lost. Elsewhere a lost worker ends it. Each worker makes the call.
 *
 * @returns this worker's part after the last iteration
 * @throws HeddleError `option`; the error of `step` or `compensate`
 */
export async function iterate<Part extends StatePart>(options: IterateOptions<Part>): Promise<Iterated<Part>> {
  checkOptions("iterate", options, ["initial", "step", "compensate", "iterations"]);
  for (const name of ["initial", "step", "compensate"] as const)
    if (typeof options[name] !== "function")
      throw new HeddleError("option", `iterate: ${name} must be a function, got ${shown(options[name])}`);
  checkInteger("iterate", "iterations", options.iterations, 0);
  const member = host.process?.member();
  const run = new Iteration(options, member);
  if (member === undefined) return run.once();
  await member.begin(nextCall(), 1);
  for (;;) {
    try {
      const result = await run.once();
      member.says("trained");
      return result;
    } catch (error) {
      if (!(error instanceof Regrouping) && !isLoss(error)) throw error;
      if (error instanceof HeddleError) member.broken(error.message);
      await member.takeUp();
    }
  }
}

/** A part, and among how many it is which. */
interface Held<Part> {
  readonly part: Part;
  readonly rank: number;
  readonly size: number;
  /** How often the state had been laid out anew before. */
  readonly layout: number;
}

class Iteration<Part extends StatePart> {
  private readonly options: IterateOptions<Part>;
  private readonly member: Member | undefined;
  private held: Held<Part> | undefined;
  private iteration = 0;
  private compensations = 0;

  constructor(options: IterateOptions<Part>, member: Member | undefined) {
    this.options = options;
    this.member = member;
  }

  /** Iterates with the workers at hand, to the end or until others take part. */
  async once(): Promise<Iterated<Part>> {
    const { member } = this;
    const connecting = connect();
    const runtime = await (member === undefined ? connecting : member.unlessCalled(connecting, (late) => late.close()));
    if (runtime === undefined) throw new Regrouping();
    try {
      let part = await this.begin(runtime);
      member?.says("holds");
      const place = (): IterationPlace => this.place(runtime);
      for (let done = false; !done && this.iteration < this.options.iterations; this.iteration++) {
        await this.meet(runtime);
        const next = await this.options.step(part, place());
        done = next.done ?? false;
        ({ part } = next);
        this.held = { ...(this.held as Held<Part>), part };
      }
      // Who has ended takes part no more: all end together.
      await runtime.processes?.barrier("the end of an iterative program");
      return { ...place(), part, compensations: this.compensations };
    } catch (error) {
      if (error instanceof Regrouping || isLoss(error)) runtime.close();
      else runtime.processes?.abort(error instanceof Error ? error.message : String(error));
      throw error;
    }
  }

  private place(runtime: Runtime): IterationPlace {
    return { rank: runtime.rank, size: runtime.world, runtime, iteration: this.iteration };
  }

  /** The part of this worker among those at hand. */
  private async begin(runtime: Runtime): Promise<Part> {
    const { rank, world: size, processes } = runtime;
    const all = await told(processes, {
      held: this.held,
      iteration: this.iteration,
      compensations: this.compensations,
    });
    this.iteration = Math.max(...all.map(({ iteration }) => iteration));
    this.compensations = Math.max(...all.map(({ compensations }) => compensations));
    // A worker that was lost while parts were handed round leaves others with parts of an older layout.
    const layout = Math.max(...all.map(({ held }) => held?.layout ?? -1));
    const left = all.flatMap(({ held }) => (held?.layout === layout ? [held] : []));
    let part: Part;
    if (left.length === 0) part = await this.options.initial(this.place(runtime));
    else {
      const parts = Array.from(
        { length: left[0]?.size ?? 0 },
        (_unused, old) => left.find((held) => held.rank === old)?.part,
      );
      const lost = [...parts.keys()].filter((old) => parts[old] === undefined);
      this.compensations++;
      part = await this.options.compensate({ parts, lost }, this.place(runtime));
    }
    this.held = { part, rank, size, layout: layout + 1 };
    return part;
  }

  /** Ends the epoch if other workers are called, at the same iteration on all. */
  private async meet({ processes }: Runtime): Promise<void> {
    if (this.member === undefined) return;
    const called = Uint8Array.of(this.member.isCalled ? 1 : 0);
    const all = processes === undefined ? called : await processes.allGather(called, "whether workers are called");
    if (all.some((asks) => asks !== 0)) throw new Regrouping();
  }
}

/** What a worker says of itself when an epoch begins. */
interface Told<Part> {
  readonly held: Held<Part> | undefined;
  readonly iteration: number;
  readonly compensations: number;
}

/** What all workers say, in order of their ranks. */
async function told<Part extends StatePart>(world: World | undefined, own: Told<Part>): Promise<Told<Part>[]> {
  if (world === undefined) return [own];
  const texts = await gatherTexts(world, JSON.stringify(own, asText), "parts of the state");
  return texts.map((text) => JSON.parse(text, fromText) as Told<Part>);
}

const kinds = { Float64Array, Float32Array, Int32Array, Uint32Array };

/** An array in JSON: its kind and its bytes, so that every bit stays. */
function asText(_key: string, value: unknown): unknown {
  const kind = Object.keys(kinds).find((name) => value instanceof kinds[name as keyof typeof kinds]);
  if (kind === undefined) return value;
  const { buffer, byteOffset, byteLength } = value as Float64Array;
  let bytes = "";
  for (const byte of new Uint8Array(buffer, byteOffset, byteLength)) bytes += String.fromCharCode(byte);
  return { kind, bytes: btoa(bytes) };
}

function fromText(_key: string, value: unknown): unknown {
  const { kind, bytes } = (value ?? {}) as { kind?: keyof typeof kinds; bytes?: string };
  if (kind === undefined || bytes === undefined || !(kind in kinds)) return value;
  return new kinds[kind](Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0)).buffer);
}
