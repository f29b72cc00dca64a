/** Every parser that faces a wire or a file, with well-formed inputs. Those of the ranks' links and of the store are in native/comm. */
import { readdirSync, readFileSync } from "node:fs";
import { PassThrough } from "node:stream";
import { parseContents, parseManifest } from "../../src/checkpoints/manifest.ts";
import { parseIdx } from "../../src/data/idx.ts";
import { parseAnswer, parseRequest } from "../../src/executors/remote/messages.ts";
import { LinkKeys } from "../../src/executors/remote/seal/records.ts";
import { decode, encode } from "../../src/in-network/packet.ts";
import { io, nn, ones } from "../../src/index.ts";
import type { HostTensor } from "../../src/io/safetensors.ts";
import { openTorch } from "../../src/io/torch.ts";
import type { ByteSource } from "../../src/io/zip.ts";
import { parseGraph } from "../../src/ir/index.ts";
import { readMessages } from "../../src/launch/host-messages.ts";
import { watchNotices } from "../../src/launch/notices.ts";
import { layerAsData, layerOfData } from "../../src/nn/recipe.ts";
import { parseAnyPlan } from "../../src/plan/index.ts";
import { parseProgram, verifyProgram } from "../../src/program/index.ts";
import { HeddleError } from "../../src/util/errors.ts";
import type { Target } from "./engine.ts";

