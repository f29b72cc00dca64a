/**
 * An embedding table split by rows: each worker holds half of the vectors and their optimizer state, looks up its half, and adds up
 * the gradients of its half; no table is sent. The network learns which of two topics the words of a text are about.
 *
 *     npx heddle run examples/embedding.ts                                       # 99.9 % of the texts, 3 s
 *     npx heddle run examples/embedding.ts --workers 2 --mesh model=2            # the table split
 *     npx heddle run examples/embedding.ts --workers 4 --mesh data=2,model=2     # and the texts, on the other axis
 *     npx heddle plan examples/embedding.ts --mesh model=2 --graph               # gatherPart, scatterAddPart
 */
import { data, layouts, losses, nn, optim, train } from "heddle";

const [vocabulary, words] = [2000, 12];

/** Texts of words drawn at random: two of three belong to the topic of the text, the even words or the odd ones. */
function texts(count: number, seed: number): data.Dataset {
  let state = seed;
  const below = (limit: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  const topics = Int32Array.from({ length: count }, () => below(2));
  const ids = Int32Array.from({ length: count * words }, (_unused, index) => {
    const topic = topics[Math.floor(index / words)]!;
    return 2 * below(vocabulary / 2) + (index % 3 === 0 ? below(2) : topic);
  });
  return data.fromArrays({ x: { shape: [count, words], data: ids }, y: { shape: [count], data: topics } });
}

const result = await train({
  model: nn.sequential(nn.embedding(vocabulary, 8), (x) => x.mean(1), nn.linear(2)),
  data: texts(4000, 1).shuffle().batch(80),
  evaluate: texts(1000, 2),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.02 }),
  epochs: 4,
  layout: layouts.named({ "0.weight": { model: 0 } }),
});

result.print(`${(100 * result.accuracy!).toFixed(1)} % of the texts are about what the model says`);
