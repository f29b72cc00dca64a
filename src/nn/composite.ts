/**
 * @module What layers made of named layers have in common: the names, keys and states of those inside, and parameters that are shared:
 * a layer that stands in several places of a model is one, with one set of variables, at the first of its names.
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

/** What a layer made of others says of itself. */
export interface Composition extends Pick<Layer, "kind"> {
  /** Those inside by their dotted names, in the order in which they are initialised. Others of the same inputs may take their places. */
  readonly layers: { readonly [name: string]: Layer };
  /** Initialises each once by `make`, which gives the type of its output. */
  init(
    make: (name: string, input: TensorType) => TensorType,
    input: TensorType,
    layers: Composition["layers"],
  ): TensorType;
  apply(run: Running, x: Tensor, options: ApplyOptions): Tensor;
  /** Whether a record may go in, in the place of a tensor. */
  readonly records?: boolean;
}

/** How the layers inside are run in one application. */
export interface Running {
  readonly layers: Composition["layers"];
  readonly run: RunChild;
  /** The variables of one. */
  readonly variablesOf: (name: string) => Variables;
  /** The options by which one is called next: each call of a layer draws by a key of its own. */
  readonly optionsOf: (name: string) => ApplyOptions;
  /** Is told of a call of one with an input. */
  readonly meet: (name: string, x: Tensor) => void;
}

const none: Tensors = {};

/** The tree at a dotted name; an empty one where there is none. */
export function treeAt(tree: Tensors, name: string): Tensors {
  let found: Tensor | Tensors | undefined = tree;
  for (const part of name.split(".")) found = isTensor(found) ? undefined : found?.[part];
  return (found ?? none) as Tensors;
}

/** A tree of trees at dotted names, without those that are empty, as PyTorch's `state_dict` leaves them out. */
export function treeOf(entries: readonly (readonly [name: string, tree: Tensors])[]): Tensors {
  const whole: { [name: string]: Tensor | Tensors } = {};
  for (const [name, tree] of entries) if (Object.keys(tree).length > 0) merge(whole, name.split("."), tree);
  return whole;
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

/** The layer itself, of one that stands for another that one. */
export const unwrapped = (layer: Layer): Layer => (layer.wraps === undefined ? layer : unwrapped(layer.wraps));

/** The layers inside, at any depth, by their dotted names, in the order in which they are initialised. */
export function* layersWithin(layer: Layer, around = ""): Generator<readonly [name: string, layer: Layer]> {
  for (const [own, child] of Object.entries(unwrapped(layer).layers ?? {})) {
    const name = around === "" ? own : `${around}.${own}`;
    yield [name, child];
    yield* layersWithin(child, name);
  }
}

/** The names of each layer that stands in several places; of one inside of such a one they follow from those of that. */
export function sharedWithin(layer: Layer): ReadonlyMap<Layer, readonly string[]> {
  const names = new Map<Layer, string[]>();
  for (const [name, child] of layersWithin(layer)) {
    const one = unwrapped(child);
    const known = names.get(one);
    if (known === undefined) names.set(one, [name]);
    else known.push(name);
  }
  return new Map([...names].filter(([, all]) => all.length > 1));
}

/** A layer that stands in several places, while a model around them is initialised: made once it was met. */
type Made = Map<Layer, { first?: { readonly name: string; readonly params: Tensors } }>;
/** The same while it is applied: its variables, of which the state is that after its last application. */
type Shared = Map<Layer, { variables: Variables }>;

let made: Made = new Map();
let shared: Shared = new Map();

/** Runs a part of `init` or `apply` with these layers known as shared. */
function sharing<Result>(next: { made?: Made; shared?: Shared }, body: () => Result): Result {
  const before = { made, shared };
  made = next.made ?? made;
  shared = next.shared ?? shared;
  try {
    return body();
  } finally {
    ({ made, shared } = before);
  }
}

/** A layer made of others. */
export function composed<Params>(composition: Composition, more: readonly string[] = []): Layer<Params> {
  const { kind, layers } = composition;
  const whole: Layer = {
    kind,
    layers,
    init: (key, input) => initialised(composition, twice, key, input),
    apply: (variables, x, options = {}) => applied(composition, twice, variables, x, options),
  };
  const twice = sharedWithin(whole);
  const checked = positioned(whole, more, composition);
  rebuilt.set(checked, (replace) => {
    const others = Object.entries(layers).map(([name, layer]): [string, Layer] => [name, replace(name, layer)]);
    return composed({ ...composition, layers: Object.fromEntries(others) }, more);
  });
  return checked as Layer<Params>;
}

/** How a layer that has others inside is made anew with others in their places. */
type Rebuild = (replace: (name: string, layer: Layer) => Layer) => Layer;
const rebuilt = new WeakMap<Layer, Rebuild>();

/** A layer that stands for another: its name is that of the other. */
export function standingFor(layer: Layer, again: (inner: Layer) => Layer): Layer {
  const { wraps } = layer;
  const checked = positioned(layer);
  if (wraps !== undefined) rebuilt.set(checked, (replace) => again(replace("", wraps)));
  return checked;
}

/**
 * The layer with others in the places of those inside, at any depth. One that stands in several places is asked about once.
 *
 * @param change what to take in the place of a layer, by its dotted name; undefined: look inside
 */
export function withLayers(
  layer: Layer,
  change: (name: string, layer: Layer) => Layer | undefined,
  name = "",
  known: Map<Layer, Layer> = new Map(),
): Layer {
  const before = known.get(layer);
  if (before !== undefined) return before;
  const inside: Rebuild = (replace) => rebuilt.get(layer)?.(replace) ?? layer;
  const after =
    change(name, layer) ??
    inside((own, inner) => withLayers(inner, change, [name, own].filter((part) => part !== "").join("."), known));
  known.set(layer, after);
  const recipe = recipeOf(layer);
  if (after !== layer && recipe !== undefined && recipeOf(after) === undefined)
    madeBy(after, recipe.make, ...recipe.args.map((one) => exchanged(one, known)));
  return after;
}

/** What a layer was made of, with others in the places of layers. */
function exchanged(value: unknown, known: ReadonlyMap<unknown, Layer>): unknown {
  if (Array.isArray(value)) return value.map((one: unknown) => exchanged(one, known));
  const other = known.get(value);
  if (other !== undefined || !isRecord(value) || isLayerLike(value)) return other ?? value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, exchanged(one, known)]));
}

