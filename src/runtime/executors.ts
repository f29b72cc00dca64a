/** @module The executors of a runtime of JavaScript outside of browsers; of those that can be used, the first is the default. */
import { nativePlugin } from "./native/plugin.ts";
import { referencePlugin } from "./reference.ts";
import { registerExecutor } from "./registry.ts";
import { remotePlugin } from "./remote/plugin.ts";

registerExecutor(nativePlugin);
registerExecutor(referencePlugin);
registerExecutor(remotePlugin);
