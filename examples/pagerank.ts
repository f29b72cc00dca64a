/**
 * PageRank without a checkpoint: each worker has a block of the ranks. When a worker is lost, the mass of its block is shared out evenly, which
 * keeps the sum at 1, and the iteration comes to the same ranks.
 *
 *     npx heddle run examples/pagerank.ts --workers 1:3              # the ten highest ranks; 3 s
 *     npx heddle run examples/pagerank.ts --workers 1:3 -- 1@5       # the same, though rank 1 kills itself in iteration 5
 */
import { comm, type IterationPlace, iterate, tensor } from "heddle";

const vertices = 400;
const damping = 0.85;
// Links to a few vertices that many like, and to others.
const links = Array.from({ length: 3000 }, (_unused, index): [number, number] => [
  (index * 7919) % vertices,
  index % 3 === 0 ? (index * index) % 10 : (index * 104_729 + 11) % vertices,
]);
const outgoing = new Float64Array(vertices);
for (const [from] of links) outgoing[from] = (outgoing[from] as number) + 1;

const bounds = (rank: number, size: number): [number, number] => [
  Math.floor((vertices * rank) / size),
  Math.floor((vertices * (rank + 1)) / size),
];
const sumOf = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0);
const [victim, when] = (process.argv[2] ?? "").split("@");

const { part, rank, size, runtime, iteration, compensations } = await iterate<{ ranks: Float64Array }>({
  iterations: 1000,
  initial: ({ rank, size }) => {
    const [first, end] = bounds(rank, size);
    return { ranks: new Float64Array(end - first).fill(1 / vertices) };
  },
  step: async ({ ranks }, { rank, size, runtime, iteration }) => {
    if (process.env["HEDDLE_EPOCH"] === "0" && `${rank}` === victim && `${iteration}` === when)
      process.kill(process.pid, "SIGKILL");
    const [first, end] = bounds(rank, size);
    const whole = await allRanks(ranks, rank, size, runtime);
    const dangling = sumOf(whole.filter((_rank, vertex) => outgoing[vertex] === 0));
    const next = new Float64Array(end - first).fill((1 - damping + damping * dangling) / vertices);
    for (const [from, to] of links)
      if (to >= first && to < end)
        next[to - first] =
          (next[to - first] as number) + (damping * (whole[from] as number)) / (outgoing[from] as number);
    const change = sumOf(next.map((value, index) => Math.abs(value - (ranks[index] as number))));
    const total = await comm.allReduce(tensor([change], { dtype: "f64" }), { runtime }).data();
    return { part: { ranks: next }, done: (total[0] as number) < 1e-13 };
  },
  compensate: ({ parts, lost }, { rank, size }) => {
    const lostVertices = sumOf(
      Float64Array.from(lost, (old) => bounds(old, parts.length)[1] - bounds(old, parts.length)[0]),
    );
    const left = parts.reduce((mass, part) => mass + (part === undefined ? 0 : sumOf(part.ranks)), 0);
    const whole = new Float64Array(vertices).fill((1 - left) / Math.max(1, lostVertices));
    for (const [old, part] of parts.entries())
      if (part !== undefined) whole.set(part.ranks, bounds(old, parts.length)[0]);
    return { ranks: whole.slice(...bounds(rank, size)) };
  },
});

/** The blocks of all workers, in a row. */
async function allRanks(own: Float64Array, rank: number, size: number, runtime: IterationPlace["runtime"]) {
  const padded = new Float64Array(vertices);
  padded.set(own, bounds(rank, size)[0]);
  return (await comm.allReduce(tensor([...padded], { dtype: "f64" }), { runtime }).data()) as Float64Array;
}

const whole = await allRanks(part.ranks, rank, size, runtime);
if (rank === 0) {
  const best = [...whole.keys()].sort((one, other) => (whole[other] as number) - (whole[one] as number)).slice(0, 5);
  console.log(`${size} workers, ${iteration} iterations, ${compensations} compensations`);
  console.log(`highest ranks: ${best.map((vertex) => `${vertex} ${(whole[vertex] as number).toFixed(9)}`).join(", ")}`);
}
