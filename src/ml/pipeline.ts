/** @module Pipelines: transformers one after another, and an estimator at the end, fitted as one. */

import type { Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { MatrixData } from "./data.ts";
import {
  checkEstimator,
  defineKind,
  type Estimator,
  type Model,
  type ModelState,
  modelOfKind,
  type Note,
} from "./model.ts";
import type { Categories, Encoder } from "./prepare.ts";

/** Estimators by name, in order; an encoder of texts comes first. */
export type Steps = Readonly<Record<string, Estimator | Encoder>>;

/** Estimators as one. Where an encoder comes first, examples are rows of categories. */
export interface PipelineEstimator
  extends Estimator<PipelineModel, { readonly steps: Steps } & Record<string, unknown>> {
  fit(x: MatrixData | Categories, y?: MatrixData): Promise<PipelineModel>;
  with(steps: Record<string, unknown>): PipelineEstimator;
}

/** What the last step's model can do; a method that it lacks is an error. */
export interface PipelineModel extends Model {
  /** The models of the steps, by name. */
  readonly steps: Readonly<Record<string, Model>>;
  predict(x: MatrixData | Categories): Matrix;
  probabilities(x: MatrixData | Categories): Matrix;
  transform(x: MatrixData | Categories): Matrix;
}

type Method = "predict" | "probabilities" | "transform";

/** @throws HeddleError `argument` for a model that lacks the method */
function called(name: string, model: Model, method: Method, x: MatrixData | Categories): Matrix {
  const found = (model as Partial<Record<Method, (x: MatrixData | Categories) => Matrix>>)[method];
  if (typeof found === "function") return found(x);
  throw new HeddleError("argument", `pipeline: the step ${shown(name)} (${model.kind}) has no ${method}`);
}

/** Models of steps as one; their kinds, options and states are what is saved. */
function modelOf(steps: readonly (readonly [string, Model])[]): PipelineModel {
  const [lastName, last] = steps.at(-1) as readonly [string, Model];
  const prepared = (x: MatrixData | Categories): MatrixData | Categories =>
    steps
      .slice(0, -1)
      .reduce<MatrixData | Categories>((given, [name, model]) => called(name, model, "transform", given), x);
  const run = (method: Method) => (x: MatrixData | Categories) => called(lastName, last, method, prepared(x));
  const state: Record<string, ModelState[string]> = {};
  for (const [name, model] of steps)
    for (const [part, value] of Object.entries(model.state)) state[`${name}/${part}`] = value;
  return {
    kind: "pipeline",
    options: { models: steps.map(([name, { kind, options }]) => ({ name, kind, options })) },
    state,
    steps: Object.fromEntries(steps),
    predict: run("predict"),
    probabilities: run("probabilities"),
    transform: run("transform"),
  };
}

interface SavedStep {
  readonly name: string;
  readonly kind: string;
  readonly options: object;
}

defineKind("pipeline", (state, options) => {
  const { models } = options as { readonly models: readonly SavedStep[] };
  return modelOf(
    models.map(({ name, kind, options: own }) => {
      const parts = Object.entries(state).filter(([part]) => part.startsWith(`${name}/`));
      const inner = Object.fromEntries(parts.map(([part, value]) => [part.slice(name.length + 1), value as Note]));
      return [name, modelOfKind(kind, inner, own)] as const;
    }),
  );
});

/**
 * An estimator of several: each step transforms what the next one gets. What is learnt for a transformation is learnt from the examples that the
 * pipeline is fitted to, so that cross-validation does not look at what it tests.
 *
 * @throws HeddleError `argument` for no steps, or for what is no estimator
 */
export function pipeline(steps: Steps): PipelineEstimator {
  const isRecord = typeof steps === "object" && steps !== null && !Array.isArray(steps);
  const list = isRecord ? Object.entries(steps) : [];
  if (list.length === 0)
    throw new HeddleError("argument", `pipeline: takes estimators by name, got ${shown(steps)}`, {
      hint: "such as { scale: standardScaler(), model: ridge() }",
    });
  for (const [name, step] of list) {
    checkEstimator(`pipeline: ${name}`, step);
    if (name.includes("/")) throw new HeddleError("argument", `pipeline: the name ${shown(name)} has a slash`);
  }
  return {
    kind: "pipeline",
    options: { steps },
    fit: async (x, y) => {
      const models: [string, Model][] = [];
      let given: MatrixData | Categories = x;
      for (const [at, [name, step]] of list.entries()) {
        const model: Model = await (step as Estimator).fit(given as MatrixData, y);
        models.push([name, model]);
        if (at < list.length - 1) given = called(name, model, "transform", given);
      }
      return modelOf(models);
    },
    with: (changed) => {
      checkOptions("pipeline", changed, Object.keys(steps));
      return pipeline({ ...steps, ...(changed as Steps) });
    },
  };
}
