import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { data, io, random, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { flattenTree } from "../../src/util/tree.ts";

const folder = fileURLToPath(new URL("../../examples/caffe/", import.meta.url));
const text = (name: string): string => readFileSync(`${folder}${name}`, "utf8");
const isTensor = (value: unknown): value is Tensor => typeof value === "object" && value !== null && "dtype" in value;
const key = random.key(0);

describe("LeNet's own files", () => {
  test("the network has LeNet's parameters, and the solver its rates", async () => {
    const lenet = await io.loadCaffe(`${folder}lenet_solver.prototxt`);
    const { params, output } = lenet.model.init(key, { shape: [64, 1, 28, 28], dtype: "f32" });
    const { leaves, paths } = flattenTree<Tensor>(params, isTensor);
    expect(paths.map((path, index) => `${path} ${leaves[index]?.shape.join("x")}`)).toEqual([
      "conv1.weight 20x1x5x5",
      "conv1.bias 20",
      "conv2.weight 50x20x5x5",
      "conv2.bias 50",
      "ip1.weight 500x800",
      "ip1.bias 500",
      "ip2.weight 10x500",
      "ip2.bias 10",
    ]);
    expect(output.shape).toEqual([64, 10]);
    expect(lenet.batchSize).toEqual({ train: 64, test: 100 });
    expect(lenet.solver).toMatchObject({ maxIterations: 10000, testInterval: 500, testIterations: 100 });
    expect(lenet.solver.learningRate(0)).toBe(0.01);
    expect(lenet.solver.learningRate(5000)).toBeCloseTo(0.01 * 1.5 ** -0.75, 12);
    expect(lenet.multipliers.get("conv1.bias")).toEqual({ rate: 2, decay: 1 });
    expect(Object.keys(lenet.metrics)).toEqual(["accuracy"]);
    // Caffe's xavier: uniform up to the root of 3 / fan-in.
    const weight = Array.from(await (leaves[4] as Tensor).data());
    const largest = weight.reduce((most, value) => Math.max(most, value));
    expect(largest).toBeLessThanOrEqual(Math.sqrt(3 / 800));
    expect(largest).toBeGreaterThan(0.99 * Math.sqrt(3 / 800));
  });

  test("the data layer gives scale and batch", async () => {
    const lenet = await io.loadCaffe(`${folder}lenet_solver.prototxt`);
    const rows = data.fromArrays({
      x: { shape: [130, 1, 28, 28], data: new Uint8Array(130 * 784) },
      y: { shape: [130], data: new Int32Array(130) },
    });
    const batches = lenet.prepare(rows.shuffle({ seed: 1 }), "train");
    expect(batches.batchRows(0, 0).rows[0]).toBe(rows.shuffle({ seed: 1 }).rowAt(0, 0));
    expect([batches.batchSize, batches.columns.get("x")?.transform]).toEqual([
      64,
      { dtype: "f32", scale: 0.00390625, offset: -0 },
    ]);
    expect(lenet.epochs(batches)).toBe(Math.ceil(10000 / 3));
    expect(() => lenet.prepare(batches, "test")).toThrow(/is batched/);
  });

  test("deployed, it gives probabilities", async () => {
    const net = io.parseCaffeNet(text("lenet.prototxt"), "lenet.prototxt");
    expect(net.inputShape).toEqual([64, 1, 28, 28]);
    const { params, state } = net.model.init(key, { shape: [2, 1, 28, 28], dtype: "f32" });
    const { y } = net.model.apply({ params, state }, random.uniform(key, [2, 1, 28, 28]));
    const sums = await y.sum(1).data();
    expect(sums[0]).toBeCloseTo(1, 5);
    expect(net.loss).toBeUndefined();
  });
});

const rules = 'base_lr: 0.1 max_iter: 100 weight_decay: 0.01 lr_policy: "step" gamma: 0.5 stepsize: 2';

/** Each rule on one number, as Caffe's solvers write it, for steps with these gradients. */
const oracle = (type: string, gradients: readonly number[], start: number): number => {
  let [w, h, v] = [start, 0, 0];
  gradients.forEach((raw, index) => {
    const rate = 0.1 * 0.5 ** Math.floor(index / 2);
    const g = raw + 0.01 * w;
    const old = h;
    if (type === "SGD") w -= h = 0.9 * h + rate * g;
    if (type === "Nesterov") {
      h = 0.9 * h + rate * g;
      w -= 1.9 * h - 0.9 * old;
    }
    if (type === "AdaGrad") {
      h += g * g;
      w -= (rate * g) / (Math.sqrt(h) + 1e-8);
    }
    if (type === "RMSProp") {
      h = 0.95 * h + 0.05 * g * g;
      w -= (rate * g) / (Math.sqrt(h) + 1e-8);
    }
    if (type === "AdaDelta") {
      h = 0.95 * h + 0.05 * g * g;
      const change = g * Math.sqrt((v + 1e-6) / (h + 1e-6));
      v = 0.95 * v + 0.05 * change * change;
      w -= rate * change;
    }
    if (type === "Adam") {
      h = 0.9 * h + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      const t = index + 1;
      w -= ((rate * Math.sqrt(1 - 0.999 ** t)) / (1 - 0.9 ** t)) * (h / (Math.sqrt(v) + 1e-8));
    }
  });
  return w;
};

describe("solvers", () => {
  test.each([
    ["SGD", "momentum: 0.9"],
    ["Nesterov", "momentum: 0.9"],
    ["AdaGrad", ""],
    ["RMSProp", "rms_decay: 0.95"],
    ["AdaDelta", "momentum: 0.95 delta: 1e-6"],
    ["Adam", "momentum: 0.9 momentum2: 0.999"],
  ])("%s takes Caffe's steps while the rate falls", async (type, more) => {
    const { optimizer } = io.parseCaffeSolver(`${rules} type: "${type}" ${more}`);
    const rule = optimizer();
    const gradients = [0.5, -1, 2, 0.25, -0.125];
    let params: { w: Tensor } = { w: tensor([1], { dtype: "f64" }) };
    let state = rule.init(params);
    for (const [step, gradient] of gradients.entries())
      ({ params, state } = rule.update({ w: tensor([gradient], { dtype: "f64" }) }, state, params, { step }));
    expect((await params.w.data())[0]).toBeCloseTo(oracle(type, gradients, 1), 12);
  });

  test("lr_mult scales a step, decay_mult of 0 leaves the decay out", async () => {
    const { optimizer } = io.parseCaffeSolver(`${rules} momentum: 0.9`);
    const rule = optimizer(new Map([["b", { rate: 2, decay: 0 }]]));
    const params = { a: tensor([1], { dtype: "f64" }), b: tensor([1], { dtype: "f64" }) };
    const grads = { a: tensor([1], { dtype: "f64" }), b: tensor([1], { dtype: "f64" }) };
    const { params: next } = rule.update(grads, rule.init(params), params, { step: 0 });
    expect([await next.a.item(), await next.b.item()]).toEqual([1 - 0.1 * 1.01, 1 - 0.2]);
  });

  test.each([
    ["fixed", "", [1, 1]],
    ["step", "gamma: 0.5 stepsize: 3", [1, 0.125]],
    ["exp", "gamma: 0.9", [1, 0.9 ** 10]],
    ["inv", "gamma: 0.5 power: 2", [1, 1 / 36]],
    ["multistep", "gamma: 0.1 stepvalue: 5 stepvalue: 10", [1, 0.01]],
    ["poly", "power: 2", [1, 0.81]],
    ["sigmoid", "gamma: -1 stepsize: 10", [1 / (1 + Math.exp(-10)), 0.5]],
  ])("lr_policy %s", (policy, more, [first, tenth]) => {
    const solver = io.parseCaffeSolver(`base_lr: 1 max_iter: 100 lr_policy: "${policy}" ${more}`);
    expect(solver.learningRate(0)).toBeCloseTo(first as number, 12);
    expect(solver.learningRate(10)).toBeCloseTo(tenth as number, 12);
  });
});

/** The output of a network of one layer on an input. */
async function run(layer: string, x: Tensor): Promise<{ shape: readonly number[]; values: number[] }> {
  const net = io.parseCaffeNet(
    `input: "data" input_shape { dim: 1 } layer { name: "l" bottom: "data" top: "y" ${layer} }`,
  );
  const { params, state, output } = net.model.init(key, x);
  const { y } = net.model.apply({ params, state }, x);
  expect(output.shape).toEqual(y.shape);
  return { shape: y.shape, values: Array.from(await y.data()) };
}

describe("layers", () => {
  const image = tensor([[[[1, 2, 3, 4, 5]]]]);
  test("pooling counts the last, incomplete window, and averages over padding", async () => {
    const pool = (more: string) => `type: "Pooling" pooling_param { ${more} kernel_h: 1 kernel_w: 2 stride: 2 }`;
    expect(await run(pool("pool: MAX"), image)).toEqual({ shape: [1, 1, 1, 3], values: [2, 4, 5] });
    expect(await run(pool("pool: MAX round_mode: FLOOR"), image)).toEqual({ shape: [1, 1, 1, 2], values: [2, 4] });
    expect((await run(pool("pool: AVE"), image)).values).toEqual([1.5, 3.5, 5]);
    expect((await run(pool("pool: AVE pad_h: 0 pad_w: 1"), image)).values).toEqual([0.5, 2.5, 4.5]);
    expect((await run('type: "Pooling" pooling_param { pool: AVE global_pooling: true }', image)).values).toEqual([3]);
  });
  test("LRN divides by its neighbours' squares", async () => {
    const x = tensor([[[[1]], [[2]], [[3]]]]);
    const { values } = await run('type: "LRN" lrn_param { local_size: 3 alpha: 0.3 beta: 0.5 k: 2 }', x);
    [1, 2, 3].forEach((value, index) => {
      const squares = [5, 14, 13][index] as number;
      expect(values[index]).toBeCloseTo(value / Math.sqrt(2 + 0.1 * squares), 5);
    });
  });
  test("LRN within a channel divides by the mean of squares around, with the zeros of the padding", async () => {
    const lrn = 'type: "LRN" lrn_param { local_size: 3 alpha: 0.9 beta: 0.5 norm_region: WITHIN_CHANNEL }';
    const { values } = await run(lrn, tensor([[[[1, 2, 3]]]]));
    [1, 2, 3].forEach((value, index) => {
      const squares = [5, 14, 13][index] as number;
      expect(values[index]).toBeCloseTo(value / Math.sqrt(1 + 0.1 * squares), 5);
    });
  });
  test("a filler with sparse leaves so many weights of an output", async () => {
    const net = io.parseCaffeNet(
      `input: "data" layer { name: "l" type: "InnerProduct" bottom: "data" top: "y"
        inner_product_param { num_output: 100 weight_filler { type: "gaussian" std: 1 sparse: 15 } } }`,
    );
    const { params } = net.model.init(key, { shape: [1, 200], dtype: "f32" });
    const weight = await (params["l"] as { weight: Tensor }).weight.data();
    // A binomial of 20,000 with 0.15: five deviations are 252.
    expect(Math.abs(weight.filter((value) => value !== 0).length - 3000)).toBeLessThan(252);
  });
  test("ReLU with a slope, Softmax, InnerProduct of a constant", async () => {
    expect((await run('type: "ReLU" relu_param { negative_slope: 0.5 }', tensor([[-2, 3]]))).values).toEqual([-1, 3]);
    const product =
      'type: "InnerProduct" inner_product_param { num_output: 2 weight_filler { value: 2 } bias_filler { value: 1 } }';
    expect((await run(product, image)).values).toEqual([31, 31]);
  });
});

describe("files that people train with", () => {
  const source = (more: string) => `layer { name: "data" type: "Data" top: "data" top: "label" ${more} }
    layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 4 } }`;
  const rows = data.fromArrays({
    x: { shape: [4, 2], data: new Float32Array(8) },
    y: { shape: [4], data: new Int32Array(4) },
  });

  test("what changes examples is no part of the network, and prepare says what it does not do", () => {
    const net = io.parseCaffeNet(
      source(`transform_param { mirror: true crop_size: 227 mean_value: 104 mean_value: 117 mean_value: 123 }
        data_param { source: "lmdb" batch_size: 8 backend: LMDB }`),
    );
    expect([net.inputShape, net.batchSize.train]).toEqual([[8, 3, 227, 227], 8]);
    expect(() => net.prepare(rows, "train")).toThrow(
      /does not do what its data layer says: crop_size, mirror, a mean_value for each channel[\s\S]*\.batch\(8\)/,
    );
  });

  test("rules by stage choose layers, and the solver says the stages", () => {
    const net = (stages: object) =>
      io.parseCaffeNet(
        `${source("include { phase: TRAIN } data_param { batch_size: 8 }")}
         ${["a", "b"].map((stage, at) => `layer { name: "data" type: "Data" top: "data" include { phase: TEST stage: "${stage}" } data_param { batch_size: ${at + 1} } }`).join("\n")}`,
        "net",
        stages,
      ).batchSize;
    expect(net({})).toEqual({ train: 8, test: undefined });
    const solver = io.parseCaffeSolver(
      `base_lr: 1 lr_policy: "fixed" max_iter: 5 train_net: "n" test_state: { stage: "b" } test_state: { stage: "a" }`,
    );
    expect([solver.net, net({ stages: solver.stages })]).toEqual(["n", { train: 8, test: 2 }]);
  });

  test.each([
    // Of rows [1, 0] and [0, 3]: half the squares of a row, or its cross-entropy, summed; the mean over rows.
    ["EuclideanLoss", (1 + 9) / 2 / 2],
    ["SigmoidCrossEntropyLoss", (2 * Math.log(2) + Math.log(1 + Math.E) - 1 + Math.log(1 + Math.exp(3))) / 2],
  ])("%s sums over an example, and one that weighs nothing is left out", async (type, want) => {
    const net = io.parseCaffeNet(
      `input: "data" layer { name: "l" type: "${type}" bottom: "data" bottom: "t" loss_weight: 2 }
       layer { name: "shown" type: "EuclideanLoss" bottom: "data" bottom: "t" loss_weight: 0 }
       layer { name: "flat" type: "Flatten" bottom: "data" top: "data" }`,
    );
    const target =
      type === "EuclideanLoss"
        ? tensor([
            [0, 0],
            [0, 0],
          ])
        : tensor([
            [1, 0],
            [0, 0],
          ]);
    expect(
      await net
        .loss?.(
          tensor([
            [1, 0],
            [0, 3],
          ]),
          target,
        )
        .item(),
    ).toBeCloseTo(2 * want, 5);
  });
});

const layer = (more: string): string =>
  `name: "n"\ninput: "data"\nlayer {\n  name: "a" bottom: "data" top: "y"\n  ${more}\n}`;

describe("what cannot be read is told with its place", () => {
  test.each([
    ["layer {", /net:1:8: a field's name should stand here, not the end/],
    ['layer { name "a" }', /net:1:14: : or \{ should stand after name/],
    ["name: }", /net:1:7: a value of name should stand here, not \}/],
    ['name: "a\nb"', /net:1:7: cannot be read: "\\"a\\nb/],
    ["a { ".repeat(40), /nested more than 32 deep/],
    ["dim: [1, 2", /, or \] should stand here, not the end/],
    ["name: 5", /net:1:1: name must be a text in quotes/],
    [layer('type: "Convolutoin"'), /net:3:1: layer "a" is of type Convolutoin, which is not imported/],
    [
      layer('type: "Convolution" convolution_param { kernel_size: 5 }'),
      /net:5:23: convolution_param needs the field num_output/,
    ],
    [
      layer('type: "Convolution" convolution_param { num_outputs: 5 kernel_size: 5 }'),
      /needs the field num_output[\s\S]*is num_outputs meant to be num_output/,
    ],
    [
      layer('type: "Pooling" pooling_param { kernel_size: 2 strid: 2 }'),
      /net:5:50: pooling_param has the field strid[\s\S]*did you mean stride\?/,
    ],
    [
      layer('type: "Pooling" pooling_param { kernel_size: 2 pool: STOCHASTIC }'),
      /pool is STOCHASTIC; MAX, AVE are read/,
    ],
    [layer('type: "InnerProduct" inner_product_param { num_output: 2.5 }'), /whole number from 1 on, got 2.5/],
    [layer('type: "ReLU"').replace('bottom: "data"', 'bottom: "x"'), /takes "x", which no layer before it makes/],
    ["layers { }", /old form/],
  ])("%j", (source, message) => {
    const read = (): unknown => io.parseCaffeNet(source, "net").model.init(key, { shape: [1, 1, 4, 4], dtype: "f32" });
    expect(read).toThrow(message);
  });

  test("texts with comments, lists, joined and escaped texts, old brackets", () => {
    const net = io.parseCaffeNet(
      `# a comment\nname: "a" 'b\\n'; input: "data", input_shape < dim: [1, 0x2, 3e0] >`.replace(
        "input_shape",
        'layer { name: "r" type: "ReLU" bottom: "data" top: "r" } input_shape',
      ),
    );
    expect([net.name, net.inputShape]).toEqual(["ab\n", [1, 2, 3]]);
  });
});
