/**
 * Your own training loop on any number of workers: a generative adversarial network (Goodfellow et al., 2014) learns to draw digits.
 * One step updates two networks with two optimizers; `distributedStep` splits its batches over the workers, as `train` does.
 *
 *     npx heddle run examples/own-loop.ts --workers 2                # 10 epochs of MNIST, 104 s of processor time; `-- --resume` continues
 *     npx heddle run examples/own-loop.ts --workers 2 -- --small     # 4 epochs of 6,000 images
 */
import { existsSync } from "node:fs";
import { data, distributedStep, drawImages, losses, nn, optim, random, type Tensor, valueAndGrad } from "heddle";

const small = process.argv.includes("--small");
const [images, epochs, size] = small ? [6000, 4, 64] : [60_000, 10, 64];

const generator = nn.sequential(
  nn.linear(256),
  nn.batchNorm(),
  nn.relu(),
  nn.linear(512),
  nn.batchNorm(),
  nn.relu(),
  nn.linear(784),
  nn.sigmoid(),
);
const critic = nn.sequential(nn.linear(256), nn.leakyRelu({ negativeSlope: 0.2 }), nn.dropout(0.3), nn.linear(1));
const adam = optim.adam({ learningRate: 2e-4, betas: [0.5, 0.999] });

const g = generator.init(random.key(1), { shape: [128, size], dtype: "f32" });
const c = critic.init(random.key(2), { shape: [128, 784], dtype: "f32" });
type Generator = nn.ParamsOf<typeof generator>;
type Critic = nn.ParamsOf<typeof critic>;

const loop = await distributedStep({
  state: { g: g.params, norms: g.state, c: c.params, slots: { g: adam.init(g.params), c: adam.init(c.params) } },
  step: ({ g, norms, c, slots }, { x }, { step, key }) => {
    const real = x.reshape([-1, 784]);
    const noise = random.normal(random.foldIn(key, 0), [x.shape[0]!, size]);
    const judged = (params: Critic, pictures: Tensor, place: number): Tensor =>
      critic.apply({ params, state: {} }, pictures, { train: true, key: random.foldIn(key, place) }).y;
    const saying = (logits: Tensor, answer: number): Tensor =>
      losses.binaryCrossEntropyWithLogits(logits, logits.mul(0).add(answer));

    // The generator learns to be taken for real; its batch norms' state is returned, too.
    const generated = valueAndGrad((params: Generator) => {
      const { y, state } = generator.apply({ params, state: norms }, noise, { train: true });
      return [saying(judged(c, y, 1), 1), y, state] as const;
    })(g);
    const [fooled, fake, nextNorms] = generated.value;
    // The critic learns to tell both apart.
    const judgement = valueAndGrad((params: Critic) =>
      saying(judged(params, real, 2), 0.9).add(saying(judged(params, fake, 3), 0)),
    )(c);

    const [nextG, nextC] = [
      adam.update(generated.grad, slots.g, g, { step }),
      adam.update(judgement.grad, slots.c, c, { step }),
    ];
    return {
      state: { g: nextG.params, norms: nextNorms, c: nextC.params, slots: { g: nextG.state, c: nextC.state } },
      fooled,
      criticLoss: judgement.value,
    };
  },
});

const file = "checkpoints/own-loop.safetensors";
const digits = data.mnist("train").take(images).shuffle().batch(128, { dropRemainder: true });
if (process.argv.includes("--resume") && existsSync(file)) await loop.load(file);
for (let epoch = loop.steps / digits.batchesPerEpoch; epoch < epochs; epoch++) {
  const sums = [0, 0];
  for await (const batch of loop.batches(digits, { epoch })) {
    const { fooled, criticLoss } = await loop.run(batch);
    sums[0]! += await fooled.item();
    sums[1]! += await criticLoss.item();
  }
  await loop.save(file);
  const [fooledMean, by] = sums.map((sum) => (sum / digits.batchesPerEpoch).toFixed(3));
  loop.print(`epoch ${epoch + 1}: loss of the generator ${fooledMean}, of the critic ${by}`);
}

const { y } = generator.apply(
  { params: loop.state.g, state: loop.state.norms },
  random.normal(random.key(3), [4, size]),
);
const pixels = await y.data();
const pictures = [0, 1, 2, 3].map((n) => ({
  pixels: pixels.subarray(784 * n, 784 * (n + 1)),
  caption: `drawn ${n + 1}`,
}));
loop.print(drawImages(pictures, 28, 28));
