/**
 * @module Checks that the entries of a file fit the variables of a model, and explains a misfit, the likely cause
 * first.
 */
import { type DType, isFloat, isInteger } from "../ir/dtype.ts";
import { formatType, type Shape, sameShape, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { folded } from "../util/pattern.ts";

/** A variable of a model, and the name of the entry of the file that it is read from. */
export interface Wanted {
  readonly name: string;
  readonly inFile: string;
  readonly variable: TensorType;
}

/** An entry of a file; `dtype` is undefined where Heddle lacks the file's dtype. */
export interface Found {
  readonly dtype: DType | undefined;
  readonly shape: Shape;
  readonly format?: string;
}

/** How files and models are compared. */
export interface FitOptions {
  /** Entries of the file that need no variable. Default: counters of batch norm. */
  readonly ignore?: ((name: string) => boolean) | undefined;
  /** Floats of another float dtype are rounded to that of the variable. */
  readonly cast?: boolean | undefined;
  /** Variables whose entry has its dims in the order of Keras. */
  readonly transposes?: ((name: string) => boolean) | undefined;
}

/** Whether a name is that of a batch counter of PyTorch's batch norms, which a file or a model may lack. */
export const isCounter = (name: string): boolean => name.endsWith("num_batches_tracked");

/** The dims of weights `[…kernel, in, out]`, as Keras and JAX keep them, in the order `[out, in, …kernel]`. */
export const fromKeras = <Item>(dims: readonly Item[]): readonly Item[] => [
  ...dims.slice(-2).reverse(),
  ...dims.slice(0, -2),
];

/**
 * Whether values of a file can be converted to a variable's dtype: integers of any width, where each value must fit,
 * and floats where rounding is allowed.
 */
const converts = (from: DType | undefined, to: DType, cast: boolean): boolean =>
  from !== undefined && ((cast && isFloat(from) && isFloat(to)) || (isInteger(from) && isInteger(to)));

interface Misfit {
  readonly missing: readonly Wanted[];
  readonly extra: readonly string[];
  readonly differs: readonly (Wanted & { readonly entry: Found })[];
  readonly twice: readonly string[];
}

function misfit(entries: ReadonlyMap<string, Found>, wanted: readonly Wanted[], options: FitOptions): Misfit {
  const { ignore = isCounter, cast = false, transposes = () => false } = options;
  const used = new Map<string, string>();
  const missing: Wanted[] = [];
  const differs: Misfit["differs"][number][] = [];
  const twice: string[] = [];
  for (const pair of wanted) {
    const { name, inFile, variable } = pair;
    const taken = used.get(inFile);
    if (taken !== undefined) twice.push(`"${name}" and "${taken}" are both "${inFile}" of the file`);
    used.set(inFile, name);
    const entry = entries.get(inFile);
    const shape = entry === undefined || !transposes(name) ? entry?.shape : fromKeras(entry.shape);
    if (entry === undefined || shape === undefined) missing.push(pair);
    else if (
      !sameShape(shape, variable.shape) ||
      (entry.dtype !== variable.dtype && !converts(entry.dtype, variable.dtype, cast))
    )
      differs.push({ ...pair, entry });
  }
  const extra = [...entries.keys()].filter((name) => !used.has(name) && !ignore(name));
  return { missing, extra, differs, twice };
}

/** The cause of a misfit, and what to write. */
interface Reason {
  readonly text: string;
  readonly hint: string;
}

/**
 * @throws HeddleError `model` where something is missing in the file, left over, or of another shape or dtype: first
 * with the cause, where one is found, then with the names
 */
export function checkFits(
  path: string,
  entries: ReadonlyMap<string, Found>,
  wanted: readonly Wanted[],
  options: FitOptions = {},
): void {
  const found = misfit(entries, wanted, options);
  const { missing, extra, differs, twice } = found;
  if (missing.length + extra.length + differs.length + twice.length === 0) return;
  const front = prefixed(found);
  const others = front === undefined ? renamed(found, entries) : undefined;
  const reasons = [front, transposed(found), rounded(found), others].filter((reason) => reason !== undefined);
  const lines = [
    ...reasons.map(({ text }) => text),
    ...listed(
      missing,
      ({ name, inFile, variable }) => `missing: "${name}"${as(name, inFile)}, ${formatType(variable)}`,
      (all) => `missing: ${all.length} variables, ${folded(all.map(({ name }) => name))}`,
    ),
    ...listed(
      differs,
      differing,
      (all) =>
        `differs: ${all.length} variables, ${folded(all.map(({ name }) => name))}; ${differing(all[0] as Misfit["differs"][number]).replace(/^differs: /, "")}`,
    ),
    ...twice,
    ...listed(
      extra,
      (name) => `unexpected: "${name}" of the file has no variable here`,
      (all) => `unexpected: ${all.length} entries of the file have no variable here, ${folded(all)}`,
    ),
  ];
  const hint = reasons.map((reason) => reason.hint).join("; ") || usual(found);
  throw new HeddleError("model", `${path} does not fit the model:\n  ${lines.join("\n  ")}`, { hint });
}

const usual = ({ missing, extra, differs }: Misfit): string =>
  [
    missing.length > 0 && extra.length > 0 ? "map names with the option names" : undefined,
    extra.length > 0 ? "leave out entries of the file with ignore" : undefined,
  ]
    .filter((part) => part !== undefined)
    .join(", ") ||
  (differs.every(({ entry, variable }) => sameShape(entry.shape, variable.shape))
    ? "save them in the dtypes of the model: only floats are rounded to others"
    : "give the model the sizes of the one in the file");

const as = (name: string, inFile: string): string => (inFile === name ? "" : ` (as "${inFile}")`);

function differing({ name, inFile, variable, entry }: Misfit["differs"][number]): string {
  const found = `${entry.dtype ?? entry.format}[${entry.shape.join(",")}]`;
  return `differs: "${name}"${as(name, inFile)} is ${formatType(variable)} here and ${found} in the file`;
}

/** The most names that are listed one by one. */
const mostLines = 6;

const listed = <Item>(
  items: readonly Item[],
  line: (item: Item) => string,
  together: (items: readonly Item[]) => string,
): string[] => (items.length > mostLines ? [together(items)] : items.map(line));

/** A prefix of all names: of the file, as DataParallel writes it, or of the model. */
function prefixed({ missing, extra }: Misfit): Reason | undefined {
  if (missing.length > 0 && missing.every(({ name }) => extra.includes(name)))
    return { text: "the file has the names of the model", hint: "leave out the option names" };
  // By the names of the model, too: the given prefix may be wrong.
  const inFile =
    commonFront(
      missing.map((variable) => variable.inFile),
      extra,
    ) ??
    commonFront(
      missing.map((variable) => variable.name),
      extra,
    );
  if (inFile !== undefined)
    return {
      text: `all names of the file begin with "${inFile}."`,
      hint: `give the option names: { "": "${inFile}" }`,
    };
  const here = commonFront(
    extra,
    missing.map((variable) => variable.name),
  );
  if (here === undefined) return undefined;
  return {
    text: `all names of the model begin with "${here}.", those of the file do not`,
    hint: `give the option names: { "${here}": "" }`,
  };
}

/** The prefix under which all of `names` are in `longer`; undefined where there is none. */
function commonFront(names: readonly string[], longer: readonly string[]): string | undefined {
  const [first] = names;
  if (first === undefined) return undefined;
  const known = new Set(longer);
  const fronts = longer.filter((name) => name.endsWith(`.${first}`)).map((name) => name.slice(0, -first.length - 1));
  return fronts.find((front) => names.every((name) => known.has(`${front}.${name}`)));
}

/** Weights with their dims in the order of Keras. */
function transposed({ differs }: Misfit): Reason | undefined {
  const turned = differs.filter(
    ({ variable, entry }) => variable.shape.length > 1 && sameShape(fromKeras(entry.shape), variable.shape),
  );
  if (turned.length === 0) return undefined;
  const names = turned.map(({ name }) => name);
  const kind = "[…, in, out], as Keras and JAX keep them";
  return {
    text: `${turned.length === 1 ? "a weight is" : `${turned.length} weights are`} ${kind}: ${folded(names)}`,
    hint: `give the option transpose: "**.weight", also for those that are square`,
  };
}

/** Floats of another dtype. */
function rounded({ differs }: Misfit): Reason | undefined {
  const others = differs.filter(
    ({ variable, entry }) =>
      sameShape(entry.shape, variable.shape) &&
      isFloat(variable.dtype) &&
      entry.dtype !== undefined &&
      isFloat(entry.dtype),
  );
  const [first] = others;
  if (first === undefined) return undefined;
  return {
    text: `floats are ${first.entry.dtype} in the file and ${first.variable.dtype} here: ${folded(others.map(({ name }) => name))}`,
    hint: "give the option cast: true, which rounds them",
  };
}

/** Layers that have other names in the file: the remaining layers are paired by their shapes, in order. */
function renamed({ missing, extra }: Misfit, entries: ReadonlyMap<string, Found>): Reason | undefined {
  const ours = layersOf(missing.map(({ name, variable }) => [name, variable.shape]));
  const theirs = layersOf(extra.map((name) => [name, entries.get(name)?.shape ?? []]));
  const pairs: [string, string][] = [];
  for (const [layer, signature] of ours) {
    const other = [...theirs].find(([, theirSignature]) => theirSignature === signature);
    if (other === undefined) continue;
    theirs.delete(other[0]);
    pairs.push([layer, other[0]]);
  }
  // Only where all layers are paired and no prefix explains the names.
  if (
    pairs.length === 0 ||
    pairs.length < ours.size ||
    commonFront(
      [...ours.keys()],
      pairs.map(([, theirLayer]) => theirLayer),
    ) !== undefined
  )
    return undefined;
  const names = [...new Map(pairs.map(([here, there]) => shortened(here, there)))];
  const shown = names.slice(0, mostLines).map(([here, there]) => `"${here}": "${there}"`);
  const record = `{ ${[...shown, ...(names.length > shown.length ? ["…"] : [])].join(", ")} }`;
  return {
    text: `${names.length === 1 ? "a layer has" : `${names.length} layers have`} another name in the file, by the shapes: ${record}`,
    hint: `give the option names: ${record}`,
  };
}

/** Two names without their common last parts. */
function shortened(here: string, there: string): [string, string] {
  const [ours, theirs] = [here.split("."), there.split(".")];
  while (ours.length > 1 && theirs.length > 1 && ours.at(-1) === theirs.at(-1)) {
    ours.pop();
    theirs.pop();
  }
  return [ours.join("."), theirs.join(".")];
}

/** The names and shapes of each layer's variables as one text. */
function layersOf(named: readonly (readonly [name: string, shape: Shape])[]): Map<string, string> {
  const layers = new Map<string, string[]>();
  for (const [name, shape] of named) {
    const at = name.lastIndexOf(".");
    const layer = name.slice(0, Math.max(0, at));
    layers.set(layer, [...(layers.get(layer) ?? []), `${name.slice(at + 1)}[${shape}]`]);
  }
  return new Map([...layers].map(([layer, members]) => [layer, members.sort().join(" ")]));
}
