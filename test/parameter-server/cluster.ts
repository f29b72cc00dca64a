/** Servers of a run and clients of them, in this process over loopback. */
import { optim, type Tensors } from "heddle";
import { afterEach } from "vitest";
import { evalShape } from "../../src/functions/index.ts";
import { isTensorType, type TensorType } from "../../src/ir/shape.ts";
import { type Bytes, ServerClient } from "../../src/parameter-server/client.ts";
import { type ParameterServer, type ServerOptions, serveParameters } from "../../src/parameter-server/server.ts";
import { type Shard, shardsOf } from "../../src/parameter-server/shards.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";

export const secret = "a secret of this test";
export const open: { close(): unknown }[] = [];
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
export const sizes = { weight: 15, bias: 3, scale: 1 };

const bytesOf = (values: Float64Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
export const numbers = (bytes: Uint8Array | undefined): number[] => [
  ...new Float64Array((bytes as Uint8Array).slice().buffer),
];
/** Every tensor filled with a number. */
export const filled = (value: number): Bytes =>
  new Map(Object.entries(sizes).map(([name, size]) => [name, bytesOf(new Float64Array(size).fill(value))]));

const optimizer = optim.sgd({ learningRate: 1 });
export const shardsFor = (servers: number, rule: optim.Optimizer = optimizer): Shard[] =>
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

export interface Started {
  readonly servers: ParameterServer[];
  readonly addresses: readonly string[];
  readonly start: (index: number, life: number) => Promise<ParameterServer>;
  /** Resolves when a server that came back has all that it takes from others. */
  readonly settled: (server: ParameterServer) => Promise<void>;
  readonly client: (worker: number, incarnation?: number) => ServerClient;
}

export async function started(
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
  return { servers, addresses: all, start, settled: (server) => server.ready, client };
}
