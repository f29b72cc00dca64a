/** @module The dtype of floats that a layer makes where its input is no float to take it from: of tables that ids look up. */

export type FloatDType = "f32" | "f64";

let current: FloatDType = "f32";

/** That of the model being made; `f32` where nobody says otherwise. */
export const floatDType = (): FloatDType => current;

/** Runs what makes a model whose floats are of a dtype. */
export function withFloats<Result>(dtype: FloatDType, body: () => Result): Result {
  const before = current;
  current = dtype;
  try {
    return body();
  } finally {
    current = before;
  }
}
