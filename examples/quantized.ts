/**
 * A network that reads handwritten digits (MNIST), trained in f32, answers in 8-bit integers: weights in i8, inputs of layers in u8,
 * sums in i32, as ONNX Runtime's `quantize_dynamic` does it.
 *
 *     npx heddle run examples/quantized.ts                # 96.3 % of the test images in f32 and in i8; 20 s
 *     npx heddle run examples/quantized.ts -- --small     # 1,000 images of each
 */
import { data, jit, losses, nn, optim, type Tensor, tensor, train } from "heddle";

const small = process.argv.includes("--small");
const network = nn.sequential(nn.flatten(), nn.linear(512), nn.relu(), nn.linear(512), nn.relu(), nn.linear(10));
const { params, state } = await train({
  model: network,
  data: data
    .mnist("train")
    .take(small ? 1000 : 20_000)
    .shuffle()
    .batch(100),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.001 }),
  epochs: 3,
});
const variables = { params, state };

const { columns } = data.mnist("test").take(small ? 1000 : 10_000);
const [pixels, labels] = [await columns.get("x")!.load(), await columns.get("y")!.load()];
const images = tensor(pixels, { shape: [labels.length, 784] });

async function report(name: string, network: (x: Tensor) => Tensor): Promise<void> {
  const classify = jit((x: Tensor) => network(x.cast("f32").mul(1 / 255)).argMax());
  const answers = await classify(images).data<Int32Array>();
  const right = answers.reduce((count, answer, image) => count + Number(answer === labels[image]), 0);
  console.log(`${name}: ${((100 * right) / labels.length).toFixed(2)} % of the test images`);
}
await report("f32", (x) => network.apply(variables, x).y);
for (const perChannel of [true, false]) {
  const quantized = nn.quantizeDynamic(network, variables, { perChannel });
  const scales = perChannel ? "a scale for each output" : "a scale for each weight";
  await report(`i8, ${scales}`, (x) => quantized.layer.apply(quantized.variables, x).y);
}
