/** @module Writing a function as an ONNX graph: it is traced, and each node is spelled by the table of `export-ops.ts`. */
import { interpretGraph } from "../../ir/graph.ts";
import { elementOp } from "../../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../../ir/node.ts";
import { formatType, type TensorType, typeOf } from "../../ir/shape.ts";
import { bodyGraph } from "../../ops/index.ts";
import { prune } from "../../passes/prune.ts";
import { isTensor, Tensor } from "../../tensor/index.ts";
import { traceFunction } from "../../tensor/tracing.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { called } from "../../util/source.ts";
import { flattenTree } from "../../util/tree.ts";
import { toHost } from "../host.ts";
import { writeBytes } from "../write.ts";
import { spellings } from "./export-ops.ts";
import { GraphWriter } from "./graph-writer.ts";
import { writeModel } from "./messages.ts";

/** The opset that is written. */
export const exportOpset = 18;
/** The version of the format that came with it. */
const irVersion = 8;

/** Options of {@link exportOnnx}. */
export interface ExportOnnxOptions {
  /** Name of the graph; default that of the function. */
  readonly name?: string;
  /** A tree of the tensors that the function uses, such as `params`: its dotted names become those of the weights. */
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
 * uses from outside become weights in the file.
 *
 *     const bytes = await io.exportOnnx(({ images }) => ({ logits: model.apply(variables, images).y }),
 *       { images: { shape: [1, 1, 28, 28], dtype: "f32" } }, { names: variables.params });
 *
 * @param example types of the inputs by name
 * @throws HeddleError `op` naming an op that ONNX has no spelling for; `dtype` for bf16 arithmetic and the like that ONNX lacks.
 */
export function exportOnnx<Names extends string>(
  fn: ExportableFunction<Names>,
  example: { readonly [Name in Names]: TensorType },
  options: ExportOnnxOptions = {},
): Promise<Uint8Array> {
  return called(async () => {
    checkOptions("exportOnnx", options, ["name", "names"]);
    if (options.name !== undefined && typeof options.name !== "string")
      throw new HeddleError("option", `exportOnnx: name must be a string, got ${shown(options.name)}`);
    const name = options.name ?? (fn.name === "" ? "heddle" : fn.name);
    const specs = Object.entries<TensorType>(example).map(([input, type]) => ({ name: input, type: typeOf(type) }));
    let outputs: readonly string[] = [];
    const { graph, captured } = traceFunction<Tensor>(name, specs, (nodes) => {
      const inputs = Object.fromEntries(specs.map((spec, index) => [spec.name, Tensor.ofNode(nodes[index] as Node)]));
      const made = fn(inputs as { readonly [Name in Names]: Tensor });
      const named = isTensor(made) ? { output: made } : made;
      outputs = Object.keys(named);
      return Object.values(named).map(({ node }) => node);
    });
    const writer = new GraphWriter(specs.map((spec) => spec.name));
    const known = flattenTree<Tensor>(options.names ?? {}, isTensor);
    const names = [...specs.map((spec) => spec.name)];
    for (const [index, tensor] of captured.entries()) {
      const place = known.leaves.indexOf(tensor);
      names.push(writer.weight(place < 0 ? `weight${index}` : (known.paths[place] as string), await toHost(tensor)));
    }
    // Scans stack their carries for a gradient, which nobody asks of the file.
    const results = spell(prune(graph), names, writer);
    for (const [index, output] of outputs.entries()) writer.rename(results[index] as string, output);
    const proto = writer.graph(
      name,
      specs.map((spec) => [spec.name, spec.type] as const),
      graph.outputs.map((node, index) => [outputs[index] as string, node] as const),
      writer.used(),
    );
    return writeModel({
      irVersion,
      producerName: "heddle",
      opsetImport: [{ domain: "", version: exportOpset }],
      graph: proto,
    });
  });
}

/** Writes {@link exportOnnx}'s model to a file, which appears whole or not at all. */
export function saveOnnx<Names extends string>(
  path: string,
  fn: ExportableFunction<Names>,
  example: { readonly [Name in Names]: TensorType },
  options: ExportOnnxOptions = {},
): Promise<void> {
  return called(async () => {
    const bytes = await exportOnnx(fn, example, options);
    await writeBytes("saveOnnx", path, bytes);
  });
}
