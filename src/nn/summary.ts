/** @module A table of a model's layers: the output and number of parameters of each. */
import { evalShape, isTensor, type Tensor, type Tensors } from "../functions/index.ts";
import { chosenNames, type Selection } from "../functions/parts.ts";
import { isTensorType, sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { formatCount, formatTable } from "../util/text.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";
import { layersWithin, sharedWithin, unwrapped } from "./composite.ts";
import { type FloatDType, withFloats } from "./float-dtype.ts";
import { frozenNames } from "./frozen.ts";
import { applyLayer, type Layer, type RecordModel, type Variables, watchingLayers } from "./layer.ts";

/** Options of {@link summary}. */
export interface SummaryOptions {
  /** Dtype of the floats; default `"f32"`. */
  readonly dtype?: FloatDType;
  /** Which parameters are trained, like the option `trainable` of `train`; default all but those of frozen layers. */
  readonly trainable?: Selection;
}

/**
 * A table of the layers of a model as text: names, outputs, and numbers of parameters, with a column of those trained if some are not.
 * A layer that stands in several places is counted once. Nothing is computed.
 *
 * @param input shape of the input (batch first, of any size) in f32, or its shape and dtype, or, for a model of several columns, a record
 * of shapes and dtypes
 * @throws HeddleError as `init`; `option` for a pattern that matches no parameter
 * @example console.log(nn.summary(model, [1, 784]))
 */
export function summary(
  model: Layer | RecordModel,
  input: readonly number[] | TensorType | { readonly [column: string]: TensorType },
  options: SummaryOptions = {},
): string {
  checkOptions("summary", options, ["dtype", "trainable"]);
  if (typeof model?.init !== "function" || typeof model.apply !== "function")
    throw new HeddleError("argument", `summary: takes a layer, got ${shown(model)}`);
  const { dtype = "f32" } = options;
  const type = Array.isArray(input) ? { shape: input as readonly number[], dtype } : input;
  return summaryLines(model as Layer, type as TensorType, options).join("\n");
}

interface Row {
  readonly name: string;
  readonly kind: string;
  readonly output: string;
  readonly parameters: number;
  readonly trained: number;
  /** The first name of a layer that stands in several places, in its further rows. */
  readonly firstName?: string | undefined;
}

/** The lines of the table, for an input of this type; its first dim, the batch, is shown as a dash. */
export function summaryLines(layer: Layer, input: TensorType, options: SummaryOptions = {}): string[] {
  const { variables, trained } = typesOf(layer, input, options);
  const outputs = outputsOf(layer, input, variables);
  const params = flattenTree<TensorType>(variables.params, isTensorType);
  const count = (isCounted: (path: string) => boolean): number =>
    params.leaves.reduce(
      (sum, { shape }, index) => sum + (isCounted(params.paths[index] as string) ? sizeOf(shape) : 0),
      0,
    );
  const firsts = new Map(
    [...sharedWithin(layer).values()].flatMap(([first = "", ...others]) => others.map((other) => [other, first])),
  );
  const leafLayers = [...layersWithin(layer)].filter(([, inner]) => unwrapped(inner).layers === undefined);
  const rows = (leafLayers.length === 0 ? [["", layer] as const] : leafLayers).map(([name, inner]): Row => {
    const isOwn = (path: string): boolean => name === "" || path.startsWith(`${name}.`);
    return {
      name,
      kind: inner.kind,
      output: outputs.get(name) ?? "not applied",
      parameters: count(isOwn),
      trained: count((path) => isOwn(path) && trained.has(path)),
      firstName: firsts.get(name),
    };
  });
  const [total, trainedTotal] = [count(() => true), count((path) => trained.has(path))];
  const isPart = trainedTotal < total;
  const cells = rows.map(({ name, kind, output, parameters, trained: trainedCount, firstName }) => {
    const sizes =
      firstName === undefined ? [formatCount(parameters), formatCount(trainedCount)] : [`as ${firstName}`, ""];
    return [name, kind, output, ...sizes.slice(0, isPart ? 2 : 1)];
  });
  const state = flattenTree<TensorType>(variables.state, isTensorType).leaves.reduce(
    (sum, { shape }) => sum + sizeOf(shape),
    0,
  );
  const head = ["layer", "kind", "output", "parameters", ...(isPart ? ["trained"] : [])];
  const parts = [
    `${formatCount(total)} parameters`,
    ...(isPart ? [`${formatCount(trainedTotal)} of them trained`] : []),
    ...(state === 0 ? [] : [`${formatCount(state)} numbers of state besides`]),
  ];
  return [...formatTable([head, ...cells], isPart ? [3, 4] : [3]), `  ${parts.join(", ")}`];
}

const keyType: TensorType = { shape: [2], dtype: "u32" };

/** Types of the variables, and the names of the parameters that are trained. */
function typesOf(layer: Layer, input: TensorType, { dtype = "f32", trainable }: SummaryOptions) {
  let trained: ReadonlySet<string> = new Set();
  const variables = evalShape((key) => {
    const { params, state } = withFloats(dtype, () => layer.init(key, input));
    const frozen = frozenNames(params);
    const chosen =
      trainable === undefined
        ? flattenTree(params, isTensor).paths
        : chosenNames("summary: trainable", trainable, params);
    trained = new Set([...chosen].filter((name) => !frozen.has(name)));
    return { params, state };
  }, keyType);
  return { variables, trained };
}

/** The output of each layer's first application, by the layer's name. */
function outputsOf(layer: Layer, input: TensorType, variables: unknown): ReadonlyMap<string, string> {
  const outputs = new Map<string, string>();
  const inputs = flattenTree<TensorType>([input, variables], isTensorType);
  const record = (path: string, result: unknown): void => {
    const y = isTensor(result) ? result : (result as { readonly y?: Tensor | Tensors } | undefined)?.y;
    if (y !== undefined && !outputs.has(path)) outputs.set(path, shapesOf(flattenTree<Tensor>(y, isTensor)));
  };
  evalShape(
    (...leaves) => {
      const [x, variablesOfModel] = unflattenTree(inputs.shape, leaves) as [Tensor, Variables];
      const { y } = watchingLayers(record, () => applyLayer(layer, variablesOfModel, x));
      record("", { y });
      return [];
    },
    ...inputs.leaves,
  );
  return outputs;
}

const shapesOf = ({ leaves, paths }: FlatTree<Tensor>): string =>
  leaves
    .map(({ shape }, index) => {
      const text = `[${["-", ...shape.slice(1)].join(", ")}]`;
      return paths[index] === "" ? text : `${paths[index]} ${text}`;
    })
    .join(", ");
