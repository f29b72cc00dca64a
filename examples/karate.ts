/**
 * A graph neural network on a real graph: the 34 members of a karate club and who of them met outside it. The club split over
 * a quarrel; from the sides of its two leaders alone, the network says on whose side each other member ended up.
 *
 *     npx heddle run examples/karate.ts     # 33 of 34 (member 8, of the president's friends, stayed with the instructor); 2 s
 *
 * Data: W. W. Zachary, "An information flow model for conflict and fission in small groups", Journal of Anthropological Research
 * 33 (1977). Network: T. N. Kipf and M. Welling, "Semi-supervised classification with graph convolutional networks" (2017).
 */
import { jit, losses, optim, random, type Tensor, take, tensor, valueAndGrad } from "heddle";

/** Who met whom: the higher numbered friends of each member, counted from 0. */
// biome-ignore format: one member after another
const friends: readonly (readonly number[])[] = [
  [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31], [2, 3, 7, 13, 17, 19, 21, 30], [3, 7, 8, 9, 13, 27, 28, 32],
  [7, 12, 13], [6, 10], [6, 10, 16], [16], [], [30, 32, 33], [33], [], [], [], [33], [32, 33], [32, 33], [], [], [32, 33],
  [33], [32, 33], [], [32, 33], [25, 27, 29, 32, 33], [25, 27, 31], [31], [29, 33], [33], [31, 33], [32, 33], [32, 33],
  [32, 33], [33], [],
];
/** Where they ended up: with the instructor (0) or with the president (1). */
const sides = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
const [members, width] = [friends.length, 16];
const leaders = tensor([0, 33], { dtype: "i32" });
const sidesOfLeaders = tensor([0, 1], { dtype: "i32" });

// Each member is also its own neighbour; an edge counts 1 / √(degree · degree).
const adjacent = Array.from({ length: members }, (_unused, i) =>
  Array.from({ length: members }, (_none, j) => i === j || friends[i]!.includes(j) || friends[j]!.includes(i)),
);
const degrees = adjacent.map((row) => row.filter(Boolean).length);
const edges = tensor(
  adjacent.map((row, i) => row.map((met, j) => (met ? 1 / Math.sqrt(degrees[i]! * degrees[j]!) : 0))),
);

const init = (key: Tensor) => ({
  first: random.normal(random.foldIn(key, 0), [members, width]).mul(1 / Math.sqrt(width)),
  second: random.normal(random.foldIn(key, 1), [width, 2]).mul(1 / Math.sqrt(width)),
});
type Params = ReturnType<typeof init>;

/** Two graph convolutions: every member takes the mean of its neighbours' features. The only feature of a member is its number. */
const predict = ({ first, second }: Params): Tensor => edges.matmul(edges.matmul(first).relu().matmul(second));

/** Cross-entropy of the two leaders; the sides of the others are unknown. */
const loss = (params: Params): Tensor => losses.softmaxCrossEntropy(take(predict(params), leaders), sidesOfLeaders);

const optimizer = optim.adamW({ learningRate: 0.01, weightDecay: 0.05 });
const step = jit((params: Params, state: ReturnType<typeof optimizer.init>, count: Tensor) => {
  const { value, grad } = valueAndGrad(loss)(params);
  return { ...optimizer.update(grad, state, params, { step: count }), value };
});

let params = init(random.key(0));
let state = optimizer.init(params);
for (let count = 0; count < 200; count++) {
  const updated = step(params, state, tensor(count, { dtype: "i32" }));
  ({ params, state } = updated);
  if (count % 50 === 0) console.log(`step ${count}: loss ${(await updated.value.item()).toFixed(4)}`);
}

const answers = await predict(params).argMax().data();
const wrong = sides.flatMap((side, member) => (answers[member] === side ? [] : [member]));
console.log(
  `${members - wrong.length} of ${members} members are on the side that the network says; not ${wrong.join(", ") || "one"}`,
);
