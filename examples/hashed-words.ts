/**
 * Spam or not, on parameter servers: sparse logistic regression by FTRL-Proximal (McMahan et al., 2013), as systems that predict clicks do it.
 * Words and pairs of neighbours are hashed to 2^24 weights, of which those exist that a mail has needed.
 *
 *     npx heddle run examples/hashed-words.ts                                  # 98.7 % of 1,511 test mails; three epochs in 31 s on busy cores
 *     npx heddle run examples/hashed-words.ts --workers 2 --servers 2 --policy ssp:3
 *     npx heddle run examples/hashed-words.ts -- --small                       # 1,500 mails
 */
import { binaryAccuracy, data, losses, metrics, nn, optim, train } from "heddle";
import { mails, words } from "./mail.ts";

const small = process.argv.includes("--small");
const places = 2 ** 24;
/** Features of a mail: of more, the first. */
const most = 512;

/** The weight of a feature (FNV-1a). 0 is no feature, and 1 is in each mail: its weight is the bias. */
function place(feature: string): number {
  let hash = 0x811c9dc5;
  for (const letter of feature) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193);
  return 2 + ((hash >>> 0) % (places - 2));
}

/** The features of a text: its words, and each word with the next. */
function features(text: string): number[] {
  const all = words(text);
  const pairs = all.slice(1).map((word, index) => `${all[index]} ${word}`);
  return [1, ...new Set([...all, ...pairs].map(place))].slice(0, most);
}

// The corpus is ordered by class: every fourth mail is for the test.
const messages = mails().filter((_mail, index) => !small || index % 4 === 0);

function dataset(part: "train" | "test"): data.Dataset {
  const chosen = messages.filter((_mail, index) => (index % 4 === 3) === (part === "test"));
  const x = new Int32Array(chosen.length * most);
  chosen.forEach(({ text }, row) => {
    x.set(features(text), row * most);
  });
  return data.fromArrays({
    x: { shape: [chosen.length, most], data: x },
    y: {
      shape: [chosen.length],
      data: Uint8Array.from(chosen, ({ spam }) => (spam ? 1 : 0)),
      transform: { dtype: "f32" },
    },
  });
}

const test = dataset("test").batch(64);
const result = await train({
  // The weight of each feature of a mail, added up.
  model: nn.sequential(nn.embeddingBag(places, 1, { mode: "sum", paddingIdx: 0, std: 0, on: "servers" }), (x) =>
    x.reshape([-1]),
  ),
  data: dataset("train").shuffle().batch(32),
  evaluate: test,
  loss: losses.binaryCrossEntropyWithLogits,
  optimizer: optim.ftrl({ learningRate: 0.3, l1: 0.02 }),
  metrics: { accuracy: binaryAccuracy, precision: metrics.precision(), recall: metrics.recall() },
  epochs: 3,
  server: {},
});

const { accuracy, precision, recall } = (await result.evaluate(test)).metrics;
const percent = (value = 0): string => `${(100 * value).toFixed(1)} %`;
result.print(
  `of ${test.length} mails ${percent(accuracy)} are told right: of what is called spam ${percent(precision)} is, of spam ${percent(recall)} is found`,
);
