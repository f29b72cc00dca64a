/** @module The option `compression` of `train`, checked. */
import { isFloat } from "../ir/dtype.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { batchAxes, dataAxis, type Mesh } from "../plan/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { checkMatches, matching, type Pattern } from "../util/pattern.ts";
import { readEnvironment } from "../util/settings.ts";
import { shown } from "../util/show.ts";
import { isRecord } from "../util/tree.ts";
import { checked } from "./checked.ts";
import { type Compressor, compressorNamed } from "./compressor.ts";

/** How gradients are compressed between devices. */
export interface CompressionOptions {
  /** The compressor, such as `compression.topK({ ratio: 0.01 })`, or the name of a registered compressor. */
  readonly by: Compressor | string;
  /** Whether what is not sent is added to the next gradient; default: as the compressor needs it. */
  readonly feedback?: boolean;
  /**
   * Momentum that each device keeps for itself, before compression; default 0. Gradients that travel uncompressed get it after their
   * sum. The optimizer should have none.
   */
  readonly momentum?: number;
  /** Whether momentum is cleared where a value was sent; default: for compressors that send some of the elements. */
  readonly masking?: boolean;
  /**
   * Clips the gradients of each device to the norm `clip / √devices` before they are added to the rest; default none. `clip` of
   * `train` bounds the sum.
   */
  readonly clip?: number;
  /** Epochs before the full compression; default 0. In them the compressor sends more, or gradients travel uncompressed. */
  readonly warmup?: number;
  /** Tensors with fewer elements travel uncompressed; default 1024. */
  readonly least?: number;
  /** A pattern of the names of parameters whose gradients are compressed, such as `"**.weight"`; default all. */
  readonly only?: Pattern;
}

/** Compression with defaults filled in. */
export interface Compression {
  readonly by: Compressor;
  readonly feedback: boolean;
  readonly momentum: number;
  readonly masking: boolean;
  readonly clip: number | undefined;
  readonly warmup: number;
  readonly only: Pattern | undefined;
  /** Whether the gradient of a parameter is compressed. */
  readonly chooses: (name: string, type: TensorType) => boolean;
  /** The mesh axis over which compressed gradients travel. */
  readonly axis: string;
  /** Number of devices on that axis: each has contributions of its own. */
  readonly devices: number;
  /** In a pipeline: the stage of a parameter. Messages of one stage travel together. */
  readonly stageOf: (name: string) => number | undefined;
}

const [hostsAxis = ""] = batchAxes;

const names: readonly (keyof CompressionOptions)[] = [
  "by",
  "feedback",
  "momentum",
  "masking",
  "clip",
  "warmup",
  "least",
  "only",
];

const isCompressor = (value: unknown): value is Compressor =>
  isRecord(value) && typeof value["compress"] === "function" && typeof value["decompress"] === "function";

/** The option `compression`, or else what `--compression` says; undefined: gradients travel as they are. */
export function wishedCompression(given?: Compressor | CompressionOptions | string): Compression | undefined {
  const wish = given ?? readEnvironment().compression;
  return wish === undefined ? undefined : compressionOf(wish);
}

/** The number or truth value that a word says; any other word is itself. */
const valueOf = (word: string): unknown => {
  const number = Number(word);
  if (word !== "" && !Number.isNaN(number)) return number;
  return word === "true" || word === "false" ? word === "true" : word;
};

/** Reads a name with options, such as `topK:ratio=0.01,momentum=0.9`: those of compression, all others of the compressor. */
function spelled(text: string, what: string): CompressionOptions {
  const [name = "", ...rest] = text.split(":");
  const shared: Record<string, unknown> = {};
  const own: Record<string, unknown> = {};
  for (const pair of rest.join(":").split(",").filter(Boolean)) {
    const [, key = "", word = ""] = /^(\w+)=(.*)$/.exec(pair) ?? [];
    if (key === "" || key === "by")
      throw new HeddleError("option", `${what}: '${pair}' in '${text}' is no option with a value`, {
        hint: "write a name and options, such as topK:ratio=0.01,momentum=0.9",
      });
    Object.assign((names as readonly string[]).includes(key) ? shared : own, { [key]: valueOf(word) });
  }
  return { ...shared, by: compressorNamed(name, own) };
}

