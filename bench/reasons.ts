/** @module Why Heddle is behind in a row, in a line each: shown where the last whole run finds it behind its best peer. */

/** By the names of workloads, or of groups of them that begin so. */
export const reasons: Readonly<Record<string, string>> = {
  "gemm-256": "MKL packs less for small products; the blocks are cut for larger ones",
  "gemm-1024": "MKL's tile keeps a core at its limit for longer",
  "gemm-2048": "MKL's tile keeps a core at its limit for longer",
  "gemm-128x784x512": "MKL packs less for small products; the blocks are cut for larger ones",
  "gemm-32x256x1024": "with 32 rows, packing the right side costs as much as the product",
  "gemm-1x4096x4096": "one row: the matrix is read once, and threads share its columns less evenly",
  mlp: "the three products are small, and an update of the parameters goes over memory",
  lenet: "the second convolution takes half of the step, and oneDNN's is faster by one thread",
  "lenet-dp": "two processes share one physical core here, and an all-reduce wakes the other",
  lstm: "64 dependent steps of a small product each; oneDNN fuses all gates of a step",
  gpt: "products are two thirds of a step, and MKL's are faster",
  resnet20: "convolutions of 16 channels fill half of a tile",
  embed: "rows of the table come from memory one after another",
  embedding: "a step of less than 1 ms, most of it launch and lookup",
  chain: "memory is the limit of both",
  "reduce-": "one pass over memory is the limit; what is left is the vector exp",
  "infer-": "at batch 1 the call itself takes longer than the arithmetic",
  "bf16-": "products of bf16 are computed in f32, where oneDNN uses the processor's own instructions for them",
  "int8-": "products of i8 are computed in i32, where ONNX Runtime uses the processor's own instructions for them",
  "eager-":
    "an operation that is not compiled crosses from JavaScript to native code, where PyTorch's Python is thinner",
  start: "module loading and the first compilation",
};

/** The longest name that a workload's name is, or begins with. */
export function reasonFor(workload: string): string | undefined {
  const name = Object.keys(reasons)
    .filter((key) => key === workload || (key.endsWith("-") && workload.startsWith(key)))
    .sort((a, b) => b.length - a.length)[0];
  return name === undefined ? undefined : reasons[name];
}