const fixture = (name: string): Buffer => readFileSync(new URL(`../fixtures/${name}`, import.meta.url));
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const bytesOf = (value: unknown): Uint8Array =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
const arrays: Record<string, HostTensor> = {
  a: { dtype: "f32", shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
  b: { dtype: "bool", shape: [3], data: Uint8Array.of(0, 1, 1) },
  c: { dtype: "i32", shape: [], data: Int32Array.of(7) },
};
const sourceOf = (bytes: Uint8Array): ByteSource => ({
  bytes: bytes.length,
  read: async (start, length) => bytes.slice(start, start + length),
});

const prototxt = `name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 3 } }
`;
const solver = `net: "net.prototxt"\nbase_lr: 0.01\nlr_policy: "step"\ngamma: 0.1\nstepsize: 100\nmax_iter: 500\nmomentum: 0.9\n`;

/** Frames of the link between driver and worker, as they are once records are open. */
const heads: readonly object[] = [
  {
    type: "join",
    n: 1,
    axes: [{ name: "data", size: 2 }],
    rank: 0,
    size: 2,
    runId: "r-1",
    secret: "s",
    timeout: 60,
    host: "h",
    port: 1,
  },
  { type: "compile", n: 2, program: 1, text: "program" },
  { type: "write", buffer: 3, bytes: 4 },
  { type: "run", n: 3, program: 1, inputs: [1, 2], outputs: [3] },
  { type: "read", n: 4, buffer: 3 },
  { type: "free", buffers: [1, 2, 3] },
  { type: "abort", reason: "why" },
  { n: 5, error: { code: "memory", message: "none left", hint: "less", fault: { rank: 1 }, mark: 3 } },
  { n: 6, port: 4000 },
];
const framed = (input: Uint8Array): void => {
  let head: unknown;
  try {
    head = JSON.parse(text(input));
  } catch {
    return;
  }
  if (typeof head !== "object" || head === null) return;
  const frame = { head: head as { [key: string]: unknown }, body: new Uint8Array(4) };
  parseAnswer(frame, "worker");
  parseRequest(frame);
};

/** A link's records, sealed by a known key: altered ones do not open, and what opens is handed on. */
const keys = new LinkKeys("0123456789abcdef", new Uint8Array(32), new Uint8Array(32));
async function openRecords(input: Uint8Array): Promise<void> {
  let at = 0;
  const ended = Symbol("the input ends");
  const bytes = async (count: number): Promise<Buffer> => {
    if (at + count > input.length) throw ended;
    at += count;
    return Buffer.from(input.subarray(at - count, at));
  };
  await keys
    .opener("driver")
    .read(
      bytes,
      () => {},
      () => {},
    )
    .catch((error: unknown) => {
      if (error !== ended) throw error;
    });
}

/** One answer of a cloud's service of notices. */
async function notice(input: Uint8Array): Promise<void> {
  const before = globalThis.fetch;
  globalThis.fetch = async () => new Response(Buffer.from(input));
  try {
    for (const cloud of ["aws", "gcp", "azure"]) {
      const stop = watchNotices(`${cloud}@http://127.0.0.1:9`, () => {}, 1e6);
      await new Promise((resolve) => setImmediate(resolve));
      stop();
    }
  } finally {
    globalThis.fetch = before;
  }
}

function hostMessages(input: Uint8Array): void {
  const stream = new PassThrough();
  stream.on("error", () => {});
  readMessages(
    stream,
    () => {},
    () => {},
  );
  for (const part of [input.subarray(0, input.length / 2), input.subarray(input.length / 2)])
    stream.emit("data", Buffer.from(part));
  stream.destroy();
}

const idx = (...dims: number[]): Uint8Array => {
  const header = Buffer.alloc(4 + 4 * dims.length);
  header[2] = 8;
  header[3] = dims.length;
  dims.forEach((size, index) => void header.writeUInt32BE(size, 4 + 4 * index));
  return Buffer.concat([header, Buffer.alloc(dims.reduce((product, size) => product * size, 1))]);
};

const malformedLayer = (what: string): HeddleError => new HeddleError("format", what);

/** The golden texts of a stage that are short. */
function printed(stage: "graph" | "plan" | "program"): Uint8Array[] {
  const folder = new URL("../golden/texts/", import.meta.url);
  const names = readdirSync(folder).filter((name) => name.endsWith(`.${stage}.txt`));
  return names.map((name) => readFileSync(new URL(name, folder))).filter(({ length }) => length < 8000);
}

export const targets: readonly Target[] = [
  {
    name: "safetensors",
    seeds: () => [io.encodeSafetensors(new Map(Object.entries(arrays)), new Map([["m", "v"]]))],
    parse: (input) => io.decodeSafetensors(input, "fuzz"),
  },
  { name: "npy", seeds: () => Object.values(arrays).map(io.encodeNpy), parse: (input) => io.decodeNpy(input) },
  {
    name: "npz",
    seeds: () => [io.encodeNpz(arrays), io.encodeNpz(arrays, { compress: false })],
    parse: (input) => io.decodeNpz(input),
  },
  {
    name: "torch",
    seeds: () =>
      (JSON.parse(text(fixture("state-dict.json"))) as { cases: { file: string }[] }).cases.map(({ file }) =>
        Buffer.from(file, "base64"),
      ),
    parse: async (input) => {
      const file = await openTorch(sourceOf(input), "fuzz.pt");
      for (const [name, { dtype }] of file?.entries ?? []) if (dtype !== undefined) await file?.read(name);
    },
  },
  {
    name: "onnx",
    seeds: async () => [
      await io.exportOnnx(({ x }) => ({ y: (x as ReturnType<typeof ones>).matmul(ones([3, 4])).relu() }), {
        x: ones([2, 3]),
      }),
      await io.exportOnnx(
        ({ x }) => ({ y: (x as ReturnType<typeof ones>).sum(0), z: (x as ReturnType<typeof ones>).reshape([6]) }),
        { x: ones([2, 3]) },
      ),
    ],
    parse: (input) => io.parseOnnx(input),
  },
  { name: "prototxt", seeds: () => [bytesOf(prototxt)], parse: (input) => io.parseCaffeNet(text(input)) },
  { name: "solver", seeds: () => [bytesOf(solver)], parse: (input) => io.parseCaffeSolver(text(input)) },
  { name: "idx", seeds: () => [idx(3, 4, 4), idx(10)], parse: (input) => parseIdx(input, "fuzz.idx") },
  {
    name: "manifest",
    seeds: () => [fixture("checkpoint-format-3/manifest.json")],
    parse: (input) => parseManifest(text(input), "manifest.json"),
  },
  {
    // The same without the hash of the whole, which refuses nearly all changes.
    name: "contents",
    seeds: () => {
      const { files, tensors } = JSON.parse(text(fixture("checkpoint-format-3/manifest.json"))) as {
        files: object;
        tensors: object;
      };
      return [bytesOf({ files, tensors })];
    },
    parse: (input) => parseContents(text(input), "part.json"),
  },
  {
    name: "program",
    seeds: () => printed("program"),
    parse: (input) => verifyProgram(parseProgram(text(input))),
  },
  { name: "graph", seeds: () => printed("graph"), parse: (input) => parseGraph(text(input)) },
  { name: "plan", seeds: () => printed("plan"), parse: (input) => parseAnyPlan(text(input)) },
  {
    name: "layers",
    seeds: () => [
      bytesOf(
        layerAsData("fuzz", nn.sequential(nn.conv2d({ out: 4, kernel: 3 }), nn.relu(), nn.flatten(), nn.linear(10))),
      ),
    ],
    parse: (input) => {
      let data: unknown;
      try {
        data = JSON.parse(text(input));
      } catch {
        return;
      }
      layerOfData(data as never, nn, malformedLayer);
    },
  },
  { name: "remote frames", seeds: () => heads.map(bytesOf), parse: framed },
  {
    name: "sealed records",
    seeds: () => {
      const sealer = keys.sealer("driver");
      return [Buffer.concat([...sealer.seal(bytesOf("first")), ...sealer.seal(new Uint8Array(100))])];
    },
    parse: openRecords,
  },
  {
    name: "switch packets",
    seeds: () =>
      [1, 8, 256].map((count) =>
        encode({
          job: 1,
          worker: 0,
          workers: 2,
          slot: 3,
          phase: 4,
          exponent: -5,
          lanes: Int32Array.from({ length: count }, (_unused, lane) => lane),
        }),
      ),
    parse: (input) => decode(Buffer.from(input)),
  },
  {
    name: "notices",
    seeds: () =>
      [
        { action: "terminate", time: "2026-01-01T00:00:00Z" },
        "TRUE",
        { Events: [{ EventType: "Preempt", NotBefore: "soon" }, null] },
      ].map(bytesOf),
    parse: notice,
  },
  {
    name: "host messages",
    seeds: () => [bytesOf('{"type":"hello","version":"1"}\nline of a script\n{"type":"ended","rank":1,"status":0}\n')],
    parse: hostMessages,
  },
];
