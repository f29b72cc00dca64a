/** @module One step of training: gradients of the loss by the parameters, the optimizer's update, and sums of metrics. */

import { exchanged } from "../compression/exchange.ts";
import { full, isTensor, random, type Tensor, type Tensors, valueAndGrad, zerosLike } from "../functions/index.ts";
import { withDivisors } from "../losses/divisors.ts";
import { type OneOrMore, scopeKey } from "../nn/index.ts";
import { mostParts } from "../nn/parts.ts";
import { clipByGlobalNorm, clipByValue } from "../optim/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { flattenTree } from "../util/tree.ts";
import { inParts, mapTensors, type PassOutcome, sharesOf } from "./accumulate.ts";
import { type ColumnNames, rowsOf, seen } from "./columns.ts";
import { type EndRequests, type StepEnd, sumsOfRequests } from "./ending.ts";
import { applied, rowWeights, sumsOf, termSums } from "./functions.ts";
import { accepted, allFinite, type GuardState, nextGuard } from "./guard.ts";
import { type Kept, nextAverage, packKept, unpackKept } from "./kept.ts";
import { batchLoss } from "./losses.ts";
import type { Settings } from "./options.ts";
import { trainedPart, wholeTree } from "./trainable.ts";
import type { BatchColumns, BatchOutcome, ModelTypes, TrainState } from "./values.ts";

type MetricTypes = Pick<ModelTypes, "metrics" | "metricSizes" | "trained">;

/** The inputs of a step. */
export type StepInput = TrainState & {
  readonly key: Tensor;
  /** Number of earlier steps. */
  readonly step: Tensor;
  readonly learningRate: Tensor;
  readonly batch: BatchColumns;
  readonly end: EndRequests<Tensor>;
};

/** The outputs of a step. */
export type StepOutcome = TrainState & BatchOutcome & { readonly end: StepEnd };

/**
 * The function of one step, which is compiled.
 *
 * @param stage the number of the stage of compression
 */
export function stepFunction(settings: Settings, types: MetricTypes, stage = 0) {
  return function trainStep({
    params,
    optimizer: tree,
    state,
    key,
    step,
    learningRate,
    batch,
    end,
  }: StepInput): StepOutcome {
    const before = unpackKept(settings, tree);
    const stepKey = random.foldIn(key, step);
    const {
      grads: computed,
      loss,
      metrics: sums,
      state: nextState,
    } = passes(settings, types, { params, state, before, stepKey, batch });
    const outcome = { loss, metrics: sums, end: sumsOfRequests(end) };
    const { guard, optimizer, compression } = settings;
    const exchange =
      compression === undefined || before.compression === undefined
        ? undefined
        : exchanged(compression, computed, before.compression, { key: scopeKey(stepKey, "compression"), stage });
    const grads = exchange?.grads ?? computed;
    const count = before.guard?.applied ?? step;
    const { trained } = types;
    const parameters = trainedPart(trained, params);
    const updated = optimizer.update(clipped(settings, grads), before.slots, parameters, { step: count, learningRate });
    const newParams = wholeTree(trained, params, updated.params);
    const average = (of: Tensors): { average?: Tensors } =>
      settings.ema === undefined || before.average === undefined
        ? {}
        : { average: nextAverage(settings.ema, before.average, of, count) };
    const sent = (of: Kept["compression"]) => (of === undefined ? {} : { compression: of });
    const after = {
      params: newParams,
      slots: updated.state,
      state: nextState,
      ...average(newParams),
      ...sent(exchange?.state),
    };
    if (guard === undefined) return { ...outcome, ...stateOf(settings, after) };
    const { slots, average: old, guard: guarded } = before;
    const ok = allFinite([loss, ...flattenTree(grads, isTensor).leaves, ...(exchange?.contributed ?? [])]);
    const taken = accepted(ok, after, {
      ...{ params, slots, state },
      ...(old === undefined ? {} : { average: old }),
      ...sent(before.compression),
    });
    const next = nextGuard(guard, guarded as GuardState, ok);
    return { ...outcome, ...stateOf(settings, { ...taken, guard: next }), accepted: ok };
  };
}

