/** @module XLA on the CPU as an evaluator of graphs: a Python process that is fed StableHLO text and arrays. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { stablehloText } from "../../src/hlo/index.ts";
import { bytesOf, type DType, dtypes, type Graph, type HostTensor, type Shape, sizeOf } from "../../src/ir/index.ts";
import type { ProgramAxis } from "../../src/program/index.ts";
import type { Evaluate } from "../support/row.ts";

/** Devices that XLA is told the processor is. */
const deviceCount = 4;

type Described = readonly { readonly dtype: DType; readonly shape: Shape }[];
type Answer = { readonly error: string } | { readonly replicas: readonly Described[] };

interface Waiting {
  readonly resolve: (results: HostTensor[][]) => void;
  readonly reject: (error: Error) => void;
}

export class XlaOracle {
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly waiting: Waiting[] = [];
  private received: Buffer = Buffer.alloc(0);
  private complaints = "";

  constructor(python: string) {
    const script = fileURLToPath(new URL("oracle.py", import.meta.url));
    // Values between ops are of their dtype, not of a wider one: loops end where they do here.
    const flags = `--xla_force_host_platform_device_count=${deviceCount} --xla_allow_excess_precision=false`;
    const env = { ...process.env, JAX_PLATFORMS: "cpu", XLA_FLAGS: flags };
    this.child = spawn(python, ["-u", script], { env });
    this.child.stdout.on("data", (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk]);
      while (this.take());
    });
    this.child.stderr.on("data", (chunk: Buffer) => {
      this.complaints = (this.complaints + chunk.toString()).slice(-4000);
    });
    this.child.on("error", (error) => this.fail(error));
    this.child.on("exit", (code) =>
      this.fail(new Error(`the XLA process ended with status ${code}: ${this.complaints}`)),
    );
  }

  /** Runs a text on one list of inputs per replica; gives the outputs of each. */
  run(text: string, replicas: readonly (readonly HostTensor[])[]): Promise<HostTensor[][]> {
    const described = replicas.map((inputs) => inputs.map(({ dtype, shape }) => ({ dtype, shape })));
    const header = Buffer.from(JSON.stringify({ text, replicas: described }));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(header.length);
    const arrays = replicas.flat().map(({ dtype, data }) => dtypes[dtype].bytesOf(data));
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.child.stdin.write(Buffer.concat([length, header, ...arrays]));
    });
  }

  /** Evaluates a graph on one device. */
  readonly evaluate: Evaluate = async (graph: Graph, inputs: readonly HostTensor[]) =>
    (await this.run(stablehloText(graph), [inputs]))[0] as HostTensor[];

  /** Runs one device's graph on every device of a mesh. */
  onMesh(graph: Graph, axes: readonly ProgramAxis[], inputs: readonly (readonly HostTensor[])[]) {
    return this.run(stablehloText(graph, { axes }), inputs);
  }

  close(): void {
    this.child.removeAllListeners("exit");
    this.child.stdin.end();
  }

  private fail(error: Error): void {
    for (const { reject } of this.waiting.splice(0)) reject(error);
  }

  /** Takes one whole answer from what has arrived; false when there is none yet. */
  private take(): boolean {
    if (this.received.length < 4) return false;
    const end = 4 + this.received.readUInt32LE(0);
    if (this.received.length < end) return false;
    const answer = JSON.parse(this.received.subarray(4, end).toString()) as Answer;
    const described = "error" in answer ? [] : answer.replicas;
    const total = described.flat().reduce((bytes, type) => bytes + bytesOf(type), 0);
    if (this.received.length < end + total) return false;
    let offset = end;
    const results = described.map((outputs) =>
      outputs.map(({ dtype, shape }): HostTensor => {
        // A copy of its own, so that it is aligned.
        const bytes = Uint8Array.from(this.received.subarray(offset, offset + bytesOf({ dtype, shape })));
        offset += bytes.length;
        return { dtype, shape, data: dtypes[dtype].view(bytes.buffer, 0, sizeOf(shape)) };
      }),
    );
    this.received = this.received.subarray(end + total);
    const waiting = this.waiting.shift();
    if ("error" in answer) waiting?.reject(new Error(`XLA: ${answer.error}`));
    else waiting?.resolve(results);
    return true;
  }
}

/** The Python that scripts/test-xla.mjs prepared. */
export function preparedPython(): string {
  const python = process.env["HEDDLE_XLA_PYTHON"];
  if (python === undefined) throw new Error("run these tests by `npm run test:xla`, which installs XLA");
  return python;
}
