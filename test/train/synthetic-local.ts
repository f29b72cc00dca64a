/** @module What the tests of local steps share: optimizers, and the same training in one process, written out. */
import { grad, losses, type nn, optim, type Tensor, tensor, train } from "heddle";
import { bars, linear } from "./synthetic.ts";

export { bars, linear };

/** The optimizer of the workers, whose state stays with each. */
export const inner = (): optim.Optimizer => optim.sgd({ learningRate: 0.1, momentum: 0.8 });

export const outers = {
  mean: () => optim.sgd({ learningRate: 1 }),
  diloco: () => optim.sgd({ learningRate: 0.7, momentum: 0.9, nesterov: true }),
} as const;

type Params = ReturnType<nn.Layer["init"]>["params"];

/** A training with local steps by its definition: every worker's copy in turn, and a meeting. Gives the parameters after the last meeting. */
export async function writtenOut(
  workers: number,
  steps: number,
  outer: optim.Optimizer,
  epochs: number,
): Promise<number[]> {
  const model = linear();
  const dataset = bars(44).shuffle().batch(12);
  const column = dataset.columns.get("x")!;
  const [images, labels] = [await column.load(), await dataset.columns.get("y")!.load()];
  const size = column.shape.slice(1).reduce((product, next) => product * next, 1);
  const initial = await train({
    ...{ model, data: dataset, loss: losses.softmaxCrossEntropy, optimizer: inner() },
    ...{ epochs: 0, dtype: "f64", report: "silent" },
  });
  let met = initial.params;
  let outerState = outer.init(met);
  const copies = Array.from({ length: workers }, () => ({ params: met, state: inner().init(met) }));
  let [step, rounds] = [0, 0];
  for (let epoch = 0; epoch < epochs; epoch++)
    for (let batch = 0; batch < dataset.batchesPerEpoch; batch++) {
      for (const [rank, copy] of copies.entries()) {
        const rows = dataset.batchRows(epoch, batch, { rank, ranks: workers }).local;
        const pixels = Float64Array.from(
          [...rows].flatMap((row) =>
            [...images.subarray(row * size, (row + 1) * size)].map((value) => Number(value) * (1 / 255)),
          ),
        );
        const x = tensor(pixels, { shape: [rows.length, ...column.shape.slice(1)], dtype: "f64" });
        const y = tensor(
          Int32Array.from(rows, (row) => Number(labels[row])),
          { dtype: "i32" },
        );
        const loss = (params: Params): Tensor =>
          losses.softmaxCrossEntropy(model.apply({ params, state: initial.state }, x).y as Tensor, y);
        Object.assign(copy, inner().update(grad(loss)(copy.params), copy.state, copy.params, { step }));
      }
      step++;
      if (step % steps !== 0 && batch + 1 < dataset.batchesPerEpoch) continue;
      const changed = mapped(met, (before, path) => before.sub(meanOf(copies.map(({ params }) => at(params, path)))));
      ({ params: met, state: outerState } = outer.update(changed, outerState, met, { step: rounds++ }));
      for (const copy of copies) copy.params = met;
    }
  const leaves: number[] = [];
  for (const layer of Object.values(met))
    for (const leaf of Object.values(layer as object)) leaves.push(...(await (leaf as Tensor).data()).map(Number));
  return leaves;
}

const meanOf = (all: readonly Tensor[]): Tensor => all.reduce((sum, next) => sum.add(next)).div(all.length);

const at = (params: Params, [layer, name]: readonly [string, string]): Tensor =>
  (params as unknown as Record<string, Record<string, Tensor>>)[layer]![name]!;

function mapped(params: Params, change: (leaf: Tensor, path: readonly [string, string]) => Tensor): Params {
  const layers = Object.entries(params as object).map(([layer, leaves]) => [
    layer,
    Object.fromEntries(
      Object.entries(leaves as object).map(([name, leaf]) => [name, change(leaf as Tensor, [layer, name])]),
    ),
  ]);
  return Object.fromEntries(layers) as Params;
}
