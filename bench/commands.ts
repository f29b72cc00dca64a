/** @module How each peer is started: its command, environment and cores. */

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PeerName } from "./options.ts";
import type { Command } from "./processes.ts";
import type { Workload } from "./workloads.ts";

export const root: string = fileURLToPath(new URL("..", import.meta.url));
export const peerFile = (name: string): string => join(root, "bench", "peers", name);

/** The run that a peer is started for. */
export interface Start {
  readonly peer: PeerName;
  readonly processes: number;
  /** Threads of each process. */
  readonly threads: number;
  /** Python with the peers' packages. */
  readonly python: string | undefined;
  /** The file that `link` reads. */
  readonly spec: string;
}

/** Whether inference is all that a workload does: its answers are waited for. */
export const isInference = ({ sizes }: Workload): boolean => sizes.kind === "infer" || sizes.kind === "int8";

const isLinalg = ({ sizes }: Workload): boolean => sizes.kind === "linalg";

const alone = ({ sizes, processes }: Workload): boolean =>
  sizes.kind !== "eager" && sizes.kind !== "int8" && processes === 1;
const inTensorFlow: readonly string[] = ["mlp", "lenet", "infer", "gemm"];

/**
 * Whether a peer can run a workload. PyTorch and JAX have no quantised products here; two processes need a peer with a plain way to
 * use two; operations that are not compiled need an eager mode; a single product leaves nothing to `torch.compile`.
 */
const runs: Readonly<Record<PeerName, (workload: Workload) => boolean>> = {
  heddle: () => true,
  sklearn: isLinalg,
  "heddle-sync": isInference,
  "torch-eager": ({ sizes }) => sizes.kind !== "int8",
  "torch-tuned": ({ sizes }) => sizes.kind !== "int8" && sizes.kind !== "eager",
  "torch-compile": (workload) => alone(workload) && workload.sizes.kind !== "gemm",
  "jax-jit": (workload) => alone(workload) && workload.precision === undefined,
  onnxruntime: isInference,
  "onnxruntime-node": isInference,
  openvino: isInference,
  tfjs: (workload) => alone(workload) && workload.precision === undefined && inTensorFlow.includes(workload.sizes.kind),
};

/** Peers that read the network as Heddle has written it. */
export const onnxPeers: readonly PeerName[] = ["onnxruntime", "onnxruntime-node", "openvino"];

export const canRun = (peer: PeerName, workload: Workload): boolean =>
  runs[peer](workload) && (!isLinalg(workload) || peer === "heddle" || peer === "sklearn");

const pythonFiles: Readonly<Partial<Record<PeerName, string>>> = {
  "jax-jit": "jax_peer",
  onnxruntime: "onnx_peer",
  openvino: "openvino_peer",
  sklearn: "linalg_peer",
};

/** The module of a peer, and packages that it imports late. */
const pythonModules = (peer: PeerName): string[] => [
  pythonFiles[peer] ?? "torch_peer",
  ...(peer === "torch-compile" ? ["torch._dynamo", "torch._inductor.compile_fx"] : []),
];

/** `heddle run` of a file of the peers. */
export const heddleCommand = (file: string, env: Command["env"], processes = 1, threads = 1): Command => ({
  program: process.execPath,
  args: [
    join(root, "bin", "heddle.js"),
    ...["run", peerFile(file), "--workers", String(processes), "--threads", String(threads)],
  ],
  env,
});

/** `heddle profile` of a file of the peers: its report as JSON. */
export const heddleProfile = (file: string, threads: number): Command => ({
  program: process.execPath,
  args: [
    join(root, "bin", "heddle.js"),
    ...["profile", peerFile(file), "--threads", String(threads), "--steps", "1", "--json"],
  ],
  env: {},
});

/** Makes glibc keep freed blocks and use huge pages: without it PyTorch maps and faults every large tensor again. */
const keepMemory = {
  MALLOC_MMAP_THRESHOLD_: "4294967296",
  MALLOC_TRIM_THRESHOLD_: "4294967296",
  GLIBC_TUNABLES: "glibc.malloc.hugetlb=1",
};

