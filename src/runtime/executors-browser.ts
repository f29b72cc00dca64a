/** @module The executors of a browser: bundlers take this file in the place of executors.ts. */
import { referencePlugin } from "./reference.ts";
import { registerExecutor } from "./registry.ts";

registerExecutor(referencePlugin);
