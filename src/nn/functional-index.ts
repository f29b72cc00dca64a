/** @module `nn.functional`: functions of tensors that layers are made of. */
export { rotaryEmbedding } from "./attention.ts";
export { type BagOptions, embeddingBagOf as embeddingBag } from "./embedding-bag.ts";
export * from "./functional.ts";
export { localResponse as localResponseNorm } from "./local-response.ts";
