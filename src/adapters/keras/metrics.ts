/** @module Metrics by name. The loss decides whether they read the outputs as probabilities or as logits. */

import { HeddleError, shown } from "../../extend/index.ts";
import type { Tensor } from "../../functions/index.ts";
import { isInteger, sameShape } from "../../ir/index.ts";
import * as all from "../../metrics/index.ts";
import { type CountedMetric, isCounted, type Metric, type Metrics } from "../../metrics/index.ts";
import { labelsFor, type OutputKind, targetLike } from "./losses.ts";
import { named } from "./names.ts";

/** The metrics that `compile` takes: names, or metrics with or without names. */
export type MetricList = readonly (string | Metric)[] | { readonly [name: string]: string | Metric | CountedMetric };

/** The logit of a probability: binary metrics cut logits at 0. */
const logit = (p: Tensor): Tensor => p.log().sub(p.neg().add(1).log());

/**
 * Whether the outputs are binary: output and target have one shape but for a last dim of 1, which one class per row
 * does not.
 */
const isBinary = (output: Tensor, target: Tensor): boolean =>
  output.shape.at(-1) === 1 || (sameShape(output.shape, target.shape) && output.shape.length < 2);

type Make = (outputs: OutputKind) => Metric | CountedMetric;

const answers = (outputs: OutputKind, output: Tensor): Tensor => (outputs === "probabilities" ? logit(output) : output);

/** Whether each row of `[rows…, 1]` or `[rows…]` is right, as one value. */
const binaryAccuracy: Make = (outputs) => (output, target) =>
  all.binaryAccuracy(answers(outputs, output), targetLike(output, target)) as Tensor;
const sparseAccuracy: Metric = (output, target) => all.accuracy(output, labelsFor(output, target));
const categoricalAccuracy: Metric = (output, target) => output.argMax(-1).eq(target.argMax(-1));

const accuracy: Make = (outputs) => (output, target) => {
  if (isBinary(output, target)) return (binaryAccuracy(outputs) as Metric)(output, target);
  const oneHot = sameShape(output.shape, target.shape) && !isInteger(target.dtype);
  return oneHot ? categoricalAccuracy(output, target) : sparseAccuracy(output, target);
};

/** A metric of counts of binary outputs, or of classes. */
const counted =
  (metric: CountedMetric): Make =>
  (outputs) => ({
    counts: (output, target) =>
      isBinary(output, target)
        ? metric.counts(answers(outputs, output), targetLike(output, target))
        : metric.counts(output, labelsFor(output, target)),
    value: metric.value,
  });

/** A metric of numbers. */
const ofNumbers =
  (metric: Metric): Make =>
  () =>
  (output, target) =>
    metric(output, targetLike(output, target));

const table = {
  accuracy,
  acc: accuracy,
  binaryAccuracy,
  categoricalAccuracy: () => categoricalAccuracy,
  sparseCategoricalAccuracy: () => sparseAccuracy,
  top5: () => (output, target) => all.topK(5)(output, labelsFor(output, target)),
  precision: counted(all.precision()),
  recall: counted(all.recall()),
  f1: counted(all.f1()),
  auc: counted(all.auc()),
  mse: ofNumbers(all.meanSquaredError),
  meanSquaredError: ofNumbers(all.meanSquaredError),
  mae: ofNumbers(all.meanAbsoluteError),
  meanAbsoluteError: ofNumbers(all.meanAbsoluteError),
  rootMeanSquaredError: () => ({
    counts: (output, target) => all.rootMeanSquaredError.counts(output, targetLike(output, target)),
    value: all.rootMeanSquaredError.value,
  }),
} satisfies { readonly [name: string]: Make };

/** The names that `compile` knows. */
export type MetricName = keyof typeof table;

/**
 * Metrics by the names they are reported under.
 *
 * @throws HeddleError `option` for a value that is not a metric, and for two metrics of one name
 */
export function metricsOf(list: MetricList, outputs: OutputKind): Metrics {
  if (typeof list !== "object" || list === null)
    throw new HeddleError("option", `compile: metrics must be a list or a record, got ${shown(list)}`, {
      hint: 'such as ["accuracy"] or { top3: metrics.topK(3) }',
    });
  const entries = Array.isArray(list)
    ? (list as readonly unknown[]).map((metric): [string, unknown] => [nameOf(metric), metric])
    : Object.entries(list as object);
  const found = new Map<string, Metric | CountedMetric>();
  for (const [name, metric] of entries) {
    if (found.has(name)) throw new HeddleError("option", `compile: two metrics are called '${name}'`);
    found.set(name, metricOf(metric, outputs));
  }
  return Object.fromEntries(found);
}

function metricOf(metric: unknown, outputs: OutputKind): Metric | CountedMetric {
  if (typeof metric === "function") return metric as Metric;
  if (typeof metric === "object" && metric !== null && "counts" in metric && isCounted(metric as CountedMetric))
    return metric as CountedMetric;
  return (named("metric", metric, table) as Make)(outputs);
}

function nameOf(metric: unknown): string {
  if (typeof metric === "string") return metric;
  if (typeof metric === "function" && metric.name !== "") return metric.name;
  throw new HeddleError("option", `compile: a metric has no name: ${shown(metric)}`, {
    hint: "give a record of metrics by name, such as { top3: metrics.topK(3) }",
  });
}
