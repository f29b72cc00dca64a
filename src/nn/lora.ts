/** @module Low-rank adapters of linear layers. */
import { isTensor, type Tensor, type Tensors, zeros } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { checkMatches, folded, matching, type Pattern } from "../util/pattern.ts";
import { shown } from "../util/show.ts";
import { layersWithin, treeAt, withLayers, withSubtree } from "./composite.ts";
import { constant, markFrozen } from "./frozen.ts";
import { uniformByFanIn } from "./initialise.ts";
import {
  asLayer,
  isLayerLike,
  type Layer,
  type LayerLike,
  madeBy,
  type ParamsOf,
  positioned,
  scopeKey,
  type Variables,
} from "./layer.ts";
import { linearly } from "./linear.ts";

/** Options of {@link lora}. */
export interface LoraOptions {
  /** Rank of the adapters: far smaller than the number of features. */
  readonly rank: number;
  /** The adapters' product is scaled by `alpha / rank`; default `rank`. */
  readonly alpha?: number;
  /** Which of the linear layers inside get an adapter, by a pattern of their names; default all. Not for a linear layer itself. */
  readonly layers?: Pattern;
}

/** Parameters of a layer with adapters: its own, and `lora_a` and `lora_b` of each linear layer with an adapter. */
export type Adapted<Params> = Params extends { readonly weight: Tensor }
  ? Params & { readonly lora_a: Tensor; readonly lora_b: Tensor }
  : Params;

/** Parameters without adapters. */
export type Merged<Params> = Params extends Tensor
  ? Params
  : { readonly [Name in keyof Params as Name extends "lora_a" | "lora_b" ? never : Name]: Merged<Params[Name]> };

/** The factor of each adapter's product. */
const scales = new WeakMap<Layer, number>();

/**
 * A linear layer with a low-rank adapter (Hu et al., "LoRA", 2022): `y = linear(x) + alpha / rank · x · aᵀ · bᵀ`. The layer's own
 * parameters keep their names and are frozen, as by `nn.frozen`; `lora_a` `[rank, in]`, uniform like a linear layer's weight, and
 * `lora_b` `[out, rank]`, zeros at first, are trained. So the output is unchanged at first, and saved weights of the layer can be
 * loaded.
 *
 * A composite layer (`nn.sequential`, `nn.module`, …) gets adapters on the linear layers inside. Its other parameters are trained, too,
 * unless `train({ trainable: "**.lora_*" })` says otherwise. {@link mergeLora} adds the adapters to the weights.
 *
 * @throws HeddleError `option` for options out of range, a layer without a linear one, or a pattern that matches no layer;
 * `argument` from `init` for a rank above both dims of a weight
 * @example nn.lora(net, { rank: 8, alpha: 16, layers: ["blocks.**", "!blocks.0"] })
 */
export function lora<const L extends LayerLike>(layer: L, options: LoraOptions): Layer<Adapted<ParamsOf<L>>> {
  checkOptions("lora", options, ["rank", "alpha", "layers"]);
  const { rank, alpha = rank, layers } = options;
  checkInteger("lora", "rank", rank, 1);
  checkNumber("lora", "alpha", alpha);
  if (!isLayerLike(layer)) throw new HeddleError("model", `lora: takes a layer, got ${shown(layer)}`);
  const whole = asLayer(layer);
  const names = [...layersWithin(whole)].filter(([, inner]) => inner.kind === linear).map(([name]) => name);
  if (whole.kind === linear) {
    if (layers !== undefined)
      throw new HeddleError("option", "lora: the option layers is for a layer made of others, not for a linear layer");
    return adapted(whole, rank, alpha / rank) as Layer<Adapted<ParamsOf<L>>>;
  }
  if (names.length === 0)
    throw new HeddleError(
      "option",
      `lora: takes a linear layer, or a layer with linear layers inside, got a ${whole.kind}`,
      {
        hint: "linear layers inside transformers and inside your own layers are not reached",
      },
    );
  if (layers !== undefined) checkMatches("lora: layers", layers, names);
  const chosen = layers === undefined ? () => true : matching("lora: layers", layers);
  if (!names.some(chosen)) throw new HeddleError("option", `lora: layers takes out all of ${folded(names)}`);
  return withLayers(whole, (name, inner) =>
    inner.kind === linear ? (chosen(name) ? adapted(inner, rank, alpha / rank) : inner) : undefined,
  ) as Layer<Adapted<ParamsOf<L>>>;
}

