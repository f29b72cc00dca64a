/** Tables of models: of any composition, with what is shared and what is not trained. */
import { nn, type Tensor } from "heddle";
import { expect, test } from "vitest";

const body = nn.linear(3);
const trained = nn.sequential(
  nn.flatten(),
  nn.frozen(nn.sequential(nn.linear(8), nn.batchNorm())),
  nn.lora(nn.linear(2), { rank: 1 }),
);
const ids = { shape: [1, 5], dtype: "i32" } as const;
type Input = Parameters<typeof nn.summary>[1];

const tables: readonly (readonly [string, nn.Layer, Input, nn.SummaryOptions, string])[] = [
  [
    "one after another, one of them twice",
    nn.sequential(body, nn.relu(), nn.residual(body), nn.remat(nn.linear(1))),
    [1, 3],
    {},
    `
  layer  kind    output  parameters
  0      linear  [-, 3]          12
  1      relu    [-, 3]           0
  2.0    linear  [-, 3]        as 0
  3      linear  [-, 1]           4
  16 parameters`,
  ],
  [
    "frozen layers and adapters",
    trained,
    [1, 2, 2],
    {},
    `
  layer  kind       output  parameters  trained
  0      flatten    [-, 4]           0        0
  1.0    linear     [-, 8]          40        0
  1.1    batchNorm  [-, 8]          16        0
  2      lora       [-, 2]          28       10
  84 parameters, 10 of them trained, 17 numbers of state besides`,
  ],
  [
    "a module, of which one is for training alone and a part is trained",
    nn.module(
      {
        embed: nn.embedding(9, 4),
        blocks: [nn.transformerEncoderLayer({ heads: 2, feedForward: 8 })],
        lstm: nn.lstm({ hidden: 2 }),
        aside: nn.linear(1),
      },
      (l, x, { train }) => {
        const y = l.blocks[0](l.embed(x));
        return l.lstm.use(
          y,
          (lstm, variables, options) => lstm.run(variables, train ? l.aside(y).add(y) : y, options).y,
        );
      },
    ),
    ids,
    { trainable: "blocks" },
    `
  layer     kind                     output       parameters  trained
  embed     embedding                [-, 5, 4]            36        0
  blocks.0  transformerEncoderLayer  [-, 5, 4]           172      172
  lstm      lstm                     [-, 5, 2]            64        0
  aside     linear                   not applied           5        0
  277 parameters, 172 of them trained`,
  ],
  [
    "a layer alone",
    nn.linear(2),
    [7, 3],
    {},
    `
  layer  kind    output  parameters
         linear  [-, 2]           8
  8 parameters`,
  ],
];

test.each(tables)("%s", (_name, layer, input, options, text) => {
  expect(`\n${nn.summary(layer, input, options)}`).toBe(text);
});

test("a model of records", () => {
  const model = nn.module({ a: nn.linear(2), b: nn.linear(3) }, (l, { x, z }: { x: Tensor; z: Tensor }) => ({
    left: l.a(x),
    right: l.b(z),
  }));
  const type = { shape: [1, 4], dtype: "f32" } as const;
  expect(nn.summary(model, { x: type, z: type })).toMatch(/b +linear +\[-, 3\] +15\n {2}25 parameters$/);
});

test("refuses what is no layer, and a pattern of none", () => {
  expect(() => nn.summary(3 as never, [1])).toThrow(/^summary: takes a layer, got 3/);
  expect(() => nn.summary(body, [1, 3], { trainable: "tail" })).toThrow(/^summary: trainable: "tail" matches none/);
});
