/** @module Lets a worker import TypeScript where Node does not strip types: registers tsx. */
import { createRequire } from "node:module";
import { isMainThread } from "node:worker_threads";
import { registerLoader } from "./loader.ts";

// As `node --import tsx` does, but `import` of CommonJS reads the whole text for the names of its exports.
createRequire(import.meta.url)("tsx/cjs");
// Other threads get it from the preload, as they do where the user's file is JavaScript.
if (isMainThread) registerLoader();
