import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HeddleError, io } from "heddle";
import { entries, Matrix, matrix, rand } from "heddle/matrix";
import * as ml from "heddle/ml";
import { expect, test } from "vitest";

type Rows = number[] | number[][];

const { data, cases } = JSON.parse(
  readFileSync(fileURLToPath(new URL("../fixtures/ml.json", import.meta.url)), "utf8"),
) as { data: Record<string, number[][]>; cases: Record<string, Record<string, Rows>> };
const given = (name: string): Matrix => matrix(data[name] as number[][]);
const expected = (name: string, part: string): Rows => (cases[name] as Record<string, Rows>)[part] as Rows;

/** Elements differ from those of scikit-learn by less than a part of 1 and of their size. */
function near(actual: Matrix | number, wanted: Rows | number, tolerance = 1e-8): void {
  const [left, right] = [
    actual instanceof Matrix ? [...actual.dataSync()] : [actual],
    [wanted].flat(2) as unknown as number[],
  ];
  expect(left.length).toBe(right.length);
  for (const [at, value] of left.entries())
    expect(Math.abs(value - (right[at] as number)), `element ${at}: ${value}, not ${right[at]}`).toBeLessThan(
      tolerance * (1 + Math.abs(right[at] as number)),
    );
}

const firstColumn = (): Matrix => given("y").slice([0, 60], [0, 1]);
const exact = { tolerance: 1e-11 };

const linear: readonly [string, ml.Estimator<ml.LinearModel>, string][] = [
  ["linearRegression", ml.linearRegression(), "y"],
  ["linearRegression", ml.linearRegression({ solver: "qr" }), "y"],
  ["linearRegression", ml.linearRegression({ solver: "cg" }), "y"],
  ["linearRegression without intercept", ml.linearRegression({ intercept: false }), "y"],
  ["linearRegression without intercept", ml.linearRegression({ intercept: false, solver: "cg" }), "y"],
  ["ridge", ml.ridge({ alpha: 2.5 }), "y"],
  ["ridge", ml.ridge({ alpha: 2.5, solver: "cg" }), "y"],
];
test.each(linear)("%s %#", async (name, estimator, target) => {
  const model = await estimator.fit(given("x"), given(target));
  near(model.coefficients, expected(name, "coefficients"));
  if (!name.endsWith("without intercept")) near(model.intercept, expected(name, "intercept"));
  near(model.predict(given("test")), expected(name, "predict"));
});

const classifiers: readonly [string, ml.Estimator<ml.LogisticModel | ml.LinearSvcModel>, string][] = [
  ["logisticRegression two", ml.logisticRegression({ alpha: 2, ...exact }), "two"],
  ["logisticRegression three", ml.logisticRegression({ alpha: 2, ...exact }), "three"],
  ["linearSvc two", ml.linearSvc({ alpha: 2, ...exact }), "two"],
  ["linearSvc three", ml.linearSvc({ alpha: 2, ...exact }), "three"],
];
test.each(classifiers)("%s", async (name, estimator, target) => {
  const model = await estimator.fit(given("x"), given(target));
  near(model.coefficients, expected(name, "coefficients"), 1e-5);
  near(model.intercept, expected(name, "intercept"), 1e-5);
  near(model.predict(given("test")), expected(name, "predict"));
  if ("probabilities" in model) near(model.probabilities(given("test")), expected(name, "probabilities"), 1e-5);
});

const boosting = { rounds: 20, minLeaf: 12 };
const probable: readonly [string, ml.Estimator<ml.ProbabilisticClassifier>, string, string, string, number][] = [
  ["gaussianNaiveBayes", ml.gaussianNaiveBayes(), "x", "three", "test", 1e-8],
  ["multinomialNaiveBayes", ml.multinomialNaiveBayes(), "counts", "three", "counts", 1e-8],
  ["decisionTreeClassifier deep", ml.decisionTreeClassifier({ minLeaf: 6 }), "grid", "three", "grid", 1e-12],
  [
    "decisionTreeClassifier shallow",
    ml.decisionTreeClassifier({ maxDepth: 2, minLeaf: 6 }),
    "grid",
    "three",
    "grid",
    1e-12,
  ],
  // scikit-learn's gradients are f32.
  ["gradientBoostingClassifier two", ml.gradientBoostingClassifier(boosting), "grid", "two", "grid", 1e-5],
  ["gradientBoostingClassifier three", ml.gradientBoostingClassifier(boosting), "grid", "three", "grid", 1e-5],
  [
    "kNeighboursClassifier",
    ml.kNeighboursClassifier({ neighbours: 4, weights: "distance" }),
    "x",
    "three",
    "test",
    1e-8,
  ],
];
test.each(probable)("%s", async (name, estimator, x, y, query, tolerance) => {
  const model = await estimator.fit(given(x), given(y));
  const asked = name === "multinomialNaiveBayes" ? given(query).slice([0, 9]) : given(query);
  near(model.probabilities(asked), expected(name, "probabilities"), tolerance);
  near(model.predict(asked), expected(name, "predict"));
});

