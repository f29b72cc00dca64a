/** @module Checks of what a training keeps in a checkpoint besides values: files are not trusted, and a wrong count trains wrongly or for ever. */
import { isRecord } from "../util/tree.ts";

type Check = (value: unknown) => boolean;

const isNumber: Check = (value) => typeof value === "number";
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isRate: Check = (value) => Number.isFinite(value) && (value as number) >= 0;
const maybe =
  (check: Check): Check =>
  (value) =>
    value === undefined || value === null || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const recordOf =
  (check: Check): Check =>
  (value) =>
    isRecord(value) && Object.values(value).every(check);
const fields =
  (checks: { readonly [name: string]: Check }): Check =>
  (value) =>
    isRecord(value) &&
    Object.entries(checks).every(([name, check]) => check((value as { [name: string]: unknown })[name]));

const evaluation = { loss: isNumber, metrics: recordOf(isNumber) };
const schema: { readonly [name: string]: Check } = {
  tally: fields({
    loss: isNumber,
    examples: isCount,
    rejected: isCount,
    sums: recordOf(fields({ sums: listOf(isNumber), count: isCount })),
  }),
  history: listOf(
    fields({
      ...evaluation,
      epoch: isCount,
      steps: isCount,
      rejected: isCount,
      seconds: isNumber,
      examplesPerSecond: isNumber,
      learningRate: isNumber,
      validation: maybe(fields({ ...evaluation, examples: isCount })),
    }),
  ),
  // Missing in checkpoints of Heddle 0.1.0.
  orderOffset: (value) => value === undefined || isCount(value),
  rateScale: (value) => value === undefined || isRate(value),
};

/** The first problem of what a training has kept, with NaN and infinities as numbers; undefined if it is well-formed. */
export function problemOfExtra(extra: unknown): string | undefined {
  if (!isRecord(extra)) return "its extra is not an object";
  const wrong = Object.entries(schema).find(([name, check]) => !check((extra as { [name: string]: unknown })[name]));
  return wrong === undefined ? undefined : `its ${wrong[0]} is malformed`;
}
