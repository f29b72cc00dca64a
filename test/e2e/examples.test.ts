/** Every example runs as its first lines say, and ends with what it is an example of; `npm run test:processes` runs each sixth. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { data } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { withoutSpeed } from "../cli/heddle-process.ts";
import { missing } from "../native/evaluate.ts";
import { partOf } from "../support/sample.ts";
import { heddle } from "./command.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-examples-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Case = readonly [command: string, ends: RegExp];

// The example of MNIST is the demo, which trains for minutes: here it is planned.
const cases: readonly Case[] = [
  [
    "run autograph.ts",
    /roots 1\.414 3\.000 1000\.\d+ 0\.000\nsteps \d+ \d+ \d+ 0\nslopes Float32Array\(1\) \[ -1 \] .* 1 \]\n$/,
  ],
  ["run extend/adapter.ts", /xor 0 1 1 0\nxor\.json: there is no layer of type "dens": did you mean 'dense'\?\n$/],
  [
    "run extend/compressor.ts --workers 2",
    /uncompressed: 17940 bytes a step, (9\d|100)\.\d % of the points\nternary: 2584 bytes a step, (9\d|100)\.\d % of the points\n$/,
  ],
  [
    "run extend/executor.ts",
    /loss 0\.0\d+, of the reference executor too: true\n.*take \d\.\d ms\nreference: dense\nabacus: entries\n$/,
  ],
  ["run extend/kernel.ts", /differs by 0\ngradient 0\.000 0\.786 1\.000 0\.786\nbatch 4\n$/],
  ["run extend/layer.ts", /after 200 steps 0\.0\d+\n$/],
  ["run extend/op.ts", /rolled 4 1 2 3\ngradient 20 30 40 10\ntangent 240\nbatch 3 1 2 6 4 5\n$/],
  ["run extend/optimizer.ts", /found 3\.0 -1\.0\n$/],
  [
    "run extend/schedule.ts --workers 4",
    /line: allReduce of 4 ranks, 1 chunks\nround 0: 0→1 \+0\n[\s\S]*all links: recursiveDoubling, 28\.2 us\na line: line, 84\.6 us\n4 ranks: \[10,4\]\n$/,
  ],
  ["run extend/rule.ts", /before Infinity 2\nafter 1000 2\nops left 0\n$/],
  ["run lectures/regression-cg.ts", /steps \d, weights 1\.00 -2\.00 3\.00\n$/],
  ["run caffe-lenet.ts", /accuracy on the test images: 9\d\.\d\d %\n$/],
  ["run data/classifier.ts", /(9\d|100)\.\d % of the others; a fare of 85: first class\n$/],
  ["run data/images.ts", /(9\d|100)\.\d % of the other images after \d+ epochs\n$/],
  ["run data/parquet.ts -- --small", /40000 rows, \d MiB of Parquet within 1 MiB for data; weights within 0\.\d+\n$/],
  [
    "run data/lengths.ts -- --small",
    /padding: \d+ % of a batch by length, \d+ % of rows padded to 64\n(?:8[5-9]|9\d)\.\d % of \d+ test mails are told right\n$/,
  ],
  [
    "run data/tokens.ts -- --small",
    /\d+ pieces of words, of which a mail has at most 64\n(?:8[5-9]|9\d)\.\d % of \d+ test mails are told right\n$/,
  ],
  ["run data/stream.ts", /after 360 steps the next reading is off by 0\.\d+ on average\n$/],
  [
    "run data/duplicates.ts -- --small",
    /30 copies planted, 30 found: recall 1\.000\n630 mails, \d+ without duplicates/,
  ],
  ["run eager.ts", /the gradient of x³ at 2 is 12\n[\s\S]*step 75: loss 0\.000000\nweight Float32Array/],
  [
    "run captions.ts -- --small",
    /epoch 4: loss 0\.[2-4]\d+\n(?:"a .*"; in truth "a .*"\n){3}\d+\.\d % of 100 captions/,
  ],
  ["run clicks.ts -- --small", /area under the curve 0\.[67]\d\d; knowing all tastes it would be 0\.7\d\d\n$/],
  ["run cart-pole.ts -- --small", /update 15: episodes last (?:[6-9]\d|\d{3})\.\d steps\n$/],
  ["run characters.ts -- --small", /of 6,000 characters it has not seen: 4\.\d+ bits each/],
  ["run characters.ts -- --small --transformer", /of 6,000 characters it has not seen: 4\.\d+ bits each/],
  ["run detector.ts -- --small", /of 217 things [3-9]\d\.\d % are found, with an overlap of 0\.[6-9]/],
  ["run fit.ts --workers 2 -- --small", /epochs, 9\d\.\d\d % of 2000 test images/],
  ["run graph.ts -- --small", /epoch 1: loss 0\.\d+, accuracy (?:89|9\d)\.\d\d %\n$/],
  ["run karate.ts", /\n3[234] of 34 members are on the side/],
  ["run keras-convnet.ts -- --small", /accuracy on the test images: [5-9]\d\.\d\d %\n$/],
  [
    "run houses.ts",
    /ridge: R² 0\.9[56]\d by [\s\S]*boosting: R² 0\.99\d by cross-validation, 0\.99\d of new houses; off by \d\.\d\n$/,
  ],
  ["run newton.ts -- --small", /step 8: loss 0\.1\d+, gradient \d\.\de-1[4-9]\n[\s\S]*9\d\.\d % of the digits/],
  ["run spam.ts -- --small", /of 378 mails 9\d\.\d % are told right/],
  ["run hashed-words.ts -- --small", /of 378 mails 9\d\.\d % are told right/],
  [
    "run own-loop.ts --workers 2 -- --small",
    /epoch 4: loss of the generator [12]\.\d+, of the critic [01]\.\d+\n(?=[\s\S]*[▀▄])(?=[\s\S]* {20})[\s\S]*drawn 4\n$/,
  ],
  ["run embedding.ts", /9\d\.\d % of the texts/],
  ["run embedding.ts --workers 2 --mesh model=2", /9\d\.\d % of the texts/],
  ["run from-pytorch.ts", /PyTorch's logits: \d\.\de-[78]\n$/],
  ["run layouts.ts --workers 2 --mesh model=2", /(9\d|100)\.\d % of the points/],
  ["run mlp.ts", /(99\.[1-9]|100\.0) % of the points/],
  ["run mlp.ts --workers 2 --mesh data=2:1", /(9\d|100)\.\d % of the points/],
  ["plan mnist.ts --mesh data=64", /^plan +for 64 devices, mesh data=64; nothing is run\n[\s\S]*all-reduce/m],
  ["run pagerank.ts --workers 2", /2 workers, \d+ iterations, 0 compensations\nhighest ranks: [\d ., ]+\n$/],
  ["run kmeans.ts --workers 2", /2 workers, \d+ iterations, 0 compensations\nsum of squared distances \d+\.\d+\n$/],
  ["run als.ts --workers 2", /2 workers, \d+ iterations, 0 compensations\nerror below 1e-6\n$/],
  [
    "run blocks.ts --workers 2",
    /^2 workers, 0 recoveries, values from memory: none\noperators: .*mapmmchain.*\nweights 1\.0\d -2\.0\d 3\.0\d -?0\.0\d 0\.5\d 4\.0\d -1\.0\d 2\.0\d, error 0\.08\d\d\n$/,
  ],
  ["run parameter-server.ts", /gives the same bits\n$/],
  ["run plan.ts --workers 4 --mesh data=2,model=2", /others? (?:is|are) alike\n[\s\S]*step 200: loss 0\.05\d+\n/],
  ["run pipeline.ts", /(99\.[1-9]|100\.0) % of the points/],
  ["run pipeline.ts --workers 2", /(99\.[1-9]|100\.0) % of the points/],
  [
    "run pipeline-schedules.ts --workers 2",
    /idle 50 %, .* squares of the parameters (\d+\.\d{9})\n[\s\S]*idle 11 %, .* \1\n[\s\S]*idle 8 %, .* \1\n/,
  ],
  [
    "run quantized.ts -- --small",
    /f32: (8\d\.\d\d) % [\s\S]*i8, a scale for each weight: 8\d\.\d\d % of the test images\n$/,
  ],
  ["run recommender.ts -- --small", /error 0\.[45]\d\d stars; saying the mean it would be 1\.\d+, knowing/],
  ["run rnn.ts", /step 1000: error 0\.00\d+\n$/],
  ["run softmax-regression.ts --workers 2", /test images: 92\.\d\d %\n$/],
  ["run collectives.ts --workers 2", /450 rows, weights 1\.00, -2\.00, 3\.00, 4 predictions\n/],
  [
    "run compression.ts --workers 2 -- --small",
    /^uncompressed {6}318052 bytes a step, 1 : 1\.0; [67]\d\.\d %\nbf16 {14}161252 [\s\S]*countSketch, 1 % .* [56]\d\.\d %\n$/,
  ],
  [
    "run local-steps.ts --workers 2 -- --small",
    /^gradients in every step +318052 bytes a step; \d\d\.\d %\nlocal SGD, 10 steps +3\d{4} bytes a step; \d\d\.\d %\nDiLoCo, 20 steps +1\d{4} bytes a step; \d\d\.\d %\n$/,
  ],
  ["run sparse.ts --workers 2", /step 200: error \d\.\de-1\d\n/],
  [
    "run transformer.ts",
    /\nloss 0\.1\d+: "a heddle is the part of a loom that says which threads go where\. each thread of the warp/,
  ],
  ["run transforms.ts", /Newton step 5: .* gradient \d\.\de-[67]\n$/],
  ["run words.ts -- --small", /step 300: loss 3\.\d+\n[\s\S]*he is to his as she is to /],
  ["run vae.ts -- --small", /on the test images 2[01]\d\.\d\d nats\npictures\//],
  ["run uneven.ts", /(x S\(2:[0-9+]+\), y S\(2:[0-9+]+\): differs by 0\n){2}$/],
  ["run uneven.ts --workers 3", /(x S\(2:[0-9+]+\), y S\(2:[0-9+]+\): differs by 0\n){2}$/],
];

describe.skipIf(missing !== undefined)("examples", () => {
  test.each(partOf(cases, 6))("heddle %s", async (command, ends) => {
    const [verb, file, ...flags] = command.split(" ") as [string, string, ...string[]];
    const started = heddle([verb, join("examples", file), ...flags]);
    const { status } = await started.ended();
    expect(withoutSpeed(started.output())).toMatch(ends);
    expect(status).toBe(0);
  });

  test("heddle run serve-http.ts -- --small", async () => {
    const started = heddle(["run", "examples/serve-http.ts", "--", "--small"]);
    try {
      const [, port] = await started.seen(/listening .*port: (\d+)/);
      const post = (body: Uint8Array): Promise<Response> =>
        fetch(`http://127.0.0.1:${port}`, { method: "POST", body: body as Uint8Array<ArrayBuffer> });
      const { columns } = data.mnist("test").take(200);
      const images = (await columns.get("x")?.load()) as Uint8Array;
      const labels = (await columns.get("y")?.load()) as ArrayLike<number>;
      const right = await Promise.all(
        Array.from({ length: 200 }, async (_unused, index) => {
          const reply = await post(images.slice(index * 784, (index + 1) * 784));
          return ((await reply.json()) as { digit: number }).digit === labels[index];
        }),
      );
      expect(right.filter(Boolean).length).toBeGreaterThan(140);
      expect((await post(new Uint8Array(3))).status).toBe(400);
    } finally {
      started.process.kill();
    }
  });

  test("all of them are here", () => {
    const all = readdirSync(fileURLToPath(new URL("../../examples", import.meta.url)), {
      recursive: true,
      encoding: "utf8",
    });
    const files = all.filter((file) => file.endsWith(".ts"));
    const named = new Set(["serve-http.ts", ...cases.map(([command]) => command.split(" ")[1])]);
    // Data that examples share.
    expect(files.filter((file) => !named.has(file)).sort()).toEqual(["mail.ts", "scenes.ts", "spirals.ts"]);
  });
});
