/**
 * Schedules of a pipeline: four layers on two workers, two stages on each, by the schedules that Heddle brings and by one of this file. A schedule is a
 * table of actions, which is checked and simulated before it runs. The result does not depend on it; the time that workers wait does: 50 % of it one micro-batch
 * after another, 11 % interleaved, 8 % with backward passes in two parts; 3 s.
 *
 *     npx heddle run examples/pipeline-schedules.ts --workers 2
 *     npx heddle run examples/pipeline-schedules.ts                   # both workers in one process, for a look
 */
import { losses, nn, optim, replicate, train } from "heddle";
import { registerPipelineSchedule } from "heddle/pipelines";
import { type Action, makeSchedule, printSchedule, type Schedule, simulate } from "heddle/plan";
import { spirals } from "./spirals.ts";

/** One micro-batch after the other, each through all stages and back: little is kept, and all but one worker wait. */
function oneByOne(stages: number, microBatches: number, ranks = stages): Schedule {
  const passes = (rank: number, microBatch: number): Action[] => {
    const own = Array.from({ length: stages / ranks }, (_unused, chunk) => chunk * ranks + rank);
    const pass = (kind: Action["kind"], order: readonly number[]) =>
      order.map((stage) => ({ stage, kind, microBatch }));
    return [...pass("F", own), ...pass("B", own.toReversed())];
  };
  const ofRank = (rank: number): Action[] =>
    Array.from({ length: microBatches }, (_unused, microBatch) => passes(rank, microBatch)).flat();
  return {
    name: "one-by-one",
    stages,
    microBatches,
    ranks: Array.from({ length: ranks }, (_unused, rank) => ofRank(rank)),
  };
}

registerPipelineSchedule("one-by-one", oneByOne);

const microBatches = 4;
const dataset = spirals(400);

/** Trains for two epochs; the sum of the squares of the parameters, and a function that prints on rank 0. */
async function trained(stages: { readonly [layer: string]: number }, schedule: string) {
  const result = await train({
    model: nn.sequential(nn.linear(16), nn.tanh(), nn.linear(16), nn.tanh(), nn.linear(16), nn.tanh(), nn.linear(2)),
    pipeline: { stages, microBatches, schedule, stagesPerRank: schedule === "zb-h1" ? 1 : 2 },
    data: dataset.shuffle().batch(40),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.adam({ learningRate: 0.01 }),
    dtype: "f64",
    epochs: 2,
    report: "silent",
  });
  let norm = 0;
  for (const { weight } of Object.values(result.params))
    if (weight !== undefined) norm += await replicate(weight).mul(replicate(weight)).sum().item();
  return { norm, print: result.print };
}

for (const schedule of ["one-by-one", "interleaved", "zb-h1"]) {
  const four = schedule !== "zb-h1";
  const stages = four ? { 0: 0, 2: 1, 4: 2, 6: 3 } : { 0: 0, 2: 0, 4: 1, 6: 1 };
  const made = makeSchedule(four ? 4 : 2, { schedule, microBatches }, 2);
  const { bubble, peakLive } = simulate(made);
  const { norm, print } = await trained(stages, schedule);
  print(printSchedule(made).trimEnd());
  print(
    `idle ${(100 * bubble).toFixed(0)} %, kept ${peakLive.join(" and ")}, squares of the parameters ${norm.toFixed(9)}\n`,
  );
}
