/** @module The layers of Caffe's networks that are imported: one entry each, from its message to a Heddle layer. */

import { HeddleError } from "../../extend/index.ts";
import {
  avgPool2d,
  concat,
  conv2d,
  evalShape,
  maximum,
  maxPool2d,
  random,
  type Tensor,
  type Tensors,
} from "../../functions/index.ts";
import { formatShape, range, sizeOf, type TensorType } from "../../ir/index.ts";
import * as nn from "../../nn/index.ts";
import { errorAt, type Message } from "./text.ts";

/** A layer that computes: its parameters for input types, and its result. */
export interface CaffeLayer {
  /** Shapes and initialisers of the parameters for these inputs; default none. */
  readonly params?: (inputs: readonly TensorType[]) => {
    readonly [name: string]: { readonly shape: readonly number[]; readonly init: nn.Initialiser };
  };
  readonly apply: (inputs: readonly Tensor[], params: Tensors, options: nn.ApplyOptions) => Tensor;
}

/** The initialiser of a parameter from Caffe's filler; zeros where the file has no filler. */
function filler(message: Message | undefined): nn.Initialiser {
  if (message === undefined) return nn.init.zeros();
  const kind = message.word("type", ["constant", "gaussian", "uniform", "xavier", "msra"], "constant");
  const value = message.number("value", 0);
  const [low, high] = [message.number("min", 0), message.number("max", 1)];
  const [mean, std] = [message.number("mean", 0), message.number("std", 1)];
  const norm = message.word("variance_norm", ["FAN_IN", "FAN_OUT", "AVERAGE"], "FAN_IN");
  const sparse = message.integer("sparse", -1, -1);
  message.finish();
  const size = (shape: readonly number[]): number => {
    const [fanIn, fanOut] = [sizeOf(shape.slice(1)), sizeOf(shape.filter((_size, dim) => dim !== 1))];
    return norm === "FAN_IN" ? fanIn : norm === "FAN_OUT" ? fanOut : (fanIn + fanOut) / 2;
  };
  switch (kind) {
    case "constant":
      return nn.init.constant(value);
    case "gaussian": {
      const normal = nn.init.normal({ mean, std });
      if (sparse < 0) return normal;
      // On average `sparse` weights of each output are not zero.
      return (key, shape, dtype) => {
        const mask = random.uniform(nn.scopeKey(key, "sparse"), shape, { dtype }).lt(sparse / (shape[0] as number));
        return normal(key, shape, dtype).mul(mask.cast(dtype));
      };
    }
    case "uniform":
      return nn.init.uniform({ min: low, max: high });
    case "xavier":
      return (key, shape, dtype) => {
        const bound = Math.sqrt(3 / size(shape));
        return nn.init.uniform({ min: -bound, max: bound })(key, shape, dtype);
      };
    case "msra":
      return (key, shape, dtype) => nn.init.normal({ mean: 0, std: Math.sqrt(2 / size(shape)) })(key, shape, dtype);
  }
}

/** A size for height and width, given once, twice, or by name (`kernel_h`, `kernel_w`). */
function pair(
  message: Message,
  repeated: string,
  single: string,
  lowest: number,
  otherwise?: number,
): [number, number] {
  const sizes = message.numbers(repeated);
  const sides = [`${single}_h`, `${single}_w`];
  const [high, wide] = sides.map((name, index) =>
    message.integer(name, lowest, sizes[index] ?? sizes[0] ?? otherwise),
  ) as [number, number];
  return [high, wide];
}

function convolution(layer: Message): CaffeLayer {
  const message = param(layer, "convolution_param");
  const out = message.integer("num_output", 1);
  const sizes = pair(message, "kernel_size", "kernel", 1);
  const padding = pair(message, "pad", "pad", 0, 0).map((size): [number, number] => [size, size]);
  const strides = pair(message, "stride", "stride", 1, 1);
  const dilation = message.numbers("dilation");
  const [high = 1, wide = high] = dilation;
  const groups = message.integer("group", 1, 1);
  const bias = message.flag("bias_term", true);
  const [weightInit, biasInit] = [filler(message.message("weight_filler")), filler(message.message("bias_filler"))];
  message.ignore("engine");
  message.finish();
  const options = { strides, padding, dilation: [high, wide], groups };
  return {
    params: ([input]) => {
      const channels = (input as TensorType).shape[1] as number;
      const weight = { shape: [out, channels / groups, ...sizes], init: weightInit };
      return bias ? { weight, bias: { shape: [out], init: biasInit } } : { weight };
    },
    apply: ([x], params) => {
      const y = conv2d(x as Tensor, params["weight"] as Tensor, options);
      return bias ? y.add((params["bias"] as Tensor).reshape([out, 1, 1])) : y;
    },
  };
}

