/** @module A layer of named layers and a function that says how they go together. */

import { isTensor, type Tensor } from "../functions/index.ts";
import { formatType, isTensorType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { flattenTree, isRecord } from "../util/tree.ts";
import { type Composition, composed, discover, type Running } from "./composite.ts";
import { floatDType } from "./float-dtype.ts";
import {
  type ApplyOptions,
  asLayer,
  castFloat,
  castInput,
  inLayer,
  isLayerLike,
  type Layer,
  type LayerLike,
  type NoTensors,
  type OneOrMore,
  type ParamsOf,
  type RecordModel,
  recordOf,
  type Variables,
} from "./layer.ts";

/** Layers, lists and records of them. */
export type LayerTree = LayerLike | readonly LayerTree[] | { readonly [name: string]: LayerTree };

/** The tree of parameters of layers, lists and records of them; layers without parameters have no place in it. */
export type TreeOf<L> = L extends LayerLike
  ? ParamsOf<L>
  : L extends readonly LayerTree[]
    ? number extends L["length"]
      ? { readonly [name: string]: TreeOf<L[number]> }
      : Filled<{ readonly [Place in keyof L & `${number}`]: TreeOf<L[Place]> }>
    : Filled<{ readonly [Name in keyof L & string]: TreeOf<L[Name]> }>;

type Filled<Trees> = {
  readonly [Name in keyof Trees as keyof Trees[Name] extends never ? never : Name]: Trees[Name];
};

/** Options of a layer's `apply`, besides those that the module gives it. */
type MoreOptions<L extends Layer> = Omit<NonNullable<Parameters<L["apply"]>[2]>, keyof ApplyOptions>;

/** A layer of a module as the module's function gets it. Called with a tensor, it brings its own variables and key, and the module's options. */
export interface BoundLayer<L extends Layer = Layer> {
  (x: Tensor, options?: MoreOptions<L>): Tensor;
  /** The layer's parameters, such as a table that another layer uses too. While the module is initialised they exist only after the first call. */
  readonly params: ParamsOf<L>;
  /**
   * Calls a function of the layer other than `apply`, with an input like that of `apply`. Changes of the layer's state are lost.
   *
   * @example l.lstm.use(x, (lstm, variables, options) => lstm.run(variables, x, { ...options, lengths }).y)
   */
  use<Result>(x: Tensor, body: (layer: L, variables: Variables<ParamsOf<L>>, options: ApplyOptions) => Result): Result;
}

/** The layers of a module as its function gets them, in the same lists and records. */
export type BoundLayers<L> = L extends Layer
  ? BoundLayer<L>
  : L extends LayerLike
    ? BoundLayer<Layer<NoTensors>>
    : { readonly [Name in keyof L]: BoundLayers<L[Name]> };

/** Options of {@link module}. */
export interface ModuleOptions<Names extends string = never> {
  /** What messages call it; default `"module"`. */
  readonly kind?: string;
  /** Names of tensors that `apply` takes besides `train`, `key` and `precision`, and hands to the function, such as masks. */
  readonly context?: readonly Names[];
}

/** The last argument of a module's function: the options of `apply`, with a key of the module's own, and the tensors named by `context`. */
export type ModuleContext<Names extends string = never> = ApplyOptions & {
  readonly [Name in Names]?: Tensor | undefined;
};

/** What {@link module} makes: a layer; or, if input or output is a record, a model of records, as `train` takes it. */
export type Module<Params, Names extends string, X, Y> = [X, Y] extends [Tensor, Tensor]
  ? ModuleLayer<Params, Names>
  : RecordModel<Params>;

/** A layer that a module makes: its `apply` takes the tensors named by `context`, too. */
export interface ModuleLayer<Params, Names extends string = never> extends Layer<Params> {
  apply(variables: Variables<Params>, x: Tensor, options?: ModuleContext<Names>): ReturnType<Layer["apply"]>;
}

/**
 * A layer made of named layers, with a function that says how they go together. Variables have the names of the layers:
 * `params.head.weight`, of a list `params.blocks["0"].weight`. A layer that is listed twice or applied twice has one set of
 * parameters, under its first name.
 *
 * `init` calls the function once, on shapes alone, to learn what each layer gets.
 *
 * @param layers by name; also lists and records of layers, and functions of a tensor
 * @param forward computes the output from the layers, the input and the options of `apply`. It is pure, and applies the same layers to
 * all inputs of one shape. Input and output may be records of tensors: `train` gives a model of several columns a record, and hands
 * a record of outputs to the losses
 * @throws HeddleError `option` for a value that is not a layer; `model`, from `init`, for a layer that the function does not apply
 * @example
 * nn.module({ embed: nn.embedding(1000, 64), lstm: nn.lstm({ hidden: 64, output: "last" }), head: nn.linear(2) }, (l, x) =>
 *   l.head(l.lstm(l.embed(x))))
 */
export function module<
  const L extends { readonly [name: string]: LayerTree },
  const Names extends string = never,
  X extends OneOrMore<Tensor> = Tensor,
  Y extends OneOrMore<Tensor> = Tensor,
>(
  layers: L,
  forward: (layers: BoundLayers<L>, x: X, context: ModuleContext<Names>) => Y,
  options: ModuleOptions<Names> = {},
): Module<TreeOf<L>, Names, X, Y> {
  checkOptions("module", options, ["kind", "context"]);
  const { kind = "module", context = [] } = options;
  if (!isRecord(layers) || Object.keys(layers).length === 0)
    throw new HeddleError("option", `module: takes a record of layers, got ${shown(layers)}`);
  if (typeof forward !== "function")
    throw new HeddleError("option", `module: takes a function of its layers and x after them, got ${shown(forward)}`);
  const named: { [name: string]: Layer } = {};
  collect("", layers, named);
  const call: Call = (bind, x, context) => {
    const y: unknown = forward(bound("", layers, bind) as BoundLayers<L>, x as X, context as ModuleContext<Names>);
    if (isTensor(y) || recordOf(y, isTensor)) return y as Tensor;
    throw new HeddleError("model", `${kind}: its function must give a tensor, but gave ${shown(y)}`);
  };
  const discoveries = new Map<string, Discovery>();
  return composed(
    {
      kind,
      layers: named,
      init(make, input, layers) {
        const { paths, leaves } = flattenTree<TensorType>(input, isTensorType);
        const key = `${leaves.map((leaf, index) => `${paths[index]} ${formatType(leaf)}`).join()} ${floatDType()}`;
        const { inputs, output } = discoveries.get(key) ?? discovered(kind, layers, call, input);
        discoveries.set(key, { inputs, output });
        for (const name of Object.keys(named)) make(name, inputs.get(name) as TensorType);
        return output;
      },
      apply: (running, x, applyOptions) =>
        call(binding(running, applyOptions), castInput(x, applyOptions.precision), applyOptions),
      records: true,
    },
    context,
  ) as ModuleLayer<TreeOf<L>, Names>;
}

/** The layers of a tree by their dotted names. */
function collect(name: string, tree: unknown, into: { [name: string]: Layer }): void {
  if (isLayerLike(tree)) {
    into[name] = asLayer(tree);
    return;
  }
  if (!Array.isArray(tree) && !isRecord(tree))
    throw new HeddleError("option", `module: '${name}' is ${shown(tree)}, not a layer`);
  for (const [layerName, inner] of Object.entries(tree)) {
    if (layerName === "" || layerName.includes("."))
      throw new HeddleError("option", `module: a layer is called '${layerName}', but names are without dots`);
    if (layerName in Object.prototype)
      throw new HeddleError(
        "option",
        `module: a layer is called '${layerName}', a name that every object has: rename it`,
      );
    collect(name === "" ? layerName : `${name}.${layerName}`, inner, into);
  }
}

/** Gives the layer of a name as the function gets it. */
type Bind = (name: string) => BoundLayer;
/** Calls a module's function. */
type Call = (bind: Bind, x: Tensor, options: ApplyOptions) => Tensor;

/** The tree of layers, each as the function gets it. */
function bound(name: string, tree: unknown, bind: Bind): unknown {
  if (isLayerLike(tree)) return bind(name);
  const pathOf = (childName: string | number): string => (name === "" ? `${childName}` : `${name}.${childName}`);
  if (Array.isArray(tree)) return tree.map((inner: unknown, index) => bound(pathOf(index), inner, bind));
  return Object.fromEntries(
    Object.entries(tree as object).map(([childName, inner]: [string, unknown]) => [
      childName,
      bound(pathOf(childName), inner, bind),
    ]),
  );
}

const binding =
  ({ layers, run, variablesOf, optionsOf, meet }: Running, { precision }: ApplyOptions): Bind =>
  (name) => {
    // Norms give f32 whatever the precision; what is computed with it is of the precision, as in a transformer.
    const apply = (x: Tensor, more?: object): Tensor => {
      checkGiven(name, x);
      return castFloat(run(name, x, more), precision);
    };
    const use: BoundLayer["use"] = (x, body) => {
      checkGiven(name, x);
      meet(name, x);
      const layer = layers[name] as Layer;
      return inLayer(name, layer, () => body(layer, variablesOf(name), optionsOf(name)));
    };
    const params = { get: () => variablesOf(name).params };
    return Object.defineProperty(Object.assign(apply, { use }), "params", params) as unknown as BoundLayer;
  };

/** A function of records that reads a name which its input lacks passes undefined on to a layer. */
function checkGiven(name: string, x: unknown): void {
  if (isTensor(x)) return;
  throw new HeddleError("argument", `the function gives layer '${name}' ${shown(x)}, not a tensor`, {
    hint: 'a module gets one tensor, or of several columns a record of tensors by their names: train({ input: ["image", "meta"], … })',
  });
}

type Discovery = ReturnType<typeof discover>;

/** The input type of each layer. Every layer must be applied; some are applied while training only. */
function discovered(kind: string, layers: Composition["layers"], call: Call, input: TensorType): Discovery {
  const discoverWith = (train: boolean): Discovery =>
    discover(layers, input, train, (running, x, applyOptions) => call(binding(running, applyOptions), x, applyOptions));
  const evaluation = discoverWith(false);
  const missing = (): string[] => Object.keys(layers).filter((name) => !inputs.has(name));
  let { inputs } = evaluation;
  if (missing().length > 0) inputs = new Map([...discoverWith(true).inputs, ...inputs]);
  const [first] = missing();
  if (first === undefined) return { ...evaluation, inputs };
  throw new HeddleError("model", `${kind}: its function does not apply the layer '${first}'`, {
    hint: "leave it out, or apply it: every layer is made for an input that the function gives it",
  });
}
