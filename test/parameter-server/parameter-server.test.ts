/** A parameter server on real devices: the policy's bound in the log, and the log replayed to the same bits. */
import { optim, type Tensor, type Tensors, tensor, valueAndGrad } from "heddle";
import {
  type Applied,
  type ParameterServerOptions,
  replayOnServer,
  ServerDevice,
  trainOnServer,
} from "heddle/parameter-server";
import { afterEach, describe, expect, test } from "vitest";
import { remoteRuntime } from "../../src/executors/remote/driver.ts";
import { serveDrivers } from "../../src/executors/remote/worker.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import { isTensor } from "../../src/functions/index.ts";
import { printServerProgram } from "../../src/program/index.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

/** A line through points that differ by worker and clock. */
const batch = (worker: number, clock: number): { x: Tensor; y: Tensor } => {
  const x = Float32Array.from({ length: 8 }, (_unused, index) => Math.sin(index + 3 * worker + 7 * clock));
  return {
    x: tensor(x, { shape: [8, 1] }),
    y: tensor(
      x.map((value) => 3 * value - 2),
      { shape: [8, 1] },
    ),
  };
};

function gradient(params: Tensors, { x, y }: { x: Tensor; y: Tensor }): { loss: Tensor; grads: Tensors } {
  const loss = (variables: Tensors): Tensor => {
    const { weight, bias } = variables as { weight: Tensor; bias: Tensor };
    const error = x.matmul(weight).add(bias).sub(y);
    return error.mul(error).mean();
  };
  const { value, grad } = valueAndGrad(loss)(params);
  return { loss: value, grads: grad };
}

const options = (runtimes: readonly Runtime[], more: object = {}): ParameterServerOptions<{ x: Tensor; y: Tensor }> => {
  const [server, ...workers] = runtimes as [Runtime, ...Runtime[]];
  return {
    params: { weight: tensor([[0]]), bias: tensor([0]) },
    optimizer: optim.adam({ learningRate: 0.1 }),
    gradient,
    batch,
    server,
    workers,
    clocks: 25,
    ...more,
  };
};

const bits = async (params: Tensors): Promise<number[]> =>
  (
    await Promise.all(flattenTree(params, isTensor).leaves.map(async (leaf) => [...(await (leaf as Tensor).data())]))
  ).flat();

function expectBound(log: readonly Applied[], workers: number, clocks: number, staleness: number): void {
  const done = new Array<number>(workers).fill(0);
  let version = 0;
  for (const { kind, worker, clock, version: told } of log) {
    expect(told).toBe(version);
    expect(clock).toBe(done[worker]);
    if (kind === "pull") {
      const others = done.filter((count) => count < clocks);
      expect(clock - Math.min(...others)).toBeLessThanOrEqual(staleness);
    } else {
      done[worker] = clock + 1;
      version++;
    }
  }
  expect(done).toEqual(new Array(workers).fill(clocks));
}

describe.each(["reference", ...(missing === undefined ? (["native"] as const) : [])] as const)(
  "%s executor",
  (executor) => {
    test.each([0, 1, Infinity])(
      "one server, two workers, staleness %d: learns, keeps the bound, is replayed to the bit",
      async (staleness) => {
        const runtimes = [0, 1, 2].map(() => localRuntime({ executor, threads: 1 }));
        open.push(...runtimes);
        const made = options(runtimes, { staleness });
        const { params, log, losses } = await trainOnServer(made);
        expectBound(log, 2, 25, staleness);
        expect(losses.at(-1)).toBeLessThan((losses[0] as number) / 10);
        const again = await replayOnServer(made, log);
        expect(await bits(again.params)).toEqual(await bits(params));
        expect(again.log).toEqual(log);
        expect(again.losses).toEqual(losses);
      },
    );
  },
);

test("a log of another order is other bits, or refused", async () => {
  const runtimes = [0, 1, 2].map(() => localRuntime({ executor: "reference" }));
  const made = options(runtimes, { clocks: 3 });
  const { params, log } = await trainOnServer(made);
  await expect(replayOnServer(made, log.slice(1))).rejects.toThrow(/pushes clock 0 without a pull/);
  const swapped = log.map((entry) => ({ ...entry, worker: 1 - entry.worker }));
  expect(await bits((await replayOnServer(made, swapped)).params)).not.toEqual(await bits(params));
});

test("server and workers in waiting processes", async () => {
  const secret = "a secret of this test";
  const waiting = await Promise.all(
    [0, 1, 2].map(() => serveDrivers({ host: "127.0.0.1", port: 0, secret, executor: "reference" })),
  );
  open.push(...waiting);
  const runtimes = await Promise.all(
    waiting.map(({ port }) => remoteRuntime([], { workers: [`127.0.0.1:${port}`], secret, timeout: 20 })),
  );
  open.push(...runtimes);
  const { params, log } = await trainOnServer(options(runtimes, { clocks: 5 }));
  expectBound(log, 2, 5, 1);
  const here = [0, 1, 2].map(() => localRuntime({ executor: "reference" }));
  expect(await bits((await replayOnServer(options(here, { clocks: 5 }), log)).params)).toEqual(await bits(params));
});

describe("a server device", () => {
  const device = (runtime = localRuntime({ executor: "reference" })): ServerDevice<{ total: Tensor }> =>
    new ServerDevice(
      runtime,
      "counter",
      { total: tensor([0, 0]) },
      {
        read: { inputs: [], run: ({ total }) => ({ reply: total }) },
        add: {
          inputs: [{ shape: [2], dtype: "f32" }],
          run: ({ total }, x: Tensor) => ({ state: { total: total.add(x) }, reply: total }),
        },
      },
    );

  test("runs its handlers in order; what was read stays as it was", async () => {
    const counter = device();
    const before = counter.ask("read") as Tensor;
    counter.ask("add", tensor([1, 2]));
    const old = counter.ask("add", tensor([10, 20])) as Tensor;
    const after = counter.ask("read") as Tensor;
    expect([...(await before.data())]).toEqual([0, 0]);
    expect([...(await old.data())]).toEqual([1, 2]);
    expect([...(await after.data())]).toEqual([11, 22]);
  });

  test("is printed whole", async () => {
    await expect(printServerProgram(device().program)).toMatchFileSnapshot("golden/counter.txt");
  });

  test("mistakes are named", () => {
    expect(() => device().ask("clear")).toThrow(/counter has no handler 'clear'\n.*it has read, add/s);
    expect(() => device().ask("add")).toThrow(/arguments/);
    expect(
      () =>
        new ServerDevice(
          localRuntime({ executor: "reference" }),
          "odd",
          { total: tensor([0, 0]) },
          {
            grow: { inputs: [], run: ({ total }) => ({ state: { total: total.sum() } }) },
          },
        ),
    ).toThrow(/server 'odd', handler 'grow': does not return 'total' f32\[2\]/);
  });
});
