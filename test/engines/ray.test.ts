/** Runs in Ray: the client against a server of the tests, and the program that starts agents, without Ray. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** What Ray's REST answers: a job that is running in the first `polls` questions for its status, with a log by the number of such questions. */
interface Story {
  readonly polls: number;
  readonly end?: object;
  readonly log: (poll: number) => string;
  /** Whether the connection of a request breaks, before or after its effect, or the request has a status. */
  readonly trouble?: (request: string, times: number) => "before" | "after" | number | undefined;
}

describe("a run, against a server of the tests", () => {
  let folder: string;
  let server: Server;
  let submitted: { submission_id: string; entrypoint: string }[];
  const met: string[] = [];
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "heddle-ray-test-"));
    writeFileSync(join(folder, "train.ts"), "");
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function listen({ polls, end = { status: "SUCCEEDED" }, log, trouble }: Story): Promise<string> {
    submitted = [];
    met.length = 0;
    let poll = 0;
    server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.once("end", () => {
        const send = (value: object, status = 200): void => {
          response.writeHead(status, { "Content-Type": "application/json" });
          response.end(JSON.stringify(value));
        };
        const { method, url = "" } = request;
        const what = `${method} ${url.replace(/heddle-[0-9a-f]+/, "ID")}`;
        met.push(what);
        const wrong = trouble?.(what, met.filter((one) => one === what).length);
        if (wrong === "before") return void request.socket.destroy();
        if (typeof wrong === "number") return send({ error: "busy" }, wrong);
        if (url === "/api/version") return send({ version: "4" });
        if (method === "POST") {
          const job = JSON.parse(Buffer.concat(parts).toString("utf8"));
          if (submitted.some(({ submission_id: id }) => id === job.submission_id)) return send({}, 400);
          submitted.push(job);
          if (wrong === "after") return void request.socket.destroy();
          return send({ submission_id: job.submission_id });
        }
        if (!submitted.some(({ submission_id: id }) => url.includes(id))) return send({}, 404);
        if (url.endsWith("/logs")) return send({ logs: log(poll) });
        poll++;
        send(poll <= polls ? { status: "RUNNING" } : end);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  async function run(story: Story, flags: readonly string[] = [], cwd = root) {
    const address = await listen(story);
    const words = ["run", join(folder, "train.ts"), "--with", "ray", "-n", "2", ...flags];
    const child = spawn(process.execPath, [join(root, "bin/heddle.js"), ...words], {
      cwd,
      env: { ...process.env, RAY_API_SERVER_ADDRESS: address, NO_COLOR: "1" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    const [status] = await once(child, "close");
    return { status: status as number | null, output };
  }

  test("lines come once and whole, and the status is that of the launcher", async () => {
    const log = (poll: number) => ["a\nb", "a\nbc\n", "a\nbc\nd"][Math.min(poll, 3) - 1] ?? "";
    expect(await run({ polls: 2, log, end: { status: "FAILED", driver_exit_code: 7 } })).toEqual({
      status: 7,
      output: "a\nbc\nd",
    });
  });

  test("a busy server and a broken connection are tried again", async () => {
    const { status, output } = await run({
      polls: 2,
      log: () => "line\n",
      trouble: (request, times) =>
        request === "GET /api/jobs/ID" && times === 2
          ? 503
          : request.endsWith("/logs") && times === 1
            ? "before"
            : undefined,
    });
    expect(status).toBe(0);
    expect(output.match(/status 503: .*busy.*; trying again$/gm)).toHaveLength(1);
    expect(output.match(/trying again$/gm)).toHaveLength(2);
    expect(output.match(/^line$/gm)).toHaveLength(1);
  });

  test.each(["before", "after"] as const)("a job whose submission broke %s its effect begins once", async (trouble) => {
    const broken = (request: string, times: number) =>
      request.startsWith("POST") && times === 1 ? trouble : undefined;
    const { status, output } = await run({ polls: 1, log: () => "line\n", trouble: broken });
    expect(status).toBe(0);
    expect(output).toMatch(/trying again\nline\n$/);
    expect(submitted).toHaveLength(1);
  });

  test("when tries end, the job is named, and goes on", async () => {
    const trouble = (request: string, times: number) => (request === "GET /api/jobs/ID" && times > 1 ? 503 : undefined);
    const { status, output } = await run({ polls: 9, log: () => "line\n", trouble }, ["--timeout", "1"]);
    const id = submitted[0]?.submission_id;
    expect(status).toBe(1);
    expect(output).toContain(`; the job ${id} goes on`);
    expect(output).toContain(`ray job stop ${id}`);
    expect(met).not.toContain("POST /api/jobs/ID/stop");
  });

  test("a long log is read less often than the status", async () => {
    const line = `${"x".repeat(999)}\n`;
    const log = (poll: number) => line.repeat(250 + poll);
    const { status, output } = await run({ polls: 8, log });
    expect(status).toBe(0);
    expect(output.length).toBe(log(9).length);
    // 250 kB: at the first question, five later, and at the end.
    expect(met.filter((request) => request.endsWith("/logs"))).toHaveLength(3);
  });

  test("a job whose folder is not there does not run elsewhere", async () => {
    const gone = join(folder, "gone");
    mkdirSync(gone);
    await run({ polls: 0, log: () => "" }, [], gone);
    rmSync(gone, { recursive: true });
    const { status, stderr } = spawnSync("sh", ["-c", submitted[0]?.entrypoint ?? ""], {
      cwd: folder,
      encoding: "utf8",
    });
    expect({ status, lines: stderr.trim().split("\n").length }).toEqual({ status: 1, lines: 1 });
    expect(stderr).toMatch(/cd: .*gone/);
  });
});

const python = spawnSync("python3", ["--version"]).status === 0;
test.skipIf(!python).each([
  [[0, 0], 0],
  [[0, 3], 3],
  [[-15, 0], 143],
  [[0, -9, 1], 137],
])("agents that end with %j give the status %i", (codes, status) => {
  const program = `
import runpy, sys
from unittest.mock import MagicMock
for name in ("ray", "ray.util", "ray.util.placement_group", "ray.util.scheduling_strategies"):
    sys.modules[name] = MagicMock()
parts = runpy.run_path("bin/heddle-ray.py")
sys.modules["ray"].get.return_value = ${JSON.stringify(codes)}
import os, types
os.environ["HEDDLE_SECRET"] = "x"
sys.exit(parts["start"](types.SimpleNamespace(cpus=1, gpus=0, workers=2, strategy="PACK", agent=[]), print))
`;
  const ended = spawnSync("python3", ["-c", program], { cwd: root, encoding: "utf8" });
  expect(ended).toMatchObject({ status, stderr: "" });
});
