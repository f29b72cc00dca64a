/**
 * Reinforcement learning: a policy learns to balance a pole on a cart by policy gradients (REINFORCE; Williams, 1992). An
 * episode ends when the pole leans by 12°, the cart leaves the track, or after 500 steps.
 *
 *     npx heddle run examples/cart-pole.ts                # 100 updates: from 30 steps an episode to 480 of 500, 5 s
 *     npx heddle run examples/cart-pole.ts -- --small     # 15 updates
 */
import { grad, jit, logSoftmax, nn, oneHot, optim, random, type Tensor, tensor } from "heddle";

const small = process.argv.includes("--small");
const [updates, episodes, longest] = [small ? 15 : 100, 16, 500];

/** Numbers in [0, 1), the same in every run (mulberry32). */
let seed = 1;
function uniform(): number {
  seed = (seed + 0x6d2b79f5) | 0;
  let bits = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
  return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
}

/** Position and speed of the cart, angle and speed of the pole. */
type State = readonly [x: number, v: number, angle: number, turn: number];

/** 1/50 s of the cart and pole of Barto, Sutton and Anderson (1983), pushed to the left (0) or right (1) with 10 N. */
function push([x, v, angle, turn]: State, action: number): State {
  const [gravity, cart, pole, half, time] = [9.8, 1, 0.1, 0.5, 0.02];
  const [sin, cos, mass] = [Math.sin(angle), Math.cos(angle), cart + pole];
  const pushed = ((action === 1 ? 10 : -10) + pole * half * turn * turn * sin) / mass;
  const spin = (gravity * sin - cos * pushed) / (half * (4 / 3 - (pole * cos * cos) / mass));
  const pull = pushed - (pole * half * spin * cos) / mass;
  return [x + time * v, v + time * pull, angle + time * turn, turn + time * spin];
}
const fallen = ([x, , angle]: State): boolean => Math.abs(x) > 2.4 || Math.abs(angle) > (12 * Math.PI) / 180;
const start = (): State =>
  [uniform() - 0.5, uniform() - 0.5, uniform() - 0.5, uniform() - 0.5].map((u) => u / 10) as never;

const model = nn.sequential(nn.linear(32), nn.tanh(), nn.linear(2));
const variables = model.init(random.key(0), { shape: [episodes, 4], dtype: "f32" });
const logits = (params: typeof variables.params, x: Tensor): Tensor => model.apply({ params, state: {} }, x).y;
const pushRight = jit((params: typeof variables.params, x: Tensor) =>
  logits(params, x).softmax().slice([0, 1], [episodes, 2]),
);

/** Minus the mean of log p(action) · advantage; steps that were not taken have an advantage of 0. */
function loss(params: typeof variables.params, x: Tensor, actions: Tensor, advantages: Tensor): Tensor {
  const chosen = logSoftmax(logits(params, x)).mul(oneHot(actions, 2)).sum(1);
  return chosen.mul(advantages).sum().neg().div(advantages.ne(0).cast("f32").sum());
}

const optimizer = optim.adam({ learningRate: 0.01 });
let params = variables.params;
let state = optimizer.init(params);
const learn = jit((p: typeof params, s: typeof state, count: Tensor, x: Tensor, actions: Tensor, advantages: Tensor) =>
  optimizer.update(grad(loss)(p, x, actions, advantages), s, p, { step: count }),
);

for (let update = 0; update < updates; update++) {
  // Episodes side by side; element t · episodes + e of the arrays is step t of episode e.
  const states = new Float32Array(longest * episodes * 4);
  const actions = new Int32Array(longest * episodes);
  const lengths = new Array<number>(episodes).fill(0);
  const carts = Array.from({ length: episodes }, start);
  for (let t = 0; t < longest && lengths.includes(t); t++) {
    states.set(carts.flat(), t * episodes * 4);
    const right = await pushRight(params, tensor(carts)).data();
    for (let e = 0; e < episodes; e++) {
      if (lengths[e] !== t || fallen(carts[e]!)) continue;
      const action = uniform() < right[e]! ? 1 : 0;
      actions[t * episodes + e] = action;
      carts[e] = push(carts[e]!, action);
      lengths[e] = t + 1;
    }
  }

  // The return of a step is 1 plus the discounted return of the next; the advantage is its distance from the mean over all steps.
  const returns = new Float32Array(longest * episodes);
  for (let place = returns.length - 1; place >= 0; place--) {
    const isTaken = Math.floor(place / episodes) < lengths[place % episodes]!;
    if (isTaken) returns[place] = 1 + 0.99 * (returns[place + episodes] ?? 0);
  }
  const worth = returns.filter((value) => value > 0);
  const mean = worth.reduce((sum, value) => sum + value, 0) / worth.length;
  const deviation = Math.sqrt(worth.reduce((sum, value) => sum + (value - mean) ** 2, 0) / worth.length) + 1e-6;
  const advantages = returns.map((value) => (value > 0 ? (value - mean) / deviation : 0));

  ({ params, state } = learn(
    params,
    state,
    tensor(update, { dtype: "i32" }),
    tensor(states, { shape: [longest * episodes, 4] }),
    tensor(actions),
    tensor(advantages),
  ));
  if (update === 0 || (update + 1) % 5 === 0)
    console.log(`update ${update + 1}: episodes last ${(lengths.reduce((a, b) => a + b) / episodes).toFixed(1)} steps`);
}
