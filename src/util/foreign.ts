/**
 * @module Names of other libraries and their counterparts in Heddle. Messages about an unknown option, a missing export or a missing
 * member look here first: a name with similar letters does not help users who write `lr`, `Linear` or `fit`.
 */

/** A name without case and separators: `batch_size`, `batchSize` and `BatchSize` become equal. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");

/** The counterpart of another library's option: names, of which the first allowed one is meant, or a sentence. */
interface ForeignOption {
  readonly names?: readonly string[];
  readonly says?: string;
}

const fromData = "leave it out: the input size is known from the data";
const ownLayer = "an activation is a layer of its own, such as nn.relu(), after this one";
const batching = "datasets are batched: data.fromArrays(…).batch(32)";

const foreignOptions: { readonly [name: string]: ForeignOption } = {
  lr: { names: ["learningRate"] },
  eta: { names: ["learningRate"] },
  eps: { names: ["epsilon"] },
  wd: { names: ["weightDecay"] },
  l2: { names: ["weightDecay"] },
  beta1: { names: ["betas"] },
  beta2: { names: ["betas"] },
  rho: { names: ["alpha", "decay"] },
  clipnorm: { names: ["clip"] },
  clipvalue: { names: ["clip"] },
  maxgradnorm: { names: ["clip"] },
  batchsize: { says: batching },
  batch: { says: batching },
  shuffle: { says: "datasets are shuffled: data.fromArrays(…).shuffle().batch(32)" },
  droplast: { says: "datasets drop it: .batch(32, { dropRemainder: true })" },
  validationdata: { names: ["evaluate"] },
  validation: { names: ["evaluate", "validationData"] },
  valdata: { names: ["evaluate", "validationData"] },
  evaldataset: { names: ["evaluate"] },
  validationsplit: { says: "hold rows out: rows.take(n) for evaluate, rows.skip(n) to train on" },
  criterion: { names: ["loss"] },
  lossfn: { names: ["loss"] },
  lossfunction: { names: ["loss"] },
  dataset: { names: ["data"] },
  traindataset: { names: ["data"] },
  traindata: { names: ["data"] },
  trainloader: { names: ["data"] },
  dataloader: { names: ["data"] },
  network: { names: ["model"] },
  net: { names: ["model"] },
  numepochs: { names: ["epochs"] },
  nepochs: { names: ["epochs"] },
  maxepochs: { names: ["epochs"] },
  randomstate: { names: ["seed"] },
  randomseed: { names: ["seed"] },
  verbose: { names: ["report"] },
  gradientaccumulationsteps: { names: ["accumulate"] },
  accumulategradbatches: { names: ["accumulate"] },
  ckptpath: { names: ["resume"] },
  logdir: { names: ["directory"] },
  units: { says: "the number of outputs comes first: nn.linear(10)" },
  outfeatures: { says: "the number of outputs comes first: nn.linear(10)" },
  infeatures: { says: fromData },
  inchannels: { says: fromData },
  inputshape: { says: fromData },
  inputdim: { says: fromData },
  inputsize: { says: fromData },
  numfeatures: { says: fromData },
  normalizedshape: { says: fromData },
  outchannels: { names: ["out"] },
  filters: { names: ["out"] },
  kernelsize: { names: ["kernel"], says: "the size of a window comes first: nn.maxPool2d(2)" },
  poolsize: { says: "the size of a window comes first: nn.maxPool2d(2)" },
  stride: { names: ["strides"] },
  dilationrate: { names: ["dilation"] },
  usebias: { names: ["bias"] },
  biasadd: { names: ["bias"] },
  kernelinitializer: { names: ["init"] },
  hiddensize: { names: ["hidden"] },
  activation: { says: ownLayer },
  act: { says: ownLayer },
  p: { names: ["rate"], says: "the rate comes first: nn.dropout(0.5)" },
  embeddim: { names: ["size"], says: "sizes come first: nn.embedding(count, size)" },
  device: { says: "there are no devices to choose; workers are the launcher's: heddle run file.ts --workers 4" },
  axis: { names: ["dim", "dims"] },
  keepdims: { names: ["keepDims"] },
  keepdim: { names: ["keepDims"] },
  requiresgrad: { says: "grad(f) and valueAndGrad(f) differentiate by the first argument of f; no tensor is marked" },
  fromlogits: { says: "losses of logits have names of their own, such as losses.binaryCrossEntropyWithLogits" },
};

