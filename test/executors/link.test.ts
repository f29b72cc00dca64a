/** The link between driver and worker under attack: what a stranger, a relay, and a driver that vanishes can do. */
import { once } from "node:events";
import { createServer, connect as dial, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { type Channel, greet, type HelloOptions } from "../../src/executors/remote/channel.ts";
import { remoteRuntime } from "../../src/executors/remote/driver.ts";
import { checkSecret, LinkKeys } from "../../src/executors/remote/seal/records.ts";
import { serveDrivers } from "../../src/executors/remote/worker.ts";

const secret = "a secret of tests";
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function waiting(log: (text: string) => void = () => {}): Promise<number> {
  const worker = await serveDrivers({ host: "127.0.0.1", port: 0, secret, executor: "reference", log });
  open.push(() => worker.close());
  return worker.port;
}

async function socketTo(port: number): Promise<Socket> {
  const socket = dial(port, "127.0.0.1");
  socket.on("error", () => {});
  open.push(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

/** A driver's link of which the test sends each message itself. */
async function driverOf(port: number, more: Partial<HelloOptions> = {}): Promise<Channel> {
  const options = { secret, timeout: 5000, peer: "the worker", says: { timeout: 60 }, ...more };
  return greet(await socketTo(port), "driver", options);
}

/** The head of the next message, or the reason for the end. */
const next = (channel: Channel): Promise<{ readonly [key: string]: unknown }> =>
  new Promise((resolve) => {
    channel.onFrame(({ head }) => resolve(head));
    channel.onEnd((error) => resolve({ ended: error?.plain }));
  });

/** What of a stream a relay changes: gets the bytes of a part and the number of bytes before it. */
type Change = (part: Buffer, before: number) => Buffer;

/** A relay between drivers and a worker, which keeps all that it sees. */
async function relay(worker: number, toWorker: Change): Promise<{ readonly port: number; readonly seen: Buffer[] }> {
  const seen: Buffer[] = [];
  const server = createServer((driver) => {
    const onward = dial(worker, "127.0.0.1");
    for (const socket of [driver, onward])
      socket.on("error", () => {}).on("close", () => driver.destroy() && onward.destroy());
    let before = 0;
    driver.on("data", (part: Buffer) => {
      seen.push(part);
      onward.write(toWorker(Buffer.from(part), before));
      before += part.length;
    });
    onward.on("data", (part: Buffer) => {
      seen.push(part);
      driver.write(part);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push(() => server.close());
  return { port: (server.address() as { port: number }).port, seen };
}

describe("a relay between both sides", () => {
  test("reads nothing of what is said", async () => {
    const { port, seen } = await relay(await waiting(), (part) => part);
    const runtime = await remoteRuntime([], { workers: [`127.0.0.1:${port}`], secret, timeout: 20 });
    open.push(() => runtime.close());
    const buffer = runtime.executor.allocate(64, 0);
    const value = Buffer.alloc(64, "what is written ");
    buffer.write(value);
    expect(Buffer.from(await buffer.read())).toEqual(value);
    const text = Buffer.concat(seen).toString("latin1");
    for (const word of ["join", "secret", "write", "what is"]) expect(text).not.toContain(word);
  });

  test.each<[string, Change]>([
    ["one bit of a record", (part, before) => flipped(part, before > 72 ? part.length - 20 : -1)],
    ["the length of a record", (part, before) => flipped(part, before > 72 ? 3 : -1)],
    ["a record, which it sends twice", (part, before) => (before > 72 ? Buffer.concat([part, part]) : part)],
  ])("cannot change %s", async (_what, change) => {
    const lines: string[] = [];
    const { port } = await relay(await waiting((text) => lines.push(text)), change);
    const channel = await driverOf(port);
    for (let n = 1; ; n++) {
      channel.send({ type: "ping", n });
      if ("ended" in (await next(channel))) break;
    }
    while (!lines.some((line) => line.includes("has gone"))) await new Promise((done) => setTimeout(done, 5));
    expect(lines.join("\n")).toMatch(/altered the link|a record of \d+ bytes/);
  });

  test("cannot prove with what another link has shown", () => {
    const [first, second] = [1, 2].map((byte) => new LinkKeys(secret, Buffer.alloc(32, 9), Buffer.alloc(32, byte)));
    const proof = first?.proof("driver") as Buffer;
    expect([first?.proves("driver", proof), first?.proves("worker", proof), second?.proves("driver", proof)]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

const flipped = (part: Buffer, at: number): Buffer => {
  if (at >= 0) part[at] = (part[at] as number) ^ 1;
  return part;
};

describe("a stranger", () => {
  test("gets random bytes, and no proof from which the secret could be guessed", async () => {
    const socket = await socketTo(await waiting());
    let answer = 0;
    socket.on("data", (part: Buffer) => {
      answer += part.length;
    });
    socket.write(Buffer.concat([Buffer.from("heddle\0\x02"), Buffer.alloc(32)]));
    await once(socket, "data");
    socket.write(Buffer.alloc(32));
    await once(socket, "close");
    expect(answer).toBe(32);
  });

  test("and many of them leave one line in the log, and room for a driver", async () => {
    const lines: string[] = [];
    const port = await waiting((text) => lines.push(text));
    const silent = await Promise.all(Array.from({ length: 200 }, () => socketTo(port)));
    for (let count = 0; count < 50; count++) {
      const socket = await socketTo(port);
      socket.end("GET / HTTP/1.1\r\n\r\n".padEnd(64));
      socket.resume();
      await once(socket, "close");
    }
    expect(lines).toHaveLength(1);
    const channel = await driverOf(port);
    channel.send({ type: "ping", n: 7 });
    expect(await next(channel)).toEqual({ n: 7 });
    for (const socket of silent) socket.destroy();
  });

  test("cannot fill the memory before a proof", async () => {
    const lines: string[] = [];
    const socket = await socketTo(await waiting((text) => lines.push(text)));
    socket.write(Buffer.concat([Buffer.from("heddle\0\x02"), Buffer.alloc(2 ** 20)]));
    socket.resume();
    await once(socket, "close");
    expect(lines.join()).toMatch(/sends too much before its proof|does not know the secret/);
  });
});

test.each([
  ["the worker", () => serveDrivers({ host: "127.0.0.1", port: 0, secret: "hunter2" })],
  ["the driver", () => remoteRuntime([], { workers: ["127.0.0.1:1"], secret: "hunter2" })],
])("%s refuses a secret that can be guessed", async (_who, start) => {
  await expect(start()).rejects.toThrow(/has 7 bytes, of at least 16\n.*\n? *hint: make one that nobody guesses/s);
  expect(() => checkSecret("ö".repeat(8))).not.toThrow();
});

test("versions that differ are both named, on both sides", async () => {
  const lines: string[] = [];
  const port = await waiting((text) => lines.push(text));
  await expect(driverOf(port, { version: "9.9.9" })).rejects.toThrow(
    /the worker has Heddle 0\.\d+\.\d+, and this process has 9\.9\.9/,
  );
  while (lines.length === 0) await new Promise((done) => setTimeout(done, 5));
  expect(lines[0]).toMatch(/the driver at \S+ has Heddle 9\.9\.9, and this process has 0\.\d/);
});

test("a mesh that needs more workers than there are is refused before a device of it is made", async () => {
  const channel = await driverOf(await waiting());
  const axes = ["a", "b"].map((name) => ({ name, size: 65_536 }));
  const join = { type: "join", n: 1, axes, rank: 0, size: 65_536, runId: "r", secret, timeout: 60, host: "127.0.0.1" };
  const before = process.memoryUsage().rss;
  channel.send(join);
  expect(await next(channel)).toMatchObject({ n: 1, error: { code: "mesh", message: /4294967296 devices/ } });
  expect(process.memoryUsage().rss - before).toBeLessThan(100e6);
});

test("a driver that says nothing for its timeout loses the worker to the next driver", async () => {
  const lines: string[] = [];
  const port = await waiting((text) => lines.push(text));
  const silent = await driverOf(port, { says: { timeout: 1 } });
  const busy = await driverOf(port);
  expect(await next(busy)).toMatchObject({ error: { code: "busy" } });
  expect(await next(silent)).toEqual({ ended: "the worker has ended the link" });
  while (!lines.some((line) => line.includes("has gone"))) await new Promise((done) => setTimeout(done, 5));
  expect(lines.join("\n")).toContain("has sent nothing for 1 s");
  const channel = await driverOf(port);
  channel.send({ type: "ping", n: 7 });
  expect(await next(channel)).toEqual({ n: 7 });
});
