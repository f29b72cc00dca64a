/**
 * @module Parameters by name, as PyTorch's `state_dict` has them: what a safetensors file of a PyTorch model holds.
 */
import { type DType, isFloat, isInteger, isValueOf } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, type Shape, sameShape, type TensorType } from "../ir/shape.ts";
import type { Variables } from "../nn/index.ts";
import { isTensor, type Tensor, type Tensors } from "../tensor/index.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkOptions, chosenBy } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { flattenTree, isRecord, unflattenTree } from "../util/tree.ts";
import { toHost, toTensor } from "./host.ts";
import { openedBy, type SafetensorsFile, savedBy } from "./safetensors.ts";

/** Options of {@link loadPyTorch}. */
export interface LoadPyTorchOptions {
  /**
   * The file's name of a variable, given Heddle's dotted name; or prefixes: `{ "0": "conv1" }` takes `conv1.weight` for
   * `0.weight`. Default: the names are the same, as they are where `nn.sequential` mirrors `torch.nn.Sequential`.
   */
  readonly names?: { readonly [prefix: string]: string } | ((name: string) => string);
  /** Entries of the file that need no variable, by name. Default: counters of batch norm (`num_batches_tracked`). */
  readonly ignore?: (name: string) => boolean;
  /** Floats of another float dtype are rounded to that of the variable; default false: a mismatch. */
  readonly cast?: boolean;
}

/** The dotted name of a variable, with the longest prefix that has another in the file replaced. */
function renamed(name: string, names: LoadPyTorchOptions["names"]): string {
  if (typeof names === "function") return names(name);
  const parts = name.split(".");
  for (let length = parts.length; length > 0; length--) {
    const prefix = parts.slice(0, length).join(".");
    if (names !== undefined && Object.hasOwn(names, prefix)) return [names[prefix], ...parts.slice(length)].join(".");
  }
  return name;
}

/** A variable of a model, and the entry of the file that it is to come from. */
export interface Wanted {
  readonly name: string;
  readonly inFile: string;
  readonly variable: TensorType;
}

/** What a file has under a name; `dtype` is undefined where Heddle has none such. */
export interface Found {
  readonly dtype: DType | undefined;
  readonly shape: Shape;
  readonly format?: string;
}

/** Everything in which a file and a model do not fit, a line each. */
export function mismatches(
  entries: ReadonlyMap<string, Found>,
  wanted: readonly Wanted[],
  options: Pick<LoadPyTorchOptions, "ignore" | "cast"> = {},
): string[] {
  const { ignore = (name) => name.endsWith("num_batches_tracked"), cast = false } = options;
  const used = new Map<string, string>();
  const lines: string[] = [];
  for (const { name, inFile, variable } of wanted) {
    const entry = entries.get(inFile);
    const as = inFile === name ? "" : ` (as "${inFile}")`;
    const taken = used.get(inFile);
    if (taken !== undefined) lines.push(`"${name}" and "${taken}" are both "${inFile}" of the file`);
    used.set(inFile, name);
    if (entry === undefined) {
      lines.push(`missing: "${name}"${as}, ${formatType(variable)}`);
      continue;
    }
    const fits = entry.dtype === variable.dtype || converts(entry.dtype, variable.dtype, cast);
    if (!fits || !sameShape(entry.shape, variable.shape)) {
      const found = `${entry.dtype ?? entry.format}[${entry.shape.join(",")}]`;
      lines.push(`differs: "${name}"${as} is ${formatType(variable)} here and ${found} in the file`);
    }
  }
  for (const name of entries.keys())
    if (!used.has(name) && !ignore(name)) lines.push(`unexpected: "${name}" of the file has no variable here`);
  return lines;
}

/** Whether values of a file become those of a variable: integers of any width, each of which must fit; floats where they may be rounded. */
const converts = (from: DType | undefined, to: DType, cast: boolean): boolean =>
  from !== undefined && ((cast && isFloat(from) && isFloat(to)) || (isInteger(from) && isInteger(to)));

/** The tensor of an entry in the dtype of a variable. @throws HeddleError `model` for an integer that does not fit. */
async function readAs(file: SafetensorsFile, path: string, inFile: string, dtype: DType): Promise<Tensor> {
  const host = await file.read(inFile);
  if (host.dtype !== dtype && isInteger(dtype)) {
    const odd = host.data.find((value) => !isValueOf(dtype, value));
    if (odd !== undefined)
      throw new HeddleError("model", `${path} does not fit the model: "${inFile}" holds ${odd}, no value of ${dtype}`);
  }
  return toTensor(host).cast(dtype);
}

/** Most lines of an error; a wrong file has one for each parameter. */
const mostLines = 20;

/** @throws HeddleError `model` when there is a line. */
export function checkFits(path: string, lines: readonly string[], hint?: string): void {
  if (lines.length === 0) return;
  const more = lines.length > mostLines ? [`and ${lines.length - mostLines} more`] : [];
  throw new HeddleError(
    "model",
    `${path} does not fit the model:\n  ${[...lines.slice(0, mostLines), ...more].join("\n  ")}`,
    hint === undefined ? {} : { hint },
  );
}

