/**
 * @module Composite layers, which are made of named layers: the names, keys and states of the layers inside, and shared parameters. A
 * layer that a model uses in several places has one set of variables, under the first of its names.
 */

import { evalShape, isTensor, type Tensor, type Tensors } from "../functions/index.ts";
import { formatType, isTensorType, sameType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, isRecord, unflattenTree } from "../util/tree.ts";
import {
  type ApplyOptions,
  applyLayer,
  type Initialised,
  inLayer,
  isLayerLike,
  type Layer,
  madeBy,
  positioned,
  recipeOf,
  scopeKey,
  type Variables,
} from "./layer.ts";

/** Runs one of the layers inside. */
export type RunChild = (name: string, x: Tensor, more?: object) => Tensor;

/** Describes a composite layer. */
export interface Composition extends Pick<Layer, "kind"> {
  /** The layers inside by their dotted names, in the order in which they are initialised. Layers with the same inputs may replace them. */
  readonly layers: { readonly [name: string]: Layer };
  /** Initialises each layer once by `make`, which gives the type of the layer's output. */
  init(
    make: (name: string, input: TensorType) => TensorType,
    input: TensorType,
    layers: Composition["layers"],
  ): TensorType;
  apply(run: Running, x: Tensor, options: ApplyOptions): Tensor;
  /** Whether the input may be a record instead of a tensor. */
  readonly records?: boolean;
}

/** How the layers inside are run in one application. */
export interface Running {
  readonly layers: Composition["layers"];
  readonly run: RunChild;
  /** The variables of a layer inside. */
  readonly variablesOf: (name: string) => Variables;
  /** The options of a layer's next call: each call of a layer has a key of its own. */
  readonly optionsOf: (name: string) => ApplyOptions;
  /** Called before a layer inside is applied to an input. */
  readonly meet: (name: string, x: Tensor) => void;
}

const emptyTree: Tensors = {};

/** The tree at a dotted name; an empty tree if the name does not exist. */
export function treeAt(tree: Tensors, name: string): Tensors {
  let subtree: Tensor | Tensors | undefined = tree;
  for (const part of name.split(".")) subtree = isTensor(subtree) ? undefined : subtree?.[part];
  return (subtree ?? emptyTree) as Tensors;
}

/** The tree with another tree at a name, given in parts. */
export function withSubtree(tree: Tensors, [first = "", ...rest]: readonly string[], replacement: Tensors): Tensors {
  return { ...tree, [first]: rest.length === 0 ? replacement : withSubtree(tree[first] as Tensors, rest, replacement) };
}

/** Joins trees at dotted names into one tree; empty trees are left out, as in PyTorch's `state_dict`. */
export function treeOf(entries: readonly (readonly [name: string, tree: Tensors])[]): Tensors {
  const merged: { [name: string]: Tensor | Tensors } = {};
  for (const [name, tree] of entries) if (Object.keys(tree).length > 0) merge(merged, name.split("."), tree);
  return merged;
}

function merge(into: { [name: string]: Tensor | Tensors }, [first, ...rest]: readonly string[], tree: Tensors): void {
  if (first === undefined) {
    for (const [name, value] of Object.entries(tree))
      if (isRecord(into[name]) && isRecord(value))
        merge(into[name] as { [name: string]: Tensors }, [], value as Tensors);
      else into[name] = value;
    return;
  }
  const inner = { ...(into[first] as Tensors | undefined) };
  merge(inner, rest, tree);
  into[first] = inner;
}

/** The innermost layer that a layer wraps, or the layer itself. */
export const unwrapped = (layer: Layer): Layer => (layer.wraps === undefined ? layer : unwrapped(layer.wraps));

/** The layers inside, at any depth, by their dotted names, in the order in which they are initialised. */
export function* layersWithin(layer: Layer, prefix = ""): Generator<readonly [name: string, layer: Layer]> {
  for (const [childName, child] of Object.entries(unwrapped(layer).layers ?? {})) {
    const name = prefix === "" ? childName : `${prefix}.${childName}`;
    yield [name, child];
    yield* layersWithin(child, name);
  }
}

