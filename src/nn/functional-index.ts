/** @module `nn.functional`: functions of tensors that layers are made of. */
export { rotaryEmbedding } from "./attention.ts";
export * from "./functional.ts";
