/** @module Writing a function as an ONNX graph: it is traced, and each node is spelled by the table of `export-ops.ts`. */
import { interpretGraph } from "../../ir/graph.ts";
import { elementOp } from "../../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../../ir/node.ts";
import { formatType, isTensorType, type TensorType, typeOf } from "../../ir/shape.ts";
import { bodyGraph } from "../../ops/index.ts";
import { prune } from "../../passes/prune.ts";
import { checkDType, checkFunction, checkShape } from "../../tensor/arguments.ts";
import { isTensor, Tensor } from "../../tensor/index.ts";
import { traceFunction } from "../../tensor/tracing.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { called } from "../../util/source.ts";
import { flattenTree, isRecord } from "../../util/tree.ts";
import { toHost } from "../host.ts";
import { writeBytes } from "../write.ts";
import { spellings } from "./export-ops.ts";
import { GraphWriter } from "./graph-writer.ts";
import { writeModel } from "./messages.ts";
import { producerName, producerVersion } from "./weights.ts";

/** The opset that is written. */
export const exportOpset = 18;
/** The version of the format that came with it. */
const irVersion = 8;

/** Options of {@link exportOnnx}. */
export interface ExportOnnxOptions {
  /** Name of the graph; default that of the function. */
  readonly name?: string;
  /**
   * A tree of the tensors that are weights, such as `params`: its dotted names become theirs in the file. Other tensors that the
   * function uses, such as the statistics of a batch norm, become constants. Default: all are weights, under numbers.
   */
  readonly names?: unknown;
}

/** What can be written: tensors in, a tensor or tensors by name out. */
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
    (node, given) => {
      if (node.op === elementOp) return [given[0]?.[node.attrs["index"] as number] as string];
      return spellNode(
        node,
        given.map(([name]) => name as string),
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

/** What can be done about a node that ONNX has no words for. */
function hintFor({ op }: Node): string {
  if (op.name === "randomBits") return "export inference: apply the model without { train: true } and a key";
  return "docs/onnx.md says what is written";
}

/**
 * An ONNX model (opset 18) of a function, for inference elsewhere. Shapes are those of the example; tensors that the function
 * uses from outside become weights in the file (initializers), or, where `names` has them not, constants (nodes).
 *
 *     const bytes = await io.exportOnnx(({ images }) => ({ logits: model.apply(variables, images).y }),
 *       { images: { shape: [1, 1, 28, 28], dtype: "f32" } }, { names: variables.params });
 *
 * @param example types of the inputs by name
 * @throws HeddleError `argument` for an example that is no record of types, or a function that makes something else than tensors by
 * name; `option`; `op` naming an op that ONNX has no spelling for; `dtype` for bf16 arithmetic and the like that ONNX lacks.
 */
export function exportOnnx<Names extends string>(
  fn: ExportableFunction<Names>,
  example: { readonly [Name in Names]: TensorType },
  options: ExportOnnxOptions = {},
): Promise<Uint8Array> {
  return called(() => bytesOf("exportOnnx", fn, example, options));
}

async function bytesOf<Names extends string>(
  what: string,
  fn: ExportableFunction<Names>,
  example: { readonly [Name in Names]: TensorType },
  options: ExportOnnxOptions,
): Promise<Uint8Array> {
  checkArguments(what, fn, example, options);
  const name = options.name ?? (fn.name === "" ? "heddle" : fn.name);
  const specs = Object.entries<TensorType>(example).map(([input, type]) => ({ name: input, type: typeOf(type) }));
  let outputs: readonly string[] = [];
  const { graph, captured } = traceFunction<Tensor>(name, specs, (nodes) => {
    const inputs = Object.fromEntries(specs.map((spec, index) => [spec.name, Tensor.ofNode(nodes[index] as Node)]));
    const named = outputsOf(what, fn(inputs as { readonly [Name in Names]: Tensor }), example);
    outputs = Object.keys(named);
    return Object.values(named).map(({ node }) => node);
  });
  const writer = new GraphWriter([...specs.map((spec) => spec.name), ...outputs]);
  const known = flattenTree<Tensor>(options.names ?? {}, isTensor);
  const names = specs.map((spec) => spec.name);
  for (const [index, tensor] of captured.entries()) {
    const [place, host] = [known.leaves.indexOf(tensor), await toHost(tensor)];
    if (place >= 0) names.push(writer.weight(known.paths[place] as string, host));
    else
      names.push(options.names === undefined ? writer.weight(`weight${index}`, host) : writer.constant("kept", host));
  }
  // Scans stack their carries for a gradient, which nobody asks of the file.
  const results = spell(prune(graph), names, writer);
  for (const [index, output] of outputs.entries()) writer.rename(results[index] as string, output);
  const proto = writer.whole(
    name,
    specs.map((spec) => [spec.name, spec.type] as const),
    graph.outputs.map((node, index) => [outputs[index] as string, node] as const),
  );
  return writeModel({
    irVersion,
    producerName,
    producerVersion,
    opsetImport: [{ domain: "", version: exportOpset }],
    graph: proto,
  });
}

/** Whether what is handed to {@link exportOnnx} is of the types that it says. */
function checkArguments(what: string, fn: unknown, example: unknown, options: ExportOnnxOptions): void {
  checkFunction(what, fn);
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
    checkShape(port, type.shape);
  }
  checkOptions(what, options, ["name", "names"]);
  const { name, names } = options;
  if (name !== undefined && typeof name !== "string")
    throw new HeddleError("option", `${what}: name must be a string, got ${shown(name)}`);
  if (names !== undefined && (typeof names !== "object" || names === null))
    throw new HeddleError("option", `${what}: names must be a tree of tensors, such as params, got ${shown(names)}`);
}

/** What the function made, by name. @throws HeddleError `argument` unless there are tensors, under names that no input has. */
function outputsOf(what: string, made: unknown, example: object): { readonly [name: string]: Tensor } {
  const named = isTensor(made) ? { output: made } : made;
  const wrong = (said: string): HeddleError =>
    new HeddleError("argument", `${what}: the function must make a tensor or tensors by name, ${said}`, {
      hint: "let it return { y: tensor }",
    });
  if (!isRecord(named)) throw wrong(`but made ${shown(made)}`);
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
  example: { readonly [Name in Names]: TensorType },
  options: ExportOnnxOptions = {},
): Promise<void> {
  return called(async () => {
    const bytes = await bytesOf("saveOnnx", fn, example, options);
    await writeBytes("saveOnnx", path, bytes);
  });
}
