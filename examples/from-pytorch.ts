/**
 * A network trained in PyTorch answers in Heddle: its weights are loaded from a safetensors file by their names.
 * `from-pytorch/net.py` made the file, and put two images and PyTorch's answers beside the weights.
 *
 *     npx heddle run examples/from-pytorch.ts     # the same logits to 6e-8, 3 s
 */
import { fileURLToPath } from "node:url";
import { io, nn, random, tanh } from "heddle";

const path = fileURLToPath(new URL("from-pytorch/net.safetensors", import.meta.url));

// biome-ignore format: a line for each stage
const model = nn.sequential(
  nn.conv2d({ out: 4, kernel: 3, padding: 1 }), nn.relu(), nn.maxPool2d(2),
  nn.conv2d({ out: 8, kernel: 3, strides: 2 }), tanh,
  nn.flatten(), nn.linear(10),
);

// The fresh variables declare names, shapes and dtypes; an error lists every name, shape or dtype that does not fit.
const fresh = model.init(random.key(0), { shape: [2, 1, 14, 14], dtype: "f32" });
const variables = await io.loadPyTorch(path, fresh, {
  names: { "0": "conv1", "3": "conv2", "6": "fc" },
  ignore: (name) => name.startsWith("example."),
});

const { "example.images": images, "example.logits": expected } = await io.loadTensors(path);
const { y } = model.apply(variables, images!);
const difference = await y.sub(expected!).abs().max().item();
console.log(`classes ${(await y.argMax().data()).join(", ")}`);
console.log(`largest difference from PyTorch's logits: ${difference.toExponential(1)}`);
if (difference > 1e-5) throw new Error("the answers differ");
