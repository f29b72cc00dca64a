/** @module The executors outside browsers; the first one that can be used is the default. */

import { registerExecutor } from "../runtime/registry.ts";
import { nativePlugin } from "./native/plugin.ts";
import { referencePlugin } from "./reference.ts";
import { remotePlugin } from "./remote/plugin.ts";
import { switchPlugin } from "./through-switch/plugin.ts";

registerExecutor(nativePlugin);
registerExecutor(referencePlugin);
registerExecutor(remotePlugin);
registerExecutor(switchPlugin);
