/** @module ONNX Runtime in Node as a peer of inference: runs the model that Heddle wrote. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { timed } from "./heddle-data.ts";
import { digest, readSpec, serve } from "./link.ts";
import { readNumbers } from "./numbers.ts";

interface OnnxTensor {
  readonly data: Float32Array;
}

/** The part of `onnxruntime-node` that is used. */
interface OnnxRuntime {
  readonly env: { readonly versions: { readonly node?: string } };
  readonly Tensor: new (type: "float32", data: Float32Array, shape: readonly number[]) => OnnxTensor;
  readonly InferenceSession: {
    create(
      file: string,
      options: object,
    ): Promise<{
      run(inputs: { readonly x: OnnxTensor }): Promise<{ readonly y: OnnxTensor }>;
    }>;
  };
}

const spec = readSpec();
const installed = createRequire(join(process.env["HEDDLE_BENCH_NODE"] as string, "package.json"));
const { env, InferenceSession, Tensor } = installed("onnxruntime-node") as OnnxRuntime;
const session = await InferenceSession.create(spec.onnx as string, {
  intraOpNumThreads: spec.threads,
  interOpNumThreads: 1,
});

const [, shape, values] = readNumbers(spec).inputs[0] as readonly [string, readonly number[], Float32Array];
const inputs = { x: new Tensor("float32", values, shape) };

await serve(spec, {
  versions: { "onnxruntime-node": env.versions.node ?? "unknown" },
  check: async () => {
    const { data } = (await session.run(inputs)).y;
    return spec.sizes.kind === "int8" ? [digest(data)] : Array.from(data);
  },
  steps: (count) =>
    timed(count, 1, () => {
      const results = session.run(inputs);
      return async () => (await results).y.data[0] as number;
    }),
});
process.exit(0);
