/** Links by mutual TLS: who is let in, and what both sides say of who is not. */
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, connect as dial, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as dialTls } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { main } from "../../src/cli/main.ts";
import { type Channel, greet } from "../../src/executors/remote/channel.ts";
import { remoteRuntime } from "../../src/executors/remote/driver.ts";
import { readCertificates } from "../../src/executors/remote/tls/certificates.ts";
import { serveDrivers } from "../../src/executors/remote/worker.ts";
import { HeddleError } from "../../src/util/errors.ts";

const secret = "a secret of tests";
const root = mkdtempSync(join(tmpdir(), "heddle-tls-"));
const at = (name: string): string => join(root, name);
const open: (() => unknown)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const close of open.splice(0).reverse()) await close();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function keys(...args: string[]): Promise<{ status: number; said: string }> {
  const lines: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((text: string) => void lines.push(text));
  const error = vi.spyOn(console, "error").mockImplementation((text: string) => void lines.push(text));
  try {
    return { status: await main(["keys", ...args]), said: lines.join("\n") };
  } finally {
    log.mockRestore();
    error.mockRestore();
  }
}

beforeAll(async () => {
  expect((await keys("make", at("a"), "--names", "a.example,10.0.0.1")).status).toBe(0);
  expect((await keys("make", at("b"), "--ca", at("a"), "--names", "b.example")).status).toBe(0);
  expect((await keys("make", at("stranger"))).status).toBe(0);
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 100 * 86_400_000 });
  expect((await keys("make", at("old"), "--ca", at("a"), "--days", "30")).status).toBe(0);
  vi.useRealTimers();
});

/** A connection, by both of its ends. */
async function sockets(): Promise<{ driver: Socket; worker: Socket }> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const came = once(server, "connection") as Promise<[Socket]>;
  const driver = dial((server.address() as { port: number }).port, "127.0.0.1");
  await once(driver, "connect");
  const [worker] = await came;
  server.close();
  open.push(() => driver.destroy() && worker.destroy());
  return { driver, worker };
}

const hello = { secret, timeout: 5000, peer: "the other side" };
const text = (error: unknown): string => (error as Error).message.split("\n")[0] as string;

/** What both sides say: nothing where the link came about. */
async function pair(driverHas: string | undefined, workerHas: string | undefined, host = "127.0.0.1") {
  const { driver, worker } = await sockets();
  const options = (folder: string | undefined) => ({ ...hello, ...(folder === undefined ? {} : { tls: at(folder) }) });
  const both = await Promise.allSettled([
    greet(driver, "driver", { ...options(driverHas), host }),
    greet(worker, "worker", options(workerHas)),
  ]);
  for (const one of both) if (one.status === "fulfilled") open.push(() => one.value.close());
  const said = both.map((one) => (one.status === "fulfilled" ? "" : text(one.reason)));
  return { driver: said[0], worker: said[1], links: both.map((one) => (one as { value?: Channel }).value) };
}

describe("two sides", () => {
  test.each([
    ["a", "b", "127.0.0.1"],
    ["b", "a", "10.0.0.1"],
    ["b", "a", "a.example"],
    ["a", "a", "localhost"],
  ])("%s and %s trust each other, dialled as %s", async (driverHas, workerHas, host) => {
    const { driver, worker, links } = await pair(driverHas, workerHas, host);
    expect([driver, worker]).toEqual(["", ""]);
    const came = new Promise((resolve) => links[1]?.onFrame(({ head, body }) => resolve([head, [...body]])));
    links[0]?.send({ type: "ping", n: 1 }, Uint8Array.of(1, 2, 3));
    expect(await came).toEqual([{ type: "ping", n: 1 }, [1, 2, 3]]);
  });

  test.each([
    ["another name", "a", "b", "other.example", /its certificate is not for other\.example/, /./],
    ["another address", "a", "b", "10.0.0.1", /its certificate is not for 10\.0\.0\.1/, /./],
    [
      "another CA",
      "a",
      "stranger",
      "127.0.0.1",
      /is not signed by the CA in .*\/a$/,
      /does it have HEDDLE_TLS\? If so, it does not trust this side's certificate$/,
    ],
    ["own expired", "old", "b", "127.0.0.1", /old\/cert\.pem has expired on /, /./],
    [
      "a worker without TLS",
      "a",
      undefined,
      "127.0.0.1",
      /does it have HEDDLE_TLS\?/,
      /speaks TLS, for which this side needs/,
    ],
    [
      "a driver without TLS",
      undefined,
      "a",
      "127.0.0.1",
      /has it HEDDLE_TLS if this side has\?/,
      /does not speak TLS 1\.3/,
    ],
  ])("%s", async (_what, driverHas, workerHas, host, driverSays, workerSays) => {
    const { driver, worker } = await pair(driverHas, workerHas, host);
    expect(driver).toMatch(driverSays);
    expect(worker).toMatch(workerSays);
  });
});

/** A client that trusts everybody, says the beginning of a hello at once, and shows a certificate or none. */
async function stranger(folder: string | undefined): Promise<string> {
  const { driver, worker } = await sockets();
  const shown = folder && {
    cert: readFileSync(join(at(folder), "cert.pem")),
    key: readFileSync(join(at(folder), "key.pem")),
  };
  const client = dialTls({ socket: driver, rejectUnauthorized: false, ...shown });
  client
    .on("error", () => {})
    .on("secureConnect", () => client.write(Buffer.concat([Buffer.from("heddle\0\x02"), Buffer.alloc(32)])));
  return greet(worker, "worker", { ...hello, tls: at("a") }).then(() => "let in", text);
}

