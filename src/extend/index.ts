/** @module For whoever extends Heddle: errors and their words, checks of options, trees; files read whole, or an error that names them. */
export { readWhole } from "../io/read.ts";
export * from "./browser.ts";
export { workerRank } from "./worker.ts";
