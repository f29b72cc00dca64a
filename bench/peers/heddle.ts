/** @module The peer that is Heddle itself. Started by `heddle run`, in one process or two. */
import { connect } from "heddle";
import type { Sizes } from "../kinds/index.ts";
import type { Runtime } from "./heddle-data.ts";
import { eager } from "./heddle-eager.ts";
import { compiled } from "./heddle-functions.ts";
import { inference } from "./heddle-infer.ts";
import { linalg } from "./heddle-linalg.ts";
import { training } from "./heddle-training.ts";
import { type Peer, readSpec, type Spec, serve } from "./link.ts";

/** The peers of what is not trained. */
const peers: Partial<Record<Sizes["kind"], (spec: Spec, runtime: Runtime) => Peer>> = {
  chain: compiled,
  gemm: compiled,
  reduce: compiled,
  eager,
  infer: inference,
  int8: inference,
  linalg,
};

const spec = readSpec();
const runtime = await connect();
const peer = (peers[spec.sizes.kind] ?? training)(spec, runtime);
await serve(spec, { ...peer, versions: { node: process.version, executor: runtime.executor.name } });
process.exit(0);
