/** @module Why Heddle is behind in a row, in a line each: shown where the last whole run finds it behind its best peer. */

/** By the names of workloads, or of all that begin so. What stands here is what a profile has shown. */
export const reasons: Readonly<Record<string, string>> = {
  gpt: "matrix products take two thirds of the step, and those of MKL are faster",
  lstm: "matrix products take three quarters of the step, one of 32 rows after another, and those of MKL are faster",
  "bf16-": "products are computed in f32, where oneDNN uses the processor's own instructions for bf16",
  "int8-": "products are computed in i32, where ONNX Runtime uses the processor's own instructions for i8",
  "eager-":
    "an operation that is not compiled takes about 2 us from JavaScript to native code (docs/internals/eager.md)",
};

/** The reason of the longest name that a workload's name is, or begins with. */
export function reasonFor(workload: string): string | undefined {
  const name = Object.keys(reasons)
    .filter((key) => key === workload || (key.endsWith("-") && workload.startsWith(key)))
    .sort((a, b) => b.length - a.length)[0];
  return name === undefined ? undefined : reasons[name];
}
