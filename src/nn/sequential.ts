/** @module Layers one after another. */
import type { Tensor, Tensors } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { applyLayer, asLayer, inLayer, type Layer, type LayerLike, positioned, scopeKey } from "./layer.ts";

/** Without the children that have no variables, as PyTorch's `state_dict` leaves them out. */
function withoutEmpty(entries: readonly (readonly [string, Tensors])[]): Tensors {
  return Object.fromEntries(entries.filter(([, tree]) => Object.keys(tree).length > 0));
}

const none: Tensors = {};

/**
 * Applies layers one after another. Their variables are named `"0"`, `"1"`, … as in PyTorch: `"3.weight"` is the weight
 * of the fourth. A function `x => y` may stand for a layer without variables. Errors name the layer:
 * `layer 3 (linear): …`.
 */
export function sequential(...children: readonly LayerLike[]): Layer {
  const layers = children.map((child, index) => {
    const valid =
      typeof child === "function" || (typeof child?.init === "function" && typeof child.apply === "function");
    if (!valid)
      throw new HeddleError("option", `sequential: layer ${index} is ${shown(child)}, not a layer`, {
        ...(Array.isArray(child)
          ? { hint: "layers are arguments: sequential(first, second), sequential(...layers)" }
          : {}),
      });
    return asLayer(child);
  });
  return positioned({
    kind: "sequential",
    layers,
    init(key, input) {
      let output = input;
      const params: [string, Tensors][] = [];
      const state: [string, Tensors][] = [];
      layers.forEach((layer, index) => {
        const name = String(index);
        const made = inLayer(name, layer, () => layer.init(scopeKey(key, name), output));
        params.push([name, made.params]);
        state.push([name, made.state]);
        output = made.output;
      });
      return { params: withoutEmpty(params), state: withoutEmpty(state), output };
    },
    apply(variables, x, options = {}) {
      let y: Tensor = x;
      const state: [string, Tensors][] = [];
      layers.forEach((layer, index) => {
        const name = String(index);
        const own = {
          params: (variables.params[name] ?? none) as Tensors,
          state: (variables.state[name] ?? none) as Tensors,
        };
        const key = options.key === undefined ? undefined : scopeKey(options.key, name);
        const applied = inLayer(name, layer, () => applyLayer(layer, own, y, { ...options, key }));
        y = applied.y;
        state.push([name, applied.state]);
      });
      return { y, state: withoutEmpty(state) };
    },
  });
}
