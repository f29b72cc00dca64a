/** @module Datasets: columns of rows, their order, and batches that are gathered ahead of the step that needs them. */
export * from "./browser.ts";
export { type FileValues, fileRanges } from "./file-ranges.ts";
export { type IdxDatasetOptions, type IdxOptions, idx, readIdx, readIdxHeader } from "./idx-file.ts";
export { type MnistOptions, mnist } from "./mnist.ts";
