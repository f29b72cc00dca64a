// A child of a worker: no worker itself, so that what it has to tell is nobody's but its own.
import { reportToLauncher } from "../../../dist/node/launcher-messages.js";

reportToLauncher({ type: "progress", step: 1 });
setTimeout(() => {
  throw new Error("of the child");
}, 1500);
