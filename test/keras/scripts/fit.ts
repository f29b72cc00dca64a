/**
 * Fits a model and prints, on every rank, its history and a digest of weights and predictions. An argument `0:full` makes the CSV
 * logger of rank 0 fail at the second epoch. The first argument is a folder for its files.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { callbacks, isTensor, keras, nn, type Tensor } from "heddle";
import { flattenTree } from "../../../src/util/tree.ts";

const [folder = "", fails] = process.argv.slice(2);
const rank = process.env["RANK"] ?? "0";
const tell = (text: string): void => console.log(`@${rank} ${text}`);
const rows = Array.from({ length: 45 }, (_unused, index) => [Math.sin(index), Math.cos(index * index)]);
const labels = rows.map(([a = 0, b = 0]) => (a > b ? 1 : 0));
const log = join(folder, "log.csv");

const model = keras.model(nn.sequential(nn.linear(8), nn.tanh(), nn.linear(2)), { dtype: "f64" });
model.compile({ optimizer: "adam", loss: "softmaxCrossEntropy", metrics: ["accuracy", "f1"] });
const seen: number[] = [];
const fitted = (epochs: number): Promise<keras.History> =>
  model.fit(rows, labels, {
    ...{ epochs, batchSize: 16, verbose: 0, validationSplit: 0.25, classWeight: { 1: 2 } },
    sampleWeight: rows.map((_row, index) => 1 + (index % 3)),
    callbacks: [
      callbacks.csvLogger({ path: log }),
      callbacks.tensorBoard({ directory: join(folder, "events") }),
      callbacks.modelCheckpoint({ path: join(folder, "best.safetensors") }),
      callbacks.earlyStopping({ monitor: "val_loss", mode: "max", patience: 3, restoreBest: true }),
      {
        onEpoch: async ({ epoch }) => {
          seen.push((await model.evaluate(rows, labels))["loss"] as number);
          // The file becomes a folder, which nothing can be appended to.
          if (fails === `${rank}:full` && epoch === 1 && existsSync(log)) {
            rmSync(log);
            mkdirSync(log);
          }
        },
      },
    ],
  });

if (fails === undefined) {
  const { history } = await fitted(3);
  await fitted(1);
  const hash = createHash("sha256");
  for (const leaf of flattenTree(model.params, isTensor).leaves) hash.update(await (leaf as Tensor).data());
  hash.update(await (await model.predict(rows)).data());
  tell(JSON.stringify({ history, seen, digest: hash.digest("hex") }));
} else {
  await fitted(6).catch((error: Error & { code?: string }) =>
    tell(`${error.code}: ${error.message.split("\n", 1)[0]}`),
  );
}
