/**
 * A parameter server with two workers that may be one clock apart, and its log replayed to the same bits.
 *
 *     npx heddle run examples/parameter-server.ts     # 120 updates: y = 3.00 x - 1.99, and the same bits again; 3 s
 *
 * Server and workers are devices of this one process (with --workers n each process would run the whole of it).
 */
import { optim, type Tensor, type Tensors, tensor, valueAndGrad } from "heddle";
import { replayOnServer, trainOnServer } from "heddle/parameter-server";
import { localRuntime } from "heddle/runtime";

/** Points on the line 3x - 2, others for each worker and clock. */
function batch(worker: number, clock: number): { x: Tensor; y: Tensor } {
  const x = Float32Array.from({ length: 16 }, (_unused, index) => Math.sin(index + 3 * worker + 7 * clock));
  return {
    x: tensor(x, { shape: [16, 1] }),
    y: tensor(
      x.map((value) => 3 * value - 2),
      { shape: [16, 1] },
    ),
  };
}

const squaredError = (params: Tensors, { x, y }: { x: Tensor; y: Tensor }): Tensor => {
  const { weight, bias } = params as { weight: Tensor; bias: Tensor };
  const error = x.matmul(weight).add(bias).sub(y);
  return error.mul(error).mean();
};

// Three devices of this machine; `heddle run --on` and remoteRuntime put them into other processes.
const device = () => localRuntime({ threads: 1 });
const options = {
  params: { weight: tensor([[0]]), bias: tensor([0]) },
  optimizer: optim.adam({ learningRate: 0.1 }),
  gradient: (params: Tensors, points: { x: Tensor; y: Tensor }) => {
    const { value, grad } = valueAndGrad(squaredError)(params, points);
    return { loss: value, grads: grad };
  },
  batch,
  server: device(),
  workers: [device(), device()],
  clocks: 60,
  staleness: 1,
};

const { params, log, losses } = await trainOnServer(options);
const { weight, bias } = params as { weight: Tensor; bias: Tensor };
console.log(
  `after ${losses.length} updates: y = ${(await weight.item()).toFixed(2)} x ${(await bias.item()).toFixed(2)}`,
);
console.log(
  `first events: ${log
    .slice(0, 6)
    .map(({ kind, worker, clock }) => `${kind} ${worker}:${clock}`)
    .join(", ")}`,
);

const replayed = await replayOnServer(options, log);
const same = (await (replayed.params as { weight: Tensor }).weight.item()) === (await weight.item());
console.log(`the log, replayed, gives ${same ? "the same bits" : "other bits"}`);
