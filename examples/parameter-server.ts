/**
 * A training whose parameters are on parameter servers, and its log replayed to the same bits.
 *
 *     npx heddle run examples/parameter-server.ts                                       # the same bits; 3 s
 *     npx heddle run examples/parameter-server.ts --workers 3 --servers 2 --policy async
 *
 * Alone, the server is in the one process. With more workers, --policy says who waits for whom: bsp, ssp:3, async, …
 */
import { data, isTensor, losses, nn, optim, type Tensor, train } from "heddle";

/** Points in the plane, and whether they are in a ring. */
const rows = 600;
const x = Float32Array.from({ length: 2 * rows }, (_unused, index) => 1.5 * Math.sin(index * index + index));
const y = Int32Array.from({ length: rows }, (_unused, row) => {
  const radius = Math.hypot(x[2 * row] as number, x[2 * row + 1] as number);
  return radius > 0.7 && radius < 1.4 ? 1 : 0;
});
const points = data.fromArrays({ x: { shape: [rows, 2], data: x }, y: { shape: [rows], data: y } });

const options = {
  model: nn.sequential(nn.linear(32), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(2)),
  data: points.shuffle().batch(30),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.02 }),
  epochs: 15,
};
const result = await train({ ...options, server: {} });
const { metrics } = await result.evaluate(points.batch(rows));
result.print(`${(100 * (metrics["accuracy"] as number)).toFixed(1)} % of the points are right`);

// The log in the folder of the run has which gradients were computed from which parameters, and the order of the updates.
const folder = process.env["HEDDLE_RUN_DIR"];
if (result.rank === 0 && folder !== undefined) {
  const again = await train({ ...options, server: { replay: `${folder}/updates.jsonl` } });
  const bits = async (params: unknown): Promise<string> => {
    const leaves = Object.values(params as object).flatMap((layer: object) => Object.values(layer)) as Tensor[];
    return JSON.stringify(await Promise.all(leaves.filter(isTensor).map(async (leaf) => [...(await leaf.data())])));
  };
  const same = (await bits(again.params)) === (await bits(result.params));
  result.print(`the log, replayed, gives ${same ? "the same bits" : "other bits"}`);
}
