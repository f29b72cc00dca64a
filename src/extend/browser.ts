/**
 * @module For whoever extends Heddle, in Node and browsers: errors and their words, checks of options, trees.
 *
 * Heddle's adapters, such as those of ONNX and Keras, use this module and the other modules that users import.
 */
export { checkDType, checkShape } from "../tensor/arguments.ts";
export { HeddleError, type HeddleErrorOptions, toldBy, within } from "../util/errors.ts";
export { asRecord, checkInteger, checkNumber, checkOptions, nearest } from "../util/options.ts";
export { checkRecognised, type FileKind, recognisedBytes } from "../util/recognise.ts";
export { shown } from "../util/show.ts";
export { called } from "../util/source.ts";
export { formatBytes, listed } from "../util/text.ts";
export { type FlatTree, flattenTree, isRecord, type TreeShape, unflattenTree } from "../util/tree.ts";
