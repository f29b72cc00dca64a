/** @module The executors that run plans on virtual devices of this process. */

import { nativeExecutor } from "../../src/executors/native/executor.ts";
import { referenceExecutor } from "../../src/executors/reference.ts";
import type { Executor, ExecutorOptions } from "../../src/runtime/executor.ts";

export const executors: readonly { readonly name: string; readonly make: (options: ExecutorOptions) => Executor }[] = [
  { name: "reference", make: referenceExecutor },
  { name: "native", make: (options) => nativeExecutor({ ...options, threads: 1, world: undefined }) },
];
