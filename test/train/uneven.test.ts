/** Batches that devices share unequally train as on one device: dropout, counts and means included. */

import { layouts, losses, mesh, nn, optim, replicate, type Tensor, type TrainOptions, train } from "heddle";
import { beforeAll, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { isTensor } from "../../src/functions/index.ts";
import { formatLayout, type Mesh } from "../../src/plan/index.ts";
import { batchLayout } from "../../src/train/feed.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";
import { bars, convnet } from "./synthetic.ts";

async function trained(axes: Mesh | undefined, executor: "native" | "reference") {
  const found: number[] = [];
  const result = await train({
    model: convnet(),
    // Two whole batches, and one of five rows.
    data: bars(27).shuffle().batch(11),
    evaluate: bars(13, { seed: 5 }),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.adam({ learningRate: 0.01 }),
    epochs: 2,
    dtype: "f64",
    report: "silent",
    executor,
    ...(axes === undefined ? {} : { mesh: axes }),
    callbacks: { onStep: ({ loss }) => void found.push(loss) },
  });
  return { losses: found, accuracy: result.accuracy as number };
}

const meshes: readonly Mesh[] = [mesh({ data: 2 }), mesh({ data: 3 }), mesh({ data: 2 }, { shares: { data: [2, 1] } })];

describe.skipIf("error" in loadNative())("uneven batches", () => {
  let whole: Awaited<ReturnType<typeof trained>>;
  beforeAll(async () => {
    whole = await trained(undefined, "native");
  });

  test.each(meshes)("mesh %j", async (axes) => {
    const split = await trained(axes, "native");
    expect(split.losses).toHaveLength(6);
    expectClose(split.losses, whole.losses, 1e-9);
    expect(split.accuracy).toBe(whole.accuracy);
  });
});

describe.skipIf("error" in loadNative())("parameters in unequal parts", () => {
  const run = async (more: Partial<TrainOptions>) => {
    const found: number[] = [];
    const result = await train({
      model: nn.sequential(
        nn.flatten(),
        nn.linear(7),
        nn.relu(),
        nn.dropout(0.25),
        nn.linear(5),
        nn.relu(),
        nn.linear(3),
      ),
      data: bars(27).shuffle().batch(11),
      evaluate: bars(13, { seed: 5 }),
      loss: losses.softmaxCrossEntropy,
      optimizer: optim.adam({ learningRate: 0.01 }),
      epochs: 2,
      dtype: "f64",
      report: "silent",
      executor: "native",
      callbacks: { onStep: ({ loss }) => void found.push(loss) },
      ...more,
    });
    const { leaves, paths } = flattenTree(result.params, isTensor);
    const values = await Promise.all(
      leaves.map(async (leaf: Tensor) => [...(await replicate(leaf).data())].map(Number)),
    );
    const layouts = Object.fromEntries(
      paths.map((path, index) => [path, formatLayout((leaves[index] as Tensor).value.layout)]),
    );
    return { numbers: [...found, result.history.at(-1)?.validation?.loss as number, ...values.flat()], layouts };
  };
  let alone: Awaited<ReturnType<typeof run>>;
  beforeAll(async () => {
    alone = await run({});
  });
  const pair = layouts.named({ "1.*": { model: 0 }, "4.weight": { model: 1 } });
  test.each<[Mesh, NonNullable<TrainOptions["layout"]>, { [name: string]: string }]>([
    [mesh({ model: 2 }), pair, { "1.weight": "S(0:4+3)", "1.bias": "S(0:4+3)", "4.weight": "S(1:4+3)" }],
    [mesh({ model: 3 }, { shares: { model: [1, 2, 4] } }), pair, { "1.weight": "S(0:1+2+4)" }],
    [mesh({ data: 2, model: 2 }), pair, { "4.weight": "R S(1:4+3)" }],
    // Fewer outputs than devices: one device has none.
    [
      mesh({ model: 4 }),
      layouts.named({ "6.weight": { model: 0 }, "6.bias": { model: 0 } }),
      { "6.weight": "S(0:1+1+1+0)" },
    ],
    [mesh({ data: 2, model: 2 }), [pair, layouts.fullySharded()], { "1.weight": "R S(0:4+3)", "4.bias": "R R" }],
  ])("layouts.named on %j trains as one device does", async (axes, layout, expected) => {
    const apart = await run({ mesh: axes, layout });
    expectClose(apart.numbers, alone.numbers, 1e-9);
    expect(apart.layouts).toMatchObject(expected);
  });
});

test("a batch is split as the mesh deals it out, and whole where there are fewer rows than devices", () => {
  const layout = (axes: Mesh, rows: number): string => formatLayout(batchLayout(axes, rows));
  expect(meshes.map((axes) => layout(axes, 11))).toEqual(["S(0:6+5)", "S(0:4+4+3)", "S(0:7+4)"]);
  expect(meshes.map((axes) => layout(axes, 12))).toEqual(["S(0)", "S(0)", "S(0:8+4)"]);
  expect(meshes.map((axes) => layout(axes, 1))).toEqual(["R", "R", "R"]);
});
