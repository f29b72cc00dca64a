/** @module Runs a file under the profiler and reads what its workers tell. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseRankProfile, type RankProfile } from "../executors/index.ts";
import type { LaunchOptions, LaunchResult } from "../launch/launch-options.ts";
import { launchLocal } from "../launch/local.ts";
import { HeddleError } from "../util/errors.ts";
import { exitStatus } from "./status.ts";

/** Runs of a program before those that count: the first ones map memory. */
const warmUp = 3;

/**
 * Profiles `steps` steps of a file; returns the profiles of all ranks, rank 0 first, or none where the run failed.
 *
 * @throws HeddleError `profile` when no program ran
 */
export async function profiled(
  options: Omit<LaunchOptions, "profile" | "executor">,
  steps: number,
): Promise<{ readonly result: LaunchResult; readonly ranks: readonly RankProfile[] }> {
  const directory = mkdtempSync(join(tmpdir(), "heddle-profile-"));
  try {
    const profile = { directory, steps, warmUp };
    const result = await launchLocal({ ...options, executor: "native", profile, outputToErrors: true });
    return { result, ranks: result.status === exitStatus.ok ? readRanks(directory) : [] };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function readRanks(directory: string): RankProfile[] {
  const ranks = readdirSync(directory)
    .filter((name) => /^rank-\d+\.json$/.test(name))
    .map((name) => parseRankProfile(readFileSync(join(directory, name), "utf8")))
    .sort((a, b) => a.rank - b.rank);
  if (ranks[0] !== undefined && ranks[0].programs.length > 0) return ranks;
  throw new HeddleError("profile", "nothing ran on the native executor", {
    hint: "the file should call train(), or run operations on tensors",
  });
}
