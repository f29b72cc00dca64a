/**
 * Ordinary programs, as users write them: that they compile without one type assertion is what they are for, and
 * `programs.test.ts` runs them.
 */
import {
  concat,
  data,
  jit,
  losses,
  nn,
  ones,
  optim,
  random,
  type Tensor,
  tensor,
  train,
  valueAndGrad,
  zeros,
} from "heddle";

const key = random.key(0);
const rows = (count: number, width: number): Tensor => random.normal(random.key(1), [count, width]);

/** A GAN: two networks, two optimizers, a loop of its own. */
export async function gan(steps: number): Promise<number> {
  const generator = nn.sequential(nn.linear(8), nn.relu(), nn.linear(2));
  const critic = nn.sequential(nn.linear(8), nn.leakyRelu({ negativeSlope: 0.2 }), nn.linear(1));
  const noise = { shape: [16, 4], dtype: "f32" } as const;
  const first = generator.init(random.foldIn(key, 0), noise);
  let makes = first.params;
  let judges = critic.init(random.foldIn(key, 1), first.output).params;
  type Makes = typeof makes;
  type Judges = typeof judges;
  const optimizer = optim.adam({ learningRate: 1e-2 });
  let [makesState, judgesState] = [optimizer.init(makes), optimizer.init(judges)];
  const fakes = (params: Makes, z: Tensor): Tensor => generator.apply({ params, state: {} }, z).y;
  const verdict = (params: Judges, x: Tensor): Tensor => critic.apply({ params, state: {} }, x).y;
  const judging = (params: Judges, real: Tensor, fake: Tensor): Tensor =>
    losses.binaryCrossEntropyWithLogits(verdict(params, concat([real, fake])), concat([ones([16, 1]), zeros([16, 1])]));
  const making = (params: Makes, own: Judges, z: Tensor): Tensor =>
    losses.binaryCrossEntropyWithLogits(verdict(own, fakes(params, z)), ones([16, 1]));
  const step = jit(
    (g: Makes, d: Judges, gs: typeof makesState, ds: typeof judgesState, z: Tensor, real: Tensor, step: Tensor) => {
      const judged = valueAndGrad(judging)(d, real, fakes(g, z));
      const critical = optimizer.update(judged.grad, ds, d, { step });
      const made = valueAndGrad(making)(g, critical.params, z);
      return { critical, made: optimizer.update(made.grad, gs, g, { step }), loss: made.value };
    },
  );
  let loss = 0;
  for (let count = 0; count < steps; count++) {
    const z = random.normal(random.foldIn(key, count), noise.shape);
    const after = step(makes, judges, makesState, judgesState, z, rows(16, 2), tensor(count, { dtype: "i32" }));
    ({ params: makes, state: makesState } = after.made);
    ({ params: judges, state: judgesState } = after.critical);
    loss = await after.loss.item();
  }
  makes["2"].bias satisfies Tensor;
  return loss;
}

/** An autoencoder of two networks in one module, with a loop of its own and batch norms. */
export async function autoencoder(steps: number): Promise<number> {
  const model = nn.module(
    { encoder: nn.sequential(nn.linear(6), nn.batchNorm(), nn.relu(), nn.linear(2)), decoder: nn.linear(4) },
    (l, x) => l.decoder(l.encoder(x).tanh()),
  );
  const x = rows(32, 4);
  let { params, state } = model.init(key, { shape: x.shape, dtype: x.dtype });
  const optimizer = optim.sgd({ learningRate: 0.1, momentum: 0.9 });
  let slots = optimizer.init(params);
  const loss = (p: typeof params, s: typeof state): [Tensor, typeof state] => {
    const { y, state: after } = model.apply({ params: p, state: s }, x, { train: true });
    return [losses.mse(y, x), after];
  };
  const step = jit((p: typeof params, s: typeof state, kept: typeof slots, count: Tensor) => {
    const { value, grad } = valueAndGrad(loss)(p, s);
    return { ...optimizer.update(grad, kept, p, { step: count }), layers: value[1], loss: value[0] };
  });
  let last = 0;
  for (let count = 0; count < steps; count++) {
    const after = step(params, state, slots, tensor(count, { dtype: "i32" }));
    ({ params, state: slots, layers: state } = after);
    last = await after.loss.item();
  }
  params.encoder["0"].weight satisfies Tensor;
  return last;
}

/** A classifier of sequences, trained by `train`. */
export async function sequences(epochs: number): Promise<readonly number[]> {
  const model = nn.module(
    { embed: nn.embedding(20, 8), lstm: nn.lstm({ hidden: 8, output: "last" }), head: nn.linear(2) },
    (l, ids) => l.head(l.lstm(l.embed(ids))),
  );
  const ids = Int32Array.from({ length: 64 * 5 }, (_unused, index) => (index * 7) % 20);
  const labels = Int32Array.from({ length: 64 }, (_unused, row) => ((ids[5 * row] ?? 0) > 9 ? 1 : 0));
  const examples = data.fromArrays({ x: { shape: [64, 5], data: ids }, y: { shape: [64], data: labels } });
  const result = await train({
    model,
    data: examples.shuffle().batch(16),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.adam({ learningRate: 1e-2 }),
    epochs,
    report: "silent",
  });
  return [
    ...result.params.head.weight.shape,
    ...result.params.lstm.weight_ih_l0.shape,
    ...result.params.embed.weight.shape,
  ];
}

/** A block of a transformer, written out. */
export function transformer(): readonly number[] {
  const block = (width: number) =>
    nn.sequential(
      nn.residual(nn.layerNorm(), nn.multiHeadAttention({ heads: 2, causal: true })),
      nn.residual(nn.layerNorm(), nn.linear(4 * width), nn.gelu(), nn.linear(width)),
    );
  const model = nn.module(
    { embed: nn.embedding(10, 8), places: nn.learnedPositions(6), blocks: [block(8), block(8)], norm: nn.layerNorm() },
    (l, ids) => {
      const hidden = l.blocks.reduce((x, one) => one(x), l.places(l.embed(ids)));
      return l.norm(hidden).matmul(l.embed.params.weight.transpose());
    },
  );
  const { params, output } = model.init(key, { shape: [1, 6], dtype: "i32" });
  const { weight } = params.blocks["1"]["1"]["3"];
  return [...output.shape, ...weight.shape, ...params.norm.bias.shape];
}

/** The body of a trained network under a new head. */
export async function transfer(epochs: number): Promise<readonly number[]> {
  const examples = data.fromArrays({
    x: { shape: [32, 4], data: new Float32Array(128).fill(1) },
    y: { shape: [32], data: new Int32Array(32) },
  });
  const shared = {
    data: examples.batch(16),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.sgd({ learningRate: 0.1 }),
    epochs,
  };
  const body = nn.sequential(nn.linear(8), nn.relu());
  const first = await train({ ...shared, report: "silent", model: nn.sequential(body, nn.linear(3)) });
  const model = nn.module({ body, head: nn.linear(5) }, (l, x) => l.head(l.body(x)));
  const fresh = model.init(key, { shape: [1, 4], dtype: "f32" });
  const { params } = await train({
    ...shared,
    report: "silent",
    model,
    from: { params: { ...fresh.params, body: first.params["0"] } },
  });
  return [...params.body["0"].weight.shape, ...params.head.bias.shape];
}