/** A hint for an unknown option that is another library's; undefined for other names. */
export function optionHint(name: string, allowed: readonly string[]): string | undefined {
  const same = allowed.find((other) => plain(other) === plain(name));
  const foreign = Object.entries(foreignOptions).find(([key]) => plain(key) === plain(name))?.[1];
  const heddleName = same ?? foreign?.names?.find((other) => allowed.includes(other));
  return heddleName === undefined ? foreign?.says : `it is called '${heddleName}' here`;
}

/** Functions and classes of other libraries, and their counterparts. */
export const foreignNames: { readonly [name: string]: string } = {
  dense: "nn.linear",
  module: "nn.module",
  modulelist: "nn.module",
  flax: "nn.module",
  conv: "nn.conv2d",
  conv2dtranspose: "nn.convTranspose2d",
  maxpooling1d: "nn.maxPool1d",
  maxpooling2d: "nn.maxPool2d",
  averagepooling2d: "nn.avgPool2d",
  globalaveragepooling2d: "nn.globalAvgPool",
  batchnorm1d: "nn.batchNorm",
  batchnorm2d: "nn.batchNorm",
  batchnorm3d: "nn.batchNorm",
  batchnormalization: "nn.batchNorm",
  layernormalization: "nn.layerNorm",
  multiheadattention: "nn.multiHeadAttention",
  crossentropy: "losses.softmaxCrossEntropy",
  crossentropyloss: "losses.softmaxCrossEntropy",
  categoricalcrossentropy: "losses.softmaxCrossEntropy",
  sparsecategoricalcrossentropy: "losses.softmaxCrossEntropy",
  softmaxcrossentropywithlogits: "losses.softmaxCrossEntropy",
  nllloss: "losses.nll",
  mseloss: "losses.mse",
  meansquarederror: "losses.mse",
  l1loss: "losses.l1",
  mae: "losses.l1",
  meanabsoluteerror: "losses.l1",
  bce: "losses.binaryCrossEntropy",
  bceloss: "losses.binaryCrossEntropy",
  bcewithlogits: "losses.binaryCrossEntropyWithLogits",
  bcewithlogitsloss: "losses.binaryCrossEntropyWithLogits",
  sigmoidcrossentropy: "losses.binaryCrossEntropyWithLogits",
  smoothl1loss: "losses.smoothL1",
  huberloss: "losses.huber",
  kldivloss: "losses.klDivergence",
  kldivergence: "losses.klDivergence",
  ctcloss: "losses.ctc",
  lrscheduler: "optim.schedules",
  cosineannealinglr: "optim.schedules.cosine",
  cosinedecay: "optim.schedules.cosine",
  earlystopping: "callbacks.earlyStopping",
  modelcheckpoint: "callbacks.modelCheckpoint",
  dataloader: "data.fromArrays",
  tensordataset: "data.fromArrays",
  manualseed: "random.key",
  randn: "random.normal",
  rand: "random.uniform",
  array: "tensor",
  astensor: "tensor",
  fromnumpy: "tensor",
  variable: "tensor",
  constant: "tensor",
  cat: "concat",
  concatenate: "concat",
  permute: "transpose",
  mm: "matmul",
  bmm: "matmul",
  nograd: "stopGradient",
  valuegrad: "valueAndGrad",
};

const trainer =
  "a layer has init and apply; train({ model, data, loss, optimizer, epochs }) trains it, and keras.model(layer) has compile, fit, evaluate and predict";

