/** @module ResNet-20 as Heddle's peer trains it. */
import { losses, nn, random, type Tensor } from "heddle";
import type { ResnetSizes } from "../kinds/index.ts";
import type { Tree } from "./heddle-data.ts";
import type { StatefulLoss } from "./heddle-networks.ts";

const norm: nn.Layer = nn.batchNorm();

/** A convolution and a batch norm; the norm's next state goes into `next`, under the norm's name. */
function normed(x: Tensor, [conv, name]: readonly [string, string], strides: number, scope: Scope): Tensor {
  const { params, state, next } = scope;
  const out = ((params[conv] as Tree)["weight"] as Tensor).shape[0] as number;
  const convolution: nn.Layer = nn.conv2d({ out, kernel: 3, padding: 1, strides, bias: false });
  const { y } = convolution.apply({ params: params[conv] as Tree, state: {} }, x, { train: true });
  const result = norm.apply({ params: params[name] as Tree, state: state[name] as Tree }, y, { train: true });
  next[name] = result.state as Tree;
  return result.y;
}

/** Parameters, states and next states of a part of the network. */
interface Scope {
  readonly params: Tree;
  readonly state: Tree;
  readonly next: { [name: string]: Tree };
}

/** Every second pixel, and channels of zeros on both sides. */
function shortcut(x: Tensor, channels: number): Tensor {
  const extra = (channels - (x.shape[1] as number)) / 2;
  const pixels = x.slice([0, 0, 0, 0], x.shape, [1, 1, 2, 2]);
  return pixels.pad([
    [0, 0],
    [extra, extra],
    [0, 0],
    [0, 0],
  ]);
}

function block(x: Tensor, strides: number, channels: number, scope: Scope): Tensor {
  const inner = normed(x, ["conv1", "norm1"], strides, scope).relu();
  const y = normed(inner, ["conv2", "norm2"], 1, scope);
  return y.add(strides === 1 ? x : shortcut(x, channels)).relu();
}

/** The statistics of a norm at first. */
const freshState = (channels: number): Tree =>
  norm.init(random.key(0), { shape: [1, channels, 1, 1], dtype: "f32" }).state as Tree;

export function resnetLoss({ channels, blocks, classes }: ResnetSizes): StatefulLoss {
  const plan = channels.flatMap((width, stage) =>
    Array.from({ length: blocks }, (_unused, index) => ({ width, strides: stage > 0 && index === 0 ? 2 : 1 })),
  );
  const head: nn.Layer = nn.linear(classes);
  return {
    state: () => {
      const ofBlocks = plan.map(({ width }, index) => [index, { norm1: freshState(width), norm2: freshState(width) }]);
      return { norm: freshState(channels[0] as number), blocks: Object.fromEntries(ofBlocks) as Tree };
    },
    loss: (params, state, { inputs: [images], integers: [labels] }) => {
      const next: { [name: string]: Tree } = {};
      const nextBlocks: { [name: string]: Tree } = {};
      let x = normed(images!, ["conv", "norm"], 1, { params, state, next }).relu();
      plan.forEach(({ width, strides }, index) => {
        const ofBlock: { [name: string]: Tree } = {};
        const [inner, innerState] = [params["blocks"], state["blocks"]].map((tree) => (tree as Tree)[index] as Tree);
        x = block(x, strides, width, { params: inner!, state: innerState!, next: ofBlock });
        nextBlocks[index] = ofBlock;
      });
      const { y } = head.apply({ params: params["head"] as Tree, state: {} }, x.mean([2, 3]), { train: true });
      return [losses.softmaxCrossEntropy(y, labels!), { ...next, blocks: nextBlocks }];
    },
  };
}
