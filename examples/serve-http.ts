/**
 * A network that knows digits, behind HTTP: POST the 784 bytes of an image, get `{ digit, probability }`. Requests that come while a
 * batch is computed are the next batch, so a busy server computes many rows at once and an idle one answers at once.
 *
 *     npx heddle run examples/serve-http.ts               # trains for 25 s, then listens on port 8080
 *     npx heddle run examples/serve-http.ts -- --small    # trains for 2 s, answers 500 requests of its own, and ends
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";
import { data, losses, nn, optim, type Tensor, tensor, train } from "heddle";
import { ServeDevice } from "heddle/parameter-server";
import { localRuntime } from "heddle/runtime";

const small = process.argv.includes("--small");
const training = data.mnist("train").take(small ? 2000 : 60_000);
// biome-ignore format: a line for each stage
const model = nn.sequential(
  nn.conv2d({ out: 16, kernel: 5, padding: "same" }), nn.relu(), nn.maxPool2d(2),
  nn.conv2d({ out: 32, kernel: 5, padding: "same" }), nn.relu(), nn.maxPool2d(2),
  nn.flatten(), nn.linear(10),
);
const { params } = await train({
  model,
  data: training.shuffle().batch(100),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 2e-3 }),
  epochs: 1,
});

// A handler for each size of batch: a program with its memory planned, and the parameters as the device's state.
const sizes = [1, 8, 32] as const;
const run = (own: typeof params, x: Tensor) => ({
  reply: model.apply({ params: own, state: {} }, x.cast("f32").mul(1 / 255)).y.softmax(),
});
const handlers = sizes.map(
  (size) => [`${size}`, { run, inputs: [{ shape: [size, 1, 28, 28], dtype: "u8" }] }] as const,
);
const device = new ServeDevice(localRuntime(), "digits", params, Object.fromEntries(handlers));

interface Waiting {
  readonly image: Uint8Array;
  readonly answer: (scores: ArrayLike<number>) => void;
  readonly fail: (error: unknown) => void;
}
const waiting: Waiting[] = [];
let [busy, batches] = [false, 0];

async function answerAll(): Promise<void> {
  if (busy) return;
  busy = true;
  // Requests that have arrived are read first.
  for (await setImmediate(); waiting.length > 0; await setImmediate()) {
    const batch = waiting.splice(0, sizes.at(-1));
    const size = sizes.find((one) => one >= batch.length) as number;
    const images = new Uint8Array(size * 784);
    for (const [i, { image }] of batch.entries()) images.set(image, i * 784);
    try {
      const x = tensor(images, { shape: [size, 1, 28, 28], dtype: "u8" });
      const scores = await (device.ask(`${size}`, x) as Tensor).data();
      for (const [i, { answer }] of batch.entries()) answer(scores.subarray(i * 10, (i + 1) * 10));
    } catch (error) {
      for (const { fail } of batch) fail(error);
    }
    batches++;
  }
  busy = false;
}

const server = createServer(async (request, response) => {
  try {
    const image = await buffer(request);
    if (image.length !== 784) return void response.writeHead(400).end("an image has 784 bytes\n");
    const scores = await new Promise<ArrayLike<number>>((answer, fail) => {
      waiting.push({ image, answer, fail });
      void answerAll();
    });
    const probability = Math.max(...Array.from(scores));
    const digit = Array.from(scores).indexOf(probability);
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ digit, probability }));
  } catch (error) {
    response.writeHead(500).end(`${error}\n`);
  }
});
await new Promise<void>((listening) => server.listen(small ? 0 : 8080, "127.0.0.1", listening));
const { port } = server.address() as AddressInfo;
console.log(`http://127.0.0.1:${port}`);

if (small) {
  const test = data.mnist("test").take(500);
  const images = (await test.columns.get("x")!.load()) as Uint8Array;
  const labels = await test.columns.get("y")!.load();
  const ask = async (i: number): Promise<boolean> => {
    const body = images.slice(i * 784, (i + 1) * 784);
    const reply = await fetch(`http://127.0.0.1:${port}`, { method: "POST", body });
    return ((await reply.json()) as { digit: number }).digit === labels[i];
  };
  const right = await Promise.all(Array.from({ length: test.length }, (_unused, i) => ask(i)));
  console.log(`${right.filter(Boolean).length} of ${right.length} digits are right, in ${batches} batches`);
  server.close();
}