/** The names of each layer that stands in several places. */
export function sharedWithin(layer: Layer): ReadonlyMap<Layer, readonly string[]> {
  const names = new Map<Layer, string[]>();
  for (const [name, child] of layersWithin(layer)) {
    const inner = unwrapped(child);
    const earlierNames = names.get(inner);
    if (earlierNames === undefined) names.set(inner, [name]);
    else earlierNames.push(name);
  }
  return new Map([...names].filter(([, layerNames]) => layerNames.length > 1));
}

/** Shared layers while a model is initialised, with their variables once they are made. */
type Made = Map<Layer, { first?: { readonly name: string; readonly params: Tensors } }>;
/** Shared layers while a model is applied, with their variables; the state is the state after the layer's last application. */
type Shared = Map<Layer, { variables: Variables }>;

let initialisedShared: Made = new Map();
let appliedShared: Shared = new Map();

/** Runs a part of `init` or `apply` with these shared layers. */
function sharing<Result>(next: { initialisedShared?: Made; appliedShared?: Shared }, body: () => Result): Result {
  const outer = { initialisedShared, appliedShared };
  initialisedShared = next.initialisedShared ?? initialisedShared;
  appliedShared = next.appliedShared ?? appliedShared;
  try {
    return body();
  } finally {
    ({ initialisedShared, appliedShared } = outer);
  }
}

/** Makes a composite layer. */
export function composed<Params>(composition: Composition, more: readonly string[] = []): Layer<Params> {
  const { kind, layers } = composition;
  const unchecked: Layer = {
    kind,
    layers,
    init: (key, input) => initialised(composition, sharedLayers, key, input),
    apply: (variables, x, options = {}) => applied(composition, sharedLayers, variables, x, options),
  };
  const sharedLayers = sharedWithin(unchecked);
  const checked = positioned(unchecked, more, composition);
  rebuilt.set(checked, (replace) => {
    const others = Object.entries(layers).map(([name, layer]): [string, Layer] => [name, replace(name, layer)]);
    return composed({ ...composition, layers: Object.fromEntries(others) }, more);
  });
  return checked as Layer<Params>;
}

/** Makes a composite layer anew with other layers inside. */
type Rebuild = (replace: (name: string, layer: Layer) => Layer) => Layer;
const rebuilt = new WeakMap<Layer, Rebuild>();

/** A layer that wraps another; variables keep the names of the other. */
export function standingFor(layer: Layer, rebuild: (inner: Layer) => Layer): Layer {
  const { wraps } = layer;
  const checked = positioned(layer);
  if (wraps !== undefined) rebuilt.set(checked, (replace) => rebuild(replace("", wraps)));
  return checked;
}

/**
 * The layer with other layers inside, at any depth. `change` is called once for a layer that stands in several places.
 *
 * @param change gives the replacement of a layer by its dotted name; undefined: look inside the layer
 */
export function withLayers(
  layer: Layer,
  change: (name: string, layer: Layer) => Layer | undefined,
  name = "",
  replaced: Map<Layer, Layer> = new Map(),
): Layer {
  const earlier = replaced.get(layer);
  if (earlier !== undefined) return earlier;
  const rebuildInside: Rebuild = (replace) => rebuilt.get(layer)?.(replace) ?? layer;
  const replacement =
    change(name, layer) ??
    rebuildInside((childName, inner) =>
      withLayers(inner, change, [name, childName].filter((part) => part !== "").join("."), replaced),
    );
  replaced.set(layer, replacement);
  const recipe = recipeOf(layer);
  if (replacement !== layer && recipe !== undefined && recipeOf(replacement) === undefined)
    madeBy(replacement, recipe.make, ...recipe.args.map((argument) => exchanged(argument, replaced)));
  return replacement;
}

