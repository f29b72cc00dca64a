/** A relay between two ranks of a run changes one bit of what one says to the other. */
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect as dial, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { type Ended, started } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/sum-through.ts", import.meta.url));

/** Changes what passes: gets the bytes, and the number of bytes before them on this link in this direction. */
type Change = (part: Buffer, before: number) => Buffer;
const same: Change = (part) => part;

/** A relay to a port that may become known later; the changes are made anew for each connection, which are counted. */
async function relay(to: () => number, changes: (link: number) => { up: Change; down: Change }): Promise<Server> {
  let links = 0;
  const server = createServer({ noDelay: true }, (near) => {
    const far = dial({ port: to(), host: "127.0.0.1", noDelay: true });
    const { up, down } = changes(links++);
    for (const [from, onto, change] of [
      [near, far, up],
      [far, near, down],
    ] as const) {
      let before = 0;
      from.on("data", (part: Buffer) => {
        onto.write(change(Buffer.from(part), before));
        before += part.length;
      });
      from.on("error", () => {}).on("close", () => onto.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

const portOf = (server: Server): number => (server.address() as { port: number }).port;

/** A bit of the stream, by its number, of the link that carries data (the first of both). */
const flip =
  (bit: number): Change =>
  (part, before) => {
    const at = Math.floor(bit / 8) - before;
    if (at >= 0 && at < part.length) part[at] = (part[at] as number) ^ (1 << (bit % 8));
    return part;
  };

/** Runs two workers with a relay between them: rank 1 learns the relay's address in the place of rank 0's, from a relay before the store. */
async function runThrough(transport: string, changes: { up?: Change; down?: Change }): Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), "heddle-relay-"));
  const file = join(folder, "port");
  const servers: Server[] = [];
  try {
    const variables = { HEDDLE_TRANSPORT: transport, HEDDLE_THREADS: "1", HEDDLE_TIMEOUT: "30" };
    const run = started(["run", script, "--workers", "2", "--", file], variables);
    let rank0 = 0;
    const between = await relay(
      () => rank0,
      (link) => ({ up: same, down: same, ...(link === 0 ? changes : {}) }),
    );
    servers.push(between);
    while (!existsSync(`${file}.store`)) await sleep(20);
    const named: Change = (part) =>
      Buffer.from(
        part.toString("latin1").replace(/127\.0\.0\.1:(\d+)(?= \d+ 2)/, (whole, port: string) => {
          rank0 = Number(port);
          const other = `127.0.0.1:${portOf(between)}`;
          if (other.length !== whole.length) throw new Error(`the relay at ${other} cannot stand for ${whole}`);
          return other;
        }),
        "latin1",
      );
    const store = Number(readFileSync(`${file}.store`, "utf8"));
    servers.push(
      await relay(
        () => store,
        () => ({ up: same, down: named }),
      ),
    );
    writeFileSync(`${file}.new`, String(portOf(servers[1] as Server)));
    renameSync(`${file}.new`, file);
    const ended = await run.ended;
    expect(rank0, "the ranks met without the relay").toBeGreaterThan(0);
    return ended;
  } finally {
    for (const server of servers) server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const results = (stdout: string): string[] => [...stdout.matchAll(/RESULT (.*)/g)].map(([, text]) => text as string);

describe.skipIf("error" in loadNative())("one bit of what ranks say", { timeout: 120_000 }, () => {
  test.each([
    ["near the beginning of the first sum", "up", 8 * 900, 0, 0],
    ["in the middle of the first sum", "up", 8 * 300_000 + 5, 0, 0],
    ["in the middle of the first sum, to rank 1", "down", 8 * 300_000 + 2, 1, 0],
    ["in the second sum", "up", 8 * 1_500_000 + 7, 0, 1],
  ] as const)("%s is found under checked", async (_what, way, bit, finder, sequence) => {
    const { status, stdout, stderr } = await runThrough("checked", { [way]: flip(bit) });
    expect(stderr).toContain(`rank ${finder} failed: op 0 of program comm.allReduce (collective): `);
    expect(stderr).toContain(`the link to rank ${1 - finder} failed in allReduce sum f32 x 262144`);
    expect(stderr).toMatch(
      new RegExp(`\\(sequence ${sequence}, message \\d\\): a block of \\d+ bytes does not match its CRC32C`),
    );
    expect(status).toBe(1);
    // No sum that was handed on is wrong.
    for (const result of results(stdout)) expect(result).toMatch(/: 0 wrong$/);
  });

  test("is a wrong sum without checksums", async () => {
    const { status, stdout } = await runThrough("tcp", { up: flip(8 * 300_000 + 5) });
    expect(status).toBe(0);
    expect(results(stdout).filter((result) => !result.endsWith(": 0 wrong"))).toEqual([
      "sum 1: 1 wrong",
      "sum 1: 1 wrong",
    ]);
  });

  test("what the relay leaves alone arrives", async () => {
    const { status, stdout, stderr } = await runThrough("checked", {});
    expect(status, stderr).toBe(0);
    expect(results(stdout)).toHaveLength(6);
    expect(new Set(results(stdout).map((result) => result.slice(-7)))).toEqual(new Set(["0 wrong"]));
  });
});
