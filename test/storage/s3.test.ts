/** Checkpoints in a real object store on this machine: `npm run test:storage`. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { CreateBucketCommand, DeleteObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { data, train } from "heddle";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listCheckpoints, loadCheckpoint, openStorage } from "../../src/checkpoints/index.ts";
import { lockFolder } from "../../src/checkpoints/lock.ts";
import { loadNative } from "../../src/executors/native/binding.ts";
import { conforms } from "../checkpoints/conformance.ts";
import { started } from "../cli/heddle-process.ts";
import { options } from "../train/synthetic.ts";

const weed = fileURLToPath(new URL("../../.heddle/storage/bin/weed", import.meta.url));
const native = !("error" in loadNative());
const root = mkdtempSync(join(tmpdir(), "heddle-s3-"));
const variables = {
  AWS_ACCESS_KEY_ID: "any",
  AWS_SECRET_ACCESS_KEY: "any",
  AWS_REGION: "us-east-1",
  AWS_ENDPOINT_URL_S3: "",
  // On Node 20 the client says from when on it will need a newer one.
  AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true",
};
let server: ChildProcess | undefined;
let places = 0;

/** A port that is free now. */
const freePort = (): Promise<number> =>
  new Promise((done) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => done(port));
    });
  });

describe.skipIf(!existsSync(weed))("an object store", { timeout: 120_000 }, () => {
  beforeAll(async () => {
    // Each service listens on its port and on that plus 10,000.
    const ports = { master: 0, volume: 0, filer: 0, s3: 0 };
    for (const name of Object.keys(ports) as (keyof typeof ports)[])
      ports[name] = 10_000 + ((await freePort()) % 20_000);
    server = spawn(
      weed,
      [
        "server",
        `-dir=${root}`,
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-volume.max=20",
        "-master.volumeSizeLimitMB=64",
        `-master.port=${ports.master}`,
        `-volume.port=${ports.volume}`,
        "-filer",
        `-filer.port=${ports.filer}`,
        "-s3",
        `-s3.port=${ports.s3}`,
      ],
      { stdio: "ignore" },
    );
    variables.AWS_ENDPOINT_URL_S3 = `http://127.0.0.1:${ports.s3}`;
    Object.assign(process.env, variables);
    const client = new S3Client({ forcePathStyle: true });
    for (let attempt = 0; ; attempt++) {
      try {
        await client.send(new CreateBucketCommand({ Bucket: "checkpoints" }));
        break;
      } catch (error) {
        if (attempt > 150) throw error;
        await sleep(200);
      }
    }
  });
  afterAll(async () => {
    server?.kill("SIGKILL");
    await sleep(100);
    rmSync(root, { recursive: true, force: true });
    for (const name of Object.keys(variables)) delete process.env[name];
  });

  const place = (): string => `s3://checkpoints/run-${places++}`;

  conforms("a bucket", async () => {
    const address = place();
    return { storage: await openStorage(address), inside: (name) => openStorage(`${address}/${name}`) };
  });

  test("a bucket that is not there, and a server that is not", async () => {
    await expect(openStorage("s3://none").then((storage) => storage.open("x"))).rejects.toMatchObject({ code: "file" });
    process.env["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:9";
    await expect(openStorage("s3://none").then((storage) => storage.list(""))).rejects.toThrow(
      /cannot list s3:\/\/none: /,
    );
    process.env["AWS_ENDPOINT_URL_S3"] = variables.AWS_ENDPOINT_URL_S3;
  });

  describe("data are read from it by ranges", () => {
    const numbers = Array.from({ length: 60_000 }, (_unused, at) => at);
    const csv = `x,word\n${numbers.map((x) => `${x},w${x % 7}`).join("\n")}\n`;
    const put = async (name: string, body: string | Uint8Array): Promise<string> => {
      await new S3Client({ forcePathStyle: true }).send(
        new PutObjectCommand({ Bucket: "checkpoints", Key: `data/${name}`, Body: body }),
      );
      return `s3://checkpoints/data/${name}`;
    };
    const columns = { x: "i32", word: "text" } as const;
    const parquet = (): Uint8Array =>
      new Uint8Array(
        parquetWriteBuffer({
          columnData: [
            { name: "x", data: Int32Array.from(numbers), type: "INT32" },
            { name: "word", data: numbers.map((x) => `w${x % 7}`), type: "STRING" },
          ],
          rowGroupSize: 10_000,
        }),
      );
    type Row = { readonly x: number; readonly word: string };
    const sources: readonly [string, () => string | Uint8Array, (place: string) => data.Records<Row>][] = [
      ["a.csv", () => csv, (place) => data.csv(place, { columns })],
      ["b.csv.gz", () => gzipSync(csv), (place) => data.csv(place, { columns })],
      [
        "c.jsonl",
        () => numbers.map((x) => JSON.stringify({ x, word: `w${x % 7}` })).join("\n"),
        (place) => data.jsonLines(place) as unknown as data.Records<Row>,
      ],
      ["d.parquet", parquet, (place) => data.parquet<Row>(place)],
    ];

    test.each(sources)("%s", async (name, content, open) => {
      const rows = open(await put(name, content()));
      let at = 0;
      for await (const { x, word } of rows) {
        if (x !== at || word !== `w${at % 7}`) expect({ x, word }).toEqual({ x: at, word: `w${at % 7}` });
        at++;
      }
      expect(at).toBe(numbers.length);
      // A reading goes on from any record.
      const [first] = await rows.skip(41_000).take(1).toArray();
      expect(first?.x).toBe(41_000);
      // What workers and later runs recognise the object by follows from its content.
      const before = [await rows.identity("workers"), await rows.identity("runs")];
      expect([await rows.identity("workers"), await rows.identity("runs")]).toEqual(before);
      await put(name, name.endsWith("csv") ? csv.replace("7,w0", "8,w0") : "another");
      expect(await open(`s3://checkpoints/data/${name}`).identity("runs")).not.toBe(before[1]);
    });

    test("several objects, an open file of row groups, and what is not there", async () => {
      const places = [await put("one.csv", "x,word\n1,a\n"), await put("two.csv", "x,word\n2,b\n")];
      expect(await data.csv(places, { columns }).toArray()).toEqual([
        { x: 1, word: "a" },
        { x: 2, word: "b" },
      ]);
      const opened = await data.openParquet<Row>(await put("rows.parquet", parquet()));
      expect(opened.length).toBe(numbers.length);
      const dataset = (await data.streamed(opened.shuffle({ seed: 1 }).select("x"), { dtypes: { x: "i32" } })).batch(
        500,
      );
      const seen = new Set<number>();
      for await (const { x } of data.batches<"x">(dataset))
        for (const value of await x.data()) seen.add(value as number);
      expect(seen.size).toBe(numbers.length);
      await expect(data.csv("s3://checkpoints/data/absent.csv").toArray()).rejects.toMatchObject({ code: "file" });
      await expect(data.csv("s3://absent/a.csv").toArray()).rejects.toThrow(/s3:\/\/absent\/a\.csv/);
      const gone = data.csv(await put("gone.csv", csv), { columns });
      const reading = gone[Symbol.asyncIterator]();
      await reading.next();
      await new S3Client({ forcePathStyle: true }).send(
        new DeleteObjectCommand({ Bucket: "checkpoints", Key: "data/gone.csv" }),
      );
      await reading.return?.();
      await expect(gone.toArray()).rejects.toMatchObject({ code: "file" });
    });
  });

  test("is locked for one run", async () => {
    const address = place();
    const lock = await lockFolder(address);
    await lock.check();
    await expect(lockFolder(address)).rejects.toThrow(
      `another run writes its checkpoints to ${address}: another training`,
    );
    lock.release();
    for (let wait = 0; wait < 50 && (await (await openStorage(address)).list("")).length > 0; wait++) await sleep(20);
    (await lockFolder(address)).release();
  });

  test("a training in one process resumes from it with the bits of one that was never interrupted", async () => {
    const directory = place();
    const whole = await train(options({ epochs: 3 }));
    const first = await train(options({ epochs: 1, checkpoint: { directory } }));
    expect(first.checkpoint).toBe((await listCheckpoints(directory))[0]?.path);
    const resumed = await train(options({ epochs: 3, checkpoint: { directory, keep: 1 }, resume: true }));
    expect(resumed.history.map(({ loss }) => loss)).toEqual(whole.history.map(({ loss }) => loss));
    const left = await listCheckpoints(directory);
    expect(left).toHaveLength(1);
    expect((await loadCheckpoint(left[0]?.path as string)).step).toBe(resumed.steps);
    await expect(train(options({ epochs: 1, checkpoint: { directory } }))).rejects.toThrow(/earlier run at s3:/);
  });

  test.skipIf(!native)("workers write their parts to it, and others resume", async () => {
    const script = fileURLToPath(new URL("../train/scripts/run.ts", import.meta.url));
    const settings = { directory: place(), every: 2, layout: "all" };
    const run = async (workers: number, epochs: number, ...flags: string[]): Promise<number[]> => {
      const args = ["run", script, "--workers", `${workers}`, ...flags, "--", JSON.stringify({ ...settings, epochs })];
      const { status, stdout, stderr } = await started(args, variables).ended;
      expect(status, stderr).toBe(0);
      return (JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) as string) as { losses: number[] })
        .losses;
    };
    expect(await run(2, 1)).toHaveLength(4);
    expect(await run(4, 2, "--resume")).toHaveLength(4);
    const [newest] = await listCheckpoints(settings.directory);
    expect(newest?.step).toBe(8);
  });
});

test.skipIf(existsSync(weed))("an object store is not installed here: npm run test:storage installs it", () => {});
