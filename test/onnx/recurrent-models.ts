/** @module ONNX's recurrent layers with clips and activations of all kinds: rows of tests here and with ONNX Runtime. */
import { type AttributeProto, type TensorProto, writeModel } from "../../src/adapters/onnx/messages.ts";

export const [time, batch, features, hidden] = [4, 2, 3, 4];
const gatesOf = { RNN: 1, GRU: 3, LSTM: 4 } as const;

export interface Recurrent {
  readonly op: keyof typeof gatesOf;
  readonly activations?: readonly string[];
  readonly alpha?: readonly number[];
  readonly beta?: readonly number[];
  readonly clip?: number;
  readonly peepholes?: boolean;
  readonly linearBeforeReset?: boolean;
}

const rnn = (activation: string, alpha: number[] = [], beta: number[] = []): Recurrent => ({
  op: "RNN",
  activations: [activation],
  alpha,
  beta,
});

export const recurrentRows: readonly Recurrent[] = [
  { op: "LSTM", clip: 0.3 },
  { op: "LSTM", clip: 0.3, peepholes: true },
  { op: "GRU", clip: 0.3 },
  { op: "GRU", clip: 0.3, linearBeforeReset: true },
  { op: "RNN", clip: 0.3 },
  ...["Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "LeakyRelu", "HardSigmoid", "Elu"].map((name) => rnn(name)),
  rnn("Affine", [0.3], [0.7]),
  rnn("LeakyRelu", [0.3]),
  rnn("ThresholdedRelu", [0.3]),
  rnn("ScaledTanh", [0.6], [1.7]),
  rnn("HardSigmoid", [0.3], [0.4]),
  rnn("Elu", [0.7]),
  // Numbers go to those that take some, in their order.
  { op: "LSTM", activations: ["HardSigmoid", "Tanh", "LeakyRelu"], alpha: [0.3, 0.25], beta: [0.6] },
  { op: "GRU", activations: ["HardSigmoid", "Elu"], alpha: [0.3, 0.8], beta: [0.6] },
];

export const titleOf = ({ op, activations = [], alpha = [], beta = [], ...rest }: Recurrent): string =>
  [op, ...activations, alpha.join(), beta.join(), ...Object.entries(rest).flat()]
    .filter((part) => part !== "")
    .join(" ");

/** Numbers between -1 and 1 that are spread like random ones. */
const numbers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_unused, index) => Math.sin((index + 1) * 12.9898 + seed * 78.233));

/** What a row is computed from, each a vector of rows. */
export function valuesOf({ op }: Recurrent): Record<"x" | "W" | "R" | "B" | "P", Float32Array> {
  const gates = gatesOf[op];
  return {
    x: numbers(time * batch * features, 1).map((value) => 2 * value),
    W: numbers(gates * hidden * features, 2),
    R: numbers(gates * hidden * hidden, 3).map((value) => value / 2),
    B: numbers(2 * gates * hidden, 4).map((value) => value / 2),
    P: numbers(3 * hidden, 5),
  };
}

export function recurrentModel(row: Recurrent): Uint8Array {
  const { W, R, B, P } = valuesOf(row);
  const gates = gatesOf[row.op];
  const weight = (name: string, data: Float32Array, ...dims: number[]): TensorProto => ({
    name,
    dims,
    dataType: 1,
    rawData: new Uint8Array(data.buffer),
  });
  const floats = (name: string, list: readonly number[] = []): AttributeProto[] =>
    list.length === 0 ? [] : [{ name, floats: list, type: 6 }];
  const attribute: AttributeProto[] = [
    { name: "hidden_size", i: hidden, type: 2 },
    ...floats("activation_alpha", row.alpha),
    ...floats("activation_beta", row.beta),
    ...(row.clip === undefined ? [] : [{ name: "clip", f: row.clip, type: 1 }]),
    ...(row.linearBeforeReset === true ? [{ name: "linear_before_reset", i: 1, type: 2 }] : []),
    ...(row.activations === undefined
      ? []
      : [{ name: "activations", strings: row.activations.map((name) => new TextEncoder().encode(name)), type: 8 }]),
  ];
  const port = (name: string, ...sizes: number[]) => ({
    name,
    type: { tensorType: { elemType: 1, shape: { dim: sizes.map((dimValue) => ({ dimValue })) } } },
  });
  const input = ["x", "W", "R", "B", ...(row.peepholes === true ? ["", "", "", "P"] : [])];
  return writeModel({
    irVersion: 8,
    opsetImport: [{ domain: "", version: 18 }],
    graph: {
      node: [{ opType: row.op, input, output: ["output"], attribute, name: "layer" }],
      name: "g",
      initializer: [
        weight("W", W, 1, gates * hidden, features),
        weight("R", R, 1, gates * hidden, hidden),
        weight("B", B, 1, 2 * gates * hidden),
        weight("P", P, 1, 3 * hidden),
      ].slice(0, row.peepholes === true ? 4 : 3),
      input: [port("x", time, batch, features)],
      output: [port("output", time, 1, batch, hidden)],
    },
  });
}
