/** @module Builtins of neural networks. A row holds an image: its channels, each row by row. */

import { binary, concatenate, gradient, type Matrix, unary } from "../../matrix/index.ts";
import {
  type Convolution,
  conv2d,
  conv2dData,
  conv2dFilter,
  pool,
  poolBackward,
  type Windows,
} from "../../matrix/windows.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin } from "../builtin.ts";
import { asMatrix } from "../values.ts";

builtin("bias_add", "X bias", "a bias for each channel added: the size of X", (args) =>
  perChannel("add", args.matrix("X"), args.matrix("bias")),
);
builtin("bias_multiply", "X bias", "each channel times a number: the size of X", (args) =>
  perChannel("mul", args.matrix("X"), args.matrix("bias")),
);

/** A function of each channel and its number, which stands in a row of `by`. */
function perChannel(name: "add" | "mul" | "sub", x: Matrix, by: Matrix): Matrix {
  const width = x.columns / by.rows;
  return binary(name, x.reshape(x.rows * by.rows, width), repeatRows(by, x.rows)).reshape(x.rows, x.columns);
}

const repeatRows = (bias: Matrix, times: number): Matrix =>
  bias.take(Array.from({ length: bias.rows * times }, (_unused, row) => row % bias.rows));

/** Whole numbers of an argument `[a, b]`. */
function sizesOf<const Names extends readonly string[]>(
  what: string,
  args: Args,
  name: string,
  parts: Names,
): { [Index in keyof Names]: number } {
  const numbers = [...asMatrix(args.value(name)).dataSync()];
  if (numbers.length !== parts.length || numbers.some((number) => !Number.isInteger(number) || number < 0))
    throw new HeddleError("argument", `${what}: '${name}' is [${parts.join(", ")}], got [${numbers.join(", ")}]`);
  return numbers as { [Index in keyof Names]: number };
}

const imageParts = ["images", "channels", "rows", "columns"] as const;
const pairParts = ["rows", "columns"] as const;

function windowsOf(what: string, args: Args, window: readonly [number, number]): Windows {
  return {
    input: sizesOf(what, args, "input_shape", imageParts),
    window,
    strides: sizesOf(what, args, "stride", pairParts),
    padding: sizesOf(what, args, "padding", pairParts),
  };
}

function convolutionOf(what: string, args: Args): Convolution {
  const [filters, channels, rows, columns] = sizesOf(what, args, "filter_shape", [
    "filters",
    "channels",
    "rows",
    "columns",
  ] as const);
  const windows = windowsOf(what, args, [rows, columns]);
  if (windows.input[1] !== channels)
    throw new HeddleError("shape", `${what}: images of ${windows.input[1]} channels, filters of ${channels}`);
  return { ...windows, filters };
}

const convolution = "input_shape filter_shape stride padding";
builtin("conv2d", `input filter ${convolution}`, "images convolved with filters: N x F * Hout * Wout", (args) =>
  conv2d(args.matrix("input"), args.matrix("filter"), convolutionOf("conv2d", args)),
);
builtin(
  "conv2d_backward_filter",
  `input dout ${convolution}`,
  "the gradient of conv2d by its filters: F x C * Hf * Wf",
  (args) => conv2dFilter(args.matrix("input"), args.matrix("dout"), convolutionOf("conv2d_backward_filter", args)),
);
builtin(
  "conv2d_backward_data",
  `filter dout ${convolution}`,
  "the gradient of conv2d by its images: N x C * H * W",
  (args) => conv2dData(args.matrix("filter"), args.matrix("dout"), convolutionOf("conv2d_backward_data", args)),
);

for (const [kind, word] of [
  ["max", "largest"],
  ["avg", "mean"],
] as const) {
  const pooling = "input_shape pool_size stride padding";
  const windows = (what: string, args: Args): Windows =>
    windowsOf(what, args, sizesOf(what, args, "pool_size", pairParts));
  builtin(`${kind}_pool`, `input ${pooling}`, `the ${word} element of each window: N x C * Hout * Wout`, (args) =>
    pool(kind, args.matrix("input"), windows(`${kind}_pool`, args)),
  );
  builtin(
    `${kind}_pool_backward`,
    `input dout ${pooling}`,
    `the gradient of ${kind}_pool by its images: N x C * H * W`,
    (args) => poolBackward(kind, args.matrix("input"), args.matrix("dout"), windows(`${kind}_pool_backward`, args)),
  );
}

/** The mean of each channel over images and places: C x 1. */
const channelMeans = (x: Matrix, channels: number): Matrix =>
  x
    .reshape(x.rows * channels, x.columns / channels)
    .mean(1)
    .reshape(x.rows, channels)
    .mean(0).T;

