/** @module One group of rows: a workload at a number of threads, by all peers in turns. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { canRun, commandsOf, heddleCommand, isInference, onnxPeers, peerFile } from "./commands.ts";
import { type Hub, PeerProcess } from "./hub.ts";
import {
  compulsoryBytes,
  inputShapes,
  integerShapes,
  matrixFlops,
  parameterShapes,
  type Sizes,
  workloadData,
} from "./kinds/index.ts";
import { type Limits, shareOfLimit } from "./limits.ts";
import type { PeerName } from "./options.ts";
import type { Spec } from "./peers/link.ts";
import type { Command } from "./processes.ts";
import type { Problem, Row } from "./report.ts";
import { type Measured, measureInTurns } from "./schedule.ts";
import { startCommand, startPeers, timeToFirstStep } from "./start.ts";
import { median, percentile, relativeDifference, smallest } from "./statistics.ts";
import type { Workload } from "./workloads.ts";

/** The results of a group. */
export interface Measurement {
  readonly rows: readonly Row[];
  readonly problems: readonly Problem[];
  readonly versions: Readonly<Record<string, string>>;
}

export interface WorkloadRequest {
  readonly hub: Hub;
  readonly folder: string;
  readonly python: string | undefined;
  readonly workload: Workload;
  readonly peers: readonly PeerName[];
  readonly threads: number;
  readonly seconds: number;
  /** Of all threads of all processes. */
  readonly limits: Limits;
}

/** The files that a peer reads. */
type Files = Pick<Spec, "data" | "onnx">;

/** Warm-up steps, where they are not 5: the JavaScript of eager operations is interpreted at first. */
const warmUp: Partial<Record<Sizes["kind"], number>> = { eager: 40, infer: 300, int8: 300, gemm: 20 };

/** Peers start from the same weights: after three steps their losses may differ by this fraction. */
export const lossTolerance = 1e-3;

/** Starts all peers, compares their losses, measures them in turns, and ends them. A peer that fails is a problem. */
export async function measureWorkload(request: WorkloadRequest): Promise<Measurement> {
  const { workload, threads, seconds } = request;
  const { name, title, sizes, processes } = workload;
  const problems: Problem[] = [];
  console.log(`\n${name}: ${title}, ${processes > 1 ? `${processes} processes` : `${threads} threads`}`);
  const data = join(request.folder, `${name}.bin`);
  writeFileSync(data, workloadData(sizes));
  const files: Files = { data, onnx: writeOnnx(request, data) };
  const peers: PeerProcess[] = [];
  const attempt = async <T>(peer: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      problems.push({ workload: name, peer, message: (error as Error).message });
      return undefined;
    }
  };
  try {
    const checks = new Map<string, number[]>();
    for (const peer of request.peers.filter((candidate) => canRun(candidate, workload))) {
      const process = new PeerProcess(peer);
      const checked = await attempt(peer, async () => {
        await startPeer(request, process, files);
        return process.check();
      });
      if (checked === undefined) process.kill();
      else {
        peers.push(process);
        checks.set(peer, checked);
      }
    }
    problems.push(...disagreements(name, checks, workload.tolerance));
    const blockSeconds = Math.min(0.5, seconds / 4);
    const measured = await measureInTurns(
      peers,
      { seconds, blockSeconds, warmUp: warmUp[sizes.kind] ?? 5 },
      (peer, { message }) => {
        problems.push({ workload: name, peer, message });
      },
    );
    const rows: Row[] = [];
    const heddle = measured.get("heddle");
    for (const peer of peers) {
      const peerResult = measured.get(peer.name);
      if (peerResult === undefined) continue;
      const peakBytes = await attempt(peer.name, () => peer.end());
      rows.push(rowOf(request, peer.name, peerResult, peakBytes, heddle));
      if (workload.optimizer !== undefined && !(peerResult.lastLoss < peerResult.firstLoss)) {
        const message = `the loss did not fall: ${peerResult.firstLoss} at first, ${peerResult.lastLoss} at last`;
        problems.push({ workload: name, peer: peer.name, message });
      }
    }
    return {
      rows: withMemoryShares(rows),
      problems,
      versions: Object.assign({}, ...peers.map(({ versions }) => versions)),
    };
  } finally {
    for (const peer of peers) peer.kill();
  }
}

/** Writes the network of an inference as ONNX, by Heddle, or quantised by ONNX Runtime. Null where no peer reads it. */
function writeOnnx({ folder, workload, peers, python }: WorkloadRequest, data: string): string | null {
  if (!isInference(workload) || !peers.some((peer) => onnxPeers.includes(peer))) return null;
  const [spec, onnx] = [join(folder, "write-onnx.json"), join(folder, `${workload.name}.onnx`)];
  const { sizes } = workload;
  const shapes = { parameters: parameterShapes(sizes), inputs: inputShapes(sizes), integers: integerShapes(sizes) };
  writeFileSync(spec, JSON.stringify({ sizes, ...shapes, data, onnx }));
  const environment = { HEDDLE_BENCH_SPEC: spec };
  if (sizes.kind === "int8") {
    if (python === undefined) throw new Error(`${workload.name}: ONNX Runtime's Python packages are not installed`);
    const args = [peerFile("quantize.py"), join(folder, `${workload.name}-floats.onnx`), onnx];
    runToEnd("the model could not be quantised", python, args, environment);
  } else {
    const { program, args, env } = heddleCommand("write-onnx.ts", environment);
    runToEnd("the model could not be written as ONNX", program, args, env);
  }
  return onnx;
}