/** The arguments of a layer's recipe with layers replaced. */
function exchanged(value: unknown, replaced: ReadonlyMap<unknown, Layer>): unknown {
  if (Array.isArray(value)) return value.map((element: unknown) => exchanged(element, replaced));
  const replacement = replaced.get(value);
  if (replacement !== undefined || !isRecord(value) || isLayerLike(value)) return replacement ?? value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, exchanged(field, replaced)]));
}

type Twice = ReturnType<typeof sharedWithin>;

const notYet = (sharedLayers: Twice): Made => new Map([...sharedLayers.keys()].map((layer) => [layer, {}]));

function initialised({ layers, init }: Composition, sharedLayers: Twice, key: Tensor, input: TensorType): Initialised {
  const params: [string, Tensors][] = [];
  const state: [string, Tensors][] = [];
  return sharing({ initialisedShared: new Map([...notYet(sharedLayers), ...initialisedShared]) }, () => {
    const make = (name: string, inputType: TensorType): TensorType => {
      const layer = layers[name] as Layer;
      const fresh = inLayer(name, layer, () => initialisedChild(layer, name, scopeKey(key, name), inputType));
      params.push([name, fresh.params]);
      state.push([name, fresh.state]);
      return fresh.output;
    };
    const output = init(make, input, layers);
    return { params: treeOf(params), state: treeOf(state), output };
  });
}

function initialisedChild(layer: Layer, name: string, key: Tensor, input: TensorType): Initialised {
  const inner = unwrapped(layer);
  const sharedLayer = initialisedShared.get(inner);
  if (sharedLayer === undefined) return layer.init(key, input);
  const { first } = sharedLayer;
  if (first === undefined) {
    const fresh = layer.init(key, input);
    sharedLayer.first = { name, params: fresh.params };
    return fresh;
  }
  let output = input;
  const types = sharing({ initialisedShared: new Map() }, () =>
    evalShape(
      (innerKey) => {
        const fresh = layer.init(innerKey, input);
        output = fresh.output;
        return fresh.params;
      },
      { shape: [2], dtype: "u32" },
    ),
  );
  checkSame(first, types);
  return { params: {}, state: {}, output };
}

/** @throws HeddleError `shape` when the second use of a shared layer would need other parameters than the first. */
function checkSame({ name, params }: { name: string; params: Tensors }, types: unknown): void {
  const flatTypes = flattenTree<TensorType>(types, isTensorType);
  const firstPlace = flattenTree(params, isTensor);
  flatTypes.leaves.forEach((type, index) => {
    const parameter = firstPlace.leaves[index];
    if (parameter === undefined || sameType(parameter, type)) return;
    throw new HeddleError(
      "shape",
      `is the layer '${name}' again, with the same parameters: its ${flatTypes.paths[index]} is ${formatType(parameter)} there, but would have to be ${formatType(type)} here`,
      { hint: "give both uses inputs of one width, or make two layers" },
    );
  });
}

function applied(
  { layers, apply }: Composition,
  sharedLayers: Twice,
  variables: Variables,
  x: Tensor,
  options: ApplyOptions,
) {
  // Layers shared within this layer only; the outer layer has found the others.
  const sharedHere = [...sharedLayers].filter(([layer]) => !appliedShared.has(layer));
  const sharedVariables: Shared = new Map(
    sharedHere.map(([layer, [name = ""]]) => [layer, { variables: variablesAt(variables, name) }]),
  );
  return sharing(
    { appliedShared: sharedVariables.size === 0 ? appliedShared : new Map([...appliedShared, ...sharedVariables]) },
    () => {
      const states = new Map(Object.keys(layers).map((name) => [name, treeAt(variables.state, name)]));
      const y = apply(
        running(layers, () => variables, states, options),
        x,
        options,
      );
      const entries = [...states];
      // A shared layer is applied several times: its state is the state after the last time.
      for (const [layer, [name = ""]] of sharedHere)
        entries.push([name, sharedVariables.get(layer)?.variables.state ?? emptyTree]);
      return { y, state: treeOf(entries) };
    },
  );
}

const variablesAt = ({ params, state }: Variables, name: string): Variables => ({
  params: treeAt(params, name),
  state: treeAt(state, name),
});