builtin(
  "batch_norm2d",
  "X gamma beta ema_mean ema_var mode epsilon mu",
  "[normalised channels, new running means and variances, means, inverse deviations]: the size of X, and C x 1",
  (args) => {
    const [x, gamma, mean, variance] = ["X", "gamma", "ema_mean", "ema_var"].map((name) => args.matrix(name)) as [
      Matrix,
      Matrix,
      Matrix,
      Matrix,
    ];
    const mode = args.text("mode");
    if (mode !== "train" && mode !== "test")
      throw new HeddleError("argument", `batch_norm2d: the mode is "train" or "test", not "${mode}"`);
    const [epsilon, share] = [args.scalar("epsilon").matrix, args.scalar("mu").matrix];
    const own = mode === "train" ? channelMeans(x, gamma.rows) : mean;
    const centred = perChannel("sub", x, own);
    const spread = mode === "train" ? channelMeans(unary("square", centred), gamma.rows) : variance;
    const inverse = binary("div", 1, unary("sqrt", spread.add(epsilon)));
    const out = perChannel("add", perChannel("mul", centred, inverse.mul(gamma)), args.matrix("beta"));
    const running = (old: Matrix, now: Matrix): Matrix =>
      mode === "train" ? old.mul(share).add(now.mul(binary("sub", 1, share))) : old;
    return [out, running(mean, own), running(variance, spread), own, inverse];
  },
);
builtin(
  "batch_norm2d_backward",
  "X dout gamma epsilon cache_mean cache_inv_var",
  "[the gradients of batch_norm2d by X, gamma and beta]: the size of X, and C x 1",
  (args) => {
    const [x, slope, gamma] = ["X", "dout", "gamma"].map((name) => args.matrix(name)) as [Matrix, Matrix, Matrix];
    const inverse = args.matrix("cache_inv_var");
    const normal = perChannel("mul", perChannel("sub", x, args.matrix("cache_mean")), inverse);
    const places = x.size / gamma.rows;
    const byBeta = channelMeans(slope, gamma.rows);
    const byGamma = channelMeans(slope.mul(normal), gamma.rows);
    const centred = perChannel("sub", slope.sub(perChannel("mul", normal, byGamma)), byBeta);
    return [perChannel("mul", centred, gamma.mul(inverse)), byGamma.mul(places), byBeta.mul(places)];
  },
);

/** One layer of LSTM: the state after each step. Gates are input, forget, output and new, as in SystemDS's nn/layers/lstm.dml. */
function lstm([x, w, b, out0, c0]: readonly Matrix[]): {
  readonly outs: Matrix[];
  readonly states: Matrix[];
  readonly gates: Matrix[];
} {
  const [X, W, B] = [x, w, b] as [Matrix, Matrix, Matrix];
  const size = W.columns / 4;
  const features = W.rows - size;
  let [out, state] = [out0 as Matrix, c0 as Matrix];
  const [outs, states, gates]: [Matrix[], Matrix[], Matrix[]] = [[], [], []];
  for (let start = 0; start < X.columns; start += features) {
    const input = concatenate([X.slice([0, X.rows], [start, start + features]), out], 1);
    const raw = input.matmul(W).add(B);
    const open = unary("sigmoid", raw.slice([0, X.rows], [0, 3 * size]));
    const fresh = unary("tanh", raw.slice([0, X.rows], [3 * size, 4 * size]));
    const gate = (at: number): Matrix => open.slice([0, X.rows], [at * size, (at + 1) * size]);
    state = gate(1).mul(state).add(gate(0).mul(fresh));
    out = gate(2).mul(unary("tanh", state));
    outs.push(out);
    states.push(state);
    gates.push(concatenate([open, fresh], 1));
  }
  return { outs, states, gates };
}

const lstmNames = ["X", "W", "b", "out0", "c0"] as const;
function lstmOf(what: string, args: Args): Matrix[] {
  const parts = lstmNames.map((name) => args.matrix(name));
  const [x, w] = parts as [Matrix, Matrix];
  const features = w.rows - w.columns / 4;
  if (w.columns % 4 === 0 && features > 0 && x.columns % features === 0) return parts;
  throw new HeddleError("shape", `${what}: X of ${x.rows}x${x.columns} does not fit W of ${w.rows}x${w.columns}`, {
    hint: "with D features and M neurons, X is N x T * D and W is D + M x 4 * M",
  });
}

const joinedSteps = (steps: readonly Matrix[]): Matrix => concatenate([...steps], 1);
/** A row for each step. */
const stacked = (steps: readonly Matrix[]): Matrix =>
  concatenate(
    steps.map((step) => step.reshape(1, step.size)),
    0,
  );

builtin(
  "lstm",
  "X W b out0 c0 return_sequences",
  "[outputs of all steps or of the last one, the last state, caches of outputs, states and gates]: N x T * M or N x M",
  (args) => {
    const { outs, states, gates } = lstm(lstmOf("lstm", args));
    const [out, state] = [outs.at(-1) as Matrix, states.at(-1) as Matrix];
    return [
      args.flag("return_sequences") ? joinedSteps(outs) : out,
      state,
      stacked(outs),
      stacked(states),
      stacked(gates),
    ];
  },
);
builtin(
  "lstm_backward",
  "X W b out0 c0 given_sequences dout dc cache_out? cache_c? cache_ifog?",
  "[the gradients of lstm by X, W, b, out0 and c0]: their sizes",
  (args) => {
    const [slope, last] = [args.matrix("dout"), args.matrix("dc")];
    const all = args.flag("given_sequences");
    return gradient(
      (...parts) => {
        const { outs, states } = lstm(parts);
        const out = all ? joinedSteps(outs) : (outs.at(-1) as Matrix);
        return out
          .mul(slope)
          .sum()
          .add((states.at(-1) as Matrix).mul(last).sum());
      },
      lstmOf("lstm_backward", args),
    ).gradients;
  },
);
