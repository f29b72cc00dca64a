/** @module Compression of gradients between devices: `compression` of `train`, and the compressors. */
export * from "./codecs/index.ts";
export {
  type Compressed,
  type CompressGiven,
  type Compressor,
  type CompressorKind,
  compressorKinds,
  compressorNamed,
  type DecompressGiven,
  type Parts,
  registerCompressor,
} from "./compressor.ts";
export type { CompressionOptions } from "./options.ts";