const numbers: readonly [string, ml.Estimator<ml.Predictor>, string, () => Matrix, string, number][] = [
  ["decisionTreeRegressor", ml.decisionTreeRegressor({ maxLeaves: 8 }), "grid", firstColumn, "grid", 1e-10],
  ["gradientBoostingRegressor", ml.gradientBoostingRegressor(boosting), "grid", firstColumn, "grid", 1e-5],
  ["kNeighboursRegressor", ml.kNeighboursRegressor({ neighbours: 3 }), "x", () => given("y"), "test", 1e-10],
];
test.each(numbers)("%s", async (name, estimator, x, y, query, tolerance) => {
  const model = await estimator.fit(given(x), y());
  near(model.predict(given(query)), expected(name, "predict"), tolerance);
  if (name === "decisionTreeRegressor") near((model as ml.TreeRegressor).importances, expected(name, "importances"));
});

test("k-means", async () => {
  const [x, init] = [given("blobs"), given("starts")];
  const model = await ml.kMeans({ clusters: 3, init, tolerance: 0 }).fit(x);
  near(model.centres, expected("kMeans", "centres"));
  near(model.predict(x), expected("kMeans", "labels"));
  near(model.inertia, expected("kMeans", "inertia"));
  near(model.transform(x.slice([0, 5])), expected("kMeans", "transform"));
  const own = await ml.kMeans({ clusters: 3, seed: 4 }).fit(x);
  near(own.inertia, expected("kMeans", "inertia"));
  expect(ml.adjustedRandScore(own.predict(x), model.predict(x))).toBe(1);
  const random = await ml.kMeans({ clusters: 3, init: "random", seed: 1 }).fit(x);
  expect(random.inertia).toBeGreaterThanOrEqual(own.inertia * (1 - 1e-12));
});

test("k-means gives a centre without examples to the farthest one", async () => {
  const x = matrix([[0], [1], [2], [30]]);
  const model = await ml.kMeans({ clusters: 3, init: matrix([[0], [1000], [-1000]]), tolerance: 0 }).fit(x);
  expect(new Set(model.predict(x).dataSync()).size).toBe(3);
  expect(model.centres.dataSync().every(Number.isFinite)).toBe(true);
});

test("dbscan", async () => {
  const model = await ml.dbscan({ radius: 0.35, minNeighbours: 4 }).fit(given("blobs"));
  near(model.labels, expected("dbscan", "labels"));
  expect(model.clusters).toBe(6);
});

// Times in seconds and metres of UTM: far from 0 the squares of products cancel.
test.each([
  ["times", 30],
  ["metres", 0.2],
] as const)("distances of %s, far from 0", async (name, radius) => {
  const [x, y] = [given(name), given("y")];
  const wanted = (part: string): Rows => expected(`far ${name}`, part);
  const single = await ml.kNeighboursRegressor({ neighbours: 1 }).fit(x, y);
  near(single.predict(x), wanted("nearest"));
  const weighted = await ml.kNeighboursRegressor({ neighbours: 3, weights: "distance" }).fit(x, y);
  near(weighted.predict(x.add(0.25)), wanted("weighted"));
  // Only the example in the very same place counts.
  near(weighted.predict(x), wanted("nearest"));
  const dense = await ml.dbscan({ radius, minNeighbours: 3 }).fit(x);
  near(dense.labels, wanted("dbscan"));
  const init = x.slice([0, 3]);
  const means = await ml.kMeans({ clusters: 3, init, tolerance: 0 }).fit(x);
  near(means.inertia, wanted("inertia"));
  near(means.predict(x), wanted("labels"));
  near(means.transform(x), wanted("transform"), 1e-6);
  expect(
    means
      .transform(means.centres)
      .arraySync()
      .map((row, at) => row[at]),
  ).toEqual([0, 0, 0]);
});

