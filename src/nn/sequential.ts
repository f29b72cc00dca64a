/** @module Layers one after another, with a residual connection, and side by side. */
import { concat, evalShape, isTensor, type Tensor } from "../functions/index.ts";
import { formatType, sameShape, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type Composition, composed } from "./composite.ts";
import { asLayer, castFloat, isLayerLike, type Layer, type LayerLike, madeBy } from "./layer.ts";
import type { TreeOf } from "./module.ts";

/** The layers of a list by their indices. */
function placed(kind: string, children: readonly LayerLike[]): { [name: string]: Layer } {
  const layers = children.map((child: unknown, index) => {
    if (isLayerLike(child)) return asLayer(child);
    throw new HeddleError("option", `${kind}: layer ${index} is ${shown(child)}, not a layer`, {
      ...(Array.isArray(child) ? { hint: `layers are arguments: ${kind}(first, second), ${kind}(...layers)` } : {}),
    });
  });
  return Object.fromEntries(layers.map((layer, index) => [String(index), layer]));
}

/** Applies layers one after another. */
function chain(layers: Composition["layers"]): Pick<Composition, "init" | "apply"> {
  const names = Object.keys(layers);
  return {
    init: (make, input) => names.reduce((output, name) => make(name, output), input),
    apply: ({ run }, x) => names.reduce((y, name) => run(name, y), x),
  };
}

/**
 * Applies layers one after another. Their variables are named `"0"`, `"1"`, … as in PyTorch: `"3.weight"` is the weight
 * of the fourth. A function `x => y` may stand for a layer without variables. A layer that is listed twice has one set of parameters,
 * under its first name. Errors name the layer: `layer 3 (linear): …`.
 */
export function sequential<const Children extends readonly LayerLike[]>(
  ...children: Children
): Layer<TreeOf<Children>> {
  const layers = placed("sequential", children);
  return madeBy(composed({ kind: "sequential", layers, ...chain(layers) }), "sequential", ...children);
}

/**
 * `x + layers(x)` (He et al., 2016): layers one after another with a residual connection. Variables are named as by
 * {@link sequential}. For a shortcut with a layer of its own, use `nn.parallel([nn.sequential(…), shortcut], "sum")`.
 *
 * @throws HeddleError `shape`, from `init`, when the layers change the shape
 */
export function residual<const Children extends readonly LayerLike[]>(...children: Children): Layer<TreeOf<Children>> {
  const layers = placed("residual", children);
  const { init, apply } = chain(layers);
  return madeBy(
    composed({
      kind: "residual",
      layers,
      init(make, input) {
        const output = init(make, input, layers);
        if (sameShape(input.shape, output.shape)) return output;
        throw new HeddleError(
          "shape",
          `adds ${formatType(output)} to its input ${formatType(input)}, which has another shape`,
          {
            hint: 'give the shortcut a layer of its own: nn.parallel([nn.sequential(…), shortcut], "sum")',
          },
        );
      },
      // With a `precision`, the layers give floats of that dtype, or f32 after a norm.
      apply: (run, x, { train, key, precision }) =>
        castFloat(x, precision).add(castFloat(apply(run, x, { train, key, precision }), precision)),
    }),
    "residual",
    ...children,
  );
}

/** How {@link parallel} combines the outputs of its branches. */
export type Combine = "sum" | "concat" | ((...outputs: Tensor[]) => Tensor);

/** Options of {@link parallel}. */
export interface ParallelOptions {
  /** The dim along which `"concat"` joins outputs; default 1, the channels or features. */
  readonly dim?: number;
}

/**
 * Applies each layer to the same input, and combines the outputs: by their sum, by joining them along `dim`, or by a function.
 * Variables are named by the indices of a list, or by the names of a record.
 *
 * @throws HeddleError `option` for a value that is not a layer; `shape` when the outputs do not fit together
 * @example nn.parallel([nn.sequential(nn.conv2d({ out: 8, kernel: 1 })), nn.maxPool2d(3, { strides: 1, padding: 1 })], "concat")
 */
export function parallel<const Branches extends readonly LayerLike[] | { readonly [name: string]: LayerLike }>(
  branches: Branches,
  combine: Combine,
  options: ParallelOptions = {},
): Layer<TreeOf<Branches>> {
  checkOptions("parallel", options, ["dim"]);
  const { dim = 1 } = options;
  checkInteger("parallel", "dim", dim, -Number.MAX_SAFE_INTEGER);
  if (typeof branches !== "object" || branches === null || isLayerLike(branches))
    throw new HeddleError("option", `parallel: takes a list or a record of layers, got ${shown(branches)}`);
  const layers = Array.isArray(branches) ? placed("parallel", branches as readonly LayerLike[]) : recorded(branches);
  const names = Object.keys(layers);
  if (names.length === 0) throw new HeddleError("option", "parallel: has no branches");
  const join = joining(combine, dim);
  return madeBy(
    composed({
      kind: "parallel",
      layers,
      init: (make, input) => evalShape(join, ...names.map((name): TensorType => make(name, input))),
      apply: ({ run }, x, { precision }) => join(...names.map((name) => castFloat(run(name, x), precision))),
    }),
    "parallel",
    branches,
    combine,
    options,
  );
}

function recorded(branches: object): { [name: string]: Layer } {
  return Object.fromEntries(
    Object.entries(branches).map(([name, layer]: [string, unknown]) => {
      if (isLayerLike(layer)) return [name, asLayer(layer)];
      throw new HeddleError("option", `parallel: branch '${name}' is ${shown(layer)}, not a layer`);
    }),
  );
}

function joining(combine: Combine, dim: number): (...outputs: Tensor[]) => Tensor {
  if (combine === "concat") return (...outputs) => concat(outputs, dim);
  if (combine === "sum") return (...outputs) => outputs.reduce((sum, output) => sum.add(output));
  if (typeof combine !== "function")
    throw new HeddleError("option", `parallel: combine must be sum, concat or a function, got ${shown(combine)}`);
  return (...outputs) => {
    const y: unknown = combine(...outputs);
    if (isTensor(y)) return y;
    throw new HeddleError("model", `parallel: combine must give a tensor, but gave ${shown(y)}`);
  };
}
