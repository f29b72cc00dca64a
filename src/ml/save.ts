/** @module Models as one file: their matrices as safetensors; kind, options and everything else as JSON in its metadata. */

import {
  decodeSafetensors,
  encodeSafetensors,
  type HostTensor,
  mlKey as key,
  readSafetensors,
  saveSafetensors,
} from "../io/safetensors.ts";
import { dense, Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkBytes } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type Model, type ModelState, modelOfKind, type Note } from "./model.ts";

/** The version of what the metadata say. */
const version = 1;

interface Head {
  readonly version: number;
  readonly kind: string;
  readonly options: object;
  readonly notes: Readonly<Record<string, Note>>;
}

interface Parts {
  readonly tensors: ReadonlyMap<string, HostTensor>;
  readonly metadata: ReadonlyMap<string, string>;
}

const holdsMatrix = (value: unknown): boolean =>
  value instanceof Matrix ||
  (typeof value === "object" && value !== null && Object.values(value).some((part) => part instanceof Matrix));

/** Matrices among options, which are where a fit began, are left out; JSON lacks infinities. */
const written = (_name: string, value: unknown): unknown =>
  holdsMatrix(value)
    ? undefined
    : typeof value === "number" && !Number.isFinite(value)
      ? { number: String(value) }
      : value;

const read = (_name: string, value: unknown): unknown => {
  const { number } = (value ?? {}) as { readonly number?: unknown };
  return typeof number === "string" && Object.keys(value as object).length === 1 ? Number(number) : value;
};

function partsOf(what: string, model: Model): Parts {
  const given = model as Partial<Model> | null | undefined;
  if (typeof given?.kind !== "string" || typeof given.state !== "object")
    throw new HeddleError("argument", `${what}: takes a fitted model, got ${shown(model)}`, {
      hint: "fit(…) gives a promise of one",
    });
  const tensors = new Map<string, HostTensor>();
  const notes: Record<string, Note> = {};
  for (const [name, value] of Object.entries(model.state))
    if (value instanceof Matrix) tensors.set(name, { dtype: "f64", shape: value.shape, data: value.dataSync() });
    else notes[name] = value;
  const head: Head = { version, kind: model.kind, options: model.options, notes };
  return { tensors, metadata: new Map([[key, JSON.stringify(head, written)]]) };
}

function modelOf({ tensors, metadata }: Parts, file: string): Model {
  const text = metadata.get(key);
  if (text === undefined)
    throw new HeddleError("format", `${file} has no model of heddle/ml`, { hint: "saveModel of heddle/ml writes one" });
  const head = JSON.parse(text, read) as Head;
  if (head.version !== version)
    throw new HeddleError("version", `${file} is of version ${head.version} of models, this is version ${version}`);
  const state: Record<string, ModelState[string]> = { ...head.notes };
  for (const [name, { data, shape }] of tensors) {
    const [rows = 0, columns = 0] = shape;
    state[name] = dense(Float64Array.from(data as Float64Array), rows, columns);
  }
  return modelOfKind(head.kind, state, head.options);
}

/**
 * Writes a fitted model, or a pipeline of several, as one file, whole or not at all. Other programs can read its matrices: it is a
 * safetensors file.
 *
 * @throws HeddleError `argument`, `file`, `disk`
 */
export async function saveModel(path: string, model: Model): Promise<void> {
  const { tensors, metadata } = partsOf("saveModel", model);
  await saveSafetensors(path, tensors, { metadata });
}

/**
 * Reads a model that {@link saveModel} wrote. `Fitted` is the type of model that the caller expects.
 *
 * @throws HeddleError `file`, `format`, `version`
 */
export async function loadModel<Fitted extends Model = Model>(path: string): Promise<Fitted> {
  return modelOf(await readSafetensors(path), path) as Fitted;
}

/** A model's file as bytes. @throws HeddleError `argument` */
export function encodeModel(model: Model): Uint8Array {
  const { tensors, metadata } = partsOf("encodeModel", model);
  return encodeSafetensors(tensors, metadata);
}

/** A model of a file's bytes. @throws HeddleError `argument`, `format`, `version` */
export function decodeModel<Fitted extends Model = Model>(bytes: Uint8Array): Fitted {
  checkBytes("decodeModel", bytes);
  return modelOf(decodeSafetensors(bytes, "the model"), "the model") as Fitted;
}