test("pca", async () => {
  const model = await ml.pca({ components: 3 }).fit(given("x"));
  near(model.components, expected("pca", "components"));
  near(model.explainedVariance, expected("pca", "variance"));
  near(model.explainedVarianceRatio, expected("pca", "ratio"));
  const z = model.transform(given("test"));
  near(z, expected("pca", "transform"));
  near(model.inverseTransform(z), expected("pca", "inverse"));
  // As many directions as features: nothing is left out, so that both solvers agree.
  const random = await ml.pca({ components: 3, solver: "randomized", seed: 3 }).fit(given("x"));
  near(random.components, expected("pca", "components"), 1e-6);
  near(random.explainedVariance, expected("pca", "variance"));
});

test("pca far from the origin keeps its digits", async () => {
  const x = rand(200, 3, { seed: 2, distribution: "normal" });
  const [close, far] = [await ml.pca().fit(x), await ml.pca().fit(x.add(1e6))];
  near(far.explainedVariance, [...close.explainedVariance.dataSync()], 1e-8);
});

test("nmf", async () => {
  const init = { w: given("w0"), h: given("h0") };
  const estimator = ml.nmf({ init, solver: "multiplicative", tolerance: 0, maxIterations: 30 });
  const model = await estimator.fit(given("counts"));
  near(model.components, expected("nmf", "components"));
  near(model.error, expected("nmf", "error"));
  // Counts of entries are the same counts.
  const rows = data["counts"] as number[][];
  const all = rows.flatMap((row, i) => row.map((value, j) => [value, i, j] as const)).filter(([value]) => value > 0);
  const kept = entries(
    all.map(([value]) => value),
    all.map(([, i]) => i),
    all.map(([, , j]) => j),
    [60, 4],
  );
  near((await estimator.fit(kept)).components, expected("nmf", "components"));
  const z = model.transform(given("counts"));
  expect(z.shape).toEqual([60, 2]);
  expect(z.min().itemSync()).toBeGreaterThanOrEqual(0);
});

test("nmf by the defaults", async () => {
  const model = await ml.nmf().fit(given("counts"));
  near(model.components, expected("nmf default", "components"), 1e-6);
  near(model.error, expected("nmf default", "error"));
  expect([model.iterations, model.converged]).toEqual([200, false]);
  const longer = await ml.nmf({ maxIterations: 5000 }).fit(given("counts"));
  expect(longer.converged).toBe(true);
  expect(longer.error).toBeLessThanOrEqual(model.error * (1 + 1e-9));
  // The factors of the examples by the components that are there miss no more than those of the fit.
  const missed = given("counts").sub(longer.transform(given("counts")).matmul(longer.components));
  near(Math.sqrt(missed.mul(missed).sum().itemSync()), longer.error, 1e-4);
  // More components than features begin at random; zeros alone have factors of zeros.
  expect((await ml.nmf({ components: 5, maxIterations: 2000 }).fit(given("counts"))).error).toBeLessThan(0.1);
  const none = await ml.nmf({ components: 1 }).fit([
    [0, 0],
    [0, 0],
  ]);
  expect([none.error, none.converged]).toEqual([0, true]);
});

const iterated: readonly [string, (maxIterations: number) => Promise<ml.Iterated>][] = [
  ["logisticRegression", (most) => ml.logisticRegression({ maxIterations: most }).fit(given("x"), given("two"))],
  ["linearSvc", (most) => ml.linearSvc({ maxIterations: most }).fit(given("x"), given("three"))],
  ["conjugate gradients", (most) => ml.ridge({ solver: "cg", maxIterations: most }).fit(given("x"), given("y"))],
  ["kMeans", (most) => ml.kMeans({ clusters: 3, init: "random", maxIterations: most }).fit(given("x"))],
  ["nmf", (most) => ml.nmf({ maxIterations: most }).fit(given("counts"))],
  ["multiplicative nmf", (most) => ml.nmf({ solver: "multiplicative", maxIterations: most }).fit(given("counts"))],
];
test.each(iterated)("%s says how its steps ended", async (_name, fitted) => {
  const [cut, whole] = [await fitted(1), await fitted(5000)];
  expect([cut.iterations, cut.converged]).toEqual([1, false]);
  expect(whole.converged).toBe(true);
  expect(whole.iterations).toBeGreaterThan(1);
  const back = ml.decodeModel<ml.Model & ml.Iterated>(ml.encodeModel(cut as unknown as ml.Model));
  expect([back.iterations, back.converged]).toEqual([1, false]);
});

