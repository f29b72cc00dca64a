/**
 * From a CSV file with missing and categorical values to a classifier that is saved, loaded and asked, in 40 lines: who sails first class?
 *
 *     npx heddle run examples/data/classifier.ts          4 s
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { data, frames, io, losses, nn, optim, train } from "heddle";

const folder = mkdtempSync(join(tmpdir(), "passengers-"));
// A file as people keep them: fields in quotes, ages that nobody asked for, and fares that depend on class and port.
const ports = ["Cherbourg", "Queenstown", "Southampton"];
const line = (index: number): string => {
  const first = (index * 7) % 3 === 0;
  const fare = (first ? 60 : 15) + ((index * 13) % 30);
  return `"Passenger, ${index}",${index % 5 === 0 ? "" : 20 + (index % 50)},${ports[index % 3]},${fare.toFixed(2)},${first}`;
};
writeFileSync(
  join(folder, "all.csv"),
  ["name,age,port,fare,first", ...Array.from({ length: 900 }, (_, at) => line(at))].join("\n"),
);

const rows = data.csv(join(folder, "all.csv"), { columns: { age: "f32", port: "text", fare: "f32", first: "bool" } });
const parts = await data.split(rows, { train: 0.8, test: 0.2 }, { stratify: ({ first }) => String(first) });
// What the encoders learn is of the training's part alone; an age that is missing is the mean, and a feature says so.
const frame = await frames.fit(parts.train, {
  x: [frames.scale("age", { impute: "mean", indicator: true }), frames.scale("fare"), frames.oneHot("port")],
  y: frames.recode("first"),
});

const result = await train({
  model: nn.sequential(nn.linear(16), nn.relu(), nn.linear(2)),
  data: (await data.toDataset(frame.apply(parts.train))).shuffle().batch(32),
  evaluate: (await data.toDataset(frame.apply(parts.test))).batch(32),
  frame,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 8,
});
await result.save(join(folder, "model.safetensors"));

const model = await io.loadModel(join(folder, "model.safetensors"));
const [no, yes] = await model.predict([{ age: Number.NaN, port: "Cherbourg", fare: 85 }]).data();
result.print(
  `${(100 * (result.accuracy ?? 0)).toFixed(1)} % of the others; a fare of 85: ${yes! > no! ? "first class" : "steerage"}`,
);
