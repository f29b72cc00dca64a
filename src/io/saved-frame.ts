/** @module Frames in the metadata of models and checkpoints: a model that has one takes records. */
import { type AnyFrame, Frame, frameFrom } from "../frames/index.ts";
import { type Tensor, tensor } from "../functions/index.ts";
import { formatType, sameShape, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { isRecord } from "../util/tree.ts";
import type { SafetensorsMetadata } from "./safetensors.ts";
import { openWeights } from "./weights.ts";

const key = "heddle.frame";
/** What a checkpoint in one file says of itself. */
const checkpointKey = "heddle.checkpoint";

/** A frame that is saved with a model, and the name of its column that the model takes. */
export interface SavedFrame {
  readonly frame: AnyFrame;
  readonly input: string;
}

/** The metadata of a frame. @throws HeddleError `argument` unless the frame makes the model's input */
export function frameMetadata(what: string, saved: SavedFrame, input: TensorType): [string, string][] {
  checkOptions(`${what}: frame`, saved, ["frame", "input"]);
  checkInput(what, saved, input);
  return [[key, JSON.stringify({ input: saved.input, ...saved.frame.toJSON() })]];
}

/** @throws HeddleError `argument` unless a frame makes this input, batch first */
function checkInput(what: string, { frame, input: name }: SavedFrame, input: TensorType): void {
  if (!(frame instanceof Frame)) throw new HeddleError("argument", `${what}: takes a frame, got ${shown(frame)}`);
  const { shape } = frame.type(name);
  if (sameShape(shape, input.shape.slice(1))) return;
  throw new HeddleError(
    "argument",
    `${what}: the frame makes ${name} of shape [batch, ${shape.join(", ")}], the model takes ${formatType(input)}`,
  );
}

/** The frame in the metadata of a model or of a checkpoint, which says of none which column is the input. @throws HeddleError `format` */
export function savedFrame(
  path: string,
  metadata: SafetensorsMetadata,
): (SavedFrame & { readonly frame: Frame }) | undefined {
  const text = metadata.get(key) ?? metadata.get(checkpointKey);
  if (text === undefined) return undefined;
  const malformed = (): HeddleError => new HeddleError("format", `${path}: the metadata of its frame are malformed`);
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    throw malformed();
  }
  if (!isRecord(data)) throw malformed();
  if (metadata.has(key)) {
    if (typeof data["input"] !== "string") throw malformed();
    return { frame: frameFrom(data), input: data["input"] };
  }
  const { frame } = isRecord(data["extra"]) ? data["extra"] : { frame: undefined };
  return frame === undefined ? undefined : { frame: frameFrom(frame), input: "" };
}

/** Records as the input of a model. */
export function encodedRows(saved: SavedFrame | undefined, rows: readonly object[], input: TensorType): Tensor {
  if (saved === undefined)
    throw new HeddleError("model", "predict: the model was saved without a frame, so it takes a tensor", {
      hint: "save it with one: train({ frame, … }) and result.save(path)",
    });
  const { data, shape, dtype } = saved.frame.encode(saved.input, rows);
  return tensor(data, { shape, dtype }).cast(input.dtype);
}

/**
 * The frame that was saved with a model, or in a checkpoint (in a folder of checkpoints the newest).
 *
 * @throws HeddleError `model` when there is none; `file` when the file cannot be read
 */
export function loadFrame(path: string): Promise<Frame> {
  return called(async () => {
    const file = await openWeights("loadFrame", path);
    try {
      const saved = savedFrame(file.path, file.metadata);
      if (saved !== undefined) return saved.frame;
      throw new HeddleError("model", `loadFrame: ${file.path} has no frame`, {
        hint: "train({ frame, … }) saves it with checkpoints and models",
      });
    } finally {
      await file.close();
    }
  });
}
