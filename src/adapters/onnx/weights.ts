/**
 * @module Which tensors of an ONNX file are weights. The format keeps numbers, statistics and weights alike as
 * initializers; a training may change weights only.
 */
import { dtypes, type HostTensor, isFloat } from "../../ir/index.ts";
import type { GraphProto, ModelProto, NodeProto } from "./messages.ts";

/** The producer in files that Heddle writes, whose initializers are weights and nothing else. */
export const producerName = "heddle";
export const producerVersion = "1";

/**
 * Inputs, by their positions, that are constants by ONNX's meaning of the op: statistics, bounds, masks of classes, tables, scales of
 * quantisation, and what gives only its shape or dtype. https://onnx.ai/onnx/operators/
 */
const constantInputs: { readonly [op: string]: readonly number[] } = {
  BatchNormalization: [3, 4],
  CastLike: [1],
  Clip: [1, 2],
  DequantizeLinear: [1],
  Dropout: [1],
  NegativeLogLikelihoodLoss: [2],
  OneHot: [2],
  Pad: [2],
  Pow: [1],
  QLinearConv: [1, 4, 6],
  QLinearMatMul: [1, 4, 6],
  QuantizeLinear: [1],
  Resize: [1, 2],
  RotaryEmbedding: [1, 2],
  STFT: [2],
  Shape: [0],
  Size: [0],
  SoftmaxCrossEntropyLoss: [2],
  Upsample: [1],
};

/** Initial states: constants where they are zeros, as layers start without learned ones. */
const initialStates: { readonly [op: string]: readonly number[] } = { GRU: [5], LSTM: [5, 6], RNN: [5] };

const within = (table: typeof constantInputs, { opType = "" }: NodeProto, index: number): boolean =>
  Object.hasOwn(table, opType) && (table[opType] as readonly number[]).includes(index);

/** Whether a value of a tensor passes the test. Makes no copy, since weights are large. */
function holds({ data }: HostTensor, test: (value: number) => boolean): boolean {
  for (let index = 0; index < data.length; index++) if (test(Number(data[index]))) return true;
  return false;
}

/** Whether an input of a node is a constant by ONNX's meaning of the op. `host` is the tensor of the file there, if any. */
export function isConstantInput(node: NodeProto, index: number, host: HostTensor | undefined): boolean {
  if (within(constantInputs, node, index)) return true;
  return host !== undefined && within(initialStates, node, index) && !holds(host, (value) => value !== 0);
}

/** Adds the names that reach a graph's outputs through any nodes, but not through constant inputs. */
function addReached(graph: GraphProto, initial: ReadonlyMap<string, HostTensor>, reached: Set<string>): void {
  for (const { name = "" } of graph.output) reached.add(name);
  for (const node of [...graph.node].reverse()) {
    if (!node.output.some((name) => reached.has(name))) continue;
    node.input.forEach((name, index) => {
      if (!isConstantInput(node, index, initial.get(name))) reached.add(name);
    });
    for (const { g } of node.attribute) if (g !== undefined) addReached(g, initial, reached);
  }
}

/**
 * The names of the weights among the tensors of a file: floats that are used other than as a constant input. In a file
 * that Heddle did not write, scalars and tensors with infinities or the extreme numbers of their dtype are numbers and
 * masks, not weights.
 */
export function weightsOf(
  { producerName: by, producerVersion: version }: ModelProto,
  graph: GraphProto,
  initial: ReadonlyMap<string, HostTensor>,
): ReadonlySet<string> {
  const byHeddle = by === producerName && version === producerVersion;
  const reached = new Set<string>();
  addReached(graph, initial, reached);
  const isWeight = (host: HostTensor): boolean =>
    byHeddle || (host.shape.length > 0 && !holds(host, (value) => Math.abs(value) >= dtypes[host.dtype].highest));
  const floats = [...initial].filter(([, { dtype }]) => isFloat(dtype));
  return new Set(floats.filter(([name, host]) => reached.has(name) && isWeight(host)).map(([name]) => name));
}
