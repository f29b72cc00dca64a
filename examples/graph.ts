/**
 * The two-layer network 784-100-10 as a graph: variables, a loss that is written out, its gradient and the update of Adagrad,
 * compiled to one program. It uses nothing of `nn`, `losses`, `optim` or `train`.
 *
 *     npx heddle run examples/graph.ts                # 10 epochs of MNIST: 97.6 % of the test images, 20 s
 *     npx heddle run examples/graph.ts -- --small     # 1 epoch of 6,000 images
 */
import { data, jit, logSumExp, oneHot, random, type Tensor, valueAndGrad, zeros } from "heddle";

const small = process.argv.includes("--small");
const [images, epochs] = small ? [6000, 1] : [60_000, 10];

interface Variables {
  w1: Tensor;
  b1: Tensor;
  w2: Tensor;
  b2: Tensor;
}
const names = ["w1", "b1", "w2", "b2"] as const;

const logits = ({ w1, b1, w2, b2 }: Variables, x: Tensor): Tensor =>
  x.reshape([-1, 784]).matmul(w1).add(b1).relu().matmul(w2).add(b2);

/** Cross-entropy: the mean of log Σ exp(z) - z[label] over the rows. */
function loss(v: Variables, x: Tensor, y: Tensor): Tensor {
  const z = logits(v, x);
  return logSumExp(z, 1)
    .sub(z.mul(oneHot(y, 10)).sum(1))
    .mean();
}

/** Adagrad (Duchi et al., 2011): a step is divided by the root of the sum of all squared gradients so far. */
const step = jit(
  (v: Variables, sums: Variables, x: Tensor, y: Tensor) => {
    const { value, grad } = valueAndGrad(loss)(v, x, y);
    const [nextV, nextSums] = [{ ...v }, { ...sums }];
    for (const name of names) {
      nextSums[name] = sums[name].add(grad[name].pow(2));
      nextV[name] = v[name].sub(grad[name].mul(0.05).div(nextSums[name].sqrt().add(1e-10)));
    }
    return { v: nextV, sums: nextSums, value };
  },
  { donate: [0, 1] },
);

const correct = jit((v: Variables, x: Tensor, y: Tensor) => logits(v, x).argMax().eq(y).cast("f32").sum());

let v: Variables = {
  w1: random.normal(random.key(0), [784, 100]).mul(Math.sqrt(2 / 784)),
  b1: zeros([100]),
  w2: random.normal(random.key(1), [100, 10]).mul(Math.sqrt(2 / 100)),
  b2: zeros([10]),
};
let sums: Variables = { w1: zeros([784, 100]), b1: zeros([100]), w2: zeros([100, 10]), b2: zeros([10]) };

const training = data.mnist("train").take(images).shuffle().batch(100);
const test = data.mnist("test").batch(1000);

for (let epoch = 0; epoch < epochs; epoch++) {
  let total = 0;
  for await (const { x, y } of data.batches(training, { epoch })) {
    const updated = step(v, sums, x, y);
    ({ v, sums } = updated);
    total += await updated.value.item();
  }
  let right = 0;
  for await (const { x, y } of data.batches(test)) right += await correct(v, x, y).item();
  const accuracy = ((100 * right) / test.length).toFixed(2);
  console.log(`epoch ${epoch + 1}: loss ${(total / training.batchesPerEpoch).toFixed(4)}, accuracy ${accuracy} %`);
}