test.each([
  ["standardScaler", ml.standardScaler()],
  ["minMaxScaler", ml.minMaxScaler()],
  ["robustScaler", ml.robustScaler()],
] as const)("%s", async (name, estimator) => {
  const model = await (estimator as ml.Estimator<ml.Scaling>).fit(given("x"));
  const z = model.transform(given("test"));
  near(z, expected(name, "transform"));
  near(model.inverseTransform(z), data["test"] as number[][]);
  const flat = await (estimator as ml.Estimator<ml.Scaling>).fit([[0.1], [0.1], [0.1]]);
  near(flat.transform([[0.1], [2.1]]), [0, 2], 1e-12);
});

test("what is missing is filled in", async () => {
  const x = [
    [1, Number.NaN],
    [2, 4],
    [2, 6],
    [9, Number.NaN],
    [Number.NaN, 4],
  ];
  const filled = async (strategy: ml.ImputerOptions["strategy"]): Promise<number[][]> =>
    (await ml.imputer({ strategy }).fit(x)).transform([[Number.NaN, Number.NaN]]).arraySync();
  expect(await filled("mean")).toEqual([[3.5, 14 / 3]]);
  expect(await filled("median")).toEqual([[2, 4]]);
  expect(await filled("mostFrequent")).toEqual([[2, 4]]);
  expect(await filled(-1)).toEqual([[-1, -1]]);
});

test("categories", () => {
  const rows = [
    ["red", 2],
    ["green", 10],
    ["red", 10],
  ];
  const hot = ml.oneHotEncoder().fit(rows);
  expect(hot.categories).toEqual([
    ["green", "red"],
    [2, 10],
  ]);
  const z = hot.transform(rows);
  expect(z.format).toBe("entries");
  expect(z.arraySync()).toEqual([
    [0, 1, 1, 0],
    [1, 0, 0, 1],
    [0, 1, 0, 1],
  ]);
  expect(hot.inverseTransform(z)).toEqual(rows);
  const ordinal = ml.ordinalEncoder({ unknown: "ignore" }).fit(rows);
  expect(ordinal.transform([["red", 3]]).arraySync()).toEqual([[1, -1]]);
  expect(ordinal.inverseTransform(ordinal.transform(rows))).toEqual(rows);
  expect(() => hot.transform([["blue", 2]])).toThrow(/feature 0 has "blue", which no example had/);
});

test("scores", () => {
  const scores = cases["scores"] as Record<string, Rows>;
  const [three, two, guess] = [given("three"), given("two"), matrix(scores["guess"] as number[])];
  const [first, second] = [firstColumn(), given("y").slice([0, 60], [1, 2])];
  near(ml.accuracyScore(three, guess), scores["accuracyScore"] as Rows);
  near(ml.f1Score(three, guess), scores["f1Score"] as Rows);
  near(ml.confusionMatrix(three, guess).counts, scores["confusion"] as Rows);
  near(ml.rocAucScore(two, scores["scores"] as number[]), scores["rocAucScore"] as Rows);
  near(ml.r2Score(first, second), scores["r2Score"] as Rows);
  near(ml.meanSquaredError(first, second), scores["meanSquaredError"] as Rows);
  near(ml.meanAbsoluteError(first, second), scores["meanAbsoluteError"] as Rows);
  near(ml.adjustedRandScore(three, guess), scores["adjustedRandScore"] as Rows);
  near(
    ml.logLoss(
      three,
      Array.from({ length: 60 }, () => [0.2, 0.3, 0.5]),
    ),
    scores["logLoss"] as Rows,
  );
});

test("f1 of two labels is that of the positive one", () => {
  const two = given("two");
  const guess = two.take(Array.from({ length: 60 }, (_unused, row) => (row + 53) % 60));
  for (const average of ["binary", "macro", "weighted", "micro"] as const)
    near(ml.f1Score(two, guess, { average }), expected(`f1Score ${average}`, "score"));
  near(ml.f1Score(two, guess), expected("f1Score binary", "score"));
  const three = matrix((cases["scores"] as Record<string, Rows>)["guess"] as number[]);
  near(ml.f1Score(given("three"), three, { average: "weighted" }), expected("f1Score weighted three", "score"));
  // Of one label alone 1 is positive, as in scikit-learn.
  expect([ml.f1Score([1, 1], [1, 1]), ml.f1Score([0, 0], [0, 0])]).toEqual([1, 0]);
});

