/**
 * @module The interface that Keras made usual: `model.compile`, `fit`, `evaluate`, `predict`. It is `train` underneath.
 *
 *     const model = keras.model(nn.sequential(nn.linear(32), nn.relu(), nn.linear(3)));
 *     model.compile({ optimizer: "adam", loss: "softmaxCrossEntropy", metrics: ["accuracy"] });
 *     await model.fit(x, y, { epochs: 10, validationSplit: 0.2 });
 */
export type { Rows, RowValue, ValidationData } from "./inputs.ts";
export type { LossName } from "./losses.ts";
export type { MetricList, MetricName } from "./metrics.ts";
export { loadModel, Model, model } from "./model.ts";
export type { OptimizerName } from "./optimizers.ts";
export type { CompileOptions, EvaluateOptions, FitOptions, ModelOptions, PredictOptions } from "./options.ts";
export type { History } from "./told.ts";
