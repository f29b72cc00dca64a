/** A driver and waiting workers: the same answers, and every way in which either side can fail the other. */
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect as connectSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { remoteRuntime } from "../../src/executors/remote/driver.ts";
import { serveDrivers, type WaitingWorker } from "../../src/executors/remote/worker.ts";
import { distribute, grad, jit, scan, type Tensor, take, tensor } from "../../src/functions/index.ts";
import { losses } from "../../src/index.ts";
import { mesh, replicated, shardedOn } from "../../src/plan/index.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import type { HeddleError } from "../../src/util/errors.ts";
import { started } from "../cli/heddle-process.ts";
import { missing } from "../native/evaluate.ts";

const secret = "a secret of tests";
const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function worker(more: Partial<Parameters<typeof serveDrivers>[0]> = {}): Promise<WaitingWorker> {
  const waiting = await serveDrivers({ host: "127.0.0.1", port: 0, secret, executor: "reference", ...more });
  open.push(waiting);
  return waiting;
}

async function drive(workers: readonly { port: number }[], axes: Record<string, number> = {}): Promise<Runtime> {
  const addresses = workers.map(({ port }) => `127.0.0.1:${port}`);
  const runtime = await remoteRuntime(mesh(axes).axes, { workers: addresses, secret, timeout: 20 });
  open.push(runtime);
  return runtime;
}

const ramp = (count: number): Float32Array => Float32Array.from({ length: count }, (_unused, index) => index - 3);

/** A whole value on a runtime. */
function whole(runtime: Runtime, data: Float32Array): Tensor {
  const layout = replicated({ axes: runtime.axes });
  return distribute(runtime, data, { shape: [data.length], dtype: "f32" }, layout);
}

