/** Notices of a machine's end: a file, and the clouds' services as a server of this test. */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { watchNotices } from "../../src/launch/notices.ts";

type Answer = (request: IncomingMessage) => [status: number, body: string];

/** A service whose second answer is the notice. */
async function served(first: Answer, then: Answer, source: (base: string) => string): Promise<string> {
  let asked = 0;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const isToken = request.url === "/latest/api/token";
    const [status, body] = isToken ? [200, "a token"] : (asked++ === 0 ? first : then)(request);
    response.writeHead(status).end(body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let end = (): void => {};
  try {
    return await new Promise<string>((resolve) => {
      end = watchNotices(source(base), resolve, 20);
    });
  } finally {
    end();
    server.closeAllConnections();
    server.close();
  }
}

const rows: [string, Answer, Answer, RegExp][] = [
  [
    "aws",
    () => [404, ""],
    ({ headers }) =>
      headers["x-aws-ec2-metadata-token"] === "a token"
        ? [200, '{"action":"terminate","time":"2026-01-01T00:00:00Z"}']
        : [401, ""],
    /EC2 will terminate this machine at 2026-01-01T00:00:00Z/,
  ],
  [
    "gcp",
    () => [200, "FALSE"],
    ({ headers }) => (headers["metadata-flavor"] === "Google" ? [200, "TRUE\n"] : [403, "TRUE"]),
    /preempts/,
  ],
  [
    "azure",
    () => [200, '{"Events":[{"EventType":"Reboot"}]}'],
    ({ headers }) =>
      headers["metadata"] === "true" ? [200, '{"Events":[{"EventType":"Preempt","NotBefore":"soon"}]}'] : [400, ""],
    /Azure announces Preempt at soon/,
  ],
  ["gcp", () => [500, ""], () => [200, "TRUE"], /preempts/],
  ["azure", () => [200, "no JSON"], () => [200, '{"Events":[null,{"EventType":"Terminate"}]}'], /Terminate/],
];

test.each(rows)("%s", async (name, first, then, said) => {
  expect(await served(first, then, (base) => `${name}@${base}`)).toMatch(said);
});

test("a file that appears", async () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-test-"));
  const file = join(folder, "end");
  const noticed = new Promise<string>((resolve) => void watchNotices(file, resolve, 20));
  writeFileSync(file, "");
  expect(await noticed).toBe(`the file ${file} is there`);
  rmSync(folder, { recursive: true });
});

test("an unknown cloud is refused", () => {
  expect(() => watchNotices("moon@http://127.0.0.1:1", () => {})).toThrow(/no source of notices 'moon'/);
});
