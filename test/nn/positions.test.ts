/** Positions far from the first, in every float: as exact as the dtype. What they are is compared with the papers' formulas in torch.test.ts. */
import { nn, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";

/** Of one rounding of a number below 2, with room for three. */
const tolerances = { f64: 1e-9, f32: 2 ** -22, f16: 2 ** -9, bf16: 2 ** -6 } as const;
type Float = keyof typeof tolerances;
const dtypes = Object.keys(tolerances) as Float[];

const furthest = (found: ArrayLike<number>, expected: readonly number[]): number =>
  Math.max(...expected.map((value, index) => Math.abs(value - (found[index] as number))));

describe.each(dtypes)("%s", (dtype) => {
  test.each([0, 257, 1000, 2049, 100_000])("rotaryEmbedding at position %i", async (offset) => {
    const size = 8;
    const x = tensor([[1, 1, 1, 1, 0, 0, 0, 0]], { dtype });
    const angles = [0, 1, 2, 3].map((pair) => offset * 10_000 ** ((-2 * pair) / size));
    const y = await nn.functional.rotaryEmbedding(x, { offset }).data();
    const expected = [...angles.map(Math.cos), ...angles.map(Math.sin)];
    expect(furthest(y, expected)).toBeLessThan(tolerances[dtype]);
  });

  test("sinusoidalPositions at each of 2,100 places", async () => {
    const x = tensor(new Float64Array(2100 * 4), { shape: [1, 2100, 4], dtype });
    const { y } = nn.sinusoidalPositions().apply({ params: {}, state: {} }, x);
    expect(y.dtype).toBe(dtype);
    const expected = Array.from({ length: 2100 }, (_unused, place) =>
      [place, place / 100].flatMap((angle) => [Math.sin(angle), Math.cos(angle)]),
    ).flat();
    expect(furthest(await y.data(), expected)).toBeLessThan(tolerances[dtype]);
  });
});

test("products of queries and keys depend on distances alone, also far away", async () => {
  const [q, k] = [0, 1].map((shift) =>
    tensor(
      Float32Array.from({ length: 16 }, (_unused, i) => Math.sin(i + shift)),
      { shape: [1, 16] },
    ),
  );
  const product = async (at: number): Promise<number> => {
    const turned = (x: Tensor, offset: number): Tensor => nn.functional.rotaryEmbedding(x, { offset });
    return turned(q as Tensor, at)
      .mul(turned(k as Tensor, at + 5))
      .sum()
      .item();
  };
  const near = await product(0);
  for (const at of [10, 1000, 1_000_000]) expect(Math.abs((await product(at)) - near)).toBeLessThan(1e-5);
});
