/**
 * @module Models with their architecture: a safetensors file of the variables, whose metadata hold the layers and the type of their
 * input as JSON.
 */

import { type GivenRecords, givenRows } from "../frames/given.ts";
import type { Frame } from "../frames/index.ts";
import { jit, type Tensor, type Tensors } from "../functions/index.ts";
import { type DType, isDType } from "../ir/dtype.ts";
import type { TensorType } from "../ir/shape.ts";
import { isTensorType } from "../ir/shape.ts";
import { type FloatDType, withFloats } from "../nn/float-dtype.ts";
import * as nn from "../nn/index.ts";
import { isLayerLike } from "../nn/layer.ts";
import { layerAsData, layerOfData } from "../nn/recipe.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { isRecord } from "../util/tree.ts";
import { version } from "../util/version.ts";
import { hostByName, toHost } from "./host-tensors.ts";
import { readVariables } from "./load-variables.ts";
import { mlKey, type SafetensorsMetadata, savedBy } from "./safetensors.ts";
import { encodedRows, frameMetadata, type SavedFrame, savedFrame } from "./saved-frame.ts";
import { openWeights } from "./weights.ts";

const key = "heddle.model";
const format = 1;

/** The input that the variables of a model are made for. */
export interface SavedInput {
  /** Shape (batch first, of any size) and dtype of the input. */
  readonly input: TensorType;
  /** Dtype of the floats; default `"f32"`. */
  readonly dtype?: FloatDType;
  /** What makes the input of records, and the name of its column that is the input; default none. */
  readonly frame?: SavedFrame | undefined;
}

/**
 * The metadata of a safetensors file by which {@link loadModel} makes the layers again: for {@link saveSafetensors},
 * where the variables of the model are collected in another way than by {@link saveModel}. `what` is the function that
 * users call.
 *
 * @throws HeddleError `model` naming a layer that the user's code makes; `argument` without an input
 */
export function modelMetadata(what: string, model: nn.Layer, saved: SavedInput): SafetensorsMetadata {
  const { input, dtype = "f32", frame } = asRecord(what, saved);
  if (!isTensorType(input))
    throw new HeddleError("argument", `${what}: input is { shape, dtype }, got ${shown(input)}`);
  const { shape } = input;
  const data = {
    format,
    library: version,
    model: layerAsData(what, model),
    input: { shape, dtype: input.dtype },
    dtype,
  };
  return new Map([[key, JSON.stringify(data)], ...(frame === undefined ? [] : frameMetadata(what, frame, input))]);
}

/** Options of {@link saveModel}. */
export interface SaveModelOptions {
  /** Shape (batch first, of any size) of the input, in f32, or shape and dtype. */
  readonly input: readonly number[] | TensorType;
  /** Dtype of the floats; default `"f32"`. */
  readonly dtype?: FloatDType;
  /** The frame that makes the input of records, and the name of its column that is the input: `{ frame, input: "x" }`. Default none. */
  readonly frame?: SavedFrame;
}

/**
 * Writes a model with its architecture: layers, the type of their input and all variables, as one safetensors file, which {@link
 * loadModel} reads without the code that made the model. Layers must be those of `nn`. `result.save(path)` of `train` and `save` of
 * `keras.model` write such files. The file appears whole or not at all.
 *
 * @throws HeddleError `model` naming a layer that code of yours makes (`nn.module`, a function, a layer of your own); `file` or `disk`
 * when it cannot be written.
 */
export function saveModel(
  path: string,
  model: nn.Layer,
  variables: nn.Variables,
  options: SaveModelOptions,
): Promise<void> {
  return called(async () => {
    checkOptions("saveModel", options, ["input", "dtype", "frame"]);
    if (!isLayerLike(model) || typeof model === "function")
      throw new HeddleError("argument", `saveModel: takes a layer after the path, got ${shown(model)}`);
    const { params, state } = variables ?? {};
    if (typeof params !== "object" || typeof state !== "object")
      throw new HeddleError("argument", "saveModel: takes { params, state } after the layer");
    const { input, dtype = "f32", frame } = options;
    const type: TensorType = isTensorType(input) ? input : { shape: input as readonly number[], dtype };
    const metadata = modelMetadata("saveModel", model, { input: type, dtype, frame });
    await savedBy("saveModel", path, await hostByName("saveModel", [params, state], toHost), { metadata });
  });
}

