/** @module The variables of a model from a file of weights, whoever wrote it. */

import { evalShape, isTensor, random, type Tensor, type Tensors, zeros } from "../functions/index.ts";
import { type DType, isInteger, isValueOf } from "../ir/dtype.ts";
import { isTensorType, range, type TensorType } from "../ir/shape.ts";
import { sharedWithin } from "../nn/composite.ts";
import { type FloatDType, withFloats } from "../nn/float-dtype.ts";
import type { Layer, OneOrMore, ParamsOf, RecordModel, Variables } from "../nn/index.ts";
import { isLayerLike } from "../nn/layer.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { checkMatches, folded, matching, type Pattern } from "../util/pattern.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";
import { checkFits, fromKeras, isCounter, type Wanted } from "./fitting.ts";
import { toTensor } from "./host-tensors.ts";
import type { HostTensors } from "./safetensors.ts";
import { openWeights, type WeightsFile } from "./weights.ts";

/** Options of {@link loadPyTorch}. */
export interface LoadPyTorchOptions {
  /**
   * The file's name of a variable, given Heddle's dotted name; or prefixes: `{ "0": "conv1" }` takes `conv1.weight` for
   * `0.weight`, `{ "": "module" }` puts `module.` in front of all. Default: the names are the same, as they are where `nn.sequential`
   * mirrors `torch.nn.Sequential`.
   */
  readonly names?: { readonly [prefix: string]: string } | ((name: string) => string);
  /**
   * Entries of the file that need no variable, by a pattern or a function of their names. Default: counters of batch norm
   * (`num_batches_tracked`).
   */
  readonly ignore?: Pattern | ((name: string) => boolean);
  /**
   * Floats of another float dtype are rounded to that of the variable; default true for `loadVariables`, false for
   * `loadPyTorch`, where another float dtype is a mismatch.
   */
  readonly cast?: boolean;
}

/** Options of {@link loadVariables}. */
export interface LoadVariablesOptions extends LoadPyTorchOptions {
  /**
   * Shape (batch first, any size) of the input, or shape and dtype; for a model with several inputs a record of these
   * by name. Needed where the model is a layer.
   */
  readonly input?: OneOrMore<readonly number[] | TensorType>;
  /**
   * Which variables to read, by a pattern of their names; the others keep their given values, or for a layer the values
   * of `init`. Default: all.
   */
  readonly only?: Pattern;
  /** Variables whose dims are `[…kernel, in, out]` in the file, as Keras and JAX keep them, by a pattern of their names; default none. */
  readonly transpose?: Pattern;
  /** Dtype of the floats of a model that is given as a layer; default `"f32"`. */
  readonly dtype?: FloatDType;
}

const pyTorchNames = ["names", "ignore", "cast"];

/** A model to be read: its trees, and names under which files know a layer that stands in several places. */
interface Model {
  readonly trees: readonly FlatTree<Tensor | TensorType>[];
  readonly aliases: readonly (readonly [first: string, other: string])[];
}

/**
 * The variables of a model from a file: safetensors (`train`'s checkpoints, `saveTensors`, `saveWeights`, PyTorch's and
 * others'), a folder of checkpoints (of which the newest is read), npz, or a state dict of `torch.save` (`.pt`, `.pth`;
 * nothing in it is executed). From a checkpoint that holds more than a state dict, the state dict is taken. Floats are
 * rounded to the dtype of the variable; integers of another width are taken where every value fits; counters of batch
 * norm that the file lacks are 0.
 *
 *     const variables = await io.loadVariables("checkpoints", model, { input: [1, 784] });
 *     const { y } = model.apply(variables, x);
 *
 * @param from a path, or tensors by name that were read already, as those of a format that Heddle does not read
 * @param model a layer, with the option `input`, or variables, which are not changed
 * @throws HeddleError `model` where names or shapes do not fit: with the cause where one is found (a prefix, other
 * names of layers, dims in another order), what to write, and the names; `option` for a pattern that matches none;
 * `format` for a malformed file; `file` when it cannot be read.
 */
export function loadVariables<const M extends Layer | RecordModel | Variables>(
  from: string | HostTensors,
  model: M,
  options: LoadVariablesOptions = {},
): Promise<Variables<M extends Variables ? M["params"] : ParamsOf<M>>> {
  return called(async () => {
    checkOptions("loadVariables", options, ["input", "only", "transpose", "dtype", ...pyTorchNames]);
    const file = await openWeights("loadVariables", from);
    try {
      const found = modelOf("loadVariables", model, options);
      return (await read("loadVariables", file, found, { cast: true, ...options })) as Variables<never>;
    } finally {
      await file.close();
    }
  });
}

