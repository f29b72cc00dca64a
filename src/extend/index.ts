/** @module For whoever extends Heddle: errors and their words, checks of options, trees; files read whole, or an error that names them. */
export { checkHost } from "../io/host-tensors.ts";
export { readRange, readWhole } from "../io/read-file.ts";
export { writeBytes } from "../io/write.ts";
export * from "./browser.ts";
export { workerRank } from "./worker.ts";
