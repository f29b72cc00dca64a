/**
 * A network that knows digits, behind HTTP: POST the 784 bytes of an image, get `{ digit, probability }`. Requests that arrive while a
 * batch is computed form the next batch (docs/serving.md). 64 connections, on two cores that other programs kept busy at the time: 4,200
 * requests a second, p50 11 ms, p99 51 ms; with one row at a time 2,500, 18 ms and 135 ms.
 *
 *     npx heddle run examples/serve-http.ts               # trains for 25 s, then listens on port 8080
 *     npx heddle run examples/serve-http.ts -- --small    # trains for 2 s, then listens on a free port
 */
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { data, type HeddleError, jit, losses, nn, optim, type Tensor, train } from "heddle";
import { batcher } from "heddle/inference";

const small = process.argv.includes("--small");
// biome-ignore format: a line for each stage
const model = nn.sequential(
  nn.conv2d({ out: 16, kernel: 5, padding: "same" }), nn.relu(), nn.maxPool2d(2),
  nn.conv2d({ out: 32, kernel: 5, padding: "same" }), nn.relu(), nn.maxPool2d(2),
  nn.flatten(), nn.linear(10),
);
const images = data.mnist("train").take(small ? 2000 : 60_000);
const optimizer = optim.adam({ learningRate: 2e-3 });
const loss = losses.softmaxCrossEntropy;
const { params } = await train({ model, data: images.shuffle().batch(100), loss, optimizer, epochs: 1 });

const classify = jit((x: Tensor) => model.apply({ params, state: {} }, x.cast("f32").mul(1 / 255)).y.softmax());
const digits = batcher(classify, { input: { shape: [1, 28, 28], dtype: "u8" } });
await digits.warmUp();

const server = createServer(async (request, response) => {
  try {
    const scores = Array.from(await digits.predict(await buffer(request)));
    const probability = Math.max(...scores);
    response.end(JSON.stringify({ digit: scores.indexOf(probability), probability }));
  } catch (error) {
    const { code } = error as HeddleError;
    response.writeHead(code === "unavailable" ? 503 : code === "shape" ? 400 : 500).end(`${error}\n`);
  }
});
server.listen(small ? 0 : 8080, "127.0.0.1", () => console.log("listening", server.address()));
