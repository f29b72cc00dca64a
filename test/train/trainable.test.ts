/** Parameters that a training leaves as they are, and groups of parameters that are trained in different ways. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { layouts, mesh, nn, optim, replicate, type Tensor, type TrainOptions, type TrainResult, train } from "heddle";
import { printProgram } from "heddle/program";
import { describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { modelTypes } from "../../src/train/functions.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { expectClose } from "../support/close.ts";
import { bars, options } from "./synthetic.ts";

const executor = missing === undefined ? ("native" as const) : ("reference" as const);
const body = () => nn.sequential(nn.flatten(), nn.linear(8), nn.batchNorm(), nn.tanh());
const model = () => nn.module({ body: body(), head: nn.linear(3) }, (l, x) => l.head(l.body(x)));
const task = (more: Partial<TrainOptions>): TrainOptions =>
  options({ model: model(), dtype: "f64", executor, data: bars(48).shuffle().batch(16), epochs: 3, ...more });

const valuesOf = async (tree: unknown): Promise<Map<string, number[]>> => {
  const { leaves, paths } = flattenTree<Tensor>(tree, isTensor);
  return new Map(
    await Promise.all(
      leaves.map(
        async (x, index): Promise<[string, number[]]> => [paths[index] as string, [...(await replicate(x).data())]],
      ),
    ),
  );
};
const numbers = async (result: Pick<TrainResult, "params">): Promise<number[]> =>
  [...(await valuesOf(result.params)).values()].flat();
const zeroRate = optim.sgd({ learningRate: 0 });
const adam = (learningRate = 0.05) => optim.adam({ learningRate });

const frozenBody = nn.module({ body: nn.frozen(body()), head: nn.linear(3) }, (l, x) => l.head(l.body(x)));
/** Of a training of some parameters, in groups: on several devices, in parts of batches and on stages the same. */
const ways: readonly (readonly [string, Partial<TrainOptions>])[] = [
  ["two devices", { mesh: mesh({ data: 2 }) }],
  ["in parts", { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() }],
  ["tensor parallel", { mesh: mesh({ model: 2 }), layout: layouts.named({ "body.1": { model: 0 } }) }],
  ["parts of batches", { model: frozenBody, accumulate: 2 }],
  ["stages", { model: frozenBody, pipeline: { stages: { "body.1": 0, "body.2": 0, head: 1 }, microBatches: 2 } }],
];

describe("trainable", () => {
  const chosen: Partial<TrainOptions> = { trainable: "head", optimizer: adam(), clip: { norm: 0.5 }, ema: 0.9 };

  test("is as a learning rate of zero for the others, without state for them", async () => {
    const some = await train(task({ trainable: "head", optimizer: adam() }));
    const groups = await train(task({ optimizer: optim.groups({ head: adam(), "**": zeroRate }) }));
    expectClose(await numbers(some), await numbers(groups), 1e-12);
    expect(flattenTree(some.optimizerState, isTensor).paths.filter((path) => path.includes("body"))).toEqual([]);
    // Statistics of batch norms go on, as in PyTorch.
    expectClose(
      (await valuesOf(some.state)).get("body.2.running_mean") ?? [],
      (await valuesOf(groups.state)).get("body.2.running_mean") ?? [],
      1e-12,
    );
    const first = await train(task({ epochs: 0 }));
    expect((await valuesOf(some.params)).get("body.1.weight")).toEqual(
      (await valuesOf(first.params)).get("body.1.weight"),
    );
  });

  const known = new Map<nn.Layer | undefined, Promise<number[]>>();
  test.each(ways)("%s: the same", async (_name, where) => {
    const own = where.model ?? model();
    const optimizer = optim.groups({
      "head.bias": zeroRate,
      head: adam(),
      ...(where.model === undefined ? { "**": optim.sgd({ learningRate: 0.1 }) } : {}),
    });
    const some = { trainable: ["**", "!body.1.weight"], epochs: 2, clip: { norm: 0.5 }, ema: 0.9 };
    const run = async (more: Partial<TrainOptions>) =>
      numbers(await train(task({ ...some, model: own, optimizer, ...more })));
    const alone = known.get(where.model) ?? run({});
    known.set(where.model, alone);
    expectClose(await run(where), await alone, 1e-9);
  });

  test("no gradient is computed of what is not trained", () => {
    const nodes = (more: Partial<TrainOptions>): number => {
      const settings = resolveOptions(task(more));
      return printProgram(planStep(settings, modelTypes(settings), mesh({ data: 1 })).program).split("\n").length;
    };
    expect(nodes({ trainable: "head" })).toBeLessThan(nodes({}));
  });

  test("is resumed, and a run that trains others is told", async () => {
    const directory = mkdtempSync(join(tmpdir(), "trainable-"));
    const checkpoint = { directory };
    const whole = await train(task(chosen));
    await train(task({ ...chosen, epochs: 1, checkpoint }));
    expect(await numbers(await train(task({ ...chosen, checkpoint, resume: true })))).toEqual(await numbers(whole));
    await expect(train(task({ ...chosen, trainable: "**", checkpoint, resume: true }))).rejects.toThrow(
      /it has no optimizer\//,
    );
    rmSync(directory, { recursive: true });
  });
});

