/**
 * A recommender by matrix factorisation: a rating is the sum of the person's bias, the film's bias, and the product of their
 * two vectors, all learned.
 *
 *     npx heddle run examples/recommender.ts                # 200,000 ratings of 1,000 films by 2,000 people: an error of 0.53 stars, 10 s
 *     npx heddle run examples/recommender.ts -- --small     # 20,000 ratings of 100 films by 200 people
 *
 * The ratings are generated (no package ships real ones): from six hidden tastes, with noise, rounded to stars from 1 to 5.
 */
import { data, losses, metrics, nn, optim, random, type Tensor, tensor, train } from "heddle";

const small = process.argv.includes("--small");
const [people, films, size] = small ? [200, 100, 6] : [2000, 1000, 6];
const count = 100 * people;

// The tastes of people and films, how strict people and how good films are, and who has seen which film.
const draw = async (stream: number, ...shape: number[]) => random.normal(random.key(stream), shape).data();
const [likes, has] = [await draw(1, people, size), await draw(2, films, size)];
const [strict, quality, noise] = [await draw(3, people), await draw(4, films), await draw(5, count)];
const draws = await random.uniform(random.key(6), [count]).data();

/** How much a person likes a film, without noise and rounding. */
function liking(person: number, film: number): number {
  let sum = 3.2 - 0.4 * strict[person]! + 0.5 * quality[film]!;
  for (let taste = 0; taste < size; taste++) sum += 0.3 * likes[person * size + taste]! * has[film * size + taste]!;
  return sum;
}
const stars = (value: number): number => Math.min(5, Math.max(1, Math.round(value)));

// Person and film of each rating; films are numbered after people, so that one table has the vectors of both.
const pairs = Int32Array.from({ length: 2 * count }, (_unused, index) => {
  const rating = index >> 1;
  return index % 2 === 0 ? rating % people : people + Math.floor(draws[rating]! * films);
});
const ratings = Float32Array.from(noise, (by, rating) =>
  stars(liking(pairs[2 * rating]!, pairs[2 * rating + 1]! - people) + 0.4 * by),
);
const rows = data.fromArrays({ x: { shape: [count, 2], data: pairs }, y: { shape: [count], data: ratings } });
const shuffled = rows.shuffle({ reshuffle: false });
const [training, test] = [shuffled.take(0.9 * count), shuffled.skip(0.9 * count)];
const mean = ratings.reduce((sum, value) => sum + value, 0) / count;

/** `[batch, 2, 1 + size]` vectors to ratings: the first numbers are added, the others multiplied. */
function rating(vectors: Tensor): Tensor {
  const batch = vectors.shape[0]!;
  const linear = vectors.slice([0, 0, 0], [batch, 2, 1]).sum([1, 2]);
  const person = vectors.slice([0, 0, 1], [batch, 1, 1 + size]);
  const film = vectors.slice([0, 1, 1], [batch, 2, 1 + size]);
  return linear.add(person.mul(film).sum([1, 2])).add(mean);
}

const result = await train({
  model: nn.sequential(nn.embedding(people + films, 1 + size), (vectors) => rating(vectors.mul(0.1))),
  data: training.shuffle().batch(small ? 100 : 500),
  evaluate: test,
  loss: losses.mse,
  metrics: { error: metrics.rootMeanSquaredError },
  optimizer: optim.adamW({ learningRate: 0.03, weightDecay: 0.01 }),
  epochs: small ? 10 : 20,
});
const { error } = (await result.evaluate(test)).metrics;

// The least possible error, and the error of always answering the mean.
const square = (map: (rating: number) => number): number =>
  ratings.reduce((sum, value, i) => sum + (value - map(i)) ** 2, 0);
const best = Math.sqrt(square((i) => liking(pairs[2 * i]!, pairs[2 * i + 1]! - people)) / count);
const worst = Math.sqrt(square(() => mean) / count);

// Recommendations for person 0: unseen films, the best first.
const watched = new Set(
  Array.from(pairs.keys())
    .filter((i) => pairs[i] === 0)
    .map((i) => pairs[i + 1]),
);
const unseen = Array.from({ length: films }, (_unused, film) => people + film).filter((film) => !watched.has(film));
const expected = await result.predict(
  tensor(
    unseen.map((film) => [0, film]),
    { dtype: "i32" },
  ),
);
const scores = await expected.data();
const top = unseen
  .map((film, index) => ({ film: film - people, score: scores[index]! }))
  .sort((a, b) => b.score - a.score);

result.print(`
error ${error!.toFixed(3)} stars; saying the mean it would be ${worst.toFixed(3)}, knowing all tastes ${best.toFixed(3)}
for person 0: ${top
  .slice(0, 5)
  .map(({ film, score }) => `film ${film} (${score.toFixed(1)}; in truth ${liking(0, film).toFixed(1)})`)
  .join(", ")}`);