const linear = "linear";

function adapted(layer: Layer, rank: number, scale: number): Layer {
  const adaptedLayer = positioned({
    kind: "lora",
    init(key, input) {
      const { params, state, output } = layer.init(key, input);
      const [out, size] = (params["weight"] as Tensor).shape as [number, number];
      const { dtype } = input;
      if (rank > Math.max(out, size))
        throw new HeddleError(
          "argument",
          `lora: the rank ${rank} is above both dims of the weight, ${out} by ${size}`,
          { hint: `a rank of at most ${Math.min(out, size)} gives every product of the adapter` },
        );
      const adapters = {
        lora_a: uniformByFanIn(scopeKey(key, "lora_a"), [rank, size], size, dtype),
        lora_b: zeros([out, rank], { dtype }),
      };
      return { params: { ...markFrozen(params), ...adapters }, state, output };
    },
    apply({ params, state }, x, options) {
      const { rest: frozenParams, a, b } = splitParams(params);
      const { y } = layer.apply({ params: constant(frozenParams), state }, x, options);
      const adapterOutput = linearly(linearly(x, { weight: a }), { weight: b });
      return { y: y.add(scale === 1 ? adapterOutput : adapterOutput.mul(scale)), state };
    },
  });
  scales.set(adaptedLayer, scale);
  return madeBy(adaptedLayer, "lora", layer, { rank, alpha: scale * rank });
}

/** The layer's own parameters and those of the adapter. */
function splitParams({ lora_a: a, lora_b: b, ...rest }: Tensors): { rest: Tensors; a: Tensor; b: Tensor } {
  return { rest, a: a as Tensor, b: b as Tensor };
}

/**
 * Variables of the layer without adapters, which give the same outputs: `weight + alpha / rank · b · a`.
 *
 * @param layer a result of {@link lora}, or a layer that has some inside
 * @throws HeddleError `model` when no layer has an adapter
 * @example nn.mergeLora(nn.lora(net, { rank: 8 }), variables) // variables of net
 */
export function mergeLora<const L extends Layer>(
  layer: L,
  variables: Variables<ParamsOf<L>>,
): Variables<Merged<ParamsOf<L>>> {
  if (!isLayerLike(layer) || typeof layer === "function")
    throw new HeddleError("argument", `mergeLora: takes a layer, got ${shown(layer)}`);
  if (typeof variables?.params !== "object" || variables.params === null)
    throw new HeddleError("argument", `mergeLora: takes { params, state } of the layer, got ${shown(variables)}`);
  const adapters = [["", layer] as const, ...layersWithin(layer)].flatMap(([name, inner]) => {
    const adapterScale = adapterOf(inner);
    return adapterScale === undefined ? [] : [[name, adapterScale] as const];
  });
  if (adapters.length === 0) throw new HeddleError("model", `mergeLora: no layer of this ${layer.kind} has an adapter`);
  let params = variables.params as Tensors;
  for (const [name, scale] of adapters) {
    const { rest, a, b } = splitParams(name === "" ? params : treeAt(params, name));
    // The parameters of a shared layer are stored once, under its first name.
    if (!isTensor(a)) continue;
    const merged = { ...rest, weight: (rest["weight"] as Tensor).add(b.matmul(a).mul(scale)) };
    params = name === "" ? merged : withSubtree(params, name.split("."), merged);
  }
  return { params: params as Merged<ParamsOf<L>>, state: variables.state };
}

/** The scale of a layer's adapter, also through layers that wrap it. */
const adapterOf = (layer: Layer): number | undefined =>
  scales.get(layer) ?? (layer.wraps === undefined ? undefined : adapterOf(layer.wraps));
