/**
 * Prices of houses, which are generated, by `heddle/ml`: categories as columns, a grid search over ridge and trees, and the best model as a file.
 *
 *     npx heddle run examples/houses.ts    # gradient boosting explains 0.996 of the variance, ridge 0.960; 7 s
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { concatenate, matrix, rand } from "heddle/matrix";
import {
  gradientBoostingRegressor,
  gridSearch,
  loadModel,
  meanAbsoluteError,
  oneHotEncoder,
  type PipelineModel,
  pipeline,
  r2Score,
  ridge,
  saveModel,
  standardScaler,
  trainTestSplit,
} from "heddle/ml";

const count = 2000;
const towns = ["Ely", "Oban", "Rye"];
const drawn = rand(count, 4, { seed: 1 }).arraySync();
const houses = drawn.map(([size, age, town, noise]) => ({
  size: 40 + 160 * size!,
  age: 100 * age!,
  town: towns[Math.floor(3 * town!)]!,
  noise: 20 * (noise! - 0.5),
}));
// In Oban old houses are dear, elsewhere they are cheap: no sum of columns says so.
const prices = houses.map(({ size, age, town, noise }) => 2 * size + (town === "Oban" ? age : -0.5 * age) + noise);

const encoding = oneHotEncoder().fit(houses.map(({ town }) => [town]));
const numbers = matrix(houses.map(({ size, age }) => [size, age]));
const x = concatenate([numbers, encoding.transform(houses.map(({ town }) => [town]))], 1);
const { trainX, trainY, testX, testY } = trainTestSplit(x, prices, { seed: 2 });

const models = {
  ridge: [0.1, 10].map((alpha) => ridge({ alpha })),
  "gradient boosting": [8, 31].map((maxLeaves) => gradientBoostingRegressor({ maxLeaves })),
};
const folder = mkdtempSync(join(tmpdir(), "houses-"));
for (const [name, choices] of Object.entries(models)) {
  const steps = pipeline({ scale: standardScaler(), model: choices[0]! });
  const { model, score } = await gridSearch(steps, { model: choices }, trainX, trainY, { folds: 3, seed: 3 });
  await saveModel(join(folder, name), model);
  const loaded = await loadModel<PipelineModel>(join(folder, name));
  const predicted = loaded.predict(testX);
  const [r2, error] = [r2Score(testY, predicted), meanAbsoluteError(testY, predicted)];
  console.log(
    `${name}: R² ${score.toFixed(3)} by cross-validation, ${r2.toFixed(3)} of new houses; off by ${error.toFixed(1)}`,
  );
}
rmSync(folder, { recursive: true });