type Twice = ReturnType<typeof sharedWithin>;

const notYet = (twice: Twice): Made => new Map([...twice.keys()].map((layer) => [layer, {}]));

function initialised({ layers, init }: Composition, twice: Twice, key: Tensor, input: TensorType): Initialised {
  const params: [string, Tensors][] = [];
  const state: [string, Tensors][] = [];
  return sharing({ made: new Map([...notYet(twice), ...made]) }, () => {
    const make = (name: string, given: TensorType): TensorType => {
      const layer = layers[name] as Layer;
      const fresh = inLayer(name, layer, () => initialisedChild(layer, name, scopeKey(key, name), given));
      params.push([name, fresh.params]);
      state.push([name, fresh.state]);
      return fresh.output;
    };
    const output = init(make, input, layers);
    return { params: treeOf(params), state: treeOf(state), output };
  });
}

function initialisedChild(layer: Layer, name: string, key: Tensor, input: TensorType): Initialised {
  const one = unwrapped(layer);
  const known = made.get(one);
  if (known === undefined) return layer.init(key, input);
  const { first } = known;
  if (first === undefined) {
    const fresh = layer.init(key, input);
    known.first = { name, params: fresh.params };
    return fresh;
  }
  let output = input;
  const types = sharing({ made: new Map() }, () =>
    evalShape(
      (again) => {
        const fresh = layer.init(again, input);
        output = fresh.output;
        return fresh.params;
      },
      { shape: [2], dtype: "u32" },
    ),
  );
  checkSame(first, types);
  return { params: {}, state: {}, output };
}

