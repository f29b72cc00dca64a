/** @module The dtype of parameters of layers whose input is not float, such as embeddings. */

export type FloatDType = "f32" | "f64";

let current: FloatDType = "f32";

/** The float dtype of the model being made; `f32` by default. */
export const floatDType = (): FloatDType => current;

/** Runs code that makes a model with floats of this dtype. */
export function withFloats<Result>(dtype: FloatDType, body: () => Result): Result {
  const outer = current;
  current = dtype;
  try {
    return body();
  } finally {
    current = outer;
  }
}