function runToEnd(failure: string, program: string, args: readonly string[], env: Command["env"]): void {
  const options = { encoding: "utf8", env: { ...process.env, ...env } } as const;
  const { status, stdout, stderr } = spawnSync(program, args, options);
  if (status !== 0) throw new Error(`${failure}\n${stdout}${stderr}`);
}

async function startPeer(request: WorkloadRequest, process: PeerProcess, files: Files): Promise<void> {
  const { hub, folder, python, workload, threads } = request;
  const { sizes, processes, optimizer, precision } = workload;
  const peer = process.name as PeerName;
  const spec = join(folder, `${peer}.json`);
  const commands = await commandsOf({ peer, processes, threads, python, spec });
  await process.start(hub, commands, processes, (port, token) => {
    const content: Spec = {
      port,
      token,
      peer,
      threads,
      processes,
      sharded: workload.sharded ?? false,
      sizes,
      optimizer: optimizer ?? null,
      precision: precision ?? null,
      parameters: parameterShapes(sizes),
      inputs: inputShapes(sizes),
      integers: integerShapes(sizes),
      ...files,
    };
    writeFileSync(spec, JSON.stringify(content));
  });
}

/** Peers whose losses are not those of the first one. */
export function disagreements(
  workload: string,
  checks: ReadonlyMap<string, readonly number[]>,
  tolerance = lossTolerance,
): Problem[] {
  const [first, ...others] = checks;
  if (first === undefined) return [];
  const [reference, expected] = first;
  return others.flatMap(([peer, values]) => {
    const place = expected.findIndex((value, index) => {
      const difference = relativeDifference(value, values[index] ?? Number.NaN);
      return !(difference <= tolerance);
    });
    if (place < 0 && values.length === expected.length) return [];
    const message = `loss ${place + 1} is ${values[place]}, that of ${reference} is ${expected[place]}`;
    return [{ workload, peer, message }];
  });
}

/** The rows of a group, with each peer's memory over PyTorch's. */
function withMemoryShares(rows: readonly Row[]): Row[] {
  const [tuned, plain] = ["torch-tuned", "torch-eager"].map(
    (name) => rows.find(({ peer }) => peer === name)?.peakBytes,
  );
  const theirs = tuned ?? plain;
  return rows.map((row) => {
    const known = row.peakBytes !== undefined && theirs !== undefined;
    return { ...row, memoryShare: known ? (row.peakBytes as number) / (theirs as number) : undefined };
  });
}

function rowOf(
  { workload, threads, limits }: WorkloadRequest,
  peer: string,
  peerResult: Measured,
  peakBytes: number | undefined,
  heddle: Measured | undefined,
): Row {
  const middle = median(peerResult.milliseconds);
  const per = (amount: number): number | undefined => (amount === 0 ? undefined : amount / (middle * 1e6));
  const work = { flops: matrixFlops(workload.sizes), bytes: compulsoryBytes(workload.sizes) };
  return {
    workload: workload.name,
    peer,
    processes: workload.processes,
    threads,
    medianMilliseconds: middle,
    minimumMilliseconds: peerResult.fastestMilliseconds,
    slowMilliseconds: isInference(workload) ? percentile(peerResult.milliseconds, 99) : undefined,
    steps: peerResult.milliseconds.length,
    ratio: heddle === undefined ? undefined : middle / median(heddle.milliseconds),
    gflops: per(work.flops),
    gigabytesPerSecond: per(work.bytes),
    peakBytes,
    limitShare: shareOfLimit(work, middle, limits),
    firstMilliseconds: peerResult.firstMilliseconds,
    firstLoss: workload.optimizer === undefined ? undefined : peerResult.firstLoss,
    lastLoss: workload.optimizer === undefined ? undefined : peerResult.lastLoss,
  };
}

export interface StartRequest {
  /** For files of this run. */
  readonly folder: string;
  readonly python: string | undefined;
  readonly peers: readonly PeerName[];
  readonly threads: number;
  readonly seconds: number;
}

/** Starts that warm up the file cache, and starts that count. */
const starts = { warm: 1, counted: 3 };

/** The time from start to first step, in turns. */
export async function measureStart({ folder, python, peers, threads }: StartRequest): Promise<Measurement> {
  console.log(`\nstart: heddle run examples/mnist.ts to its first step, ${threads} threads`);
  const times = new Map<string, number[]>();
  const problems: Problem[] = [];
  const failed = new Set<string>();
  for (let turn = 0; turn < starts.warm + starts.counted; turn++) {
    for (const peer of peers.filter((candidate) => startPeers.includes(candidate) && !failed.has(candidate))) {
      try {
        const milliseconds = await timeToFirstStep(startCommand(peer, threads, python), folder);
        if (turn >= starts.warm) times.set(peer, [...(times.get(peer) ?? []), milliseconds]);
      } catch (error) {
        failed.add(peer);
        problems.push({ workload: "start", peer, message: (error as Error).message });
      }
    }
  }
  const heddle = times.get("heddle");
  const none = { slowMilliseconds: undefined, gflops: undefined, gigabytesPerSecond: undefined, peakBytes: undefined };
  const rows = [...times].map(
    ([peer, milliseconds]): Row => ({
      ...none,
      workload: "start",
      peer,
      processes: 1,
      threads,
      medianMilliseconds: median(milliseconds),
      minimumMilliseconds: smallest(milliseconds),
      steps: milliseconds.length,
      ratio: heddle === undefined ? undefined : median(milliseconds) / median(heddle),
      firstMilliseconds: undefined,
      firstLoss: undefined,
      lastLoss: undefined,
    }),
  );
  return { rows, problems, versions: {} };
}