describe("one worker", () => {
  test("runs what the driver traces, and gives values back", async () => {
    const runtime = await drive([await worker()]);
    const x = whole(runtime, ramp(6));
    const f = jit((a: Tensor) => ({ square: a.mul(a), sum: a.sum() }));
    const { square, sum } = f(x);
    expect(Array.from(await square.data())).toEqual([9, 4, 1, 0, 1, 4]);
    expect(await sum.item()).toBe(-3);
    // Eager ops run where their operands are, one-device values come along.
    expect(Array.from(await x.add(tensor(1)).data())).toEqual([-2, -1, 0, 1, 2, 3]);
  });

  test("donation, dispose and a hundred runs in order", async () => {
    const runtime = await drive([await worker()]);
    const step = jit((a: Tensor) => a.mul(0.5).add(1), { donate: [0] });
    let x = whole(runtime, ramp(6));
    for (let round = 0; round < 100; round++) x = step(x);
    for (const value of await x.data()) expect(value).toBeCloseTo(2, 5);
    x.dispose();
    expect(() => x.data()).toThrow(/disposed/);
  });

  test("what cannot be had: reading without waiting; a failed run's value, with its worker named", async () => {
    const runtime = await drive([await worker()]);
    const x = whole(runtime, ramp(6));
    expect(() => x.dataSync()).toThrow(/cannot be read without waiting/);
    const zero = distribute(runtime, new Int32Array(1), { shape: [1], dtype: "i32" }, []);
    const failed = jit((a: Tensor) => a.div(a))(zero);
    await expect(failed.data()).rejects.toThrow(/worker 0 at 127\.0\.0\.1:\d+: .*zero/s);
    // The session goes on.
    expect(await x.sum().item()).toBe(-3);
  });

  test.each(missing === undefined ? (["reference", "native"] as const) : (["reference"] as const))(
    "%s: a value that is refused is told by the user's function and line, as often as it happens",
    async (executor) => {
      const runtime = await drive([await worker({ executor })]);
      const ids = distribute(runtime, Int32Array.of(0, 9), { shape: [2], dtype: "i32" }, []);
      const [table, logits] = [whole(runtime, ramp(3)), whole(runtime, ramp(6))];
      const refused = async (value: Tensor, says: string): Promise<void> => {
        const error = (await value.data().catch((reason: unknown) => reason)) as HeddleError;
        expect(error.code).toBe("value");
        expect(error.plain).toMatch(/^worker 0 at 127\.0\.0\.1:\d+: [^:]+: [^:]*(: [^:]*)?$/);
        expect(error.plain.replace(/^.*?:\d+: /, "")).toBe(says);
        expect(error.where).toMatch(new RegExp(`remote\\.test\\.ts:${line}:\\d+$`));
      };
      let line = 0;
      const below = (): void => {
        line = Number(/remote\.test\.ts:(\d+)/.exec(new Error().stack?.split("\n")[2] ?? "")?.[1]) + 1;
      };
      const looked = jit((x: Tensor, rows: Tensor) => {
        below();
        return take(x, rows).mul(2);
      });
      for (let round = 0; round < 3; round++)
        await refused(looked(table, ids), "take: index 9 at position 1 is outside [-3, 3)");
      const loss = jit(
        grad((x: Tensor) => {
          below();
          return losses.nll(x.reshape([2, 3]), ids);
        }),
      );
      await refused(loss(logits), "nll: label 9 at row 1 is outside [0, 3)");
      const summed = (x: Tensor, rows: Tensor): Tensor =>
        scan(
          (sum: Tensor, row: Tensor): [Tensor, Tensor] => {
            below();
            const next = sum.add(take(x, row.reshape([1])).sum());
            return [next, next];
          },
          x.sum(),
          rows,
        )[0];
      await refused(jit(summed)(table, ids), "take: iteration 1: index 9 at position 0 is outside [-3, 3)");
      below();
      const eager = take(table, ids);
      await refused(eager, "take: index 9 at position 1 is outside [-3, 3)");
      expect(await table.sum().item()).toBe(-6);
    },
  );

  test("another driver is told that it is busy, and taken when the first has gone", async () => {
    const waiting = await worker();
    const first = await drive([waiting]);
    await expect(drive([waiting])).rejects.toThrow(/another driver has this worker/);
    first.close();
    for (;;) {
      const next = await drive([waiting]).catch(() => undefined);
      if (next === undefined) continue;
      expect(await whole(next, ramp(2)).sum().item()).toBe(-5);
      return;
    }
  });

  test.each([
    ["another secret", { secret: "not this one" }, /secret/],
    ["nobody there", { workers: ["127.0.0.1:1"] }, /worker 0 at 127\.0\.0\.1:1 cannot be reached/],
    ["no address", { workers: ["somewhere"] }, /'somewhere' is not the address of a worker/],
    ["more devices than workers", { axes: { data: 2 } }, /a mesh of 2 devices needs as many workers, 1 are named/],
  ])("%s is an error that says so", async (_what, more, message) => {
    const { port } = await worker();
    const { axes = {}, ...rest } = more as { axes?: Record<string, number>; workers?: string[]; secret?: string };
    const options = { workers: [`127.0.0.1:${port}`], secret, timeout: 20, ...rest };
    await expect(remoteRuntime(mesh(axes).axes, options)).rejects.toThrow(message);
  });

  test.each([
    ["bytes of another protocol", Buffer.from("GET / HTTP/1.1\r\nHost: worker\r\n\r\n".padEnd(64))],
    ["a hello without proof", Buffer.concat([Buffer.from("heddle\0\x01"), Buffer.alloc(32), Buffer.alloc(32)])],
    ["half a hello", Buffer.from("heddle\0")],
  ])("%s: the link ends, the worker goes on", async (_what, bytes) => {
    const waiting = await worker();
    const socket = connectSocket(waiting.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.resume();
    const ended = new Promise((done) => socket.once("close", done));
    socket.end(bytes);
    await ended;
    expect(
      await whole(await drive([waiting]), ramp(2))
        .sum()
        .item(),
    ).toBe(-5);
  });
});

describe.skipIf(missing !== undefined)("two worker processes", { timeout: 120_000 }, () => {
  const script = fileURLToPath(new URL("../train/scripts/run.ts", import.meta.url));
  const children: ChildProcess[] = [];
  let addresses: string[] = [];
  let output = "";

  function start(args: readonly string[], variables: NodeJS.ProcessEnv = {}): ChildProcess {
    const { child } = started(args, { HEDDLE_WORKERS_SECRET: secret, ...variables });
    children.push(child);
    return child;
  }

  async function startWorker(...more: string[]): Promise<string> {
    const child = start(["worker", "--listen", "127.0.0.1:0", "--threads", "1", ...more]);
    let text = "";
    return new Promise((resolve, reject) => {
      child.stdout?.on("data", (part) => {
        text += part;
        const found = /waiting for drivers at (\S+)/.exec(text);
        if (found !== null) resolve(found[1] as string);
      });
      child.once("exit", () => reject(new Error(`the worker ended: ${text}`)));
    });
  }

  async function run(
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<{ code: number | null; text: string }> {
    const child = start(args, env);
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (part) => (text += part));
    const code = await new Promise<number | null>((done) => child.once("close", done));
    return { code, text };
  }

  const result = (text: string): unknown => JSON.parse(text.split("\n").find((line) => line.startsWith("{")) as string);

  beforeAll(async () => {
    addresses = await Promise.all([startWorker(), startWorker()]);
  });
  afterAll(() => {
    for (const child of children) child.kill("SIGKILL");
    output = "";
  });

  test.each<[string, object]>([
    ["data parallel", { epochs: 2, dtype: "f32" }],
    ["tensor parallel", { epochs: 2, dtype: "f32", axes: { model: 2 }, layout: "dense" }],
  ])("%s: the same training, driven or run by its workers, to the bit", async (_what, settings) => {
    const json = JSON.stringify(settings);
    const driven = await run(["run", script, "--on", addresses.join(","), "--", json]);
    expect(driven.text).toContain("2 waiting workers, driven from here");
    expect(driven.code).toBe(0);
    const apart = await run(["run", script, "--workers", "2", "--", json]);
    expect(apart.code).toBe(0);
    expect(result(driven.text)).toEqual(result(apart.text));
  });

  test("by mutual TLS: the same training with --tls, and no training without", async () => {
    const folder = mkdtempSync(join(tmpdir(), "heddle-keys-"));
    try {
      const [a, b] = [join(folder, "a"), join(folder, "b")];
      expect((await run(["keys", "make", a])).code).toBe(0);
      expect((await run(["keys", "make", b, "--ca", a])).text).toContain("127.0.0.1");
      const json = JSON.stringify({ epochs: 1, dtype: "f32" });
      const worker = await startWorker("--tls", b);
      const by = await run(["run", script, "--on", worker, "--tls", a, "--", json]);
      expect(by.code, by.text).toBe(0);
      expect(result(by.text)).toEqual(result((await run(["run", script, "--", json])).text));
      const without = await run(["run", script, "--on", worker, "--", json]);
      expect(without.code).toBe(1);
      expect(without.text).toMatch(/worker 0 at \S+: ended the hello; .*HEDDLE_TLS/);
      // What is wrong with its own certificates is an error of the command.
      const none = await run(["run", script, "--on", worker, "--tls", folder, "--", json]);
      expect([none.code, none.text]).toEqual([2, expect.stringMatching(/cannot read .*ca\.pem: no such file/)]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("values that are split over workers are assembled by the driver", async () => {
    const runtime = await remoteRuntime(mesh({ data: 2 }).axes, { workers: addresses, secret, timeout: 20 });
    open.push(runtime);
    const axes = { axes: runtime.axes };
    const x = distribute(runtime, ramp(8), { shape: [8], dtype: "f32" }, shardedOn(axes, { data: 0 }));
    const f = jit((a: Tensor) => ({ twice: a.mul(2), total: a.sum() }));
    const { twice, total } = f(x);
    expect(Array.from(await twice.data())).toEqual(Array.from(ramp(8), (value) => 2 * value));
    expect(await total.item()).toBe(4);
  });

  test("what one worker refuses ends the session of all, and later runs say so once", async () => {
    const runtime = await remoteRuntime(mesh({ data: 2 }).axes, { workers: addresses, secret, timeout: 20 });
    open.push(runtime);
    const x = distribute(runtime, Int32Array.of(1, 0), { shape: [2], dtype: "i32" }, shardedOn(runtime, { data: 0 }));
    const divided = jit((a: Tensor) => a.div(a).sum());
    const first = "worker 1 at 127\\.0\\.0\\.1:\\d+: div: integer division by zero \\(i32\\)\n.*remote\\.test\\.ts";
    await expect(divided(x).item()).rejects.toThrow(new RegExp(`^${first}`));
    for (let round = 0; round < 2; round++)
      await expect(divided(x).item()).rejects.toThrow(
        new RegExp(`^the workers have ended with an earlier run: ${first}`),
      );
  });

  test("a worker ends by SIGTERM while it waits for a partner that never comes", async () => {
    const waiting = start(["worker", "--listen", "127.0.0.1:0", "--threads", "1"]);
    let text = "";
    const said = (what: RegExp): Promise<string> =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = what.exec(text);
          if (found !== null) resolve(found[1] as string);
        };
        waiting.stdout?.on("data", (part) => {
          text += part;
          look();
        });
        look();
      });
    const address = await said(/waiting for drivers at (\S+)/);
    const driver = await run(["run", script, "--on", `${address},${address}`, "--", JSON.stringify({ epochs: 1 })]);
    expect(driver.text).toContain("another driver has this worker");
    await said(/(has gone)/);
    const ended = new Promise((done) => waiting.once("exit", (code, signal) => done([code, signal])));
    waiting.kill("SIGTERM");
    // The partner's absence would be noticed after a minute.
    const late = new Promise((done) => setTimeout(done, 30_000, "still there").unref());
    expect(await Promise.race([ended, late])).toEqual([143, null]);
  });

  test("a driver that is killed frees its workers; a worker that is killed ends its driver with its name", async () => {
    const json = JSON.stringify({ epochs: 100000, dtype: "f32" });
    const first = start(["run", script, "--on", addresses.join(","), "--", json]);
    await new Promise<void>((done) => {
      first.stdout?.on("data", (part) => {
        output += part;
        if (output.includes("under way")) done();
      });
    });
    const ended = new Promise((done) => first.once("close", done));
    first.kill("SIGINT");
    await ended;
    const second = start(["run", script, "--on", addresses.join(","), "--", json]);
    let text = "";
    for (const stream of [second.stdout, second.stderr]) stream?.on("data", (part) => (text += part));
    const over = new Promise<number | null>((done) => second.once("close", done));
    while (!text.includes("under way")) {
      await new Promise((done) => setTimeout(done, 50));
      if (second.exitCode !== null) break;
    }
    expect(text).toContain("under way");
    children[1]?.kill("SIGKILL");
    expect(await over).toBe(1);
    expect(text).toMatch(/worker 1 at 127\.0\.0\.1:\d+.*, while it was running '\w+' after the launch of step \d+/);
  });
});
