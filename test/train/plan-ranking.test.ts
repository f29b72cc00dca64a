import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { trainings } from "../../bench/plans/trainings.ts";
import { checkMachine, type Machine } from "../../src/cost/index.ts";
import { parseMesh } from "../../src/plan/index.ts";
import { costOf } from "../../src/program/index.ts";
import { modelTypes } from "../../src/train/functions.ts";
import type { TrainOptions } from "../../src/train/options.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";

const { machine, milliseconds } = JSON.parse(
  readFileSync(new URL("../fixtures/plans.json", import.meta.url), "utf8"),
) as { machine: Machine; milliseconds: { [training: string]: { [mesh: string]: number } } };

/** Names in the order of their numbers. */
const ranked = (times: { readonly [name: string]: number }): string[] =>
  Object.entries(times)
    .sort(([, one], [, other]) => one - other)
    .map(([name]) => name);

// The best mesh of the perceptron differs from the best mesh of the other two models.
test.each(Object.entries(milliseconds))("the meshes of %s have the order that runs measured", (name, measured) => {
  const settings = resolveOptions({
    ...(trainings[name] as TrainOptions),
    machine: checkMachine("plans.json", machine),
  });
  const types = modelTypes(settings);
  const predicted = Object.fromEntries(
    Object.keys(measured).map((mesh) => {
      const { program } = planStep(settings, types, parseMesh(mesh));
      return [mesh, 1e3 * costOf(program, machine).seconds];
    }),
  );
  expect(ranked(predicted)).toEqual(ranked(measured));
  // Within a third of what was measured, too.
  for (const [mesh, time] of Object.entries(predicted)) {
    expect(time, mesh).toBeGreaterThan((measured[mesh] as number) / 1.33);
    expect(time, mesh).toBeLessThan((measured[mesh] as number) * 1.33);
  }
});
