/** @module Why Heddle is behind in a row, in a line each: shown where the last whole run finds it behind its best peer. */

/** By the names of workloads, or of all that begin so. What stands here is what a profile has shown. */
export const reasons: Readonly<Record<string, string>> = {
  gpt: "matrix products take two thirds of the step, and those of MKL are faster",
  lstm: "128 products of 32 rows, one after another, are too short to be shared well by two threads",
  "gemm-":
    "beside MKL the tile is as fast; left sides with rows that compete for the cache are copied, and threads share no packed side",
  "reduce-":
    "rows are walked several times, and memory delivers little while those in a cache are walked again (docs/internals/speed.md)",
  "infer-mlp": "products of a vector this small stay on one thread, ONNX Runtime shares them",
  "infer-lenet": "layers this small stay on one thread, ONNX Runtime shares them",
  "int8-mlp-1": "weights are read at the memory's speed for one thread, and the second adds little on one core",
  "int8-mlp-128":
    "weights are copied into tiles in every step, where ONNX Runtime has packed them before; without VNNI it also adds pairs of products in 16 bits, which saturate, so that its result is another",
  "bf16-gpt": "attention in bf16 is computed in f32",
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
