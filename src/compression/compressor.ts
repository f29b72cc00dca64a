/** @module What a compressor of gradients is, and the registry of compressors. */
import type { Tensor } from "../functions/index.ts";
import type { TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";

/** Tensors by name. */
export type Parts = { readonly [name: string]: Tensor };

/** What a compressor is given besides the gradient. */
export interface CompressGiven {
  /** A random key (u32[2]) for this parameter and this step, the same on all devices. */
  readonly key: Tensor;
  /** The state that the compressor keeps for this parameter; empty without {@link Compressor.initial}. */
  readonly state: Parts;
  /** Sum over the devices of a value `[devices, …]`: `[…]`, on every device. It travels, by an all-reduce. */
  readonly sum: (x: Tensor) => Tensor;
}

/** What a compressor makes of a gradient. */
export interface Compressed {
  /** What each device sends: tensors `[devices, …]`. */
  readonly message: Parts;
  /** What all devices know anyway, for decompression: it does not travel. Default: nothing. */
  readonly shared?: Parts;
}

/** What {@link Compressor.decompress} is given besides messages. */
export interface DecompressGiven extends TensorType {
  readonly shared: Parts;
}

/**
 * A way to compress gradients. All its functions are traced: they take and give tensors, with the devices as dim 0, and compute each
 * device's row from the same row. So a message is made where its gradient is.
 */
export interface Compressor {
  readonly name: string;
  /**
   * How messages travel: `"sum"` for messages of which the sum decompresses to the sum (an all-reduce, one row comes), `"gather"` for
   * all others (an all-gather, a row of each device comes).
   */
  readonly travels: "sum" | "gather";
  /** Whether what is not sent is added to the next gradient, unless the user says otherwise. */
  readonly feedback: boolean;
  /** Whether most of what a message decompresses to is 0: then momentum is cleared where a value was sent. Default false. */
  readonly sparse?: boolean;
  /** Whether it can compress gradients of this shape; the others travel as they are. Default: it can. */
  readonly fits?: (shape: readonly number[]) => boolean;
  /** The state for a parameter of this type (without the dim of devices) before the first step. Default: none. */
  readonly initial?: (type: TensorType, key: Tensor) => Parts;
  /** The message for a gradient `[devices, …shape]`. */
  readonly compress: (x: Tensor, given: CompressGiven) => Compressed;
  /** Gradients `[rows, …shape]` from messages of so many rows. */
  readonly decompress: (message: Parts, given: DecompressGiven) => Tensor;
  /** The sum `[…shape]` of all rows of {@link decompress}, where there is a shorter way to it. */
  readonly total?: (message: Parts, given: DecompressGiven) => Tensor;
  /** The state after a step, from the messages received. Default: as before. */
  readonly next?: (received: Parts, shared: Parts) => Parts;
  /**
   * The compressor for a share of the warm-up, from above 0 to below 1: it sends more. Absent: gradients travel uncompressed during
   * the warm-up.
   */
  readonly warming?: (share: number) => Compressor;
}

/** A registered kind of compressor. */
export interface CompressorKind {
  readonly name: string;
  /** What it does, in a sentence. */
  readonly doc: string;
  /** The compressor, with its default options where none are given. */
  make(options?: object): Compressor;
  /** Whether `make` takes options, and checks them; default false. */
  readonly takesOptions?: boolean;
}

const kinds = new Map<string, CompressorKind>();

/**
 * Adds a kind of compressor, so that `compression: "name"` chooses it.
 *
 * @throws HeddleError `option` for a name that is taken, `argument` for a malformed kind
 */
export function registerCompressor(kind: CompressorKind): void {
  const { name, make } = (kind ?? {}) as Partial<CompressorKind>;
  if (typeof name !== "string" || name === "" || typeof make !== "function")
    throw new HeddleError("argument", `registerCompressor: takes { name, doc, make }, got ${shown(kind)}`, {
      hint: "make gives a compressor; examples/extend/compressor.ts is a complete example",
    });
  if (kinds.has(kind.name)) throw new HeddleError("option", `registerCompressor: '${kind.name}' is taken`);
  kinds.set(kind.name, kind);
}

/** All registered kinds, in the order in which they were registered. */
export const compressorKinds = (): readonly CompressorKind[] => [...kinds.values()];

/**
 * The registered compressor of this name, with its default options where none are given.
 *
 * @throws HeddleError `option` if there is none or it does not take these options, `argument` for another value
 */
export function compressorNamed(name: string, options: object = {}): Compressor {
  if (typeof name !== "string")
    throw new HeddleError("argument", `compressorNamed: takes the name of a compressor, got ${shown(name)}`);
  const kind = kinds.get(name);
  if (kind !== undefined) {
    const [first] = Object.keys(options);
    if (first === undefined) return kind.make();
    if (kind.takesOptions === true) return kind.make(options);
    throw new HeddleError("option", `the compressor '${name}' has no option '${first}'`);
  }
  const near = nearest(name, [...kinds.keys()]);
  throw new HeddleError("option", `there is no compressor '${name}'`, {
    hint: near === undefined ? `there are ${listed([...kinds.keys()])}` : `did you mean '${near}'?`,
  });
}
