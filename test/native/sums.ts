/** Ops that add up a long tensor, each in a form whose results add up to a multiple of the exact sum. */
import {
  avgPool1d,
  conv1d,
  cumsum,
  einsum,
  grad,
  jit,
  matmul,
  ones,
  reduceWindow,
  segmentSum,
  type Tensor,
  take,
  tensor,
  vjp,
  zeros,
} from "heddle";

export interface LongSum {
  readonly title: string;
  readonly of: (x: Tensor, n: number) => Tensor;
  /** What the results add up to, over the sum of x; default 1. */
  readonly factor?: (n: number) => number;
  /** Times the bound, where products are added in registers one after another; default 1. */
  readonly wide?: number;
  /** How often a result of 16 bits is rounded; default once. */
  readonly roundings?: number;
  /** Most elements that this is tried with; default all. */
  readonly most?: number;
}

const none = (n: number): Tensor => tensor(0, { dtype: "i32" }).broadcastTo([n]);
const like = (x: Tensor, ...shape: number[]): Tensor => ones(shape, { dtype: x.dtype });

export const longSums: readonly LongSum[] = [
  { title: "all elements", of: (x) => x.sum() },
  { title: "rows", of: (x, n) => x.reshape([2, n / 2]).sum(1) },
  { title: "columns", of: (x, n) => x.reshape([n / 4, 4]).sum(0) },
  { title: "two columns", of: (x, n) => x.reshape([n / 2, 2]).sum(0) },
  { title: "many columns", of: (x, n) => x.reshape([n / 250, 250]).sum(0) },
  { title: "a middle dim", of: (x, n) => x.reshape([2, n / 8, 4]).sum(1) },
  { title: "outer dims", of: (x, n) => x.reshape([5, n / 20, 4]).sum([0, 2]) },
  { title: "mean of columns", of: (x, n) => x.reshape([n / 4, 4]).mean(0), factor: (n) => 4 / n },
  { title: "fused, all", of: jit((x: Tensor) => x.mul(0.5).sum()), factor: () => 0.5 },
  { title: "fused rows", of: jit((x: Tensor) => x.reshape([-1, 1000]).mul(0.5).sum(1)), factor: () => 0.5 },
  { title: "fused long rows", of: jit((x: Tensor) => x.reshape([-1, 10_000]).mul(0.5).sum(1)), factor: () => 0.5 },
  { title: "fused columns", of: jit((x: Tensor) => x.reshape([-1, 8]).mul(0.5).sum(0)), factor: () => 0.5 },
  {
    title: "gradient of a bias",
    of: (x, n) =>
      grad((bias: Tensor) =>
        zeros([n / 8, 8], { dtype: x.dtype })
          .add(bias)
          .mul(x.reshape([n / 8, 8]))
          .sum(),
      )(zeros([8], { dtype: x.dtype })),
  },
  { title: "running sum, its end", of: (x, n) => cumsum(x, 0).slice([n - 1], [n]) },
  { title: "dot of vectors", of: (x, n) => matmul(x, like(x, n)) },
  { title: "matrix and vector", of: (x, n) => matmul(x.reshape([2, n / 2]), like(x, n / 2)) },
  { title: "vector and matrix", of: (x, n) => matmul(like(x, n / 4), x.reshape([n / 4, 4])) },
  { title: "matrices", wide: 4, of: (x, n) => matmul(like(x, 3, n / 4), x.reshape([n / 4, 4])), factor: () => 3 },
  {
    title: "matrices, transposed",
    wide: 4,
    of: (x, n) => matmul(x.reshape([n / 4, 4]).transpose(), like(x, n / 4, 3)),
    factor: () => 3,
  },
  {
    title: "einsum",
    wide: 4,
    of: (x, n) => einsum("kab,kc->abc", x.reshape([n / 4, 2, 2]), like(x, n / 4, 2)),
    factor: () => 2,
  },
  { title: "segments", of: (x, n) => segmentSum(x, none(n), 3) },
  { title: "segments of rows", of: (x, n) => segmentSum(x.reshape([n / 4, 4]), none(n / 4), 3) },
  {
    title: "gradient of a lookup",
    of: (x, n) => vjp((table: Tensor) => take(table, none(n)), zeros([2], { dtype: x.dtype })).pullback(x)[0],
  },
  { title: "windows", of: (x, n) => reduceWindow(x.reshape([n / 4, 4]), [n / 4, 1], { op: "sum" }) },
  {
    title: "average pool",
    roundings: 2,
    of: (x, n) => avgPool1d(x.reshape([1, 2, n / 2]), n / 2),
    factor: (n) => 2 / n,
  },
  { title: "convolution, long kernel", wide: 2, of: (x, n) => conv1d(x.reshape([1, 1, n]), like(x, 1, 1, n)) },
  {
    title: "convolution, many channels",
    wide: 4,
    of: (x, n) => conv1d(x.reshape([1, n / 4, 4]), like(x, 2, n / 4, 1)),
    factor: () => 2,
  },
  {
    title: "grouped convolution",
    wide: 4,
    of: (x, n) => conv1d(x.reshape([1, 4, n / 4]), like(x, 4, 1, n / 4), { groups: 4 }),
    most: 1e6,
  },
  {
    title: "gradient of a kernel",
    wide: 4,
    of: (x, n) => grad((w: Tensor) => conv1d(x.reshape([10, 1, n / 10]), w).sum())(like(x, 1, 1, 1)),
  },
  {
    title: "gradient of a kernel of groups",
    wide: 4,
    of: (x, n) => grad((w: Tensor) => conv1d(x.reshape([10, 4, n / 40]), w, { groups: 4 }).sum())(like(x, 4, 1, 1)),
  },
];

/** Numbers of one sign: all equal, whose roundings all go one way, or different. */
export function values(kind: "equal" | "different", n: number): Float32Array {
  return Float32Array.from({ length: n }, (_, i) => (kind === "equal" ? 0.1 : 0.05 + ((i * 0.6180339887) % 1)));
}

/** In f64: of 10^7 numbers of one sign within 10^-9. */
function added(numbers: Iterable<number | bigint>): number {
  let total = 0;
  for (const number of numbers) total += Number(number);
  return total;
}

/** The error of a sum that is made so, relative to the exact one: a few units in the last place, growing like log n. */
const bound = (n: number): number => 2 ** -24 * (4 + Math.log2(n) / 2);

/** The error of one of the sums, relative to the exact one, over what it may be. */
export async function error(sum: LongSum, x: Float32Array, dtype: "f32" | "bf16"): Promise<number> {
  const n = x.length;
  const exact = added(await tensor(x).cast(dtype).data()) * (sum.factor?.(n) ?? 1);
  const total = added(await sum.of(tensor(x).cast(dtype), n).data());
  // A rounding to 16 bits is by at most half a unit in the last of 8.
  return (
    Math.abs(total / exact - 1) / (bound(n) * (sum.wide ?? 1) + (dtype === "bf16" ? (sum.roundings ?? 1) * 2 ** -8 : 0))
  );
}
