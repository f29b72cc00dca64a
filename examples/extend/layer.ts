/**
 * Your own layer: a residual block whose branch is scaled by a trained number that starts at 0 (ReZero). A layer is a
 * record of two pure functions; nothing is registered.
 *
 *     heddle run examples/extend/layer.ts     # a loss of 0.97 falls to 0.001 in 200 steps, 4 s
 */
import { grad, nn, optim, random, type Tensor, zeros } from "heddle";

function reZero(inner: nn.Layer): nn.Layer {
  return {
    kind: "reZero",
    init(key, input) {
      const initialised = inner.init(key, input);
      return { params: { inner: initialised.params, scale: zeros([]) }, state: initialised.state, output: input };
    },
    apply({ params, state }, x, options) {
      const { inner: innerParams, scale } = params as { inner: typeof params; scale: Tensor };
      const branch = inner.apply({ params: innerParams, state }, x, options);
      return { y: x.add(branch.y.mul(scale)), state: branch.state };
    },
  };
}

const model = nn.sequential(reZero(nn.linear(4)), reZero(nn.sequential(nn.linear(4), nn.tanh())), nn.linear(1));
const x = random.normal(random.key(0), [64, 4]);
const target = x.sum(1).tanh().reshape([64, 1]);
let { params, state } = model.init(random.key(1), { shape: x.shape, dtype: x.dtype });

const loss = (candidate: typeof params): Tensor =>
  model.apply({ params: candidate, state }, x).y.sub(target).pow(2).mean();
const gradient = grad(loss);
const optimizer = optim.adam({ learningRate: 0.02 });
let slots = optimizer.init(params);
const first = await loss(params).data();
for (let step = 0; step < 200; step++)
  ({ params, state: slots } = optimizer.update(gradient(params), slots, params, { step }));
const last = await loss(params).data();
console.log(`loss ${Number(first[0]).toFixed(3)}, after 200 steps ${Number(last[0]).toFixed(3)}`);
