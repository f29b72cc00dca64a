/** @module The networks that Heddle's peer trains or runs. */
import { losses, nn, type Tensor } from "heddle";
import type {
  EmbedSizes,
  GptSizes,
  LeNetSizes,
  LstmSizes,
  MlpSizes,
  ResnetSizes,
  TrainingSizes,
} from "../kinds/index.ts";
import type { Tree } from "./heddle-data.ts";
import { resnetLoss } from "./heddle-resnet.ts";

/** What a step takes: inputs that are floats, and those that are integers, such as labels. */
export interface Batch {
  readonly inputs: readonly Tensor[];
  readonly integers: readonly Tensor[];
}

/** The loss of parameters on a batch. `key`: for dropout. */
export type Loss = (params: Tree, batch: Batch, key: Tensor) => Tensor;

/** A loss that has a state, such as the statistics of batch norms: what it is at first, and the loss with the next one. */
export interface StatefulLoss {
  readonly state: () => Tree;
  readonly loss: (params: Tree, state: Tree, batch: Batch, key: Tensor) => [loss: Tensor, state: Tree];
}

/** A perceptron or LeNet. */
export function classifier(sizes: MlpSizes | LeNetSizes, dropout: boolean): nn.Layer {
  if (sizes.kind === "mlp") {
    const layers = sizes.widths.slice(1).map((width) => nn.linear(width));
    return nn.sequential(...layers.flatMap((layer, index) => (index === 0 ? [layer] : [nn.relu(), layer])));
  }
  const { channels, kernel, hidden, classes } = sizes;
  return nn.sequential(
    ...channels.flatMap((out) => [nn.conv2d({ out, kernel, padding: "same" }), nn.relu(), nn.maxPool2d(2)]),
    nn.flatten(),
    nn.linear(hidden),
    nn.relu(),
    nn.dropout(dropout ? sizes.dropout : 0),
    nn.linear(classes),
  );
}

/** The dtype in which layers compute; undefined: that of their inputs. */
export type Precision = "bf16" | undefined;

/** A layer's output in training; `params`: those of this layer. */
const output = (layer: nn.Layer, params: Tensor | Tree | undefined, x: Tensor, precision?: Precision): Tensor =>
  nn.applyLayer(layer, { params: params as Tree, state: {} }, x, { train: true, ...(precision && { precision }) }).y;

/** What a loss takes, which computes in f32. */
const forLoss = (logits: Tensor): Tensor => (logits.dtype === "f32" ? logits : logits.cast("f32"));

function lstmLoss({ hidden, classes }: LstmSizes): Loss {
  const [lstm, head]: nn.Layer[] = [nn.lstm({ hidden }) as nn.Layer, nn.linear(classes)];
  return (params, { inputs: [x], integers: [labels] }) => {
    const y = output(lstm!, params["lstm"], x!);
    return losses.softmaxCrossEntropy(output(head!, params["head"], y), labels!);
  };
}

function gptLoss({ layers, width, heads, vocabulary, steps }: GptSizes, precision: Precision): Loss {
  const activation = (x: Tensor): Tensor => nn.functional.gelu(x, { approximate: "tanh" });
  const block: nn.Layer = nn.decoderBlock({ heads, dropout: 0, activation });
  const parts = {
    embedding: nn.embedding(vocabulary, width),
    positions: nn.learnedPositions(steps),
    norm: nn.layerNorm(),
  };
  return (params, { integers: [tokens, labels] }) => {
    const run = (name: keyof typeof parts, x: Tensor): Tensor =>
      output(parts[name] as nn.Layer, params[name], x, precision);
    let x = run("positions", run("embedding", tokens!));
    const blocks = params["blocks"] as Tree;
    for (let index = 0; index < layers; index++) x = output(block, blocks[index], x, precision);
    const table = (params["embedding"] as Tree)["weight"] as Tensor;
    const [left, right] = [run("norm", x), table.transpose()].map((part) => part.cast(precision ?? "f32"));
    return losses.softmaxCrossEntropy(forLoss(left!.matmul(right!)), labels!);
  };
}

const bags = (rows: number, features: number): nn.Layer => nn.embeddingBag(rows, features, { mode: "sum" });

function embedLoss({ rows, features, hidden }: EmbedSizes): Loss {
  const [table, inner, head]: nn.Layer[] = [bags(rows, features), nn.linear(hidden), nn.linear(1)];
  return (params, { inputs: [targets], integers: [ids] }) => {
    const x = output(inner!, params["hidden"], output(table!, params["table"], ids!)).relu();
    return losses.binaryCrossEntropyWithLogits(output(head!, params["head"], x).reshape(targets!.shape), targets!);
  };
}

const withoutState = (loss: Loss): StatefulLoss => ({
  state: () => ({}),
  loss: (params, _state, batch, key) => [loss(params, batch, key), {}],
});

/** `precision`: of the layers of a perceptron, of LeNet or of a decoder. */
export function lossOf(sizes: TrainingSizes, dropout: boolean, precision?: Precision): StatefulLoss {
  return sizes.kind === "resnet" ? resnetLoss(sizes) : withoutState(statelessLoss(sizes, dropout, precision));
}

function statelessLoss(sizes: Exclude<TrainingSizes, ResnetSizes>, dropout: boolean, precision: Precision): Loss {
  if (sizes.kind === "embedding") {
    const layer: nn.Layer = nn.sequential(nn.embedding(sizes.rows, sizes.features));
    return (params, { inputs: [targets], integers: [ids] }) =>
      losses.mse(layer.apply({ params, state: {} }, ids!, { train: true }).y, targets!);
  }
  if (sizes.kind === "embed") return embedLoss(sizes);
  if (sizes.kind === "lstm") return lstmLoss(sizes);
  if (sizes.kind === "gpt") return gptLoss(sizes, precision);
  const layers = classifier(sizes, dropout);
  return (params, { inputs: [x], integers: [labels] }, key) => {
    const options = { train: true, key, ...(precision && { precision }) };
    const { y } = nn.applyLayer(layers, { params, state: {} }, x!, options);
    return losses.softmaxCrossEntropy(forLoss(y), labels!);
  };
}