/** {@link loadVariables} of a layer from a file that is open, for the function `what` that users call. */
export const readVariables = (
  what: string,
  file: WeightsFile,
  model: Layer,
  options: Pick<LoadVariablesOptions, "input" | "dtype">,
): Promise<Variables> => read(what, file, modelOf(what, model, options), { cast: true });

/**
 * Variables of a Heddle model with the values of a PyTorch model of the same structure, saved in PyTorch by
 * `safetensors.torch.save_model(model, path)`, `save_file(model.state_dict(), path)` or `torch.save(model.state_dict(), path)`. Heddle's
 * layers have PyTorch's names, shapes and meaning of parameters, so nothing is transposed. It is {@link loadVariables} of variables,
 * without rounding.
 *
 *     const variables = model.init(random.key(0), { shape: [1, 784], dtype: "f32" });
 *     const trained = await io.loadPyTorch("model.safetensors", variables, { names: { "0": "fc1", "2": "fc2" } });
 *     const { y } = model.apply(trained, x);
 *
 * @returns variables of the form of those given, which are not changed.
 * @throws HeddleError as {@link loadVariables}
 */
export function loadPyTorch<V extends Variables>(
  path: string,
  variables: V,
  options: LoadPyTorchOptions = {},
): Promise<Variables<V["params"]>> {
  return called(async () => {
    checkOptions("loadPyTorch", options, pyTorchNames);
    const model = treesOf("loadPyTorch", variables);
    const file = await openWeights("loadPyTorch", path);
    try {
      return await read("loadPyTorch", file, model, options);
    } finally {
      await file.close();
    }
  });
}

function treesOf(what: string, variables: unknown): Model {
  const { params, state } = (variables ?? {}) as Partial<Variables>;
  if (typeof params !== "object" || typeof state !== "object")
    throw new HeddleError("argument", `${what}: takes { params, state } of a model's init after the path`);
  return { trees: [params, state].map((tree) => flattenTree<Tensor>(tree, isTensor)), aliases: [] };
}

/** The trees of a model's variables, with types in place of values for a layer. */
function modelOf(what: string, model: Layer | RecordModel | Variables, options: LoadVariablesOptions): Model {
  if (!isLayerLike(model) || typeof model === "function") {
    if (options.input !== undefined)
      throw new HeddleError("option", `${what}: input is for a model that is given as a layer, not as variables`);
    return treesOf(what, model);
  }
  const { input, dtype = "f32", only } = options;
  if (input === undefined)
    throw new HeddleError("option", `${what}: the shape of the input of this ${model.kind} is not known`, {
      hint: "give the option input: [1, 784], with the batch first",
    });
  const typeOf = (spec: readonly number[] | TensorType): TensorType =>
    isTensorType(spec) ? spec : { shape: spec, dtype };
  const isSpec = (value: unknown): value is readonly number[] | TensorType =>
    isTensorType(value) || Array.isArray(value);
  const { leaves, shape } = flattenTree(input, isSpec);
  const type = unflattenTree(shape, leaves.map(typeOf)) as OneOrMore<TensorType>;
  const init = (key: Tensor): Variables => {
    const { params, state } = withFloats(dtype, () => model.init(key, type as TensorType));
    return { params, state };
  };
  // Variables that are not read must be made; of the variables that are read the types are enough.
  const { params, state } = only === undefined ? evalShape(init, { shape: [2], dtype: "u32" }) : init(random.key(0));
  const isLeaf = (value: unknown): value is Tensor | TensorType => isTensor(value) || isTensorType(value);
  const aliases = [...sharedWithin(model).values()].flatMap(([first = "", ...others]) =>
    others.map((other) => [first, other] as const),
  );
  return { trees: [params, state].map((tree) => flattenTree(tree, isLeaf)), aliases };
}

/** The dotted name of a variable, with the longest prefix that has another in the file replaced. */
function renamed(name: string, names: LoadPyTorchOptions["names"]): string {
  if (typeof names === "function") {
    const found: unknown = names(name);
    if (typeof found === "string") return found;
    throw new HeddleError("option", `names: gives ${shown(found)} for "${name}", not a name of the file`);
  }
  const parts = name.split(".");
  for (let length = parts.length; length >= 0; length--) {
    const prefix = parts.slice(0, length).join(".");
    if (names !== undefined && Object.hasOwn(names, prefix))
      return [names[prefix], ...parts.slice(length)].filter((part) => part !== "").join(".");
  }
  return name;
}