describe("frozen layers", () => {
  const frozen = () => nn.module({ body: nn.frozen(body()), head: nn.linear(3) }, (l, x) => l.head(l.body(x)));

  test("keep parameters and statistics, and hold no state", async () => {
    const before = await train(task({ model: frozen(), epochs: 0 }));
    const after = await train(task({ model: frozen(), optimizer: adam() }));
    const [first, last] = [await valuesOf(before.params), await valuesOf(after.params)];
    for (const [name, values] of last)
      if (name.startsWith("body")) expect(values).toEqual(first.get(name));
      else expect(values).not.toEqual(first.get(name));
    expect(await valuesOf(after.state)).toEqual(await valuesOf(before.state));
    for (const path of flattenTree(after.optimizerState, isTensor).paths)
      expect(path).toMatch(/\.head\.(weight|bias)$/);
  });

  test("let gradients through to what is before them", async () => {
    const layers = nn.sequential(
      nn.flatten(),
      nn.linear(4),
      nn.frozen(nn.sequential(nn.linear(4), nn.tanh())),
      nn.linear(3),
    );
    const [before, after] = [await train(task({ model: layers, epochs: 0 })), await train(task({ model: layers }))];
    expect((await valuesOf(after.params)).get("1.weight")).not.toEqual((await valuesOf(before.params)).get("1.weight"));
    expect((await valuesOf(after.params)).get("2.0.weight")).toEqual((await valuesOf(before.params)).get("2.0.weight"));
  });
});

describe("groups", () => {
  test("are as an optimizer of each alone, rates and schedules included", async () => {
    const schedule = (step: number): number => 0.2 * 0.9 ** step;
    const both = await train(
      task({ optimizer: optim.groups({ head: adam(), "**": optim.sgd({ learningRate: schedule, momentum: 0.9 }) }) }),
    );
    // Once both move, gradients are others: one of them at a time.
    const headOnly = await train(task({ trainable: "head", optimizer: adam() }));
    const headByGroup = await train(task({ optimizer: optim.groups({ head: adam(), "**": null }) }));
    expectClose(await numbers(headByGroup), await numbers(headOnly), 1e-12);
    const bodyOnly = await train(
      task({ trainable: "body", optimizer: optim.sgd({ learningRate: schedule, momentum: 0.9 }) }),
    );
    const bodyByGroup = await train(
      task({ optimizer: optim.groups({ head: null, "**": optim.sgd({ learningRate: schedule, momentum: 0.9 }) }) }),
    );
    expectClose(await numbers(bodyByGroup), await numbers(bodyOnly), 1e-12);
    expect(await numbers(both)).not.toEqual(await numbers(headOnly));
  });

  test("of one rule and rate are that rule", async () => {
    const rule = () => optim.sgd({ learningRate: 0.2, momentum: 0.9, weightDecay: 0.01 });
    const one = await numbers(await train(task({ optimizer: rule() })));
    const grouped = { optimizer: optim.groups({ "**.bias": rule(), head: rule(), "**": rule() }) };
    expectClose(await numbers(await train(task(grouped))), one, 1e-12);
  });
});

describe("a part of the parameters to begin with", () => {
  test("is taken, the others are the model's own", async () => {
    const other = await train(
      task({ model: nn.module({ body: body(), head: nn.linear(5) }, (l, x) => l.head(l.body(x))), seed: 3 }),
    );
    const fresh = await train(task({ epochs: 0 }));
    const { params, state } = other;
    const begun = await train(task({ epochs: 0, from: { params, state, only: "body" } }));
    const values = await valuesOf(begun.params);
    for (const [name, value] of values)
      expect(value).toEqual((await valuesOf(name.startsWith("body") ? params : fresh.params)).get(name));
    expect(await valuesOf(begun.state)).toEqual(await valuesOf(state));
  });
});

const wrong: readonly (readonly [string, Partial<TrainOptions>, RegExp])[] = [
  [
    "a pattern of none",
    { trainable: "heads" },
    /^train: trainable: "heads" matches none of the names[\s\S]*body\.\{1-2\}\.\{weight,bias\}, head/,
  ],
  ["none left", { trainable: () => false }, /^train: no parameter is left to train/],
  [
    "all frozen",
    { model: nn.sequential(nn.flatten(), nn.frozen(nn.linear(3))) },
    /^train: no parameter is left to train[\s\S]*all layers are frozen/,
  ],
  ["no pattern", { trainable: 3 as never }, /^train: trainable must be a pattern, or a function of a parameter, got 3/],
  [
    "parameters in no group",
    { optimizer: optim.groups({ head: adam() }) },
    /^groups: body\.\{1-2\}\.\{weight,bias\} are in no group/,
  ],
  [
    "a group left as it is, and frozen besides",
    { trainable: "head", optimizer: optim.groups({ body: null, head: adam() }) },
    /^groups: "body" with null matches none of the parameters that are trained[\s\S]*leave it out if it is frozen/,
  ],
  ["a group of none", { optimizer: optim.groups({ tail: adam(), "**": null }) }, /^groups: "tail" matches none/],
  [
    "a group behind another",
    { optimizer: optim.groups({ "**": adam(), head: null }) },
    /all parameters that "head" matches are in earlier groups/,
  ],
  ["a part of none", { from: { params: {}, only: "tail" } }, /^train: from.only: "tail" matches none/],
  ["a part that is not there", { from: { params: {}, only: "head" } }, /^train: from: params has no 'head.weight'/],
  [
    "weight decay of none",
    { optimizer: optim.adamW({ learningRate: 1, decayMask: "tail" }) },
    /^adamW: decayMask: "tail" matches none/,
  ],
];

test.each(wrong)("refuses %s", async (_name, more, message) => {
  await expect(train(task(more))).rejects.toThrow(message);
});

test("refuses what is no group", () => {
  expect(() => optim.groups({ a: 3 as never })).toThrow(/^groups: the value of "a" is 3, not an optimizer or null/);
  expect(() => optim.groups({ a: null })).toThrow(/there is no optimizer/);
  expect(() => optim.groups({ a: optim.groups({ "**": adam() }) })).toThrow(/is itself made by groups/);
  expect(() => optim.lazy(optim.groups({ "**": adam() }), "a")).toThrow(/^lazy: takes the optimizer of a group/);
});
