/** @module Writes the network of an inference as ONNX, for peers that run it. */
import { io, type Tensor } from "heddle";
import { network } from "./heddle-infer.ts";
import { readSpec } from "./link.ts";

const spec = readSpec();
const { fn, params, x } = network(spec);
const named = ({ x }: { x: Tensor }): { y: Tensor } => ({ y: fn(params, x) });
await io.saveOnnx(spec.onnx as string, named, { x: { shape: x.shape, dtype: "f32" } }, { names: params });
process.exit(0);