/** @throws HeddleError `option` for a prefix that no variable has. */
function checkPrefixes(what: string, names: LoadPyTorchOptions["names"], variables: readonly string[]): void {
  if (names === undefined || typeof names === "function") return;
  if (typeof names !== "object" || names === null)
    throw new HeddleError("option", `${what}: names must be a record of prefixes or a function, got ${shown(names)}`);
  const unused = Object.keys(names).find(
    (prefix) => prefix !== "" && !variables.some((name) => name === prefix || name.startsWith(`${prefix}.`)),
  );
  if (unused === undefined) return;
  throw new HeddleError(
    "option",
    `${what}: names has "${unused}", which no variable of the model is called or begins with`,
    {
      hint: `variables are ${folded(variables)}; the names of the file stand on the right`,
    },
  );
}

interface Reading extends LoadPyTorchOptions, Pick<LoadVariablesOptions, "only" | "transpose"> {}

async function read<Params extends Tensors>(
  what: string,
  file: WeightsFile,
  { trees, aliases }: Model,
  { names, ignore, cast, only, transpose }: Reading,
): Promise<Variables<Params>> {
  const variables = trees.flatMap(({ paths }) => paths);
  checkPrefixes(what, names, variables);
  for (const pattern of [only, transpose])
    if (pattern !== undefined) checkMatches(`${what}: ${pattern === only ? "only" : "transpose"}`, pattern, variables);
  const isWanted = only === undefined ? () => true : matching(`${what}: only`, only);
  const transposes = transpose === undefined ? undefined : matching(`${what}: transpose`, transpose);
  const ignores =
    ignore === undefined || typeof ignore === "function" ? (ignore ?? isCounter) : matching(`${what}: ignore`, ignore);
  const isThere = (name: string): boolean => file.entries.has(name);
  // Files may know a layer that stands in several places by any of its names.
  const known = (name: string): string => {
    const others = aliases.flatMap(([first, other]) =>
      name.startsWith(`${first}.`) ? [other + name.slice(first.length)] : [],
    );
    return isThere(renamed(name, names)) ? name : (others.find((other) => isThere(renamed(other, names))) ?? name);
  };
  const wanted = trees.map(({ leaves, paths }) =>
    leaves.map((variable, index): Wanted => {
      const name = paths[index] as string;
      return { name, inFile: renamed(known(name), names), variable };
    }),
  );
  const isRead = ({ name, inFile }: Wanted): boolean => isWanted(name) && (isThere(inFile) || !isCounter(name));
  const again = (name: string): boolean =>
    aliases.some(
      ([first, other]) => name.startsWith(`${other}.`) && variables.includes(first + name.slice(other.length)),
    );
  const skips = (name: string): boolean =>
    ignores(name) || again(name) || (only !== undefined && isLeftOut(name, wanted.flat(), isWanted));
  checkFits(file.path, file.entries, wanted.flat().filter(isRead), { ignore: skips, cast, transposes });
  const loaded: Tensors[] = [];
  for (const [index, list] of wanted.entries()) {
    const leaves: Tensor[] = [];
    for (const variable of list)
      leaves.push(
        isRead(variable) ? await readOne(file, variable, transposes?.(variable.name) === true) : givenOrZeros(variable),
      );
    loaded.push(unflattenTree((trees[index] as FlatTree<Tensor>).shape, leaves) as Tensors);
  }
  return { params: loaded[0] as Params, state: loaded[1] as Tensors };
}

/**
 * Whether an entry belongs to a variable that `only` leaves out, or to none: a part of the model needs only a part of
 * the file.
 */
const isLeftOut = (name: string, wanted: readonly Wanted[], isWanted: (name: string) => boolean): boolean =>
  !wanted.some((variable) => variable.inFile === name && isWanted(variable.name));

/** A variable that is not read: its given value, or zeros for a counter. */
const givenOrZeros = ({ variable }: Wanted): Tensor =>
  isTensor(variable) ? variable : zeros(variable.shape, { dtype: variable.dtype });

/** The tensor of an entry in the dtype of a variable. @throws HeddleError `model` for an integer that does not fit. */
async function readOne(file: WeightsFile, { inFile, variable }: Wanted, transposes: boolean): Promise<Tensor> {
  const { dtype }: { readonly dtype: DType } = variable;
  const host = await file.read(inFile);
  if (host.dtype !== dtype && isInteger(dtype)) {
    const odd = host.data.find((value) => !isValueOf(dtype, value));
    if (odd !== undefined)
      throw new HeddleError(
        "model",
        `${file.path} does not fit the model: "${inFile}" holds ${odd}, no value of ${dtype}`,
      );
  }
  const x = toTensor(host).cast(dtype);
  return transposes ? x.transpose([...fromKeras(range(host.shape.length))]) : x;
}
