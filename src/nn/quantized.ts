/** @module Linear layers with weights of 8-bit integers. */
import { dotGeneral, isTensor, quantize, type Tensor, type Tensors, zeros } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { checkMatches, folded, matching, type Pattern } from "../util/pattern.ts";
import { shown } from "../util/show.ts";
import { layersWithin, treeAt, withLayers, withSubtree } from "./composite.ts";
import { asLayer, isLayerLike, type Layer, type LayerLike, positioned, type Variables } from "./layer.ts";

/** Options of {@link quantizeDynamic}. */
export interface QuantizeDynamicOptions {
  /** Whether each output of a linear layer has a scale of its own, not one for the whole weight; default true. */
  readonly perChannel?: boolean;
  /** Which of the linear layers inside, by a pattern of their names; default all. Not for a linear layer itself. */
  readonly layers?: Pattern;
}

const linear = "linear";

/**
 * A trained network with its linear layers in 8-bit integers, for inference, as ONNX Runtime's `quantize_dynamic` and PyTorch's
 * `quantize_dynamic` make it. Weights become i8 with a scale, symmetric; each input of such a layer becomes u8 by its own least and
 * largest number, when it is applied; products are added in i32. Biases and all other layers stay as they are. The variables are a
 * quarter of the size: `weight` (i8), `scale`, and `sums` (of the weights of each output). No gradient passes through.
 *
 * @throws HeddleError `option` for a layer without a linear one, or a pattern that matches no layer; `model` for what is not a layer
 * @example const { layer, variables } = nn.quantizeDynamic(network, trained.variables)
 */
export function quantizeDynamic(
  layer: LayerLike,
  variables: Variables,
  options: QuantizeDynamicOptions = {},
): { readonly layer: Layer; readonly variables: Variables } {
  checkOptions("quantizeDynamic", options, ["perChannel", "layers"]);
  const { perChannel = true, layers } = options;
  if (!isLayerLike(layer)) throw new HeddleError("model", `quantizeDynamic: takes a layer, got ${shown(layer)}`);
  if (typeof variables?.params !== "object")
    throw new HeddleError("argument", `quantizeDynamic: takes variables as init gives them, got ${shown(variables)}`);
  const whole = asLayer(layer);
  if (whole.kind === linear)
    return {
      layer: quantizedLinear(whole),
      variables: { ...variables, params: quantizedParams(variables.params, perChannel) },
    };
  const names = [...layersWithin(whole)].filter(([, inner]) => inner.kind === linear).map(([name]) => name);
  if (names.length === 0)
    throw new HeddleError("option", `quantizeDynamic: takes a layer with linear layers inside, got a ${whole.kind}`);
  if (layers !== undefined) checkMatches("quantizeDynamic: layers", layers, names);
  const chosen = layers === undefined ? () => true : matching("quantizeDynamic: layers", layers);
  if (!names.some(chosen)) throw new HeddleError("option", `quantizeDynamic: layers takes out all of ${folded(names)}`);
  let params = variables.params;
  for (const name of names.filter(chosen)) {
    const own = treeAt(params, name);
    // The parameters of a shared layer are stored once, under its first name.
    if (isTensor(own["weight"])) params = withSubtree(params, name.split("."), quantizedParams(own, perChannel));
  }
  const change = (name: string, inner: Layer): Layer | undefined =>
    inner.kind === linear ? (chosen(name) ? quantizedLinear(inner) : inner) : undefined;
  return { layer: withLayers(whole, change), variables: { ...variables, params } };
}

function quantizedParams({ weight, ...rest }: Tensors, perChannel: boolean): Tensors {
  const { values, scale } = quantize(weight as Tensor, perChannel ? { dim: 0 } : {});
  return {
    ...rest,
    weight: values,
    scale: scale.reshape(perChannel ? [-1] : []),
    sums: values.sum(1, { dtype: "i32" }),
  };
}

/** The layer whose parameters are those of {@link quantizedParams}. */
function quantizedLinear(inner: Layer): Layer {
  const layer = positioned({
    kind: "quantizedLinear",
    init(key, input) {
      const { params, ...rest } = inner.init(key, input);
      return { ...rest, params: quantizedParams(params, true) };
    },
    apply({ params, state }, x) {
      const { weight, scale, sums, bias } = params as { readonly [name: string]: Tensor };
      // No rows have no range.
      if (x.shape.slice(0, -1).includes(0))
        return { y: zeros([...x.shape.slice(0, -1), weight?.shape[0] ?? 0], { dtype: x.dtype }), state };
      const input = quantize(x, { dtype: "u8" });
      const dims = { xBatch: [], yBatch: [], xContract: [x.shape.length - 1], yContract: [1], dtype: "i32" } as const;
      const products = dotGeneral(input.values, weight as Tensor, dims).sub(input.zeroPoint.mul(sums as Tensor));
      const y = products.cast("f32").mul(input.scale.mul(scale as Tensor));
      return { y: (bias === undefined ? y : y.add(bias.cast("f32"))).cast(x.dtype), state };
    },
  });
  return layer as Layer;
}
