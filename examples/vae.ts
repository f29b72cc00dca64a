/**
 * A variational autoencoder (Kingma and Welling, 2014) learns to draw digits: it describes each image of MNIST by 16 numbers,
 * and draws images from numbers. It writes pictures of digits and their copies, of new digits, and of one digit turning into another.
 *
 *     npx heddle run examples/vae.ts                # 15 epochs: 104.9 nats on the test images, 2 minutes
 *     npx heddle run examples/vae.ts -- --small     # 1 epoch of 6,000 images
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { encode as encodePng } from "fast-png";
import { concat, data, jit, losses, nn, optim, random, type Tensor, tensor, valueAndGrad } from "heddle";

const small = process.argv.includes("--small");
const [images, epochs, size] = [small ? 6000 : 60_000, small ? 1 : 15, 16];

const encoder = nn.sequential(nn.flatten(), nn.linear(400), nn.relu(), nn.linear(2 * size));
const decoder = nn.sequential(nn.linear(400), nn.relu(), nn.linear(784));
const init = (key: Tensor) => ({
  encoder: encoder.init(random.foldIn(key, 0), { shape: [1, 784], dtype: "f32" }).params,
  decoder: decoder.init(random.foldIn(key, 1), { shape: [1, size], dtype: "f32" }).params,
});
type Params = ReturnType<typeof init>;

/** Mean and logarithm of the variance of the numbers that describe each image. */
function describe(params: Params, x: Tensor): { mean: Tensor; logVariance: Tensor } {
  const { y } = encoder.apply({ params: params.encoder, state: {} }, x);
  const rows = x.shape[0]!;
  return { mean: y.slice([0, 0], [rows, size]), logVariance: y.slice([0, size], [rows, 2 * size]) };
}
/** The logits of pixels. */
const draw = (params: Params, z: Tensor): Tensor => decoder.apply({ params: params.decoder, state: {} }, z).y;

/** The loss of the copy, plus the distance of the numbers from a normal distribution: a bound on -log p(image), in nats. */
function loss(params: Params, x: Tensor, key: Tensor): Tensor {
  const { mean, logVariance } = describe(params, x);
  const z = mean.add(logVariance.mul(0.5).exp().mul(random.normal(key, mean.shape)));
  const pixels = x.reshape([-1, 784]);
  const copy = losses.binaryCrossEntropyWithLogits(draw(params, z), pixels, { reduction: "sum" });
  const divergence = logVariance.exp().add(mean.pow(2)).sub(1).sub(logVariance).sum().mul(0.5);
  return copy.add(divergence).div(x.shape[0]!);
}

const optimizer = optim.adam({ learningRate: 1e-3 });
let params = init(random.key(0));
let state = optimizer.init(params);
const step = jit(
  (p: Params, s: typeof state, count: Tensor, x: Tensor) => {
    const { value, grad } = valueAndGrad(loss)(p, x, random.foldIn(random.key(1), count));
    return { ...optimizer.update(grad, s, p, { step: count }), value };
  },
  { donate: [0, 1] },
);

const training = data.mnist("train").take(images).shuffle().batch(128, { dropRemainder: true });
let count = 0;
for (let epoch = 0; epoch < epochs; epoch++) {
  let total = 0;
  for await (const { x } of data.batches(training, { epoch })) {
    const updated = step(params, state, tensor(count++, { dtype: "i32" }), x);
    ({ params, state } = updated);
    total += await updated.value.item();
  }
  console.log(`epoch ${epoch + 1}: ${(total / training.batchesPerEpoch).toFixed(2)} nats`);
}

let bound = 0;
const test = data.mnist("test").batch(1000);
const onTest = jit(loss);
for await (const { x } of data.batches(test)) bound += await onTest(params, x, random.key(2)).item();
console.log(`on the test images ${(bound / test.batchesPerEpoch).toFixed(2)} nats`);

/** Writes images `[rows · 10, 784]` of numbers in [0, 1] as rows of ten. */
async function write(name: string, pictures: Tensor): Promise<void> {
  const rows = pictures.shape[0]! / 10;
  const ordered = pictures.reshape([rows, 10, 28, 28]).transpose([0, 2, 1, 3]);
  const bytes = Uint8Array.from(await ordered.data(), (value) => Math.round(255 * (1 - value)));
  mkdirSync("pictures", { recursive: true });
  writeFileSync(`pictures/${name}.png`, encodePng({ width: 280, height: 28 * rows, data: bytes, channels: 1 }));
}

const { value: shown } = await data.batches(data.mnist("test").batch(10)).next();
if (shown) {
  const { mean } = describe(params, shown.x);
  await write("vae-copies", concat([shown.x.reshape([10, 784]), draw(params, mean).sigmoid()]));
  const [from, to] = [mean.slice([0, 0], [1, size]), mean.slice([1, 0], [2, size])];
  const way = tensor(Array.from({ length: 10 }, (_unused, index) => [index / 9]));
  await write("vae-between", draw(params, from.add(to.sub(from).mul(way))).sigmoid());
}
await write("vae-new", draw(params, random.normal(random.key(3), [100, size])).sigmoid());
console.log("pictures/vae-copies.png, vae-between.png, vae-new.png");
