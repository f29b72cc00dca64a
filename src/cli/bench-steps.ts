/**
 * @module What each worker of `heddle bench collectives` times: arguments are a time per measurement in seconds, and measurements as
 * `allReduce:1024`, a collective and its bytes. Rank 0 prints `program allReduce 1024 0.000012`: seconds of a call, of the slowest rank.
 */
import * as comm from "../comm/index.ts";
import { concat, scan, type Tensor, tensor, zeros } from "../functions/index.ts";

const [text = "0.05", ...measurements] = process.argv.slice(2);
const runtime = await comm.connect();
const size = comm.size();

/** The length of a tensor whose parts, or copies of all devices, have the bytes. */
const lengths = (bytes: number) => {
  const whole = Math.max(1, Math.round(bytes / 4));
  const part = Math.max(1, Math.round(whole / size));
  return { whole, part };
};

type Call = (x: Tensor) => Tensor;
const calls: { readonly [name: string]: (bytes: number) => readonly [length: number, call: Call] } = {
  allReduce: (bytes) => [lengths(bytes).whole, (x) => comm.allReduce(x)],
  reduce: (bytes) => [lengths(bytes).whole, (x) => comm.reduce(x)],
  broadcast: (bytes) => [lengths(bytes).whole, (x) => comm.broadcast(x)],
  reduceScatter: (bytes) => [lengths(bytes).part * size, (x) => comm.reduceScatter(x)],
  allGather: (bytes) => [lengths(bytes).part, (x) => comm.allGather(x)],
  gather: (bytes) => [lengths(bytes).part, (x) => comm.gather(x)],
  scatter: (bytes) => [lengths(bytes).part * size, (x) => comm.scatter(x)],
  allToAll: (bytes) => [lengths(bytes).part * size, (x) => comm.allToAll(x)],
};

/** A function that calls a collective several times: sums in a loop, one after another, as the loops of the peers; others by themselves. */
function repeated(name: string, call: Call, times: number): (x: Tensor) => Tensor {
  const first = (y: Tensor): Tensor => y.slice([0], [1]);
  if (name === "allReduce")
    return (x) => first(scan((y: Tensor) => [call(y), []] as const, x, [], { length: times })[0]);
  return (x) => concat(Array.from({ length: times }, () => first(call(x))));
}

/** Seconds of a run, of the slowest rank; all ranks run it equally often. */
async function timed(run: () => Promise<unknown>): Promise<number> {
  await run();
  await run();
  const once = await elapsed(run, 2);
  const times = await comm.broadcast(tensor(Math.min(5000, Math.max(2, Math.round(Number(text) / once))))).item();
  return comm.allReduce(tensor(await elapsed(run, times)), { reduction: "max" }).item();
}

async function elapsed(run: () => Promise<unknown>, times: number): Promise<number> {
  await comm.barrier();
  const start = performance.now();
  for (let index = 0; index < times; index++) await run();
  return (performance.now() - start) / 1e3 / times;
}

for (const measurement of measurements) {
  const [name = "", bytes = "4"] = measurement.split(":");
  const [length, call] = (calls[name] as (typeof calls)[string])(Number(bytes));
  const x = zeros([length]);
  // Many sums, so that the start of the program, which the loops of the peers do without, is hardly part of their time.
  const most = name === "allReduce" ? 2000 : Number(bytes) < 2 ** 20 ? 50 : 4;
  const times = Math.min(most, Math.max(4, Math.round(2 ** 26 / Number(bytes))));
  const program = comm.perDevice(repeated(name, call, times), { name });
  const inProgram = (await timed(() => comm.work(program(x)).wait())) / times;
  const alone = await timed(async () => {
    const work = comm.work(call(x));
    await work.wait();
    work.result.dispose();
  });
  if (runtime.rank === 0) {
    console.log(`program ${name} ${bytes} ${inProgram}`);
    console.log(`call ${name} ${bytes} ${alone}`);
  }
}
runtime.close();
