/**
 * An executor of one's own: it runs graphs by what ops mean in TypeScript, and adds up how long a machine would take whose arithmetic
 * is slow. The planner plans for that machine: there a sparse matrix stays sparse that others make dense.
 *
 *     npx heddle run examples/extend/executor.ts     # trains a network on it, 2 s
 */
import { data, HeddleError, losses, nn, optim, sparse, type Tensor, train } from "heddle";
import {
  dtypes,
  type HostTensor,
  isAbsent,
  type Node,
  RuleTable,
  registerTarget,
  sizeOf,
  topological,
} from "heddle/ir";
import { evaluateGraph } from "heddle/ops";
import { type DeviceBuffer, type Executor, localRuntime, registerExecutor } from "heddle/runtime";
import { compileFunction } from "heddle/tensor";

/** Operations per second. */
const arithmetic = 1e9;

/** Seconds of an op: a rule for each op that the machine does in a way of its own. */
const seconds = registerTarget(new RuleTable<(node: Node) => number>("abacus"));
seconds.define({ tanh: ({ shape }) => 4e-8 * sizeOf(shape), reshape: () => 0 });

function secondsOf(node: Node): number {
  const rule = seconds.ruleOf(node.op);
  if (!isAbsent(rule)) return rule(node);
  const inputs = node.inputs.flatMap(({ types }) => types);
  return node.op.cost(inputs, node.types, node.attrs) / arithmetic;
}

class Memory implements DeviceBuffer {
  readonly ready = true;
  data: Uint8Array;
  constructor(data: Uint8Array) {
    this.data = data;
  }
  get bytes(): number {
    return this.data.byteLength;
  }
  write(data: Uint8Array): void {
    this.data.set(data);
  }
  readSync(): Uint8Array {
    return this.data.slice();
  }
  async read(): Promise<Uint8Array> {
    return this.readSync();
  }
  dispose(): void {}
}

const tensorOf = ({ data }: Memory, { dtype, shape }: Node): HostTensor => ({
  ...{ dtype, shape },
  data: dtypes[dtype].view(data.buffer as ArrayBuffer, data.byteOffset, sizeOf(shape)),
});

let total = 0;

function make({ devices }: { readonly devices: readonly unknown[] }): Executor {
  if (devices.length > 1) throw new HeddleError("executor", `abacus has one device, not ${devices.length}`);
  return {
    name: "abacus",
    devices: 1,
    allocate: (bytes) => new Memory(new Uint8Array(bytes)),
    compile: (program, [graph] = []) => {
      if (graph === undefined || !("steps" in program)) throw new HeddleError("executor", "abacus runs whole graphs");
      const nodes = topological(graph.outputs);
      const predicted = nodes.reduce((sum, node) => sum + secondsOf(node), 0);
      return {
        program,
        run: ([given = []]) => {
          total += predicted;
          const inputs = graph.inputs.map((node, index) => tensorOf(given[index] as Memory, node));
          const results = evaluateGraph(graph, inputs);
          // What is handed through is a value of its own.
          const outputs = results.map(({ dtype, data }) => new Memory(dtypes[dtype].bytesOf(data).slice()));
          return { outputs: [outputs], done: Promise.resolve() };
        },
      };
    },
    abort: () => {},
    close: () => {},
  };
}

registerExecutor({
  name: "abacus",
  unavailable: () => undefined,
  machine: { flops: arithmetic, memory: 1e10, latency: 1e-6, bandwidth: 1e10, call: 0, handover: 0 },
  make,
});

const xs = Float32Array.from({ length: 64 }, (_unused, at) => at / 32 - 1);
const trained = (executor: string) =>
  train({
    model: nn.sequential(nn.linear(16), nn.tanh(), nn.linear(1)),
    data: data
      .fromArrays({ x: { shape: [64, 1], data: xs }, y: { shape: [64, 1], data: xs.map((x) => Math.sin(3 * x)) } })
      .batch(16),
    loss: losses.mse,
    optimizer: optim.adam({ learningRate: 0.03 }),
    epochs: 60,
    executor,
    report: "silent",
  });
const lossOf = async (executor: string) => (await trained(executor)).history.at(-1)?.loss ?? Number.NaN;
const loss = await lossOf("abacus");
console.log(`loss ${loss.toFixed(3)}, of the reference executor too: ${loss === (await lossOf("reference"))}`);
console.log(`the machine would take ${(total * 1e3).toFixed(1)} ms`);

// A sixth of the entries is there: on most machines it is quicker to multiply all.
const [entries, index] = [20_000, { shape: [20_000], dtype: "i32" }] as const;
const product = (values: Tensor, row: Tensor, column: Tensor, x: Tensor): Tensor =>
  sparse(values, row, column, [400, 300]).matmul(x);
for (const executor of ["reference", "abacus"]) {
  const types = [{ shape: [entries], dtype: "f32" }, index, index, { shape: [300, 16], dtype: "f32" }] as const;
  const { plan } = compileFunction(product, types, localRuntime({ executor }));
  console.log(`${executor}: ${plan.formats.map(({ format }) => format).join()}`);
}
