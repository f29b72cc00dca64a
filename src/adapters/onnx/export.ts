/** @module Writing a function as an ONNX graph: it is traced, and each node is spelled by the table of `export-ops.ts`. */

import {
  called,
  checkDType,
  checkOptions,
  checkShape,
  flattenTree,
  formatBytes,
  HeddleError,
  isRecord,
  shown,
  writeBytes,
} from "../../extend/index.ts";
import { isTensor, Tensor, traceFunction } from "../../functions/index.ts";
import {
  elementOp,
  formatType,
  type Graph,
  type HostTensor,
  interpretGraph,
  isAbsent,
  isTensorType,
  type Node,
  type TensorType,
} from "../../ir/index.ts";
import { bodyGraph } from "../../ops/index.ts";
import { prune } from "../../passes/index.ts";
import {
  isOpenSize,
  merged,
  type OpenType,
  openNames,
  type Sizes,
  type Trial,
  trialSizes,
  typeWith,
} from "./export-open.ts";
import { spellings } from "./export-ops.ts";
import { GraphWriter } from "./graph-writer.ts";
import { type GraphProto, writeModel } from "./messages.ts";
import { producerName, producerVersion } from "./weights.ts";

/** The opset that is written. */
export const exportOpset = 18;
/** The version of the format that belongs to this opset. */
const irVersion = 8;

/** Options of {@link exportOnnx}. */
export interface ExportOnnxOptions {
  /** Name of the graph; default that of the function. */
  readonly name?: string;
  /**
   * A tree of the tensors that are weights, such as `params`: its dotted names are their names in the file. Other
   * tensors that the function uses, such as the statistics of a batch norm, become constants. Default: all are weights,
   * under numbers.
   */
  readonly names?: unknown;
}

/** A function that can be written: from tensors by name to a tensor, or to tensors by name. */
export type ExportableFunction<Names extends string = string> = (
  inputs: {
    readonly [Name in Names]: Tensor;
  },
) => Tensor | { readonly [name: string]: Tensor };

/** Spells the nodes of a graph, given the names of its inputs; returns those of its outputs. */
function spell(graph: Graph, inputs: readonly string[], writer: GraphWriter): string[] {
  return interpretGraph<readonly string[]>(
    graph,
    inputs.map((name) => [name]),
    (node, operands) => {
      if (node.op === elementOp) return [operands[0]?.[node.attrs["index"] as number] as string];
      return spellNode(
        node,
        operands.map(([name]) => name as string),
        writer,
      );
    },
  ).map(([name]) => name as string);
}

function spellNode(node: Node, inputs: readonly string[], writer: GraphWriter): readonly string[] {
  const spelling = Object.hasOwn(spellings, node.op.name) ? spellings[node.op.name] : undefined;
  if (spelling !== undefined) return [spelling({ node, inputs, writer, spell })].flat();
  if (!isAbsent(node.op.body)) {
    const types = node.inputs.map((input) => input.types[0] as TensorType);
    return spell(prune(bodyGraph(node.op, types, node.attrs)), inputs, writer);
  }
  throw new HeddleError("op", `exportOnnx: ${node.op.name} (${formatType(node)}) has no spelling in ONNX`, {
    hint: hintFor(node),
  });
}

/** The hint for a node that ONNX cannot express. */
function hintFor({ op }: Node): string {
  if (op.name === "randomBits") return "export inference: apply the model without { train: true } and a key";
  return "docs/onnx.md says what is written";
}

/**
 * An ONNX model (opset 18) of a function, for inference elsewhere. Shapes are those of the example; tensors that the
 * function uses from outside become weights in the file (initializers), or constants (nodes) where `names` does not
 * have them. A size that is a name, as in `["batch", 784]`, is open: the file takes any. The function is then called
 * several times, with some numbers in its place.
 *
 *     const bytes = await io.exportOnnx(({ images }) => ({ logits: model.apply(variables, images).y }),
 *       { images: { shape: [1, 1, 28, 28], dtype: "f32" } }, { names: variables.params });
 *
 * @param example types of the inputs by name; sizes of the same name are equal
 * @throws HeddleError `argument` for an example that is not a record of types, or a function whose result is neither a
 * tensor nor tensors by name; `option`; `op` naming an op that ONNX has no spelling for, or what depends on an open
 * size other than by sums and products; `dtype` for bf16 arithmetic and the like that ONNX lacks.
 */
export function exportOnnx<Names extends string>(
  fn: ExportableFunction<Names>,
  example: { readonly [Name in Names]: OpenType },
  options: ExportOnnxOptions = {},
): Promise<Uint8Array> {
  return called(() => bytesOf("exportOnnx", fn, example, options));
}

/** What is traced and written for all trials. */
interface Exporting {
  readonly what: string;
  readonly name: string;
  readonly fn: ExportableFunction;
  readonly example: { readonly [name: string]: OpenType };
  readonly options: ExportOnnxOptions;
  /** Values of tensors that the function uses, fetched once. */
  readonly hosts: Map<Tensor, HostTensor>;
}

async function bytesOf<Names extends string>(
  what: string,
  fn: ExportableFunction<Names>,
  example: { readonly [Name in Names]: OpenType },
  options: ExportOnnxOptions,
): Promise<Uint8Array> {
  checkArguments(what, fn, example, options);
  const name = options.name ?? (fn.name === "" ? "heddle" : fn.name);
  const exporting: Exporting = { what, name, fn: fn as ExportableFunction, example, options, hosts: new Map() };
  const trials: (Trial & { readonly writer: GraphWriter })[] = [];
  for (const sizes of trialSizes(openNames(Object.values<OpenType>(example))))
    trials.push({ sizes, ...(await written(exporting, sizes)) });
  const [first] = trials as [(typeof trials)[0]];
  checkBytes(what, first.graph);
  return writeModel({
    irVersion,
    producerName,
    producerVersion,
    opsetImport: [{ domain: "", version: exportOpset }],
    graph: trials.length === 1 ? first.graph : merged(what, trials, example, first.writer.within()),
  });
}

