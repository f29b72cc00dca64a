/** @module The executors in a browser: bundlers replace registered.ts by this file. */

import { registerExecutor } from "../runtime/registry.ts";
import { referencePlugin } from "./reference.ts";

registerExecutor(referencePlugin);
