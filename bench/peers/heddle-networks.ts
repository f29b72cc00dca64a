/** @module The networks that Heddle's peer trains or runs. */
import { losses, nn, type Tensor } from "heddle";
import type { LeNetSizes, MlpSizes, TrainingSizes } from "../kinds/index.ts";
import type { Tree } from "./heddle-data.ts";

/** What a step takes: inputs that are floats, and those that are integers, such as labels. */
export interface Batch {
  readonly inputs: readonly Tensor[];
  readonly integers: readonly Tensor[];
}

/** The loss of parameters on a batch. `key`: for dropout. */
export type Loss = (params: Tree, batch: Batch, key: Tensor) => Tensor;

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

export function lossOf(sizes: TrainingSizes, dropout: boolean): Loss {
  if (sizes.kind === "embedding") {
    const layer: nn.Layer = nn.sequential(nn.embedding(sizes.rows, sizes.features));
    return (params, { inputs: [targets], integers: [ids] }) =>
      losses.mse(layer.apply({ params, state: {} }, ids!, { train: true }).y, targets!);
  }
  const layers = classifier(sizes, dropout);
  return (params, { inputs: [x], integers: [labels] }, key) =>
    losses.softmaxCrossEntropy(layers.apply({ params, state: {} }, x!, { train: true, key }).y, labels!);
}
