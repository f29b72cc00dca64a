/**
 * Word embeddings: skip-grams with negative sampling (Mikolov et al., 2013) on the text of 4,150 mails. A word's vector is trained
 * to find the words near it in the text, and to tell them from words drawn at random. Words of similar use get similar vectors.
 *
 *     npx heddle run examples/words.ts                # 954,225 words, 12,000 steps: "he is to his as she is to her"; 105 s
 *     npx heddle run examples/words.ts -- --small     # 500 mails, 300 steps
 */
import { gather, jit, optim, random, softplus, type Tensor, tensor, valueAndGrad, zeros } from "heddle";
import { mails, words } from "./mail.ts";

const small = process.argv.includes("--small");
const [size, window, negatives, batch] = [64, 4, 10, 1024];
const [steps, atLeast] = small ? [300, 20] : [12_000, 20];

const sentences = mails()
  .filter(({ spam }) => !spam)
  .slice(0, small ? 500 : undefined)
  .map(({ text }) => words(text));
const counts = new Map<string, number>();
for (const word of sentences.flat()) counts.set(word, (counts.get(word) ?? 0) + 1);
const vocabulary = [...counts.keys()].filter((word) => counts.get(word)! >= atLeast);
const numbers = new Map(vocabulary.map((word, index) => [word, index]));
const total = vocabulary.reduce((sum, word) => sum + counts.get(word)!, 0);
console.log(`${total.toLocaleString("en")} words, ${vocabulary.length.toLocaleString("en")} different ones`);

/** Numbers in [0, 1), the same in every run (mulberry32). */
let seed = 1;
function uniform(): number {
  seed = (seed + 0x6d2b79f5) | 0;
  let bits = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
  return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
}
const below = (limit: number): number => Math.floor(uniform() * limit);

// The text as numbers, sentence by sentence; most of the commonest words are left out, since they say little about their neighbours.
const text = sentences
  .map((sentence) =>
    sentence.flatMap((word) => {
      const number = numbers.get(word);
      const share = counts.get(word)! / total;
      return number === undefined || uniform() > Math.sqrt(1e-4 / share) ? [] : [number];
    }),
  )
  .filter((sentence) => sentence.length > 1);
// The positions of each word in the text, and a list to draw negatives from: each word as often as its count to the power of 3/4.
const places = text.flatMap((sentence, row) => sentence.map((_word, place) => [row, place] as const));
const noise = vocabulary.flatMap((word, number) =>
  new Array<number>(Math.ceil(counts.get(word)! ** 0.75)).fill(number),
);

/** Words, and for each of them a neighbour, then words drawn at random. */
function examples(): { word: Tensor; others: Tensor } {
  const word = new Int32Array(batch);
  const others = new Int32Array(batch * (1 + negatives));
  for (let row = 0; row < batch; row++) {
    const [sentence, place] = places[below(places.length)]!;
    const neighbours = text[sentence]!.slice(Math.max(0, place - window), place + window + 1);
    neighbours.splice(Math.min(place, window), 1);
    word[row] = text[sentence]![place]!;
    others[row * (1 + negatives)] = neighbours[below(neighbours.length)]!;
    for (let k = 1; k <= negatives; k++) others[row * (1 + negatives) + k] = noise[below(noise.length)]!;
  }
  return { word: tensor(word), others: tensor(others, { shape: [batch, 1 + negatives] }) };
}

const init = (key: Tensor) => ({
  words: random.uniform(key, [vocabulary.length, size], { min: -0.5 / size, max: 0.5 / size }),
  contexts: zeros([vocabulary.length, size]),
});
type Params = ReturnType<typeof init>;

// 1 for the neighbour, -1 for the words drawn at random.
const signs = tensor([1, ...new Array<number>(negatives).fill(-1)]);
/** The mean over words of Σ -log sigmoid(± word · other). */
function loss(params: Params, word: Tensor, others: Tensor): Tensor {
  const vectors = gather(params.words, word).reshape([batch, 1, size]);
  const products = gather(params.contexts, others).mul(vectors).sum(2);
  return softplus(products.mul(signs).neg()).sum(1).mean();
}

const optimizer = optim.adam({ learningRate: 0.003 });
let params = init(random.key(0));
let state = optimizer.init(params);
const step = jit(
  (p: Params, s: typeof state, count: Tensor, word: Tensor, others: Tensor) => {
    const { value, grad } = valueAndGrad(loss)(p, word, others);
    return { ...optimizer.update(grad, s, p, { step: count }), value };
  },
  { donate: [0, 1] },
);
for (let count = 0; count < steps; count++) {
  const { word, others } = examples();
  const updated = step(params, state, tensor(count, { dtype: "i32" }), word, others);
  ({ params, state } = updated);
  if ((count + 1) % (steps / 6) === 0)
    console.log(`step ${count + 1}: loss ${(await updated.value.item()).toFixed(3)}`);
}

const lengths = params.words.pow(2).sum(1, { keepDims: true }).sqrt();
const unit = params.words.div(lengths.add(1e-9));
const vector = (word: string): Tensor => gather(unit, tensor([numbers.get(word)!], { dtype: "i32" })).reshape([size]);

/** The words whose vectors have the smallest angle to this one. */
async function nearest(x: Tensor, without: readonly string[], how: number): Promise<string[]> {
  const cosines = await unit.matmul(x).data();
  const order = vocabulary.filter((word) => !without.includes(word));
  return order.sort((a, b) => cosines[numbers.get(b)!]! - cosines[numbers.get(a)!]!).slice(0, how);
}

const areKnown = (list: readonly string[]): boolean => list.every((word) => numbers.has(word));
for (const word of ["linux", "monday", "microsoft", "money", "children", "three"].filter((word) => areKnown([word])))
  console.log(`${word}: ${(await nearest(vector(word), [word], 6)).join(", ")}`);

// a is to b as c is to the words nearest to b - a + c.
const analogies = [
  ["he", "his", "she"],
  ["is", "was", "are"],
  ["one", "first", "two"],
  ["man", "men", "woman"],
] as const;
for (const [a, b, c] of analogies.filter(areKnown)) {
  const answers = await nearest(vector(b).sub(vector(a)).add(vector(c)), [a, b, c], 3);
  console.log(`${a} is to ${b} as ${c} is to ${answers.join(", ")}`);
}
