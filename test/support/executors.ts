/** @module The executors that run plans on virtual devices of this process. */
import type { Executor, ExecutorOptions } from "../../src/runtime/executor.ts";
import { nativeExecutor } from "../../src/runtime/native/executor.ts";
import { referenceExecutor } from "../../src/runtime/reference.ts";

export const executors: readonly { readonly name: string; readonly make: (options: ExecutorOptions) => Executor }[] = [
  { name: "reference", make: referenceExecutor },
  { name: "native", make: (options) => nativeExecutor({ ...options, threads: 1, world: undefined }) },
];
