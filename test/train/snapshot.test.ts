/** A step, an evaluation, a prediction and a checkpoint on one state at a time: each sees a whole number of steps. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Evaluation, mesh, type Snapshot, type Tensor, type TrainOptions, train } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { partOf } from "../support/sample.ts";
import { bars, convnet, options } from "./synthetic.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-snapshot-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const values = (tree: unknown): Promise<unknown[]> =>
  Promise.all(flattenTree(tree, isTensor).leaves.map((leaf: Tensor) => leaf.data()));
const rows = bars(96);
const seen = bars(33, { seed: 4 });
const executors = ["reference", ...("error" in loadNative() ? [] : ["native"])] as ("reference" | "native")[];

describe.each(executors.map((executor, at) => [executor, at] as const))("%s", (executor, at) => {
  const spread: [string, Partial<TrainOptions>][] = [
    ["1 device", { mesh: mesh({ data: 1 }) }],
    ["2 devices", { mesh: mesh({ data: 2 }) }],
    ["2 stages", { mesh: mesh({ stage: 2 }), pipeline: { stages: { 0: 0, 4: 1, 7: 1 }, microBatches: 2 } }],
  ];
  // Two of the three by one executor, the third by the other.
  test.each(partOf(spread, 2, at))(
    "beside steps on %s: bits of a training that ended there; none of the steps changes",
    async (what, more) => {
      const given = { model: convnet(), executor, epochs: 1, ...more };
      let snapshot: Snapshot | undefined;
      const beside: Promise<unknown>[] = [];
      const watched = await train(
        options({
          ...given,
          data: rows.batch(16),
          checkpoint: { directory: join(folder, `${executor}-${what}`), every: 4 },
          callbacks: {
            onStep: ({ step }, control) => {
              if (step !== 3) return;
              snapshot = control.snapshot();
              beside.push(snapshot.evaluate(seen), snapshot.predict(seen), values(snapshot.optimizerState));
            },
          },
        }),
      );
      const [evaluation, outputs, moments] = (await Promise.all(beside)) as [Evaluation, Tensor, unknown[]];
      const steps = snapshot?.steps as number;
      expect(steps).toBe(4);
      const ended = await train(options({ ...given, data: rows.take(16 * steps).batch(16) }));
      expect(evaluation).toEqual(await ended.evaluate(seen));
      expect(await outputs.data()).toEqual(await (await ended.predict(seen)).data());
      expect(moments).toEqual(await values(ended.optimizerState));
      const alone = await train(options({ ...given, data: rows.batch(16) }));
      expect(await values([watched.params, watched.optimizerState])).toEqual(
        await values([alone.params, alone.optimizerState]),
      );
    },
  );
});

test("a training begins with the values of another: the bits of one that was not cut", async () => {
  const given = { model: convnet(), data: rows.shuffle().batch(20) };
  const [whole, first] = [await train(options({ ...given, epochs: 3 })), await train(options({ ...given, epochs: 1 }))];
  const before = await values(first.params);
  const rest = await train(options({ ...given, epochs: 3, from: first, initialEpoch: 1 }));
  const all = ({ params, optimizerState }: typeof rest) => values([params, optimizerState]);
  expect(await all(rest)).toEqual(await all(whole));
  expect(rest.history.map(({ epoch, loss }) => [epoch, loss])).toEqual(
    whole.history.slice(1).map(({ epoch, loss }) => [epoch, loss]),
  );
  expect([rest.steps, rest.epochs]).toEqual([15, 3]);
  expect(await values(first.params)).toEqual(before);
  // Counted anew, the orders of the data still go on.
  const anew = await train(options({ ...given, epochs: 2, from: first }));
  expect(await all(anew)).toEqual(await all(whole));
  await expect(train(options({ from: { params: first.params["0"] as never } }))).rejects.toThrow(
    /from: params has no '1\.weight'[\s\S]*it has weight, bias/,
  );
});
