/** @module The executors in a browser: bundlers replace executors.ts by this file. */
import { referencePlugin } from "./reference.ts";
import { registerExecutor } from "./registry.ts";

registerExecutor(referencePlugin);
