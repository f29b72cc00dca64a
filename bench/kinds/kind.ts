/** @module What the harness asks of a kind of workload: the shapes of its data, and its arithmetic. */

/** A parameter or an input: its name (of a parameter, as PyTorch's `state_dict` has it) and its shape. */
export type ParameterShape = readonly [name: string, shape: readonly number[]];

/** A kind of workload, by its sizes. */
export interface Kind<Sizes> {
  /** Parameters, in the order of the data file; default none. */
  readonly parameters?: (sizes: Sizes) => ParameterShape[];
  /** Inputs of a step that are f32. */
  readonly inputs: (sizes: Sizes) => ParameterShape[];
  /** Inputs of a step that are i32; default none. */
  readonly integers?: (sizes: Sizes) => ParameterShape[];
  /** The values of all integers one after another, from uniform numbers in [0, 1). */
  readonly drawIntegers?: (sizes: Sizes, draw: () => number) => Int32Array;
  /** An input's value from a uniform number in [0, 1); default that number. */
  readonly value?: (uniform: number) => number;
  /** Classes of the labels, whose pattern the inputs show; default none. */
  readonly classes?: (sizes: Sizes) => number;
  /** Floating-point operations of a step's matrix products and convolutions; default 0. */
  readonly flops?: (sizes: Sizes) => number;
  /** Bytes that must cross memory: inputs read once, outputs written once. Only where memory can be the bound; default 0. */
  readonly bytes?: (sizes: Sizes) => number;
}

/** The number of elements of a shape. */
export const count = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** A weight, and a bias of its first dim. */
export const layer = (name: string | number, weight: readonly number[]): ParameterShape[] => [
  [`${name}.weight`, weight],
  [`${name}.bias`, [weight[0] as number]],
];

/** Whole numbers below a bound. */
export const integersBelow = (length: number, bound: number, draw: () => number): Int32Array =>
  Int32Array.from({ length }, () => Math.floor(draw() * bound));

/** Ids of a table, few of them frequent, like those of users and products. */
export function frequentIds(length: number, rows: number): Int32Array {
  const draw = randomNumbers(2);
  return Int32Array.from({ length }, () => {
    const part = draw();
    return Math.floor(rows * part * part * part);
  });
}

/** Operations of a step for one example: each layer forward, by the weights, by the inputs; the first has none by its inputs. */
export const trainingFlops = (multiplyAdds: readonly number[]): number =>
  multiplyAdds.reduce((total, amount, index) => total + 2 * amount * (index === 0 ? 2 : 3), 0);

/** Uniform numbers in [0, 1): mulberry32. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}