/**
 * Variables of a Heddle model with the values of a PyTorch model of the same structure, saved in PyTorch by
 * `safetensors.torch.save_model(model, path)` or `save_file(model.state_dict(), path)`. Heddle's layers have PyTorch's names,
 * shapes and meaning of parameters, so nothing is transposed. Every variable is read, one after the other.
 *
 *     const variables = model.init(random.key(0), { shape: [1, 784], dtype: "f32" });
 *     const trained = await io.loadPyTorch("model.safetensors", variables, { names: { "0": "fc1", "2": "fc2" } });
 *     const { y } = model.apply(trained, x);
 *
 * @returns variables of the form of those given, which are not changed.
 * @throws HeddleError `model` naming every variable that is missing in the file, every entry of the file without a variable,
 * and every one that differs in shape or dtype (integers of another width are taken where every value fits); `format` for a malformed file; `file` when it cannot be read.
 */
export function loadPyTorch<V extends Variables>(
  path: string,
  variables: V,
  options: LoadPyTorchOptions = {},
): Promise<Variables<V["params"]>> {
  return called(async () => {
    checkOptions("loadPyTorch", options, ["names", "ignore", "cast"]);
    const { params, state } = variables ?? {};
    if (typeof params !== "object" || typeof state !== "object")
      throw new HeddleError("argument", "loadPyTorch: takes { params, state } of a model's init after the path");
    const flat = [params, state].map((tree) => flattenTree<Tensor>(tree, isTensor));
    const file = await openedBy("loadPyTorch", path);
    try {
      const wanted = flat.map(({ leaves, paths }) =>
        leaves.map((variable, index): Wanted => {
          const name = paths[index] as string;
          return { name, inFile: renamed(name, options.names), variable };
        }),
      );
      checkFits(
        path,
        mismatches(file.entries, wanted.flat(), options),
        "map names with the option names, leave out entries of the file with ignore",
      );
      const trees: Tensors[] = [];
      for (const [index, list] of wanted.entries()) {
        const leaves: Tensor[] = [];
        for (const { inFile, variable } of list) leaves.push(await readAs(file, path, inFile, variable.dtype));
        trees.push(unflattenTree((flat[index] as (typeof flat)[number]).shape, leaves) as Tensors);
      }
      return { params: trees[0] as V["params"], state: trees[1] as Tensors };
    } finally {
      await file.close();
    }
  });
}

/** @throws HeddleError `argument` naming what in a tree is no tensor, and so would be in no file. */
function checkAllTensors(what: string, tree: unknown): void {
  const isEnd = (value: unknown): value is unknown => isTensor(value) || !(Array.isArray(value) || isRecord(value));
  const { leaves, paths } = flattenTree<unknown>(tree, isEnd);
  const at = leaves.findIndex((leaf) => !isTensor(leaf));
  if (at < 0) return;
  const place = paths[at] === "" ? "" : ` at '${paths[at]}'`;
  throw new HeddleError(
    "argument",
    `${what}: takes a tree of tensors after the path, got ${shown(leaves[at])}${place}`,
    {
      hint: "make tensors of numbers and arrays: tensor(…)",
    },
  );
}

/** The tensors of trees by their dotted names, as `read` gives them. @throws HeddleError `tree` when two have one name. */
export async function hostByName(
  what: string,
  trees: readonly Tensors[],
  read: (x: Tensor) => Promise<HostTensor>,
): Promise<Map<string, HostTensor>> {
  const host = new Map<string, HostTensor>();
  for (const tree of trees) {
    const { leaves, paths } = flattenTree<Tensor>(tree, isTensor);
    for (const [index, name] of paths.entries()) {
      if (host.has(name)) throw new HeddleError("tree", `${what}: two tensors have the name '${name}'`);
      host.set(name, await read(leaves[index] as Tensor));
    }
  }
  return host;
}

/**
 * Writes a tree of tensors (`params`, or `{ params, state }`) as a safetensors file by dotted names, which PyTorch reads
 * with `safetensors.torch.load_file`. It appears whole or not at all.
 *
 * @throws HeddleError `argument` for what in the tree is no tensor; `layout` when this process holds only a part of a tensor;
 * `tree` when two have one name, or the tree contains itself; `file` when it cannot be written, `disk` when it does not fit.
 */
export function saveTensors(
  path: string,
  tensors: Tensors,
  options: { readonly metadata?: { readonly [key: string]: string } } = {},
): Promise<void> {
  return called(async () => {
    checkOptions("saveTensors", options, ["metadata"]);
    within("saveTensors", () => checkAllTensors("saveTensors", tensors));
    const metadata = new Map(Object.entries(options.metadata ?? {}));
    await savedBy("saveTensors", path, await hostByName("saveTensors", [tensors], toHost), { metadata });
  });
}

/** Options of {@link loadTensors}. */
export interface LoadTensorsOptions {
  /** Which tensors to read, by name; default all. Of the others nothing is read. */
  readonly only?: (name: string) => boolean;
}

/**
 * The tensors of a safetensors file by name.
 *
 * @throws HeddleError `format`; `dtype` for a tensor of a dtype that Heddle has not (`only` leaves it out); `file` when it cannot be read.
 */
export function loadTensors(path: string, options: LoadTensorsOptions = {}): Promise<Record<string, Tensor>> {
  return called(async () => {
    checkOptions("loadTensors", options, ["only"]);
    const only = chosenBy("loadTensors", options.only);
    const file = await openedBy("loadTensors", path);
    try {
      const tensors: [string, Tensor][] = [];
      for (const name of file.entries.keys()) if (only(name)) tensors.push([name, toTensor(await file.read(name))]);
      return Object.fromEntries(tensors);
    } finally {
      await file.close();
    }
  });
}