function innerProduct(layer: Message): CaffeLayer {
  const message = param(layer, "inner_product_param");
  const out = message.integer("num_output", 1);
  const bias = message.flag("bias_term", true);
  const axis = message.integer("axis", 1, 1);
  if (message.flag("transpose", false)) throw errorAt(message, "a transposed weight is not imported");
  const [weightInit, biasInit] = [filler(message.message("weight_filler")), filler(message.message("bias_filler"))];
  message.finish();
  return {
    params: ([input]) => {
      const size = (input as TensorType).shape.slice(axis).reduce((product, length) => product * length, 1);
      const weight = { shape: [out, size], init: weightInit };
      return bias ? { weight, bias: { shape: [out], init: biasInit } } : { weight };
    },
    apply: ([x], params) => {
      const input = x as Tensor;
      const flat = input.reshape([...input.shape.slice(0, axis), -1]);
      const y = flat.matmul((params["weight"] as Tensor).transpose());
      return bias ? y.add(params["bias"] as Tensor) : y;
    },
  };
}

/** Caffe's pooling counts a last, incomplete window, and averages over the padding too. */
function pooling(layer: Message): CaffeLayer {
  const message = param(layer, "pooling_param");
  const kind = message.word("pool", ["MAX", "AVE"], "MAX");
  const global = message.flag("global_pooling", false);
  const rounding = message.word("round_mode", ["CEIL", "FLOOR"], "CEIL");
  const sizes = global ? [1, 1] : pair(message, "kernel_size", "kernel", 1);
  const strides = pair(message, "stride", "stride", 1, 1);
  const padding = pair(message, "pad", "pad", 0, 0).map((size): [number, number] => [size, size]);
  message.ignore("engine", "kernel_size");
  message.finish();
  return unaryLayer((x) => {
    if (global) return kind === "MAX" ? x.max([2, 3], { keepDims: true }) : x.mean([2, 3], { keepDims: true });
    return (kind === "MAX" ? maxPool2d : avgPool2d)(x, sizes, { strides, padding, ceilMode: rounding === "CEIL" });
  });
}

const unaryLayer = (fn: (x: Tensor) => Tensor): CaffeLayer => ({ apply: ([x]) => fn(x as Tensor) });

/** The parameter message of a layer. @throws HeddleError `format` where the layer has none. */
function param(layer: Message, name: string): Message {
  const message = layer.message(name);
  if (message === undefined) throw errorAt(layer, `${layer.text("type")} needs ${name} { … }`);
  return message;
}

/** A number of a message that may be absent. */
function numberOf(
  layer: Message,
  name: string,
  field: string,
  otherwise: number,
  ...ignored: readonly string[]
): number {
  const message = layer.message(name);
  if (message === undefined) return otherwise;
  const value = message.number(field, otherwise);
  message.ignore("engine", ...ignored);
  message.finish();
  return value;
}

function responseNorm(layer: Message): CaffeLayer {
  const message = layer.message("lrn_param");
  const [size, alpha, beta, bias] = [
    message?.integer("local_size", 1, 5) ?? 5,
    message?.number("alpha", 1) ?? 1,
    message?.number("beta", 0.75) ?? 0.75,
    message?.number("k", 1) ?? 1,
  ];
  const region = message?.word("norm_region", ["ACROSS_CHANNELS", "WITHIN_CHANNEL"], "ACROSS_CHANNELS");
  message?.ignore("engine");
  message?.finish();
  if (size % 2 === 0) throw errorAt(layer, `local_size ${size} is even`);
  if (region !== "WITHIN_CHANNEL")
    return unaryLayer((x) => nn.functional.localResponseNorm(x, size, { alpha, beta, k: bias }));
  // The mean of squares over a square of neighbours, padding included; k is not used.
  const window = { strides: 1, padding: (size - 1) / 2 };
  return unaryLayer((x) => x.div(avgPool2d(x.mul(x), size, window).mul(alpha).add(1).pow(beta)));
}