/** A model that was read: its layers, its variables, and the type of its input. */
export interface LoadedModel extends nn.Variables {
  readonly layer: nn.Layer;
  /** Shape and dtype of the input that the model was saved for; the batch size may be another. */
  readonly input: TensorType;
  readonly dtype: FloatDType;
  /** The frame that was saved with the model, if any. */
  readonly frame: Frame | undefined;
  /**
   * The outputs for a batch, as in evaluation; compiled once for each shape. A model that was saved with a frame takes records, too,
   * or one record: `model.predict([{ age: 31, city: "Paris" }])`.
   *
   * @throws HeddleError `model` for records where the model has no frame; `data` naming a record that the frame cannot encode
   */
  predict(x: Tensor | GivenRecords): Tensor;
}

/**
 * Reads a model that {@link saveModel}, `result.save` or `keras.model` wrote: layers and variables. Nothing in the file
 * is executed but the functions of `nn` that it names.
 *
 * @throws HeddleError `model` for a file of variables alone; `version` for a model of a newer Heddle; `format` for a
 * malformed file, or one of another format, such as ONNX; `file` when the file cannot be read.
 * @example (await io.loadModel("model.safetensors")).predict(x)
 */
export function loadModel(path: string): Promise<LoadedModel> {
  return called(async () => {
    const file = await openWeights("loadModel", path);
    try {
      const { layer, input, dtype } = parse(file.path, file.metadata);
      const { params, state } = await readVariables("loadModel", file, layer, { input, dtype });
      const apply = jit(
        (weights: Tensors, layerState: Tensors, x: Tensor): Tensor =>
          layer.apply({ params: weights, state: layerState }, x).y,
      );
      const saved = savedFrame(file.path, file.metadata);
      return {
        layer,
        params,
        state,
        input,
        dtype,
        frame: saved?.frame,
        predict: (x) => {
          const rows = givenRows("predict", x);
          return apply(params, state, rows === undefined ? (x as Tensor) : encodedRows(saved, rows, input));
        },
      };
    } finally {
      await file.close();
    }
  });
}

function parse(path: string, metadata: SafetensorsMetadata): Required<Omit<SavedInput, "frame">> & { layer: nn.Layer } {
  const text = metadata.get(key);
  if (metadata.has(mlKey))
    throw new HeddleError("model", `loadModel: ${path} holds a model of heddle/ml`, {
      hint: 'read it by loadModel of "heddle/ml"',
    });
  if (text === undefined)
    throw new HeddleError("model", `loadModel: ${path} holds variables alone, without the layers of their model`, {
      hint: "make the model, and read them by io.loadVariables(path, model, { input })",
    });
  const malformed = (problem: string): HeddleError =>
    new HeddleError("format", `${path} is not a valid model file: in its metadata, ${problem}`);
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    throw malformed("the text is not JSON");
  }
  if (!isRecord(data)) throw malformed("the text is not a record");
  const { format: theirs, library, model, input, dtype } = data;
  if (typeof theirs === "number" && theirs > format)
    throw new HeddleError(
      "version",
      `${path} has model format ${theirs}, this Heddle (${version}) reads up to ${format}`,
      {
        hint: `use the Heddle that wrote it: ${String(library)}`,
      },
    );
  const { shape, dtype: of } = (input ?? {}) as { shape?: unknown; dtype?: unknown };
  const isInput = Array.isArray(shape) && shape.every((size) => Number.isSafeInteger(size) && size >= 0);
  if (!isInput || typeof of !== "string" || !isDType(of)) throw malformed("the input has no shape and dtype");
  if (dtype !== "f32" && dtype !== "f64") throw malformed(`floats are ${shown(dtype)}`);
  const layer = withFloats(dtype, () => layerOfData(model, nn, malformed));
  return { layer, input: { shape: shape as number[], dtype: of as DType }, dtype };
}
