/**
 * Mails as pieces of words: spam or not, by attention over the tokens of a tokenizer of Hugging Face's library, with a mask of what is text.
 *
 *     npx heddle run examples/data/tokens.ts                # 60 s
 *     npx heddle run examples/data/tokens.ts -- --small     # 1,500 mails, shorter ones; 10 s
 */
import { data, losses, metrics, nn, optim, type Tensor, train, where, zerosLike } from "heddle";
import { mails } from "../mail.ts";

const small = process.argv.includes("--small");
const length = small ? 64 : 256;
const bounds = small ? [16, 32, 64] : [32, 64, 128, 256];

// 3,000 pieces of words that were learned of these mails: mail-tokenizer.py.
const tokenizer = await data.openTokenizer(new URL("mail-tokenizer.json", import.meta.url));

// The corpus is ordered by class: every fourth mail is for the test.
const chosen = mails().filter((_mail, index) => !small || index % 4 === 0);
const part = (isTest: boolean): typeof chosen => chosen.filter((_mail, index) => (index % 4 === 3) === isTest);
const dataset = (own: typeof chosen): data.Dataset =>
  data.fromArrays({
    ...tokenizer.padded(
      own.map(({ text }) => text),
      { length },
    ),
    y: { shape: [own.length, 1], data: Float32Array.from(own, ({ spam }) => Number(spam)) },
  });

const model = nn.module(
  {
    embed: nn.embedding(tokenizer.size, 32),
    attention: nn.multiHeadAttention({ heads: 4, rotary: true }),
    out: nn.linear(1),
  },
  (l, { ids, mask }: { ids: Tensor; mask: Tensor }) => {
    const vectors = l.embed(ids);
    const seen = vectors.add(l.attention(vectors, { present: mask }));
    const kept = where(mask.expandDims(2), seen, zerosLike(seen));
    return l.out(kept.sum(1).div(mask.cast("f32").sum(1).expandDims(1)));
  },
);

const [training, test] = [part(false), part(true)];
const result = await train({
  model,
  data: dataset(training).shuffle().batchByLength(32, { bounds }),
  evaluate: dataset(test).batchByLength(32, { bounds }),
  input: ["ids", "mask"],
  loss: losses.binaryCrossEntropyWithLogits,
  metrics: { accuracy: metrics.binaryAccuracy },
  optimizer: optim.adam({ learningRate: 0.003 }),
  epochs: 4,
});
result.print(`${tokenizer.size} pieces of words, of which a mail has at most ${length}`);
result.print(`${(100 * result.accuracy!).toFixed(1)} % of ${test.length} test mails are told right`);
