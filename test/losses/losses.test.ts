import { grad, losses, type Tensor, tensor } from "heddle";
import { expect, test } from "vitest";
import { expectClose } from "../support/close.ts";

const options = { dtype: "f64" } as const;
const logits = tensor(
  [
    [1, 2, 3],
    [0.5, -1, 0],
  ],
  options,
);
const labels = tensor([2, 0], { dtype: "i32" });
const output = tensor(
  [
    [1, -2],
    [0.5, 3],
  ],
  options,
);
const target = tensor(
  [
    [0, 1],
    [1, 0.25],
  ],
  options,
);

const value = async (x: Tensor): Promise<number[]> => [...(await x.data())];
const logSumExp = (row: number[]): number => Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0));

test("softmax cross-entropy", async () => {
  const rows = [logSumExp([1, 2, 3]) - 3, logSumExp([0.5, -1, 0]) - 0.5];
  const none = await value(losses.softmaxCrossEntropy(logits, labels, { reduction: "none" }));
  expectClose(none, rows, 1e-12);
  expect(await losses.softmaxCrossEntropy(logits, labels).item()).toBeCloseTo(
    ((rows[0] as number) + (rows[1] as number)) / 2,
    12,
  );
  expect(await losses.softmaxCrossEntropy(logits, labels.cast("u8"), { reduction: "sum" }).item()).toBeCloseTo(
    (rows[0] as number) + (rows[1] as number),
    12,
  );
});

test("squared and absolute error", async () => {
  expect(await value(losses.mse(output, target, { reduction: "none" }))).toEqual([1, 9, 0.25, 2.75 ** 2]);
  expect(await losses.mse(output, target).item()).toBeCloseTo((1 + 9 + 0.25 + 2.75 ** 2) / 4, 12);
  expect(await losses.l1(output, target, { reduction: "sum" }).item()).toBeCloseTo(1 + 3 + 0.5 + 2.75, 12);
});

test("binary cross-entropy, also where the exponential overflows", async () => {
  const direct = (x: number, t: number): number =>
    -t * Math.log(1 / (1 + Math.exp(-x))) - (1 - t) * Math.log(1 - 1 / (1 + Math.exp(-x)));
  const found = await value(losses.binaryCrossEntropyWithLogits(output, target, { reduction: "none" }));
  const expected = [direct(1, 0), direct(-2, 1), direct(0.5, 1), direct(3, 0.25)];
  expectClose(found, expected, 1e-12);
  expect(await losses.binaryCrossEntropyWithLogits(tensor([1000, -1000]), tensor([0, 1])).item()).toBe(1000);
});

test("what is no probability has no cross-entropy", async () => {
  const found = await value(
    losses.binaryCrossEntropy(tensor([1.5, -0.25, 1, 0, 0.5]), tensor([1, 0, 1, 0, 1]), { reduction: "none" }),
  );
  expect(found.slice(0, 2)).toEqual([Number.NaN, Number.NaN]);
  expectClose(found.slice(2), [0, 0, Math.log(2)], 1e-6);
});

test("gradients against central differences", async () => {
  const cases: [(x: Tensor) => Tensor][] = [
    [(x) => losses.mse(x, target)],
    [(x) => losses.l1(x, target)],
    [(x) => losses.binaryCrossEntropyWithLogits(x, target)],
  ];
  const base = await value(output);
  for (const [loss] of cases) {
    const gradient = await value(grad(loss)(output));
    for (let index = 0; index < base.length; index++) {
      const at = (shift: number): Promise<number> =>
        loss(
          tensor(
            Float64Array.from(base, (x, place) => x + (place === index ? shift : 0)),
            { shape: [2, 2] },
          ),
        ).item();
      expect(gradient[index]).toBeCloseTo(((await at(1e-5)) - (await at(-1e-5))) / 2e-5, 8);
    }
  }
});

test.each(["i64", "u64", "u32"] as const)("labels of %s beyond i32 do not wrap into the classes", async (dtype) => {
  const big = dtype === "u32" ? 2 ** 32 - 1 : 2n ** 32n;
  const labels = tensor([big] as never, { dtype });
  const loss = async () => losses.softmaxCrossEntropy(tensor([[1, 2]]), labels, { ignoreIndex: -1 }).data();
  await expect(loss()).rejects.toThrow(`label ${big} at row 0 is outside [0, 2)`);
});

test("errors", () => {
  expect(() => losses.mse(output, tensor([1, 2], options))).toThrow(
    /output f64\[2,2\] and target f64\[2\] must have one shape/,
  );
  expect(() => losses.mse(output, target.cast("f32"))).toThrow(/must have one dtype/);
  expect(() => losses.softmaxCrossEntropy(logits, tensor([1, 2]))).toThrow(/labels must be integers, got f32\[2\]/);
  expect(() => losses.mse(output, target, { reduction: "max" } as never)).toThrow(
    /reduction must be mean, sum or none/,
  );
  const steps = (lengths: number[], name = "inputLengths") =>
    losses.ctc(
      tensor([
        [
          [0, 0],
          [0, 0],
        ],
      ]),
      tensor([[1]], { dtype: "i32" }),
      {
        [name]: tensor(lengths, { dtype: "i32" }),
      },
    );
  expect(() => steps([3])).toThrow(/^ctc: inputLengths: sequence 0 has length 3, but there are 2 steps/);
  expect(() => steps([0])).toThrow(/sequence 0 has length 0.*\n.*\n *hint: lengths are from 1 to 2/);
  expect(() => steps([2], "targetLengths")).toThrow(/targetLengths: sequence 0 has length 2, but there are 1 labels/);
  expect(() => steps([1, 2])).toThrow(/inputLengths are integers \[1\], one per sequence, got i32\[2\]/);
  expect(() => losses.mse(output, target, { reductions: "sum" } as never)).toThrow(/did you mean 'reduction'/);
});

test.each([1e-3, 1e10, 1e25])("the angle of vectors of length %d", async (size) => {
  const [one, other] = [tensor([[size, 2 * size]]), tensor([[2 * size, size]])];
  expect(await losses.cosineEmbedding(one, other, tensor([1])).item()).toBeCloseTo(0.2, 5);
});

test("the cosine of vectors whose squares' product is beyond f32", async () => {
  const [x, y] = [tensor([[3e12, 4e12]]), tensor([[4e12, 3e12]])];
  const loss = (a: Tensor): Tensor => losses.cosineEmbedding(a, y, tensor([1]), { reduction: "sum" });
  expect(await loss(x).item()).toBeCloseTo(1 - 24 / 25, 6);
  // By the formula of PyTorch at zeros: y over the lengths, of which one is the root of 1e-12.
  const gradient = await grad((a: Tensor) =>
    losses.cosineEmbedding(a, tensor([[3, 4]]), tensor([1]), { reduction: "sum" }),
  )(tensor([[0, 0]])).array();
  expect(gradient).toEqual([[expect.closeTo(-0.6e6, -1), expect.closeTo(-0.8e6, -1)]]);
});