/** Checks the option and fills in defaults. @throws HeddleError `option` */
export function compressionOf(
  given: Compressor | CompressionOptions | string,
  what = "train: compression",
): Compression {
  const options = typeof given === "string" ? spelled(given, what) : isCompressor(given) ? { by: given } : given;
  if (!isRecord(options))
    throw new HeddleError("option", `${what}: is a compressor or { by }, got ${shown(given)}`, {
      hint: "write compression.topK({ ratio: 0.01 })",
    });
  checkOptions(what, options, names);
  const by = typeof options.by === "string" ? compressorNamed(options.by) : options.by;
  if (!isCompressor(by))
    throw new HeddleError("option", `${what}: by must be a compressor or the name of one, got ${shown(by)}`, {
      hint:
        typeof by === "function"
          ? "call the function that makes it, as in compression.sign()"
          : "such as compression.sign()",
    });
  if (options.feedback !== undefined && typeof options.feedback !== "boolean")
    throw new HeddleError("option", `${what}: feedback must be true or false, got ${shown(options.feedback)}`);
  const {
    feedback = by.feedback,
    momentum = 0,
    masking = by.sparse === true,
    clip,
    warmup = 0,
    least = 1024,
    only,
  } = options;
  checkNumber(what, "momentum", momentum, 0, 1);
  if (clip !== undefined) checkNumber(what, "clip", clip, Number.MIN_VALUE);
  checkInteger(what, "warmup", warmup, 0);
  checkInteger(what, "least", least, 0);
  const named = only === undefined ? () => true : matching(`${what}: only`, only);
  return {
    by: checked(by),
    feedback,
    momentum,
    masking,
    clip,
    warmup,
    only,
    chooses: (name, { shape, dtype }) =>
      isFloat(dtype) && sizeOf(shape) >= Math.max(least, 1) && named(name) && by.fits?.(shape) !== false,
    axis: dataAxis,
    devices: 1,
    stageOf: () => undefined,
  };
}

/** Checks the names of parameters, and of what the optimizer keeps. @throws HeddleError `option` */
export function checkCompression(
  { only, momentum }: Compression,
  parameters: readonly string[],
  slots: readonly string[],
): void {
  if (only !== undefined) checkMatches("train: compression: only", only, parameters);
  if (momentum > 0 && slots.some((slot) => slot.includes("momentumBuffer")))
    throw new HeddleError("option", "train: compression and the optimizer both have momentum", {
      hint: "take the optimizer without momentum, such as optim.sgd({ learningRate })",
    });
}

/**
 * The compression on a mesh: between the devices of the axis `data`, or, where there is an axis `hosts`, between hosts. Within a host gradients are
 * then added up as they are.
 */
export function onMesh(
  compression: Compression,
  { axes }: Mesh,
  stageOf: Compression["stageOf"] = compression.stageOf,
): Compression {
  const size = (axis: string): number => axes.find(({ name }) => name === axis)?.size ?? 1;
  const axis = size(hostsAxis) > 1 ? hostsAxis : dataAxis;
  return { ...compression, axis, devices: size(axis), stageOf };
}

/** How gradients travel in one stage of a training: by a compressor, or uncompressed. */
export type Stage = Compressor | undefined;

/** The number of the stage of an epoch: one for each epoch of the warm-up, then the last. */
export const stageOf = ({ warmup }: Compression, epoch: number): number => Math.min(epoch, warmup);

/** What a stage sends by. During a warm-up of W epochs the share of epoch e (from 0) is `(e + 1) / (W + 1)`. */
export const stageAt = ({ by, warmup }: Compression, stage: number): Stage =>
  stage >= warmup ? by : by.warming?.((stage + 1) / (warmup + 1));
