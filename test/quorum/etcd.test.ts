/** A run whose epochs are in a real etcd: the launcher is killed, and the majority of the store is lost. Skipped where etcd is not installed. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { etcdStore } from "../../src/quorum/etcd.ts";
import type { LogEntry } from "../../src/quorum/log.ts";
import { finished, heddle } from "../e2e/command.ts";

const script = fileURLToPath(new URL("../elastic/scripts/training.ts", import.meta.url));

/** Why these tests cannot run here; undefined if they can. */
const missing = ((): string | undefined => {
  try {
    execFileSync("etcd", ["--version"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "etcd is not installed (Debian: apt-get install etcd-server)";
  }
})();

const servers: ChildProcess[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    if (server.exitCode !== null || server.signalCode !== null) continue;
    server.kill("SIGKILL");
    await once(server, "exit");
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), "heddle-test-"));
  folders.push(made);
  return made;
};

/** Ports that are free now. */
async function freePorts(count: number): Promise<number[]> {
  const listening = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, "127.0.0.1");
      await once(server, "listening");
      return server;
    }),
  );
  const ports = listening.map((server) => (server.address() as { port: number }).port);
  await Promise.all(listening.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Starts etcd on this machine; gives the addresses of its members. */
async function startEtcd(members: number): Promise<string[]> {
  const ports = await freePorts(2 * members);
  const url = (index: number): string => `http://127.0.0.1:${ports[index]}`;
  const cluster = Array.from({ length: members }, (_unused, index) => `n${index}=${url(members + index)}`).join(",");
  for (let index = 0; index < members; index++) {
    const [client, peer] = [url(index), url(members + index)];
    const args = ["--name", `n${index}`, "--data-dir", folder(), "--initial-cluster", cluster];
    args.push("--listen-client-urls", client, "--advertise-client-urls", client);
    args.push("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer);
    servers.push(spawn("etcd", args, { stdio: "ignore" }));
  }
  const endpoints = Array.from({ length: members }, (_unused, index) => url(index));
  for (let tries = 0; ; tries++) {
    try {
      await etcdStore({ endpoints }, 1).read("x");
      return endpoints;
    } catch (error) {
      if (tries > 100) throw error;
      await sleep(200);
    }
  }
}

const addressOf = (endpoints: readonly string[], name: string): string =>
  `etcd://${endpoints.map((endpoint) => endpoint.slice("http://".length)).join(",")}/${name}?lease=3`;

/** Arguments of an elastic training with checkpoints. */
const training = (where: string, address: string, pause: number): string[] => [
  ...["run", script, "--workers", "1:2", "--threads", "1", "--membership", address, "--"],
  ...["", "plain 4 checkpoint", String(pause), where],
];

const losses = (where: string): number[] =>
  (JSON.parse(readFileSync(join(where, "result.json"), "utf8")) as { losses: number[] }).losses;

describe.skipIf(missing !== undefined)(missing ?? "a run's log in etcd", () => {
  test("keys, conditions and leases", async () => {
    const store = etcdStore({ endpoints: await startEtcd(1) }, 2);
    const absent = { key: "a/1", value: undefined };
    expect(await store.put("a/1", "ä", [absent])).toBe(true);
    expect(await store.put("a/1", "other", [absent])).toBe(false);
    expect(await store.put("a/2", "2", [absent])).toBe(false);
    expect(await store.put("a/2", "2", [{ key: "a/1", value: "ä" }])).toBe(true);
    expect(await store.put("b", "3", [])).toBe(true);
    expect(await store.read("a/")).toEqual([
      ["a/1", "ä"],
      ["a/2", "2"],
    ]);
    const lease = await store.grant(60);
    expect(await store.put("c", "held", [], lease)).toBe(true);
    expect(await store.keepAlive(lease)).toBe(true);
    await store.revoke(lease);
    expect(await store.keepAlive(lease)).toBe(false);
    expect(await store.read("c")).toEqual([]);
  });

  test("another launcher takes over when the first is killed, and the losses stay", async () => {
    const [where, alone] = [folder(), folder()];
    const endpoints = await startEtcd(1);
    const address = addressOf(endpoints, "takeover");
    await finished(["run", script, "--threads", "1", "--", "", "plain 4", "0", alone]);
    const first = heddle(training(where, address, 300));
    await first.seen(/epoch 1\/4/);
    const second = heddle(training(where, address, 0));
    await second.seen(/another launcher leads the run takeover/);
    first.process.kill("SIGKILL");
    const { status } = await second.ended();
    expect({ status, output: second.output() }).toEqual({ status: 0, output: second.output() });
    expect(second.output()).toMatch(/resuming from .*checkpoints/);
    for (const [index, loss] of losses(where).entries()) expect(loss).toBeCloseTo(losses(alone)[index] as number, 12);
    const log = (await etcdStore({ endpoints }, 2).read("heddle/takeover/log/")).map(
      ([, text]) => JSON.parse(text) as LogEntry,
    );
    expect(log.map((entry) => (entry.type === "epoch" ? entry.epoch : "end"))).toEqual([0, 1, "end"]);
    const third = await finished(training(where, address, 0));
    expect(third.output).toMatch(/the run takeover has ended before, with status 0/);
    expect(third.status).toBe(2);
  });

  test("without a majority of the store the run ends, with its workers", async () => {
    const where = folder();
    const endpoints = await startEtcd(3);
    const run = heddle(training(where, addressOf(endpoints, "minority"), 300));
    await run.seen(/epoch 1\/4/);
    // One of three may go.
    servers[0]?.kill("SIGKILL");
    await run.seen(/epoch 2\/4/);
    servers[1]?.kill("SIGKILL");
    const { status } = await run.ended();
    expect(run.output()).toMatch(/no majority of the store has answered for 2 s: the workers are ended/);
    expect(status).toBe(1);
  });
});
