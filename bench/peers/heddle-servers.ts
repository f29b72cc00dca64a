/**
 * @module A parameter server of Heddle in a process of its own, and a client that answers lines of a number and a call's name with the
 * milliseconds of each of so many calls, as servers.py does.
 *
 *     heddle-servers.ts <dense numbers> <rows of the table> <width> <rows of a request>
 */
import { fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { optim, type Tensors } from "heddle";
import { type Bytes, ServerClient, serveParameters, shardsOf, type TableSpec, tableFor } from "heddle/parameter-server";

const self = fileURLToPath(import.meta.url);

/** A worker of one server. */
class Worker {
  readonly client: ServerClient;
  version = 0;
  private clock = 0;

  constructor(address: string) {
    this.client = new ServerClient({ servers: [address], secret, worker: 0, incarnation: 1 });
  }

  async open(params: Tensors, tables: readonly TableSpec[]): Promise<void> {
    const { client } = this;
    await client.open(shardsOf(optimizer, { params, slots: {}, dtype: "f32" }, 1, tables), { policy: "async" });
    const zeros = Object.entries(
      params as unknown as { readonly [name: string]: { readonly shape: readonly number[] } },
    );
    const values = zeros.map(([name, { shape }]): [string, Uint8Array] => [name, new Uint8Array(4 * (shape[0] ?? 1))]);
    await client.load(new Map(values), new Map(), 0, "begun");
    ({ version: this.version } = await client.clock(0, 0));
  }

  /** A push counts when its step is decided; a pull of its version waits until it is applied. */
  async push(grads: Bytes, rows: readonly { readonly ids: Int32Array<ArrayBuffer>; readonly values: Uint8Array }[]) {
    await this.client.push(this.clock, grads, [0.01], rows);
    ({ version: this.version } = await this.client.clock(++this.clock, 1));
  }
}

const optimizer = optim.sgd({ learningRate: 0.01 });
const secret = process.env["HEDDLE_SECRET"] ?? randomBytes(32).toString("hex");

if (process.argv[2] === "server") {
  process.on("disconnect", () => process.exit());
  const start = () => serveParameters({ servers: ["127.0.0.1:0"], index: 0, secret, workers: 1, threads: 1 });
  const servers = [await start(), await start()];
  process.send?.(servers.map(({ address }) => address));
} else {
  const [dense, count, width, asked] = process.argv.slice(2).map(Number) as [number, number, number, number];
  const child = fork(self, ["server"], { env: { ...process.env, HEDDLE_SECRET: secret }, execArgv: process.execArgv });
  const addresses = await new Promise<string[]>((resolve) =>
    child.once("message", (told) => resolve(told as string[])),
  );
  const table = await tableFor(optimizer, {
    ...{ path: "table", count, size: width, dtype: "f32", keys: [0, 0, 0, 0], std: 0, padding: -1 },
    ...{ admit: 1, evict: 0, memory: 2 ** 34 },
  });
  const ofDense = new Worker(addresses[0] as string);
  const ofRows = new Worker(addresses[1] as string);
  await ofDense.open({ dense: { shape: [dense], dtype: "f32" } } as unknown as Tensors, []);
  await ofRows.open({}, [table]);
  const gradient = new Map([["dense", new Uint8Array(new Float32Array(dense).fill(1).buffer)]]);
  let seed = 1;
  const rows = (): Int32Array<ArrayBuffer> => {
    const ids = new Set<number>();
    while (ids.size < asked) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      ids.add(seed % count);
    }
    return Int32Array.from(ids).sort();
  };
  const calls: { readonly [name: string]: () => () => Promise<unknown> } = {
    "dense push": () => () => ofDense.push(gradient, []),
    "dense pull": () => async () => {
      const { client, version } = ofDense;
      client.recycle(await client.pull(version));
    },
    "rows push": () => {
      const ids = rows();
      const values = new Uint8Array(new Float32Array(ids.length * width).fill(1).buffer);
      return () => ofRows.push(new Map(), [{ ids, values }]);
    },
    "rows pull": () => {
      const ids = rows();
      const { client } = ofRows;
      return async () => client.recycle(await client.rows(ofRows.version, [ids]));
    },
  };
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const [, times = "", name = ""] = /^(\d+) (.*)$/.exec(line.trim()) ?? [];
    const prepared = Array.from({ length: Number(times) }, () => (calls[name] as () => () => Promise<unknown>)());
    const before = performance.now();
    for (const call of prepared) await call();
    console.log((performance.now() - before) / prepared.length);
  }
  for (const { client } of [ofDense, ofRows]) client.close();
  child.disconnect();
}
