/** @module A layer whose values are computed again in the backward pass instead of being kept. */
import { type RematOptions, remat as rematFunction, type Tensor, type Tensors } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { standingFor } from "./composite.ts";
import {
  type Applied,
  applyLayer,
  asLayer,
  isLayerLike,
  type Layer,
  type LayerLike,
  madeBy,
  type ParamsOf,
} from "./layer.ts";

/**
 * The same layer with the same variables, whose inner values are computed again for its gradient (gradient checkpointing): of
 * a chain of such layers only their inputs are kept, for the price of one more forward pass. Dropout drops the same elements
 * both times.
 *
 * @param options.policy which values within are kept all the same; see `remat`
 * @example nn.sequential(...blocks.map((block) => nn.remat(block)), nn.linear(10))
 */
export function remat<L extends LayerLike>(layer: L, options: RematOptions = {}): Layer<ParamsOf<L>> {
  checkOptions("remat", options, ["policy"]);
  if (!isLayerLike(layer)) throw new HeddleError("model", `remat: takes a layer, got ${shown(layer)}`);
  const inner = asLayer(layer);
  const checked: Layer = {
    kind: inner.kind,
    passesPrecision: true,
    wraps: inner,
    init: (key, input) => inner.init(key, input),
    apply({ params, state }, x, { train, key, precision } = {}) {
      const again = rematFunction(
        (own: { params: Tensors; state: Tensors }, given: Tensor, drawn: Tensor | undefined): Applied =>
          applyLayer(inner, own, given, { train, key: drawn, precision }),
        options,
      );
      return again({ params, state }, x, key);
    },
  };
  return madeBy(standingFor(checked, (other) => remat(other, options)) as Layer<ParamsOf<L>>, "remat", layer, options);
}