function running(
  layers: Composition["layers"],
  variables: () => Variables,
  states: Map<string, Tensors>,
  options: ApplyOptions,
): Running {
  const uses = new Map<string, number>();
  const layerOf = (name: string): Layer => layers[name] as Layer;
  const variablesOf = (name: string): Variables => {
    const ownVariables = { params: treeAt(variables().params, name), state: states.get(name) ?? emptyTree };
    return appliedShared.get(unwrapped(layerOf(name)))?.variables ?? ownVariables;
  };
  const optionsOf = (name: string): ApplyOptions => {
    const count = uses.get(name) ?? 0;
    uses.set(name, count + 1);
    const scopedKey = options.key === undefined ? undefined : scopeKey(options.key, name);
    const key = scopedKey === undefined || count === 0 ? scopedKey : scopeKey(scopedKey, count);
    return { train: options.train, precision: options.precision, key };
  };
  const run: RunChild = (name, x, more = {}) => {
    const layer = layerOf(name);
    const variablesOfLayer = variablesOf(name);
    const applyOptions = { ...more, ...optionsOf(name) };
    const { y, state } = inLayer(name, layer, () => applyLayer(layer, variablesOfLayer, x, applyOptions));
    const sharedLayer = appliedShared.get(unwrapped(layer));
    if (sharedLayer === undefined) states.set(name, state);
    else sharedLayer.variables = { params: sharedLayer.variables.params, state };
    return y;
  };
  return { layers, run, variablesOf, optionsOf, meet: () => undefined };
}

/**
 * Applies a function of layers to an input whose type alone is known, and gives the type of each layer's first input.
 *
 * @param body as {@link Composition.apply}
 */
export function discover(
  layers: Composition["layers"],
  input: TensorType,
  train: boolean,
  body: Composition["apply"],
): { readonly inputs: ReadonlyMap<string, TensorType>; readonly output: TensorType } {
  const inputs = new Map<string, TensorType>();
  const sharedLayers = sharedWithin({ layers } as unknown as Layer);
  const sharedOfTrace = {
    initialisedShared: notYet(sharedLayers),
    appliedShared: new Map() as Shared,
  };
  const form = flattenTree<TensorType>(input, isTensorType);
  const output = evalShape(
    (key, ...leaves) =>
      sharing(sharedOfTrace, () => {
        const x = unflattenTree(form.shape, leaves);
        const fresh: (readonly [string, Initialised])[] = [];
        const variables = (): Variables => ({
          params: treeOf(fresh.map(([name, { params }]) => [name, params])),
          state: treeOf(fresh.map(([name, { state }]) => [name, state])),
        });
        const states = new Map<string, Tensors>();
        const meet = (name: string, layerInput: Tensor): void => {
          if (inputs.has(name)) return;
          const layer = layers[name] as Layer;
          const type = { shape: layerInput.shape, dtype: layerInput.dtype };
          const initialisedLayer = inLayer(name, layer, () =>
            initialisedChild(layer, name, scopeKey(key as Tensor, name), type),
          );
          inputs.set(name, type);
          fresh.push([name, initialisedLayer]);
          states.set(name, initialisedLayer.state);
          for (const [sharedLayer, names] of sharedLayers) {
            const owner = names
              .map((sharedName) => variablesAt(variables(), sharedName))
              .find((candidate) => !isEmpty(candidate));
            if (owner !== undefined && !appliedShared.has(sharedLayer))
              appliedShared.set(sharedLayer, { variables: owner });
          }
        };
        const options = { train, key: key as Tensor };
        const plain = running(layers, variables, states, options);
        const run: RunChild = (name, layerInput, more) => {
          meet(name, layerInput);
          return plain.run(name, layerInput, more);
        };
        return body({ ...plain, run, meet }, x as Tensor, options);
      }),
    { shape: [2], dtype: "u32" },
    ...form.leaves,
  );
  return { inputs, output };
}

const isEmpty = ({ params, state }: Variables): boolean =>
  Object.keys(params).length === 0 && Object.keys(state).length === 0;