/** @throws HeddleError `shape` where the second place of a layer would need other parameters than the first. */
function checkSame({ name, params }: { name: string; params: Tensors }, types: unknown): void {
  const ours = flattenTree<TensorType>(types, isTensorType);
  const theirs = flattenTree(params, isTensor);
  ours.leaves.forEach((type, index) => {
    const own = theirs.leaves[index];
    if (own === undefined || sameType(own, type)) return;
    throw new HeddleError(
      "shape",
      `is the layer '${name}' again, with the same parameters, but its ${ours.paths[index]} is ${formatType(own)} there and would have to be ${formatType(type)} here`,
      { hint: "give both places inputs of one width, or make two layers" },
    );
  });
}

function applied({ layers, apply }: Composition, twice: Twice, variables: Variables, x: Tensor, options: ApplyOptions) {
  // Those that are shared within this layer only; others were found by the one around it.
  const own = [...twice].filter(([layer]) => !shared.has(layer));
  const mine: Shared = new Map(own.map(([layer, [name = ""]]) => [layer, { variables: variablesAt(variables, name) }]));
  return sharing({ shared: mine.size === 0 ? shared : new Map([...shared, ...mine]) }, () => {
    const states = new Map(Object.keys(layers).map((name) => [name, treeAt(variables.state, name)]));
    const y = apply(
      running(layers, () => variables, states, options),
      x,
      options,
    );
    const entries = [...states];
    // A shared layer is applied in other places, too: its state is that after the last one.
    for (const [layer, [name = ""]] of own) entries.push([name, mine.get(layer)?.variables.state ?? none]);
    return { y, state: treeOf(entries) };
  });
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
    const own = { params: treeAt(variables().params, name), state: states.get(name) ?? none };
    return shared.get(unwrapped(layerOf(name)))?.variables ?? own;
  };
  const optionsOf = (name: string): ApplyOptions => {
    const count = uses.get(name) ?? 0;
    uses.set(name, count + 1);
    const place = options.key === undefined ? undefined : scopeKey(options.key, name);
    const key = place === undefined || count === 0 ? place : scopeKey(place, count);
    return { train: options.train, precision: options.precision, key };
  };
  const run: RunChild = (name, x, more = {}) => {
    const layer = layerOf(name);
    const own = variablesOf(name);
    const given = { ...more, ...optionsOf(name) };
    const { y, state } = inLayer(name, layer, () => applyLayer(layer, own, x, given));
    const known = shared.get(unwrapped(layer));
    if (known === undefined) states.set(name, state);
    else known.variables = { params: known.variables.params, state };
    return y;
  };
  return { layers, run, variablesOf, optionsOf, meet: () => undefined };
}

/**
 * Applies a function of layers to an input of which only the type is known, and tells what each of them was given first.
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
  const twice = sharedWithin({ layers } as unknown as Layer);
  const within = {
    made: notYet(twice),
    shared: new Map() as Shared,
  };
  const form = flattenTree<TensorType>(input, isTensorType);
  const output = evalShape(
    (key, ...leaves) =>
      sharing(within, () => {
        const x = unflattenTree(form.shape, leaves);
        const fresh: (readonly [string, Initialised])[] = [];
        const variables = (): Variables => ({
          params: treeOf(fresh.map(([name, { params }]) => [name, params])),
          state: treeOf(fresh.map(([name, { state }]) => [name, state])),
        });
        const states = new Map<string, Tensors>();
        const meet = (name: string, given: Tensor): void => {
          if (inputs.has(name)) return;
          const layer = layers[name] as Layer;
          const type = { shape: given.shape, dtype: given.dtype };
          const made = inLayer(name, layer, () => initialisedChild(layer, name, scopeKey(key as Tensor, name), type));
          inputs.set(name, type);
          fresh.push([name, made]);
          states.set(name, made.state);
          for (const [one, names] of twice) {
            const owner = names.map((each) => variablesAt(variables(), each)).find((own) => !isEmpty(own));
            if (owner !== undefined && !shared.has(one)) shared.set(one, { variables: owner });
          }
        };
        const options = { train, key: key as Tensor };
        const plain = running(layers, variables, states, options);
        const run: RunChild = (name, given, more) => {
          meet(name, given);
          return plain.run(name, given, more);
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