/** Environment of a Python peer. Settings meant for old OpenBLAS builds would slow current ones. */
export function pythonEnvironment(peer: PeerName, threads: number, python: string): Command["env"] {
  const count = String(threads);
  return {
    OPENBLAS_CORETYPE: undefined,
    OPENBLAS_L2_SIZE: undefined,
    OMP_NUM_THREADS: count,
    MKL_NUM_THREADS: count,
    OPENBLAS_NUM_THREADS: count,
    TORCHINDUCTOR_CACHE_DIR: join(root, ".heddle", "bench", "inductor"),
    // Compiles in the process: a process of its own for that would import PyTorch once more.
    TORCHINDUCTOR_COMPILE_THREADS: "1",
    JAX_PLATFORMS: "cpu",
    PYTHONDONTWRITEBYTECODE: "1",
    PATH: [dirname(python), process.env["PATH"] ?? ""].join(delimiter),
    ...(peer === "torch-tuned" ? keepMemory : {}),
  };
}

/** The commands of a peer; several where each process is started separately. */
export async function commandsOf(start: Start): Promise<Command[]> {
  const { peer, processes, threads, python, spec } = start;
  const env = { HEDDLE_BENCH_SPEC: spec };
  if (peer === "heddle" || peer === "heddle-sync")
    return [onCores(heddleCommand("heddle.ts", env, processes, threads), processes * threads)];
  const inNode = { "onnxruntime-node": "onnx.ts", tfjs: "tfjs.ts" }[peer as string];
  if (inNode !== undefined) {
    const args = ["--import", "tsx", peerFile(inNode)];
    return [
      onCores({ program: process.execPath, args, env: { ...env, HEDDLE_BENCH_NODE: installNodePeers() } }, threads),
    ];
  }
  if (python === undefined) throw new Error(`${peer}: its packages are not installed`);
  const port = processes > 1 ? String(await freePort()) : "0";
  const nursery = onCores(
    {
      program: python,
      args: [peerFile("nursery.py"), ...pythonModules(peer)],
      env: pythonEnvironment(peer, threads, python),
    },
    processes * threads,
  );
  const group = { WORLD_SIZE: String(processes), MASTER_ADDR: "127.0.0.1", MASTER_PORT: port };
  return Array.from({ length: processes }, (_unused, rank) => ({
    ...nursery,
    forkEnv: { ...env, ...(processes > 1 ? { RANK: String(rank), ...group } : {}) },
  }));
}

/** The packages of peers that run in Node: 350 MB on disk, as those of ONNX Runtime have its programs for all systems. */
const nodePackages = [
  "onnxruntime-node@1.30.0",
  "@tensorflow/tfjs-core@4.22.0",
  "@tensorflow/tfjs-backend-cpu@4.22.0",
  "@tensorflow/tfjs-backend-wasm@4.22.0",
];

/** The folder of those packages, installed where they are missing. */
function installNodePeers(): string {
  const folder = join(root, ".heddle", "bench-node");
  const stamp = join(folder, "installed.json");
  const wanted = JSON.stringify(nodePackages);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return folder;
  console.error(`installing ${nodePackages.join(", ")} into .heddle/bench-node`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  // Without its scripts, which would download what only GPUs need.
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", ...nodePackages];
  const { status, stderr } = spawnSync(process.platform === "win32" ? "npm.cmd" : "npm", args, {
    cwd: folder,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`${nodePackages.join(", ")} could not be installed\n${stderr}`);
  writeFileSync(stamp, wanted);
  return folder;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** The first `count` cores that this process may use, for every peer: XLA takes as many threads as it has cores. */
export function onCores(command: Command, count: number): Command {
  const cores = allowedCores();
  if (cores.length <= count || !hasTaskset()) return command;
  const list = cores.slice(0, count).join(",");
  return { ...command, program: "taskset", args: ["--cpu-list", list, command.program, ...command.args] };
}

/** Numbers of the cores in this process's affinity mask; empty where the system does not report it. */
export function allowedCores(): number[] {
  try {
    const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "";
    return list.split(",").flatMap((range) => {
      const [first, last = first] = range.split("-").map(Number) as [number, number?];
      return Array.from({ length: (last as number) - first + 1 }, (_unused, index) => first + index);
    });
  } catch {
    return [];
  }
}

let taskset: boolean | undefined;
function hasTaskset(): boolean {
  taskset ??= spawnSync("taskset", ["--version"]).status === 0;
  return taskset;
}
