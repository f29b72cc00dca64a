/** @module `heddle bench policies`: time and samples to a target loss under policies of consistency, in virtual time. */
import { writeFileSync } from "node:fs";
import { Command, Option } from "commander";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { lineChart } from "./line-chart.ts";
import { type RaceResult, race, type Stragglers } from "./policy-race.ts";
import { exitStatus } from "./status.ts";
import { aligned } from "./table.ts";

const compared = [
  ...[
    "bsp",
    "backup:1",
    "dynamic-backup",
    "ssp:3",
    "essp:3",
    "adaptive-ssp:1:8",
    "dssp:3:12",
    "dynsgd:10",
    "mixed:4:4",
  ],
  ...["async", "downpour:2:2", "elastic-averaging:4:0.1", "d-psgd:ring", "ad-psgd:ring"],
];

const notes = `
The problem is a logistic regression with 20 features and batches of 8; a gradient takes about one virtual second and a message up to
a twentieth. Stragglers: "slow" is one worker at a quarter of the speed, "random" one step in ten that takes ten times as long.
Each policy runs at the learning rate, of nine, at which it is fastest; figures are the median over the seeds. "seconds" are virtual:
the hardware's and the statistics' efficiency together; "samples" are the statistics' alone. "waiting" is the share of the workers' time
in which they waited for parameters, "stale" the mean number of steps between a copy and its update. Besides policies of a server there are
d-psgd and ad-psgd, which have none, with a topology: ring, exponential or complete.
`;

interface Flags {
  readonly workers: number;
  readonly policies: readonly string[];
  readonly stragglers: Stragglers;
  readonly seeds: number;
  readonly svg?: string;
  readonly json?: boolean;
}

/** The command `bench policies`. */
export function benchPoliciesCommand({ finish }: CommandContext): Command {
  return new Command("policies")
    .summary("compare policies of consistency")
    .description(
      "Compares policies of consistency by time and samples to a target loss, in virtual time with stragglers.",
    )
    .option("-n, --workers <number>", "workers", wholeNumber(1, 64), 8)
    .option("--policies <specs>", "policies, such as bsp,ssp:3", (text: string) => text.split(","), compared)
    .addOption(
      new Option("--stragglers <kind>", "which workers are slow").choices(["none", "slow", "random"]).default("slow"),
    )
    .option("--seeds <number>", "trainings of each policy", wholeNumber(1, 100), 3)
    .option("--svg <file>", "draw the loss over time (needs the package vega)")
    .option("--json", "machine-readable")
    .addHelpText("after", notes)
    .action(async ({ svg, json, ...options }: Flags) => {
      const results = race({ ...options, target: 0.02 });
      if (svg !== undefined) writeFileSync(svg, await drawn(results, options.stragglers));
      if (json === true) console.log(JSON.stringify(results, null, 2));
      else console.log(formatRace(results));
      finish(exitStatus.ok);
    });
}

/** The table of a comparison, the fastest policy first. */
export function formatRace(results: readonly RaceResult[]): string {
  const known = (value: number, text: string): string => (Number.isFinite(value) ? text : "-");
  const sorted = [...results].sort((left, right) => left.seconds - right.seconds);
  const lines = sorted.map(({ policy, learningRate, seconds, samples, waiting, staleness }) => [
    policy,
    known(seconds, seconds.toFixed(0)),
    known(seconds, String(samples)),
    known(seconds, (samples / seconds).toFixed(1)),
    known(waiting, `${(waiting * 100).toFixed(0)} %`),
    known(staleness, staleness.toFixed(1)),
    known(seconds, String(learningRate)),
  ]);
  return aligned([["policy", "seconds", "samples", "samples/s", "waiting", "stale", "rate"], ...lines], [0]);
}

const drawn = (results: readonly RaceResult[], stragglers: Stragglers): Promise<string> =>
  lineChart({
    title: `Loss above the least one, as a share of the first; stragglers: ${stragglers}`,
    x: "virtual seconds",
    y: "excess loss",
    lines: Object.fromEntries(
      results
        .filter(({ seconds }) => Number.isFinite(seconds))
        .map(({ policy, curve }) => [policy, curve.filter(([, excess]) => excess > 0)]),
    ),
  });
