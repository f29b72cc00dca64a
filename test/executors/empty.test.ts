/** Buffers and values without elements: they have no bytes, on every executor, also when a run takes over their memory. */
import { afterEach, describe, expect, test } from "vitest";
import { remoteRuntime } from "../../src/executors/remote/driver.ts";
import { serveDrivers } from "../../src/executors/remote/worker.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import { distribute, jit, type Tensor } from "../../src/functions/index.ts";
import { replicated } from "../../src/plan/index.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import { missing } from "../native/evaluate.ts";

const secret = "a secret of tests";
const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

const runtimes: Record<string, () => Promise<Runtime>> = {
  reference: async () => localRuntime({ executor: "reference" }),
  native: async () => localRuntime({ executor: "native", threads: 1 }),
  remote: async () => {
    const worker = await serveDrivers({ host: "127.0.0.1", port: 0, secret, executor: "native" });
    open.push(worker);
    return remoteRuntime([], { workers: [`127.0.0.1:${worker.port}`], secret, timeout: 20 });
  },
};

describe.each(Object.keys(runtimes))("%s", (name) => {
  test.skipIf(name !== "reference" && missing !== undefined)("has none, before a run and after it", async () => {
    const runtime = await (runtimes[name] as () => Promise<Runtime>)();
    open.push(runtime);
    const none = runtime.executor.allocate(0, 0);
    none.write(new Uint8Array());
    expect([none.bytes, (await none.read()).length]).toEqual([0, 0]);
    const layout = replicated({ axes: runtime.axes });
    const value = (...shape: number[]): Tensor => {
      const count = shape.reduce((product, size) => product * size, 1);
      const data = Float32Array.from({ length: count }, (_unused, index) => index + 1);
      return distribute(runtime, data, { shape, dtype: "f32" }, layout);
    };
    const step = jit(
      (all: Record<string, Tensor>) => ({
        a: (all["a"] as Tensor).mul(2),
        b: (all["b"] as Tensor).mul(3),
        c: (all["c"] as Tensor).add(1),
        d: (all["d"] as Tensor).add((all["b"] as Tensor).sum()),
      }),
      { donate: [0] },
    );
    let values: Record<string, Tensor> = { a: value(0), b: value(2, 0, 3), c: value(3), d: value(2, 2) };
    for (let round = 0; round < 3; round++) values = step(values) as Record<string, Tensor>;
    const bytes = async ({ value: { shards } }: Tensor): Promise<number[]> => {
      const read = await (shards[0] as { read(): Promise<Uint8Array> }).read();
      return [...new Float32Array(Uint8Array.from(read).buffer)];
    };
    expect(await Promise.all(Object.values(values).map(bytes))).toEqual([[], [], [4, 5, 6], [1, 2, 3, 4]]);
  });
});