test("forests predict what single trees do not", async () => {
  const [x, y] = [rand(300, 5, { seed: 1 }), rand(300, 1, { seed: 9 })];
  const truth = x
    .slice([0, 300], [0, 1])
    .mul(3)
    .add(x.slice([0, 300], [1, 2]).pow(2))
    .add(y.mul(0.4));
  const { trainX, trainY, testX, testY } = ml.trainTestSplit(x, truth, { seed: 3 });
  const score = async (estimator: ml.Estimator<ml.Predictor>): Promise<number> =>
    ml.r2Score(testY, (await estimator.fit(trainX, trainY)).predict(testX));
  const forest = ml.randomForestRegressor({ trees: 40, seed: 5 });
  expect(await score(forest)).toBeGreaterThan(await score(ml.decisionTreeRegressor()));
  expect(await score(forest)).toBe(await score(ml.randomForestRegressor({ trees: 40, seed: 5 })));
  const labels = truth.dataSync().map((value) => (value > 1.9 ? 1 : 0));
  const model = await ml.randomForestClassifier({ trees: 30, maxDepth: 6 }).fit(x, [...labels]);
  expect(ml.accuracyScore([...labels], model.predict(x))).toBeGreaterThan(0.95);
  near(model.probabilities(x).sum(1), new Array<number>(300).fill(1), 1e-12);
  // Features 2 to 4 say nothing.
  const [first, , third] = model.importances.dataSync();
  expect(first as number).toBeGreaterThan(5 * (third as number));
});

test("few bins for many values", async () => {
  const x = rand(2000, 1, { seed: 7 });
  const model = await ml.decisionTreeRegressor({ bins: 16 }).fit(x, x);
  const values = new Set(model.predict(x).dataSync());
  expect(values.size).toBe(16);
  expect(ml.r2Score(x, model.predict(x))).toBeGreaterThan(0.99);
});

test("splits and folds", () => {
  const [x, y] = [given("x"), given("three")];
  const { trainX, testX, trainY, testY } = ml.trainTestSplit(x, y, { test: 0.2, seed: 1, stratify: true });
  expect([trainX.rows + testX.rows, trainY.rows + testY.rows]).toEqual([60, 60]);
  const all = [...trainX.arraySync(), ...testX.arraySync()].map(String).sort();
  expect(all).toEqual((data["x"] as number[][]).map(String).sort());
  const countOf = (labels: Matrix, label: number): number =>
    labels.dataSync().filter((value) => value === label).length;
  for (const label of [1, 3, 5]) expect(Math.abs(countOf(testY, label) - 0.2 * countOf(y, label))).toBeLessThan(1);
  const parts = ml.folds(7, { folds: 3 });
  expect(parts.map(({ test: rows }) => [...rows])).toEqual([
    [0, 1, 2],
    [3, 4],
    [5, 6],
  ]);
  for (const { train, test: rows } of ml.folds(60, { folds: 4, seed: 2, stratify: y })) {
    expect([...train, ...rows].sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_unused, row) => row));
    const tested = y.take(rows);
    for (const label of [1, 3, 5]) expect(Math.abs(countOf(tested, label) - countOf(y, label) / 4)).toBeLessThan(1);
  }
});

test("cross-validation and grid search", async () => {
  const [x, y] = [given("x"), firstColumn()];
  const steps = ml.pipeline({ scale: ml.standardScaler(), model: ml.ridge() });
  const scores = await ml.crossValidate(steps, x, y, { folds: 4, seed: 1 });
  expect(scores.length).toBe(4);
  expect(Math.min(...scores)).toBeGreaterThan(0.9);
  // The parts are those of folds, and scaling is learnt from the fitted examples alone.
  const [part] = ml.folds(60, { folds: 4, seed: 1 }) as [ml.Fold];
  const model = await steps.fit(x.take(part.train), y.take(part.train));
  expect(scores[0]).toBe(ml.r2Score(y.take(part.test), model.predict(x.take(part.test))));
  const found = await ml.gridSearch(ml.ridge(), { alpha: [1e4, 0.1, 1e6] }, x, y, { folds: 4 });
  expect(found.best.options.alpha).toBe(0.1);
  expect(found.tried.map(({ options }) => options.alpha)).toEqual([1e4, 0.1, 1e6]);
  expect(found.score).toBe(Math.max(...found.tried.map(({ mean }) => mean)));
  near(found.model.coefficients, [...(await ml.ridge({ alpha: 0.1 }).fit(x, y)).coefficients.dataSync()]);
  const labelled = await ml.crossValidate(ml.logisticRegression(), x, given("two"), { folds: 3 });
  for (const accuracy of labelled) expect(accuracy).toBeLessThanOrEqual(1);
});

