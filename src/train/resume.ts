/** @module Resuming a training from the newest checkpoint that verifies on every rank. */
import type { OpenCheckpoint } from "../checkpoints/types.ts";
import { HeddleError } from "../util/errors.ts";
import { checkFits } from "./fits.ts";
import { host } from "./host.ts";
import type { Candidates, HostFiles } from "./host-interface.ts";
import type { RunParts } from "./parts.ts";
import { disposeState, importState, type Restored, type RunState } from "./state.ts";

/**
 * Restores a run: each rank reads the bytes that its devices need, and verifies them. A checkpoint that is damaged for any rank is left
 * out by all, with a warning, and the one before it is taken. `before` is called first, on rank 0. Every rank must call this function.
 *
 * @returns undefined if the training starts at the beginning
 * @throws HeddleError `checkpoint` if all are damaged, or if it is one of another training; `version` or `file`; the error of `before`
 */
export async function restore(
  parts: Omit<RunParts, "saver">,
  before: () => Promise<void>,
): Promise<{ readonly restored: Restored | undefined; readonly tag: string }> {
  const { settings, runtime, reporter } = parts;
  const { files } = host;
  let search: Candidates | undefined;
  let tag = "";
  for (let round = 0; ; round++) {
    const next = async (): Promise<string> => {
      if (round === 0) {
        await before();
        if (settings.resumeFrom !== undefined) search = await files?.candidates(settings, reporter.warn);
      }
      return JSON.stringify({ path: await search?.next(), tag: runTag() });
    };
    // Also without checkpoints: ranks whose options differ would wait for each other.
    const told = JSON.parse(await (runtime.processes?.together("checkpoint", next) ?? next())) as {
      readonly path?: string;
      readonly tag: string;
    };
    if (round === 0) ({ tag } = told);
    const { path } = told;
    if (path === undefined) return { restored: undefined, tag };
    const outcome = await attempt(path, parts, files as HostFiles);
    const problem = await firstProblem(parts, outcome);
    if (problem === undefined) return { restored: { path, state: outcome as RunState }, tag };
    if (!("error" in outcome)) dispose(outcome);
    const error = "error" in outcome ? outcome.error : new HeddleError("checkpoint", problem);
    const warning = search?.refuse(path, error);
    if (warning !== undefined) reporter.warn(warning);
  }
}

/** Marks the files of a run, so that two writes of one step do not touch each other's. */
const runTag = (): string => Math.random().toString(36).slice(2, 8).padEnd(6, "0");

type Outcome = RunState | { readonly error: unknown };

/** Reads a checkpoint; gives the error if the checkpoint is damaged. */
async function attempt(path: string, parts: Omit<RunParts, "saver">, files: HostFiles): Promise<Outcome> {
  const { settings, types, runtime, programs, signal } = parts;
  const damage = (error: unknown): { readonly error: unknown } => {
    if (files.isDamage(error)) return { error };
    throw error;
  };
  let checkpoint: OpenCheckpoint;
  try {
    checkpoint = await files.openCheckpoint(path, { signal });
  } catch (error) {
    return damage(error);
  }
  try {
    const wrong = files.stepProblem(checkpoint);
    if (wrong !== undefined) return { error: wrong };
    // Another training's checkpoint is not damaged: the user must know.
    checkFits(checkpoint, settings, types);
    return await importState(checkpoint, settings, types, runtime, programs.layouts).catch(damage);
  } finally {
    await checkpoint.close();
  }
}

const messageBytes = 1024;

/** What the first rank that could not read a checkpoint met; undefined if all could. */
async function firstProblem({ runtime }: Omit<RunParts, "saver">, outcome: Outcome): Promise<string | undefined> {
  const { error } = outcome as { readonly error?: unknown };
  const own = error instanceof HeddleError ? error.plain : error === undefined ? "" : String(error);
  if (runtime.processes === undefined) return own || undefined;
  const bytes = new Uint8Array(messageBytes);
  new TextEncoder().encodeInto(own, bytes);
  const all = await runtime.processes.allGather(bytes, "reading a checkpoint");
  for (let rank = 0; rank < runtime.world; rank++) {
    const text = new TextDecoder()
      .decode(all.subarray(rank * messageBytes, (rank + 1) * messageBytes))
      .replace(/\0+$/, "");
    if (text !== "") return `${text} (read by rank ${rank})`;
  }
  return undefined;
}

function dispose({ values, key }: RunState): void {
  disposeState(values);
  key.dispose();
}
