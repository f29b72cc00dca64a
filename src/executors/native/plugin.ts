/** @module The native executor's plug-in. */

import type { ExecutorPlugin } from "../../runtime/registry.ts";
import { nativePasses } from "../passes.ts";
import { loadNative } from "./binding.ts";
import { nativeExecutor } from "./executor.ts";
import { joinFromEnvironment } from "./join.ts";
import { defaultThreads } from "./threads.ts";

/** The native core, if it loads. */
export const nativePlugin: ExecutorPlugin = {
  name: "native",
  unavailable: () => {
    const native = loadNative();
    return "error" in native ? native.error : undefined;
  },
  passes: nativePasses,
  make: ({ threads, ...options }) =>
    nativeExecutor({ ...options, threads: threads ?? defaultThreads(options.devices.length), world: undefined }),
  join: joinFromEnvironment,
  memory: () => {
    const native = loadNative();
    return "error" in native ? undefined : native.memory();
  },
};