function dropout(layer: Message): CaffeLayer {
  const inner = nn.dropout(numberOf(layer, "dropout_param", "dropout_ratio", 0.5));
  return { apply: ([x], _params, options) => inner.apply({ params: {}, state: {} }, x as Tensor, options).y };
}

function eltwise(layer: Message): CaffeLayer {
  const message = layer.message("eltwise_param");
  const operation = message?.word("operation", ["PROD", "SUM", "MAX"], "SUM") ?? "SUM";
  const factors = message?.numbers("coeff") ?? [];
  message?.ignore("stable_prod_grad");
  message?.finish();
  return {
    apply: (inputs) => {
      const scaled =
        operation === "SUM"
          ? inputs.map((x, index) => ((factors[index] ?? 1) === 1 ? x : x.mul(factors[index] as number)))
          : inputs;
      return scaled.reduce((x, y) =>
        operation === "SUM" ? x.add(y) : operation === "PROD" ? x.mul(y) : maximum(x, y),
      );
    },
  };
}

/** The layers that compute, by Caffe's type. */
const kinds: { readonly [type: string]: (layer: Message) => CaffeLayer } = {
  Concat: (layer) => {
    const axis = numberOf(layer, "concat_param", "axis", 1, "concat_dim");
    return { apply: (inputs) => concat(inputs, axis) };
  },
  Convolution: convolution,
  Dropout: dropout,
  ELU: (layer) => {
    const alpha = numberOf(layer, "elu_param", "alpha", 1);
    return unaryLayer((x) => nn.functional.elu(x, { alpha }));
  },
  Eltwise: eltwise,
  Flatten: (layer) => {
    if (layer.message("flatten_param") !== undefined) throw errorAt(layer, "flatten_param is not imported");
    return unaryLayer((x) => x.reshape([x.shape[0] as number, -1]));
  },
  InnerProduct: innerProduct,
  LRN: responseNorm,
  Pooling: pooling,
  ReLU: (layer) => {
    const negativeSlope = numberOf(layer, "relu_param", "negative_slope", 0);
    return unaryLayer((x) => (negativeSlope === 0 ? x.relu() : nn.functional.leakyRelu(x, { negativeSlope })));
  },
  Sigmoid: () => unaryLayer((x) => x.sigmoid()),
  Softmax: (layer) => {
    const axis = numberOf(layer, "softmax_param", "axis", 1);
    return unaryLayer((x) => x.softmax(axis));
  },
  TanH: () => unaryLayer((x) => x.tanh()),
};

/** The types of layers that compute. */
export const caffeLayers: readonly string[] = Object.keys(kinds).sort();

/** Makes a layer from its message. @throws HeddleError `format` naming a type that is not imported, with its place. */
export function layerOf(message: Message, type: string): CaffeLayer {
  const make = Object.hasOwn(kinds, type) ? kinds[type] : undefined;
  if (make !== undefined) return make(message);
  throw errorAt(
    message,
    `layer "${message.text("name", "")}" is of type ${type}, which is not imported`,
    `imported types: ${caffeLayers.join(", ")}`,
  );
}

/** The type of a layer's result for inputs of these types; `name` is for errors. */
export function outputType(layer: CaffeLayer, inputs: readonly TensorType[], name: string): TensorType {
  const specs = layer.params?.(inputs) ?? {};
  const types = Object.values(specs).map(({ shape }) => ({ shape, dtype: (inputs[0] as TensorType).dtype }));
  for (const { shape } of types)
    if (!shape.every(Number.isInteger))
      throw new HeddleError(
        "shape",
        `layer "${name}": a parameter of shape ${formatShape(shape)}, whose sizes are not whole numbers`,
      );
  return evalShape(
    (...tensors) => {
      const params = Object.fromEntries(
        Object.keys(specs).map((key, index) => [key, tensors[inputs.length + index] as Tensor]),
      );
      return layer.apply(
        range(inputs.length).map((index) => tensors[index] as Tensor),
        params,
        {},
      );
    },
    ...inputs,
    ...types,
  );
}