test("categories in a pipeline", async () => {
  const rows = Array.from({ length: 40 }, (_unused, row) => [
    ["red", "green", "blue"][row % 3] as string,
    row % 2 === 0,
  ]);
  const y = rows.map(([colour, flag]) => (colour === "red" || flag === true ? 1 : 0));
  const steps = ml.pipeline({ encode: ml.oneHotEncoder(), model: ml.logisticRegression({ alpha: 1e-3 }) });
  const model = await steps.fit(rows, y);
  expect(ml.accuracyScore(y, model.predict(rows))).toBe(1);
  const back = ml.decodeModel<ml.PipelineModel>(ml.encodeModel(model));
  expect(back.predict([["blue", true]]).arraySync()).toEqual(model.predict([["blue", true]]).arraySync());
  expect(await ml.crossValidate(steps, rows, y, { folds: 3 })).toEqual([1, 1, 1]);
  const encoders = [ml.oneHotEncoder(), ml.ordinalEncoder({ unknown: "ignore" })];
  const found = await ml.gridSearch(steps, { encode: encoders }, rows, y, { folds: 3 });
  expect(found.tried.length).toBe(2);
  // Numbers of a matrix are categories, too; another fold may have one that no example had.
  const few = ml.pipeline({ encode: ml.oneHotEncoder({ unknown: "ignore" }), model: ml.ridge() });
  expect((await ml.crossValidate(few, [1, 2, 1, 2, 1, 3], [1, 2, 1, 2, 1, 3], { folds: 2 })).length).toBe(2);
  expect(ml.oneHotEncoder().with({ unknown: "ignore" }).options.unknown).toBe("ignore");
});

const saved: readonly [string, () => Promise<ml.Model>, (model: never) => Matrix][] = [
  [
    "a pipeline",
    () =>
      ml
        .pipeline({ scale: ml.standardScaler(), few: ml.pca({ components: 2 }), model: ml.logisticRegression() })
        .fit(given("x"), given("three")),
    (model: ml.PipelineModel) => model.probabilities(given("test")),
  ],
  [
    "a forest",
    () => ml.randomForestClassifier({ trees: 3 }).fit(given("x"), given("three")),
    (model: ml.TreeClassifier) => model.probabilities(given("test")),
  ],
  [
    "k-means",
    () => ml.kMeans({ clusters: 3, init: given("starts") }).fit(given("blobs")),
    (model: ml.KMeansModel) => model.transform(given("blobs")).add(model.inertia),
  ],
  [
    "neighbours",
    () => ml.kNeighboursRegressor({ neighbours: 2 }).fit(given("x"), given("y")),
    (model: ml.Predictor) => model.predict(given("test")),
  ],
  [
    "an encoding",
    async () => ml.oneHotEncoder({ unknown: "ignore" }).fit([["a"], ["b"]]) as unknown as ml.Model,
    (model: ml.Encoding) => model.transform([["b"], ["c"]]),
  ],
];
test.each(saved)("%s is one file", async (_name, fitted, use) => {
  const folder = mkdtempSync(join(tmpdir(), "ml-"));
  const model = await fitted();
  await ml.saveModel(join(folder, "model"), model);
  await expect(io.loadModel(join(folder, "model"))).rejects.toThrow(/a model of heddle\/ml[\s\S]*hint: .*"heddle\/ml"/);
  for (const back of [await ml.loadModel(join(folder, "model")), ml.decodeModel(ml.encodeModel(model))]) {
    expect(back.kind).toBe(model.kind);
    // The first runs of a small program are interpreted, so that last bits differ.
    near(use(back as never), use(model as never).arraySync(), 1e-13);
  }
  rmSync(folder, { recursive: true });
});

test("files that are no models", async () => {
  const folder = mkdtempSync(join(tmpdir(), "ml-"));
  const model = await ml.ridge().fit(given("x"), given("y"));
  const bytes = ml.encodeModel(model);
  const path = join(folder, "cut");
  writeFileSync(path, bytes.subarray(0, bytes.length - 3));
  await expect(ml.loadModel(path)).rejects.toThrow(HeddleError);
  await expect(ml.loadModel(join(folder, "none"))).rejects.toThrow(/none/);
  expect(() => ml.decodeModel(bytes.subarray(0, 40))).toThrow(HeddleError);
  const text = new TextDecoder("latin1").decode(bytes);
  const renamed = Uint8Array.from(text.replace('kind\\":\\"ridge', 'kind\\":\\"rigde'), (letter) =>
    letter.charCodeAt(0),
  );
  expect(() => ml.decodeModel(renamed)).toThrow(/rigde|changed/);
  expect(() => ml.encodeModel(ml.ridge() as never)).toThrow(/takes a fitted model/);
  rmSync(folder, { recursive: true });
});

