/**
 * Training by hand with collectives, as with torch.distributed: each worker has rows of its own, and averages its gradients with those of the
 * others. Worker 0 chooses the first weights.
 *
 *     npx heddle run examples/collectives.ts --workers 2     # weights 1, -2, 3 to 0.01, 2 s
 */
import { comm, random, type Tensor, tensor, valueAndGrad } from "heddle";

const runtime = await comm.connect();
const [rank, size] = [comm.rank(), comm.size()];

// Every worker draws its own rows, and they differ in number.
const counts = Array.from({ length: size }, (_unused, worker) => 200 + 50 * worker);
const x = random.normal(random.key(rank), [counts[rank] as number, 3]);
const y = x.matmul(tensor([[1], [-2], [3]]));
const total = await comm.allReduce(tensor(counts[rank] as number)).item();

let weights = comm.broadcast(random.normal(random.key(size + rank), [3, 1]));
const loss = (w: Tensor, rows: Tensor, targets: Tensor): Tensor =>
  rows.matmul(w).sub(targets).square().sum().div(total);
const step = comm.perDevice((w: Tensor, rows: Tensor, targets: Tensor) => {
  const { value, grad } = valueAndGrad(loss)(w, rows, targets);
  // Sums of sums over all rows: workers with more rows weigh more.
  return { weights: w.sub(comm.allReduce(grad).mul(0.1)), loss: comm.allReduce(value) };
});

for (let index = 0; index < 60; index++) {
  const result = step(weights, x, y);
  weights = result.weights;
  const mean = await result.loss.item();
  if (rank === 0 && index % 20 === 0) console.log(`step ${index}: loss ${mean.toFixed(4)}`);
}

// The first predictions of every worker, on worker 0.
const first = comm.gather(x.matmul(weights).slice([0, 0], [2, 1]));
if (rank === 0) {
  const rounded = [...(await weights.data())].map((value) => value.toFixed(2));
  console.log(`${total} rows, weights ${rounded.join(", ")}, ${first.shape[0]} predictions`);
}
runtime.close();
