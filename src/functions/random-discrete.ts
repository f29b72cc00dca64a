/** @module Random integers, orders, and choices. */
import { type DType, dtypes, isFloat, isInteger, isLong, longBounds } from "../ir/dtype.ts";
import { formatType, type Shape, sizeOf } from "../ir/shape.ts";
import { checkDType, checkShape } from "../tensor/arguments.ts";
import { whileLoop } from "../tensor/control.ts";
import { traced } from "../tensor/nested.ts";
import { checkTensor, isTensor, type Tensor, valuesAtHand } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { full, tensor, zeros } from "./create.ts";
import { select } from "./functions.ts";
import { all, cumsum, log, or, rem, shiftLeft, take } from "./methods/index.ts";
import { topK } from "./methods/order.ts";
import { gumbel } from "./random-continuous.ts";
import { bits, checkKey, foldIn, uniform } from "./random-uniform.ts";

/** Options of {@link randint}. */
export interface RandintOptions {
  /** The lowest integer; default 0. */
  readonly min?: number | bigint;
  /** The first integer that is too large; at most one above the highest of the dtype. */
  readonly max: number | bigint;
  /** An integer dtype; default i32. */
  readonly dtype?: DType;
}

/**
 * Uniform integers in [min, max), all exactly as likely: a word of 64 random bits modulo `max - min`, drawn again if it is at or
 * beyond the last multiple of that below 2^64.
 *
 * @throws HeddleError `option` for bounds that are not whole numbers of the dtype, or without an integer between them; `dtype` unless
 * it is an integer dtype
 * @example random.randint(key, [10], { max: 6 }).add(1) // ten dice
 */
export function randint(from: Tensor, shape: Shape, options: RandintOptions): Tensor {
  const what = "random.randint";
  checkKey(what, from);
  checkShape(what, shape);
  checkOptions(what, options, ["min", "max", "dtype"]);
  const { min = 0, max, dtype = "i32" } = options;
  checkDType(what, dtype);
  if (!isInteger(dtype)) throw new HeddleError("dtype", `${what}: gives integers, not ${dtype}`);
  const [low, high] = [boundOf(what, "min", min, dtype), boundOf(what, "max", max, dtype)];
  if (low >= high)
    throw new HeddleError("option", `${what}: max must be above min, got [${min}, ${max})`, {
      hint: "max itself is not drawn",
    });
  return within(what, () =>
    // Both terms wrap to the dtype's range.
    traced(what, () =>
      below(from, shape, high - low)
        .cast(dtype)
        .add(full([], low, { dtype })),
    ),
  );
}

function boundOf(what: string, name: string, value: unknown, dtype: DType): bigint {
  const { lowest, highest } = dtypes[dtype];
  const [first, last] = isLong(dtype) ? longBounds[dtype] : [BigInt(lowest), BigInt(highest)];
  const most = name === "max" ? last + 1n : last;
  const whole = typeof value === "bigint" || Number.isInteger(value) ? BigInt(value as number) : undefined;
  if (whole !== undefined && whole >= first && whole <= most) return whole;
  throw new HeddleError(
    "option",
    `${what}: ${name} must be a whole number in [${first}, ${most}] for ${dtype}, got ${shown(value)}`,
  );
}

const wordCount = 2n ** 64n;

/** Uniform u64 in [0, count). */
function below(from: Tensor, shape: Shape, count: bigint): Tensor {
  const constant = (value: bigint): Tensor => full([], value, { dtype: "u64" });
  const word = (): Tensor => {
    const [high, low] = [0, 1].map((half) => bits(foldIn(from, half), shape).cast("u64")) as [Tensor, Tensor];
    return or(shiftLeft(high, constant(32n)), low);
  };
  if (count === wordCount) return word();
  if (wordCount % count === 0n) return rem(word(), constant(count));
  // Whether all words with the same quotient exist; for the last quotient some are missing.
  const whole = (drawn: Tensor, value: Tensor): Tensor => drawn.sub(value).le(constant(wordCount - count));
  const { value } = whileLoop(
    ({ done }) => all(done).not(),
    (carry) => {
      const drawn = word();
      const value = rem(drawn, constant(count));
      return { value: select(carry.done, carry.value, value), done: or(carry.done, whole(drawn, value)) };
    },
    { value: zeros(shape, { dtype: "u64" }), done: zeros(shape, { dtype: "bool" }) },
  );
  return value;
}

/** Options of {@link choice}. */
export interface ChoiceOptions {
  /** Whether an element may be chosen more than once; default true. */
  readonly replace?: boolean;
  /** Weights of the elements, relative to each other: numbers from 0 on, not all 0. Default: all equal. */
  readonly weights?: Tensor | readonly number[];
  /** The dim of a tensor that is chosen from; default 0. */
  readonly dim?: number;
}

