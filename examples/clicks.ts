/**
 * Who clicks on what: a factorisation machine (Rendle, 2010) over hashed features, in a table of a million rows. A step looks up
 * 2000 rows and updates only these: without `optim.lazy`, Adam would move all rows in every step.
 *
 *     npx heddle run examples/clicks.ts                            # area under the curve 0.742, where 0.781 is possible; 6 s
 *     npx heddle run examples/clicks.ts --workers 2                # the same; workers send rows, not the table
 *     npx heddle run examples/clicks.ts -- --small                 # a table of 16,384 rows, a tenth of the data: 0.62
 *     npx heddle plan examples/clicks.ts --mesh data=2 --graph     # scatter {op: "replace"} on the table
 *
 * The clicks are generated: each person, page and offer has a taste, and some occur seldom.
 */
import { createHash } from "node:crypto";
import { data, losses, metrics, nn, optim, random, type Tensor, train } from "heddle";

const small = process.argv.includes("--small");
const [rows, size, count] = small ? [1 << 14, 4, 40_000] : [1 << 20, 8, 400_000];
const fields = { person: 5000, page: 1000, offer: 300, hour: 24 };
const width = Object.keys(fields).length;

// The bias of each value of a field towards clicks, and its taste.
const hidden = await Promise.all(
  Object.values(fields).map(async (values, field) => ({
    leaning: await random.normal(random.key(2 * field), [values]).data(),
    taste: await random.normal(random.key(2 * field + 1), [values]).data(),
  })),
);

/** The row of a value, by a hash: there is no list of all values, and two values may share a row. */
const rowOf = (field: string, value: number): number =>
  createHash("md5").update(`${field} ${value}`).digest().readUInt32LE() % rows;
const knownFields = Object.entries(fields).map(([field, values]) =>
  Int32Array.from({ length: values }, (_unused, value) => rowOf(field, value)),
);

/** The logit of a click, without noise. */
function leaning(values: readonly number[]): number {
  const [person, page, offer] = values.map((value, field) => hidden[field]!.taste[value]!) as [number, number, number];
  const score = values.reduce((sum, value, field) => sum + hidden[field]!.leaning[value]!, 0);
  return 0.5 * score + 0.7 * (person * page + page * offer) - 0.5;
}

const drawn = await random.uniform(random.key(100), [count, width + 1]).data();
const x = new Int32Array(count * width);
const y = new Float32Array(count);
const logits = new Float32Array(count);
for (let row = 0; row < count; row++) {
  const start = row * (width + 1);
  // Low numbers are the most frequent.
  const values = Object.values(fields).map((count, field) => Math.floor(count * drawn[start + field]! ** 2));
  values.forEach((value, field) => {
    x[row * width + field] = knownFields[field]![value]!;
  });
  logits[row] = leaning(values);
  y[row] = drawn[start + width]! < 1 / (1 + Math.exp(-logits[row]!)) ? 1 : 0;
}
const dataset = data.fromArrays({ x: { shape: [count, width], data: x }, y: { shape: [count], data: y } });
const [training, test] = [dataset.take(0.9 * count), dataset.skip(0.9 * count)];

/** The logits of `[batch, fields, 1 + size]`: first numbers added, plus the products of all pairs of the others, by the square of their sum. */
function machine(vectors: Tensor): Tensor {
  const [batch] = vectors.shape as [number];
  const linear = vectors.slice([0, 0, 0], [batch, width, 1]).sum([1, 2]);
  const others = vectors.slice([0, 0, 1], [batch, width, 1 + size]);
  const sum = others.sum(1);
  return linear.add(sum.mul(sum).sub(others.mul(others).sum(1)).sum(1).mul(0.5));
}

const result = await train({
  model: nn.sequential(nn.embedding(rows, 1 + size), (vectors) => machine(vectors.mul(0.05))),
  data: training.shuffle().batch(small ? 100 : 500),
  loss: losses.binaryCrossEntropyWithLogits,
  optimizer: optim.lazy(optim.adam({ learningRate: 0.1 }), ({ name }) => name === "0.weight"),
  metrics: { area: metrics.auc() },
  epochs: 3,
});
const { area } = (await result.evaluate(test)).metrics;
const first = 0.9 * count;
const possible = metrics.rocAuc(logits.subarray(first), y.subarray(first));
result.print(`area under the curve ${area!.toFixed(3)}; knowing all tastes it would be ${possible.toFixed(3)}`);