/** An ONNX file is one protobuf message, which takes less than 2 GiB. */
function checkBytes(what: string, { initializer, node }: GraphProto): void {
  const tensors = [...initializer, ...node.flatMap(({ attribute }) => attribute.map(({ t }) => t))];
  const bytes = tensors.reduce((sum, tensor) => sum + (tensor?.rawData?.length ?? 0), 0);
  if (bytes < 2 ** 31) return;
  throw new HeddleError("memory", `${what}: the weights take ${formatBytes(bytes)}; an ONNX file has less than 2 GiB`, {
    hint: "cast them to bf16 or f16, or export the model in parts",
  });
}

/** The function's graph, with these numbers for its open sizes. */
async function written(
  { what, name, fn, example, options, hosts }: Exporting,
  sizes: Sizes,
): Promise<{ graph: GraphProto; writer: GraphWriter }> {
  const specs = Object.entries(example).map(([input, type]) => ({ name: input, type: typeWith(type, sizes) }));
  let outputs: readonly string[] = [];
  const { graph, captured } = traceFunction<Tensor>(name, specs, (nodes) => {
    const inputs = specs.map((spec, index) => [spec.name, Tensor.ofNode(nodes[index] as Node)]);
    const named = outputsOf(what, fn(Object.fromEntries(inputs)), example);
    outputs = Object.keys(named);
    return Object.values(named).map(({ node }) => node);
  });
  const writer = new GraphWriter([...specs.map((spec) => spec.name), ...outputs], sizes.size === 0);
  const known = flattenTree<Tensor>(options.names ?? {}, isTensor);
  const paths = new Map(known.leaves.map((leaf, index) => [leaf, known.paths[index] as string]));
  const names = specs.map((spec) => spec.name);
  for (const [index, tensor] of captured.entries()) {
    const host = hosts.get(tensor) ?? { dtype: tensor.dtype, shape: tensor.shape, data: await tensor.data() };
    hosts.set(tensor, host);
    const path = paths.get(tensor);
    if (path !== undefined) names.push(writer.weight(path, host));
    else
      names.push(options.names === undefined ? writer.weight(`weight${index}`, host) : writer.constant("kept", host));
  }
  // Scans stack their carries for a gradient, which the file does not need.
  const results = spell(prune(graph), names, writer);
  for (const [index, output] of outputs.entries()) writer.rename(results[index] as string, output);
  const proto = writer.whole(
    name,
    specs.map((spec) => [spec.name, spec.type] as const),
    graph.outputs.map((node, index) => [outputs[index] as string, node] as const),
  );
  return { graph: proto, writer };
}

/** @throws HeddleError `argument` or `option` for arguments of {@link exportOnnx} of other types. */
function checkArguments(what: string, fn: unknown, example: unknown, options: ExportOnnxOptions): void {
  if (typeof fn !== "function") throw new HeddleError("argument", `${what}: takes a function, got ${shown(fn)}`);
  const hint = 'write { x: { shape: [1, 784], dtype: "f32" } }';
  if (!isRecord(example) || isTensor(example)) {
    throw new HeddleError("argument", `${what}: the example is a record of inputs by name, got ${shown(example)}`, {
      hint,
    });
  }
  for (const [input, type] of Object.entries(example)) {
    const port = `${what}: input "${input}"`;
    if (!isTensorType(type))
      throw new HeddleError("argument", `${port} is ${shown(type)}, not { shape, dtype }`, { hint });
    checkDType(port, type.dtype);
    const shape: unknown = type.shape;
    checkShape(port, Array.isArray(shape) ? shape.map((size) => (isOpenSize(size) ? 1 : size)) : shape);
  }
  checkOptions(what, options, ["name", "names"]);
  const { name, names } = options;
  if (name !== undefined && typeof name !== "string")
    throw new HeddleError("option", `${what}: name must be a string, got ${shown(name)}`);
  if (names !== undefined && (typeof names !== "object" || names === null))
    throw new HeddleError("option", `${what}: names must be a tree of tensors, such as params, got ${shown(names)}`);
}

/**
 * The results of the function by name. @throws HeddleError `argument` unless there are tensors, under names that no
 * input has.
 */
function outputsOf(what: string, result: unknown, example: object): { readonly [name: string]: Tensor } {
  const named = isTensor(result) ? { output: result } : result;
  const wrong = (said: string): HeddleError =>
    new HeddleError("argument", `${what}: the function must make a tensor or tensors by name, ${said}`, {
      hint: "let it return { y: tensor }",
    });
  if (!isRecord(named)) throw wrong(`but made ${shown(result)}`);
  const entries = Object.entries(named);
  if (entries.length === 0) throw wrong("but made none");
  for (const [name, value] of entries) {
    if (!isTensor(value)) throw wrong(`but "${name}" is ${shown(value)}`);
    if (Object.hasOwn(example, name)) throw wrong(`but "${name}" is an input too`);
  }
  return named as { readonly [name: string]: Tensor };
}

/** Writes {@link exportOnnx}'s model to a file, which appears whole or not at all. */
export function saveOnnx<Names extends string>(
  path: string,
  fn: ExportableFunction<Names>,
  example: { readonly [Name in Names]: OpenType },
  options: ExportOnnxOptions = {},
): Promise<void> {
  return called(async () => {
    const bytes = await bytesOf("saveOnnx", fn, example, options);
    await writeBytes("saveOnnx", path, bytes);
  });
}