const x4 = [
  [1, 2],
  [2, 1],
  [3, 5],
  [4, 4],
];
const wrong: readonly [string, () => unknown, RegExp][] = [
  ["a misspelt option", () => ml.ridge({ alpah: 1 } as never), /unknown option 'alpah'[\s\S]*did you mean 'alpha'/],
  ["a penalty below 0", () => ml.ridge({ alpha: -1 }), /alpha must be at least 0, got -1/],
  ["a solver that is not there", () => ml.ridge({ solver: "sgd" as never }), /solver must be one of .*, got "sgd"/],
  ["a penalty for qr", () => ml.ridge({ solver: "qr" }), /"qr" takes no penalty/],
  ["more targets than rows", () => ml.ridge().fit(x4, [1, 2, 3]), /x has 4 rows, and y has 3/],
  ["no targets", () => ml.ridge().fit(x4), /takes y/],
  ["no examples", () => ml.ridge().fit(matrix([[1]]).slice([0, 0]), [1]), /x has no examples/],
  ["NaN", () => ml.ridge().fit([[1], [Number.NaN]], [1, 2]), /x has NaN in row 1, column 0/],
  ["infinite targets", () => ml.ridge().fit([[1], [2]], [1, Infinity]), /y has Infinity in row 1/],
  ["not a matrix", () => ml.ridge().fit("x" as never, [1]), /./],
  [
    "a constant feature",
    () =>
      ml.linearRegression().fit(
        [
          [1, 2],
          [1, 3],
          [1, 5],
        ],
        [1, 2, 3],
      ),
    /feature 0 is constant/,
  ],
  [
    "features of each other",
    () =>
      ml.linearRegression().fit(
        [
          [1, 2],
          [2, 4],
          [3, 6],
          [5, 10],
        ],
        [1, 2, 3, 4],
      ),
    /depend on each other/,
  ],
  [
    "qr of few examples",
    () => ml.linearRegression({ solver: "qr" }).fit([[1, 2, 3]], [1]),
    /1 example cannot determine 3 coefficients/,
  ],
  ["one class", () => ml.logisticRegression().fit(x4, [2, 2, 2, 2]), /y has one class alone, 2/],
  ["labels in two columns", () => ml.logisticRegression().fit(x4, x4), /y must be one column, got 4x2/],
  [
    "other features",
    async () => (await ml.ridge().fit(x4, [1, 2, 3, 4])).predict([[1]]),
    /x has 1 feature, and the model was fitted with 2/,
  ],
  ["counts below 0", () => ml.multinomialNaiveBayes().fit([[1], [-1]], [0, 1]), /counts are below 0/],
  ["factors below 0", () => ml.nmf().fit([[1], [-1]]), /elements below 0/],
  ["more clusters than examples", () => ml.kMeans({ clusters: 5 }).fit(x4), /4 examples cannot make 5 clusters/],
  ["centres of another size", () => ml.kMeans({ clusters: 2, init: matrix([[1], [2]]) }).fit(x4), /not 2x2/],
  [
    "more components than features",
    () => ml.pca({ components: 3 }).fit(x4),
    /4x2\) has no 3 components: there are 2 at most/,
  ],
  [
    "examples that are all the same",
    () =>
      ml.pca().fit([
        [1, 2],
        [1, 2],
      ]),
    /all examples are the same/,
  ],
  [
    "more neighbours than examples",
    () => ml.kNeighboursRegressor().fit(x4, [1, 2, 3, 4]),
    /asks for 5 neighbours of 4 examples/,
  ],
  [
    "more features than there are",
    () => ml.randomForestRegressor({ features: 3 }).fit(x4, [1, 2, 3, 4]),
    /features is 3, and there are 2/,
  ],
  ["a range without width", () => ml.minMaxScaler({ range: [1, 1] }).fit(x4), /range must be \[low, high\]/],
  ["more folds than examples", () => ml.folds(3, { folds: 4 }), /folds must be .* at most 3/],
  ["a split that leaves nothing", () => ml.trainTestSplit(x4, [1, 2, 3, 4], { test: 1 }), /leaves a part empty/],
  ["no steps", () => ml.pipeline({}), /takes estimators by name/],
  [
    "a step without a method",
    () => ml.pipeline({ a: ml.ridge(), b: ml.ridge() }).fit(x4, [1, 2, 3, 4]),
    /step "a" \(ridge\) has no transform/,
  ],
  ["a step that is no estimator", () => ml.pipeline({ a: 1 as never }), /pipeline: a: takes an estimator, got 1/],
  [
    "clusters cross-validated",
    () => ml.crossValidate(ml.dbscan(), x4, [1, 2, 3, 4], { folds: 2 }),
    /dbscan does not predict/,
  ],
  [
    "a grid without a list",
    () => ml.gridSearch(ml.ridge(), { alpha: 1 as never }, x4, [1, 2, 3, 4]),
    /list of values for alpha/,
  ],
  [
    "a score of NaN",
    () => ml.gridSearch(ml.ridge(), { alpha: [1, 2] }, x4, [1, 2, 3, 4], { folds: 2, score: () => Number.NaN }),
    /gridSearch: the score of part 0 of alpha 1 is NaN/,
  ],
  ["truth of another length", () => ml.accuracyScore([1, 1], [0]), /truth has 2 rows, and predicted has 1/],
  ["truth of NaN", () => ml.meanSquaredError([Number.NaN], [0]), /truth has NaN in row 0, column 0\n(?!.*imputer)/],
  [
    "infinite predictions",
    () => ml.r2Score([1, 2], [0, Infinity]),
    /predicted has Infinity in row 1(?![\s\S]*imputer)/,
  ],
  ["infinities to fill in", () => ml.imputer().fit([[1], [Infinity], [Number.NaN]]), /x has Infinity in row 1/],
  [
    "infinities to fill in later",
    async () => (await ml.imputer().fit([[1], [Number.NaN]])).transform([[-Infinity]]),
    /x has -Infinity in row 0/,
  ],
  ["no rows", () => ml.ridge().fit([], []), /ridge: x has no examples/],
  [
    "options of what has none",
    () => ml.standardScaler({ foo: 1 } as never),
    /standardScaler: has no options, got { foo }/,
  ],
  ["null as options", () => ml.standardScaler(null as never), /standardScaler: has no options, got null/],
  [
    "texts as features",
    () => ml.ridge().fit([["a"], ["b"]] as never, [1, 2]),
    /ridge: x has the text "a" in row 0[\s\S]*oneHotEncoder/,
  ],
  [
    "texts as labels",
    () => ml.logisticRegression().fit(x4, ["a", "b"] as never),
    /y has the text "a" in row 0[\s\S]*ordinalEncoder/,
  ],
  [
    "an encoder behind an estimator of numbers",
    () => ml.pipeline({ scale: ml.standardScaler(), encode: ml.oneHotEncoder() }).fit([["a"]]),
    /standardScaler: x has the text "a" in row 0/,
  ],
  [
    "no category in a pipeline",
    () => ml.pipeline({ encode: ml.oneHotEncoder() }).fit([[Number.NaN]]),
    /row 0 has NaN as feature 0/,
  ],
  [
    "texts to split",
    () => ml.trainTestSplit(x4, [1, 2, 3, "d"] as never),
    /trainTestSplit: y has the text "d" in row 3/,
  ],
  [
    "binary f1 of three labels",
    () => ml.f1Score([1, 2, 3], [1, 2, 3], { average: "binary" }),
    /two labels at most, got 3/,
  ],
  ["a start of nmf by another name", () => ml.nmf({ init: "nndsvd" as never }), /init must be one of nndsvda, random/],
  [
    "probabilities of one column",
    () => ml.logLoss([0, 1], [[1], [1]]),
    /probabilities has 1 column, and truth has 2 labels/,
  ],
  ["a curve of one label", () => ml.rocAucScore([1, 1], [0, 1]), /takes two labels, got 1/],
  ["ragged categories", () => ml.oneHotEncoder().fit([["a"], ["b", "c"]]), /row 1 has 2 features, not 1/],
  ["a feature of NaN alone", () => ml.imputer().fit([[Number.NaN]]), /feature 0 has no number, only NaN/],
];
test.each(wrong)("%s is an error", async (_name, run, message) => {
  const told = (async () => run())();
  await expect(told).rejects.toThrow(HeddleError);
  await expect(told).rejects.toThrow(message);
});
