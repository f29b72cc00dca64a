/** Servers and clients in one process, over loopback: what they keep, who waits for whom, and that nothing is lost or counted twice. */
import { optim, type Tensors } from "heddle";
import { afterEach, describe, expect, test } from "vitest";
import { evalShape } from "../../src/functions/index.ts";
import { isTensorType, type TensorType } from "../../src/ir/shape.ts";
import { type Bytes, ServerClient } from "../../src/parameter-server/client.ts";
import { type ParameterServer, type ServerOptions, serveParameters } from "../../src/parameter-server/server.ts";
import { type Shard, shardsOf } from "../../src/parameter-server/shards.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";

const secret = "a secret of this test";
const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

/** The types of an optimizer's state. */
function slotTypes(optimizer: optim.Optimizer, params: Tensors): Tensors {
  const flat = flattenTree<TensorType>(params, isTensorType);
  return evalShape(
    (...leaves) => optimizer.init(unflattenTree(flat.shape, leaves) as Tensors),
    ...flat.leaves,
  ) as never;
}

const paramTypes = {
  weight: { shape: [5, 3], dtype: "f64" },
  bias: { shape: [3], dtype: "f64" },
  scale: { shape: [], dtype: "f64" },
} as unknown as Tensors;
const sizes = { weight: 15, bias: 3, scale: 1 };

const bytesOf = (values: Float64Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
const numbers = (bytes: Uint8Array | undefined): number[] => [
  ...new Float64Array((bytes as Uint8Array).slice().buffer),
];
/** Every tensor filled with a number. */
const filled = (value: number): Bytes =>
  new Map(Object.entries(sizes).map(([name, size]) => [name, bytesOf(new Float64Array(size).fill(value))]));

const optimizer = optim.sgd({ learningRate: 1 });
const shardsFor = (servers: number, rule: optim.Optimizer = optimizer): Shard[] =>
  shardsOf(rule, { params: paramTypes, slots: slotTypes(rule, paramTypes), dtype: "f64" }, servers);

/** Free ports, taken and given back. */
async function addresses(count: number): Promise<string[]> {
  const { createServer } = await import("node:net");
  const taken = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise<typeof server>((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
    }),
  );
  const found = taken.map((server) => `127.0.0.1:${(server.address() as { port: number }).port}`);
  await Promise.all(taken.map((server) => new Promise((resolve) => server.close(resolve))));
  return found;
}

interface Started {
  readonly servers: ParameterServer[];
  readonly addresses: readonly string[];
  readonly start: (index: number, life: number) => Promise<ParameterServer>;
  readonly client: (worker: number, incarnation?: number) => ServerClient;
}

async function started(
  count: number,
  options: Partial<ServerOptions> & { readonly workers: number },
): Promise<Started> {
  const all = await addresses(count);
  const start = async (index: number, life: number): Promise<ParameterServer> => {
    const server = await serveParameters({ servers: all, index, secret, timeout: 20, life, threads: 1, ...options });
    open.push(server);
    return server;
  };
  const servers = await Promise.all(all.map((_address, index) => start(index, 0)));
  const client = (worker: number, incarnation = 1): ServerClient => {
    const made = new ServerClient({ servers: all, secret, worker, incarnation, timeout: 20 });
    open.push(made);
    return made;
  };
  return { servers, addresses: all, start, client };
}

describe.each([1, 3])("%d servers", (count) => {
  test.each(["bsp", "ssp:1", "async"])(
    "%s: pushes are applied once, all workers see the sum at the end",
    async (policy) => {
      const { client } = await started(count, { workers: 2 });
      const shards = shardsFor(count);
      const work = async (worker: number): Promise<Bytes> => {
        const own = client(worker);
        expect(await own.open(shards, { policy })).toBe(0);
        if (worker === 0) await own.load(filled(0), new Map(), 0, "begun");
        expect(await own.start()).toBe("begun");
        let begun = await own.clock(0, 0);
        for (let clock = 0; clock < 5; clock++) {
          await own.pull(begun.version);
          await own.push(clock, filled(-(worker + 1)), [1]);
          begun = await own.clock(clock + 1, 4);
        }
        await own.leave();
        return own.pull(await own.finish());
      };
      const [one, other] = await Promise.all([work(0), work(1)]);
      // In bsp a step is the mean of two workers, else each push is a step.
      const expected = policy === "bsp" ? 7.5 : 15;
      for (const [name, size] of Object.entries(sizes)) {
        expect(numbers(one?.get(name))).toEqual(new Array(size).fill(expected));
        expect(numbers(other?.get(name))).toEqual(new Array(size).fill(expected));
      }
    },
  );
});

test("a worker that comes back goes on where the servers are; a push of an earlier life counts once", async () => {
  const { client } = await started(2, { workers: 1 });
  const shards = shardsFor(2);
  const first = client(0, 1);
  await first.open(shards, { policy: "async" });
  await first.load(filled(0), new Map(), 0, "begun");
  await first.clock(0, 0);
  await first.push(0, filled(-1), [1]);
  await first.clock(1, 1);
  // Sent, but not said to be done: the next life does this clock again.
  await first.push(1, filled(-100), [1]);
  const second = client(0, 2);
  expect(await second.open(shards, { policy: "async" })).toBe(1);
  await second.clock(1, 1);
  await second.push(1, filled(-10), [1]);
  await second.push(1, filled(-10), [1]);
  await expect(first.clock(2, 1)).rejects.toThrow(/worker 0 has a newer life/);
  const { version } = await second.clock(2, 1);
  expect(numbers((await second.pull(version)).get("bias"))).toEqual([11, 11, 11]);
});