/**
 * Chooses among the slices of a tensor along a dim, or among the indices (i32) below a count: NumPy's and JAX's `choice`. Without
 * replacement it takes the largest of random numbers; with weights, of their logarithms plus Gumbel noise, which equals drawing one
 * after another by the weights of the rest (Yellott, 1977; Kool et al., 2019). The order is random too. An element of weight 0 is
 * never chosen.
 *
 * @param among the tensor, or the count
 * @param shape of the choices; it replaces the dim
 * @throws HeddleError `option` if there are too few elements to choose from without replacement; `value` for weights at hand that are
 * negative or not finite, or too few above 0; `shape` for another number of weights
 * @example random.choice(key, 49, [6], { replace: false })
 */
export function choice(from: Tensor, among: Tensor | number, shape: Shape, options: ChoiceOptions = {}): Tensor {
  const what = "random.choice";
  checkKey(what, from);
  checkShape(what, shape);
  checkOptions(what, options, ["replace", "weights", "dim"]);
  const { replace = true, dim = 0 } = options;
  const count = countOf(what, among, dim);
  const size = sizeOf(shape);
  if (size > 0 && count === 0) throw new HeddleError("option", `${what}: there is nothing to choose from`);
  if (!replace && size > count)
    throw new HeddleError("option", `${what}: ${size} of ${count} cannot be chosen without replacement`, {
      hint: "choose with { replace: true }, or fewer",
    });
  const weights = weightsOf(what, options.weights, count, replace ? Math.min(1, size) : size);
  return within(what, () =>
    traced(what, () => {
      const positions = replace
        ? withReplacement(from, count, shape, weights)
        : topK(ranksOf(from, count, weights), size).indices.reshape(shape);
      return isTensor(among) ? take(among, positions, dim) : positions;
    }),
  );
}

function countOf(what: string, among: unknown, dim: number): number {
  if (!isTensor(among)) {
    checkInteger(what, "the count", among as number, 0, dtypes.i32.highest);
    return among as number;
  }
  const count = Number.isInteger(dim) ? among.shape.at(dim) : undefined;
  if (count === undefined || dim < -among.shape.length || dim >= among.shape.length)
    throw new HeddleError("shape", `${what}: there is no dim ${shown(dim)} in ${formatType(among)}`);
  return count;
}

function weightsOf(what: string, option: ChoiceOptions["weights"], count: number, least: number): Tensor | undefined {
  if (option === undefined) return undefined;
  const weights = isTensor(option) ? option : tensor(option, { dtype: "f64" });
  if (!isFloat(weights.dtype) || weights.shape.length !== 1 || weights.shape[0] !== count)
    throw new HeddleError("shape", `${what}: weights must be floats [${count}], got ${formatType(weights)}`);
  const values = valuesAtHand(weights);
  if (values === undefined) return weights.cast("f64");
  const wrong = values.findIndex((value) => !(value >= 0 && value < Infinity));
  if (wrong >= 0)
    throw new HeddleError("value", `${what}: weight ${wrong} is ${values[wrong]}, not a finite number from 0 on`);
  const above = values.filter((value) => value > 0).length;
  if (above < least)
    throw new HeddleError("value", `${what}: ${least} cannot be chosen: only ${above} weights are above 0`);
  return weights.cast("f64");
}

/** Numbers whose descending order is the order in which positions are drawn. */
const ranksOf = (from: Tensor, count: number, weights: Tensor | undefined): Tensor =>
  weights === undefined
    ? uniform(from, [count], { dtype: "f64" })
    : gumbel(from, [count], { dtype: "f64" }).add(log(weights));

function withReplacement(from: Tensor, count: number, shape: Shape, weights: Tensor | undefined): Tensor {
  if (count === 0) return zeros(shape, { dtype: "i32" });
  if (weights === undefined) return below(from, shape, BigInt(count)).cast("i32");
  // The first position whose cumulative weight exceeds the drawn point.
  const sums = cumsum(weights, 0);
  const total = sums.slice([count - 1], [count]).reshape([]);
  const point = uniform(from, shape, { dtype: "f64" }).mul(total);
  return sums
    .le(point.reshape([...shape, 1]))
    .cast("i32")
    .sum(-1);
}

/** A random order of the slices of a tensor along a dim (default 0), or of the indices (i32) below a count. Errors as {@link choice}. */
export function permutation(from: Tensor, among: Tensor | number, dim = 0): Tensor {
  checkKey("random.permutation", from);
  const count = countOf("random.permutation", among, dim);
  return within("random.permutation", () => choice(from, among, [count], { replace: false, dim }));
}

/**
 * Classes (i32) with the probabilities of a softmax of float logits over a dim (default the last), which is removed: the position of the
 * largest logit plus Gumbel noise. A logit of -Infinity is never drawn. For several draws, broadcast the logits.
 *
 * @throws HeddleError `dtype` unless logits are float; `shape` for a dim that is out of range
 */
export function categorical(from: Tensor, logits: Tensor, dim = -1): Tensor {
  const what = "random.categorical";
  checkKey(what, from);
  checkTensor(what, logits);
  if (!isFloat(logits.dtype)) throw new HeddleError("dtype", `${what}: takes floats, got ${formatType(logits)}`);
  const dtype = logits.dtype === "f64" ? "f64" : "f32";
  return within(what, () =>
    traced(what, () =>
      logits
        .cast(dtype)
        .add(gumbel(from, logits.shape, { dtype }))
        .argMax(dim),
    ),
  );
}
