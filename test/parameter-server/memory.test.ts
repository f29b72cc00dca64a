/** The memory of a server over many small requests: 20,000 of them, and a million by `npm run test:kills`. */
import { fork } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { optim } from "heddle";
import { afterEach, expect, test } from "vitest";
import { ServerClient } from "../../src/parameter-server/client.ts";
import type { Rows } from "../../src/parameter-server/tables/row-lists.ts";
import { tableFor } from "../../src/parameter-server/tables/table-spec.ts";
import { isWhole } from "../support/sample.ts";
import { filled, secret, shardsFor, sizes } from "./cluster.ts";

const requests = isWhole() ? 1_000_000 : 20_000;
const minutes = 60_000;
const folder = mkdtempSync(join(tmpdir(), "heddle-memory-"));
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
  rmSync(folder, { recursive: true, force: true });
});

const library = pathToFileURL(join(import.meta.dirname, "..", "..", "dist", "parameter-server", "index.js")).href;
const program = `
import { serveParameters } from ${JSON.stringify(library)};
const secret = ${JSON.stringify(secret)};
const server = await serveParameters({ servers: ["127.0.0.1:0"], index: 0, secret, workers: 2, threads: 1 });
process.send(server.address);
process.on("message", () => {
  globalThis.gc();
  process.send(process.memoryUsage.rss());
});
process.on("disconnect", () => process.exit());
`;

test.skipIf(process.platform !== "linux")(
  "is flat",
  { timeout: requests > 100_000 ? 60 * minutes : 3 * minutes },
  async () => {
    const file = join(folder, "server.mjs");
    writeFileSync(file, program);
    const child = fork(file, [], { execArgv: ["--expose-gc"] });
    ends.push(() => child.disconnect());
    const told = (): Promise<unknown> => new Promise((resolve) => child.once("message", resolve));
    const address = String(await told());
    const memory = async (): Promise<number> => {
      child.send("memory");
      return Number(await told());
    };
    const table = await tableFor(optim.adagrad({ learningRate: 0.1 }), {
      ...{ path: "table", count: 1000, size: 2, dtype: "f64", keys: [1, 2, 3, 4], std: 1, padding: -1 },
      ...{ admit: 2, evict: 64, memory: 2 ** 20 },
    });
    const shards = shardsFor(1).map((shard) => ({ ...shard, tables: [table] }));
    let sent = 0;
    let warm = 0;
    const work = async (worker: number): Promise<void> => {
      const client = new ServerClient({ servers: [address], secret, worker, incarnation: 1, timeout: 20 });
      ends.push(() => client.close());
      await client.open(shards, { policy: "ssp:2" });
      if (worker === 0) await client.load(filled(0), new Map(), 0, "begun");
      await client.start();
      let { version } = await client.clock(0, 0);
      for (let clock = 0; sent < requests; clock++) {
        const ids = Int32Array.from({ length: 40 }, (_unused, row) => (row * 25 + clock) % 1000).sort();
        const rows: Rows = { ids, values: new Uint8Array(16 * ids.length) };
        await Promise.all(Array.from({ length: 14 }, () => client.rows(version, [ids.subarray(0, 4)])));
        await client.pullRows(version, [ids]);
        await client.push(clock, filled(1), [1], [rows]);
        ({ version } = await client.clock(clock + 1, 1));
        sent += 17;
        if (warm === 0 && sent > requests / 5) warm = await memory();
      }
      await client.leave();
      if (worker === 0) {
        const last = await client.pull(await client.finish());
        expect([...last.keys()]).toEqual(Object.keys(sizes));
      }
    };
    await Promise.all([work(0), work(1)]);
    const grown = (await memory()) - warm;
    expect(warm).toBeGreaterThan(0);
    expect(grown).toBeLessThan(24 * 2 ** 20);
  },
);