const stateOf = (
  settings: Settings,
  { params, state, ...parts }: Kept & { params: Tensors; state: Tensors },
): TrainState => ({
  params,
  optimizer: packKept(settings, parts),
  state,
});

interface PassInputs {
  readonly params: Tensors;
  readonly state: Tensors;
  readonly before: Kept;
  readonly stepKey: Tensor;
  readonly batch: BatchColumns;
}

/** Inputs and targets as the option `augment` changes them. @throws HeddleError `argument` unless it gives tensors of as many rows */
function augmented(
  { augment }: Settings,
  stepKey: Tensor,
  x: OneOrMore<Tensor>,
  y: OneOrMore<Tensor>,
): { readonly x: OneOrMore<Tensor>; readonly y: OneOrMore<Tensor> } {
  if (augment === undefined) return { x, y };
  const made = augment(scopeKey(stepKey, "augment"), { x: x as Tensor, y: y as Tensor });
  const rows = (x as Tensor).shape[0];
  const isBatch = isTensor(made?.x) && isTensor(made.y) && made.x.shape[0] === rows && made.y.shape[0] === rows;
  if (isBatch) return made;
  throw new HeddleError("argument", `train: augment must give { x, y } of ${rows} rows, got ${shown(made)}`);
}

/** Forward and backward passes over a batch, in the number of parts that `accumulate` asks for. */
function passes(
  settings: Settings,
  { metrics, metricSizes, trained }: MetricTypes,
  { params, state, before, stepKey, batch }: PassInputs,
): PassOutcome {
  const { loss, data, dtype, input, target, accumulate, classWeight } = settings;
  const see = (names: ColumnNames, columns: BatchColumns): OneOrMore<Tensor> => seen(names, columns, data, dtype);
  const given = (columns: BatchColumns) => augmented(settings, stepKey, see(input, columns), see(target, columns));
  const scale = before.guard?.scale;
  const outputs = (variables: Tensors, layerState: Tensors, columns: BatchColumns) =>
    applied(settings, { params: variables, state: layerState }, given(columns).x, {
      train: true,
      key: stepKey,
    });
  const lossOf = (y: OneOrMore<Tensor>, columns: BatchColumns, shares?: readonly Tensor[]) =>
    withDivisors(() => {
      const weights = { rows: rowWeights(settings, data, columns), classes: classWeight };
      return batchLoss(loss, y, given(columns).y, weights);
    }, shares);
  const rows = rowsOf(batch);
  const parts = mostParts(rows, accumulate);
  const shares = sharesOf(parts, (columns) => lossOf(outputs(params, state, columns).y, columns).sums, batch);
  const pass = (layerState: Tensors, columns: BatchColumns): PassOutcome => {
    const forward = (variables: Tensors) => {
      const { y, state: after } = outputs(wholeTree(trained, params, variables), layerState, columns);
      const { value, terms } = lossOf(y, columns, shares).result;
      return [scale === undefined ? value : value.mul(scale), { value, terms, y, after }] as const;
    };
    const { value: outcome, grad } = valueAndGrad(forward)(trainedPart(trained, params));
    const { value, terms, y, after } = outcome[1];
    const grads = scale === undefined ? grad : mapTensors(grad, (scaled) => scaled.div(scale));
    const sums = { ...termSums(terms, rowsOf(columns), dtype), ...sumsOf(metrics, y, see(target, columns), dtype) };
    return { grads, loss: value, metrics: sums, state: after };
  };
  const zero = {
    grads: mapTensors(trainedPart(trained, params), zerosLike),
    loss: full([], 0, { dtype }),
    metrics: Object.fromEntries(
      [...metricSizes].map(([name, { sums }]) => [name, full(sums === undefined ? [] : [sums], 0, { dtype })]),
    ),
  };
  return inParts(parts, pass, zero, state, batch);
}

/** Gradients clipped by the option `clip`: first each element, then the global norm. */
function clipped({ clip }: Settings, grads: Tensors): Tensors {
  const each = clip?.value === undefined ? grads : clipByValue(grads, clip.value);
  return clip?.norm === undefined ? each : clipByGlobalNorm(each, clip.norm).grads;
}
