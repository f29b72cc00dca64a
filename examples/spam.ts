/**
 * Spam or not: logistic regression on the words that occur in a mail, hashed to 8,192 features.
 *
 *     npx heddle run examples/spam.ts                 # 98.3 % of 1,511 test mails, precision 97.5 %, recall 97.3 %; 4 s
 *     npx heddle run examples/spam.ts -- --small      # 1,500 mails, 1,024 features
 */
import { binaryAccuracy, data, losses, metrics, nn, optim, train } from "heddle";
import { mails, words } from "./mail.ts";

const small = process.argv.includes("--small");
const places = small ? 1024 : 8192;

/** The feature of a word (FNV-1a). Where two words share a feature, the other words of the mail make the difference. */
function place(word: string): number {
  let hash = 0x811c9dc5;
  for (const letter of word) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193);
  return (hash >>> 0) % places;
}

// The corpus is ordered by class: every fourth mail is for the test.
const messages = mails().filter((_mail, index) => !small || index % 4 === 0);

function dataset(part: "train" | "test"): data.Dataset {
  const chosen = messages.filter((_mail, index) => (index % 4 === 3) === (part === "test"));
  const x = new Uint8Array(chosen.length * places);
  chosen.forEach(({ text }, row) => {
    for (const word of words(text)) x[row * places + place(word)] = 1;
  });
  const y = Uint8Array.from(chosen, ({ spam }) => (spam ? 1 : 0));
  return data.fromArrays({
    x: { shape: [chosen.length, places], data: x, transform: { dtype: "f32" } },
    y: { shape: [chosen.length], data: y, transform: { dtype: "f32" } },
  });
}

const test = dataset("test");
const result = await train({
  model: nn.sequential(nn.linear(1), (x) => x.reshape([-1])),
  data: dataset("train").shuffle().batch(64),
  evaluate: test,
  loss: losses.binaryCrossEntropyWithLogits,
  optimizer: optim.adam({ learningRate: 1e-3 }),
  metrics: { accuracy: binaryAccuracy, precision: metrics.precision(), recall: metrics.recall() },
  epochs: 10,
});

const { accuracy, precision, recall } = (await result.evaluate(test)).metrics;
const percent = (value = 0): string => `${(100 * value).toFixed(1)} %`;

// The strongest words for and against spam, by their weights, among the words of at least 50 mails.
const counts = new Map<string, number>();
for (const { text } of messages) for (const word of new Set(words(text))) counts.set(word, (counts.get(word) ?? 0) + 1);
const weight = await result.params["0"].weight.data();
const common = [...counts.keys()].filter((word) => counts.get(word)! >= 50);
common.sort((a, b) => weight[place(a)]! - weight[place(b)]!);

result.print(`
for spam     ${common.slice(-12).reverse().join(" ")}
against it   ${common.slice(0, 12).join(" ")}
of ${test.length} mails ${percent(accuracy)} are told right: of what is called spam ${percent(precision)} is, of spam ${percent(recall)} is found`);