/** Methods of other libraries' models, optimizers and tensors, and what to write here. */
const foreignMethods: { readonly [name: string]: string } = {
  fit: trainer,
  compile: trainer,
  predict: `${trainer}; the result of train has predict`,
  evaluate: `${trainer}; the result of train has evaluate`,
  summary: trainer,
  forward: "a layer is called by layer.apply({ params, state }, x)",
  parameters: "layer.init(key, { shape, dtype }) gives params, a tree of tensors",
  statedict: "parameters are a tree of tensors: result.params; io.saveTensors(path, params) writes them",
  loadstatedict: "io.loadPyTorch reads weights by their names",
  backward: "gradients are functions: valueAndGrad(loss)(params) gives { value, grad }",
  zerograd: "gradients are values that nothing keeps: leave it out",
  step: "an optimizer is a pure function: optimizer.update(grads, state, params, { step }) gives { params, state }",
  to: 'x.cast("f32") gives another dtype; computing is on the cores of this machine, so there is no device to name',
  t: "x.transpose() turns the dims around, x.transpose(dims) puts them in an order",
  cuda: "computing is on the cores of this machine: leave it out",
  cpu: "computing is on the cores of this machine: leave it out",
  numpy: "await x.data() gives the values as a typed array",
  tolist: "await x.data() gives the values as a typed array",
  detach: "stopGradient(x) gives a value that is constant for derivatives",
  view: "x.reshape(shape)",
  permute: "x.transpose(dims)",
  unsqueeze: "x.reshape(shape) with a 1 in its place",
  float: 'x.cast("f32")',
  long: 'x.cast("i32")',
  astype: 'x.cast("f32")',
  datasync: "await x.data(), or await x.item() for a scalar",
  arraysync: "await x.data() gives the values as a typed array",
};

/** Members of other libraries' tensors, in their spelling; all are in the table of methods. `T` is not a function. */
export const foreignMembers = [
  "backward",
  "to",
  "T",
  "cuda",
  "cpu",
  "numpy",
  "tolist",
  "detach",
  "view",
  "permute",
  "unsqueeze",
  "float",
  "long",
  "astype",
] as const;

const lookup = (table: { readonly [name: string]: string }, name: string): string | undefined =>
  Object.hasOwn(table, plain(name)) ? table[plain(name)] : undefined;

/**
 * A hint for a function or class that a module or namespace lacks: a member that differs only in case, or the counterpart of another
 * library's name; undefined for other names.
 */
export const nameHint = (name: string, members: readonly string[]): string | undefined =>
  members.find((other) => plain(other) === plain(name)) ?? lookup(foreignNames, name);

/** A hint for a method that a value lacks; undefined for unknown names. */
export const methodHint = (name: string): string | undefined => lookup(foreignMethods, name);

/** Hints for calls with the number of inputs as first argument, as other libraries take it. */
const foreignCalls: { readonly [what: string]: string } = {
  linear: "nn.linear(out): how many features go in is known from the data",
  conv1d: "nn.conv1d({ out: 32, kernel: 3 }): how many channels go in is known from the data",
  conv2d: "nn.conv2d({ out: 32, kernel: 3 }): how many channels go in is known from the data",
  conv3d: "nn.conv3d({ out: 32, kernel: 3 }): how many channels go in is known from the data",
  lstm: "nn.lstm({ hidden: 128 }): how many features go in is known from the data",
  gru: "nn.gru({ hidden: 128 }): how many features go in is known from the data",
  batchNorm: "nn.batchNorm(): how many features it has is known from the data",
  layerNorm: "nn.layerNorm(): how many features it has is known from the data",
};

/** A hint for a function that got a number instead of its options; undefined for other functions. */
export const callHint = (what: string): string | undefined =>
  Object.hasOwn(foreignCalls, what) ? foreignCalls[what] : undefined;