describe("a worker refuses", () => {
  test.each([
    ["no certificate", undefined, /it shows no certificate/],
    ["one of another CA", "stranger", /its certificate is not signed by the CA in .*\/a$/],
    ["one that has expired", "old", /its certificate has expired/],
  ])("%s", async (_what, folder, says) => {
    expect(await stranger(folder)).toMatch(says);
  });

  test("the right certificate with another secret", async () => {
    const { driver, worker } = await sockets();
    const both = await Promise.allSettled([
      greet(driver, "driver", { ...hello, secret: "another one of tests", tls: at("a"), host: "127.0.0.1" }),
      greet(worker, "worker", { ...hello, tls: at("b") }),
    ]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(text((both[1] as PromiseRejectedResult).reason)).toMatch(/does not know the secret/);
  });
});

test("a driver and its worker by HEDDLE_TLS", async () => {
  vi.stubEnv("HEDDLE_TLS", at("a"));
  const worker = await serveDrivers({ host: "127.0.0.1", port: 0, secret, executor: "reference" });
  open.push(() => worker.close());
  const runtime = await remoteRuntime([], { workers: [`127.0.0.1:${worker.port}`], secret, timeout: 20 });
  open.push(() => runtime.close());
  const buffer = runtime.executor.allocate(200_000, 0);
  const value = Buffer.alloc(200_000, "what is written ");
  buffer.write(value);
  expect(Buffer.from(await buffer.read()).equals(value)).toBe(true);
});

describe("heddle keys", () => {
  test("make writes keys that only their owner reads, and shows them", async () => {
    expect(statSync(join(at("a"), "key.pem")).mode & 0o777).toBe(0o600);
    expect(statSync(join(at("a"), "ca-key.pem")).mode & 0o777).toBe(0o600);
    const { status, said } = await keys("show", at("a"));
    expect(status).toBe(0);
    expect(said).toMatch(/ca\.pem: CN=Heddle CA; valid until .*\n {2}SHA-256 (?:[0-9A-F]{2}:?){32}/);
    expect(said).toMatch(/cert\.pem: CN=a\.example, for a\.example, 10\.0\.0\.1, localhost, 127\.0\.0\.1, /);
    expect(said).toMatch(/links by TLS can use this folder; it can sign others/);
  });

  test("names in letters of other languages are kept as DNS has them, and addresses in their short form", async () => {
    const names = "ümlaut.example, FOO.example,*.b.example,2001:db8:0:0:0:0:0:1";
    const as = "xn--mlaut-jva.example, foo.example, *.b.example, 2001:db8::1, localhost, 127.0.0.1, ::1";
    const { said } = await keys("make", at("letters"), "--names", names);
    expect(said).toContain(`a certificate for ${as}, until`);
    expect((await keys("show", at("letters"))).said).toContain(`cert.pem: CN=xn--mlaut-jva.example, for ${as}; valid`);
  });

  test.each(["a b", "a.example:4101", "https://a.example", "a..example", "1.2.3", "0x7f.1", "::1::"])(
    "%j is no name of a machine",
    async (name) => {
      const { status, said } = await keys("make", at("new"), "--names", name);
      expect(status).not.toBe(0);
      expect(said).toContain(`'${name}' is not a name or an address of a machine`);
    },
  );

  test.each<[string, string[], RegExp]>([
    ["a folder that has one", ["make", at("a")], /has a certificate already/],
    ["a CA that cannot sign", ["make", at("new"), "--ca", at("b")], /has no CA that can sign: it lacks ca-key\.pem/],
    ["no days", ["make", at("new"), "--days", "0"], /./],
    ["show of an expired one", ["show", at("old")], /old\/cert\.pem has expired on/],
    ["show of nothing", ["show", at("nothing")], /cannot read .*nothing\/ca\.pem: no such file/],
  ])("%s is refused", async (_what, args, says) => {
    const { status, said } = await keys(...args);
    expect(status).not.toBe(0);
    if (says.source !== ".") expect(said).toMatch(says);
  });

  test.each<[string, () => void, RegExp]>([
    [
      "another key",
      () => writeFileSync(join(at("broken"), "key.pem"), readFileSync(join(at("b"), "key.pem"))),
      /is not the key of/,
    ],
    [
      "a key that is none",
      () => writeFileSync(join(at("broken"), "key.pem"), "nothing"),
      /is not a private key in PEM: there is none in it\n/,
    ],
    [
      "another CA",
      () => writeFileSync(join(at("broken"), "ca.pem"), readFileSync(join(at("stranger"), "ca.pem"))),
      /is not signed by/,
    ],
    [
      "a certificate that is none",
      () => writeFileSync(join(at("broken"), "cert.pem"), "nothing"),
      /is not a certificate in PEM: there is none in it\n/,
    ],
  ])("a folder with %s", async (_what, damage, says) => {
    rmSync(at("broken"), { recursive: true, force: true });
    await keys("make", at("broken"), "--ca", at("a"));
    expect(readCertificates(at("broken")).folder).toBe(at("broken"));
    damage();
    expect(() => readCertificates(at("broken"))).toThrow(HeddleError);
    expect(() => readCertificates(at("broken"))).toThrow(says);
  });
});
