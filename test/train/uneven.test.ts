/** Batches that devices share unequally train as on one device: dropout, counts and means included. */

import { losses, mesh, optim, train } from "heddle";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { formatLayout, type Mesh } from "../../src/plan/index.ts";
import { batchLayout } from "../../src/train/feed.ts";
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
  test.each(meshes)("mesh %j", async (axes) => {
    const whole = await trained(undefined, "native");
    const split = await trained(axes, "native");
    expect(split.losses).toHaveLength(6);
    expectClose(split.losses, whole.losses, 1e-9);
    expect(split.accuracy).toBe(whole.accuracy);
  });
});

test("a batch is split as the mesh deals it out, and whole where there are fewer rows than devices", () => {
  const layout = (axes: Mesh, rows: number): string => formatLayout(batchLayout(axes, rows));
  expect(meshes.map((axes) => layout(axes, 11))).toEqual(["S(0:6+5)", "S(0:4+4+3)", "S(0:7+4)"]);
  expect(meshes.map((axes) => layout(axes, 12))).toEqual(["S(0)", "S(0)", "S(0:8+4)"]);
  expect(meshes.map((axes) => layout(axes, 1))).toEqual(["R", "R", "R"]);
});
