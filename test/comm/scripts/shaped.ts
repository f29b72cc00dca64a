/**
 * An all-reduce by several schedules, over links that the test has shaped as the first argument says; each is run twice, and rank 0 prints
 * its time, the simulated one, and whether the result is right.
 */
import { comm, type Tensor, tensor } from "heddle";

/** Hosts, and what their links carry. */
export interface Shape {
  /** Ranks of each host. */
  readonly ranks: readonly number[];
  /** Seconds, and bytes per second from host to host. */
  readonly delay: number;
  readonly rates: readonly (readonly number[])[];
  readonly bytes: number;
}

const { ranks, delay, rates, bytes } = JSON.parse(process.argv[2] as string) as Shape;
const runtime = await comm.connect();
const size = comm.size();
const topology = comm.schedules.hostsOf({
  ranks,
  within: { latency: 2e-5, bandwidth: 2e9 },
  between: (from, to) => ({ latency: delay, bandwidth: rates[from]?.[to] as number }),
});
const task = { collective: "allReduce", ranks: size, root: 0 } as const;
const schedules = [
  ...comm.schedules.rankedSchedules(task, bytes, topology).map(({ schedule }) => schedule),
  comm.schedules.synthesize(task, bytes, topology),
];
const x = tensor(new Float32Array(bytes / 4).fill(comm.rank() + 1));
const due = (size * (size + 1)) / 2;

async function timed(run: () => Tensor): Promise<{ seconds: number; right: boolean }> {
  let best = Number.POSITIVE_INFINITY;
  let right = true;
  for (let round = 0; round < 2; round++) {
    await comm.barrier();
    const start = performance.now();
    const result = await comm.work(run()).wait();
    const seconds = (performance.now() - start) / 1e3;
    best = Math.min(best, await comm.allReduce(tensor(seconds), { reduction: "max" }).item());
    right &&= (await result.data()).every((value) => value === due);
  }
  return { seconds: best, right };
}

const report = (name: string, simulated: number | null, measured: object): void => {
  if (runtime.rank === 0) console.log(`RESULT ${JSON.stringify({ name, simulated, ...measured })}`);
};
report("transport", null, await timed(() => comm.allReduce(x)));
for (const schedule of schedules) {
  const { seconds } = comm.schedules.simulate(schedule, bytes, topology);
  report(schedule.name, seconds, await timed(() => comm.allReduce(x, { schedule })));
}
runtime.close();
