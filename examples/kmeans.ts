/**
 * k-means without a checkpoint: each worker has some of the points, and some of the centroids. When a worker is lost, each of its centroids is put
 * on the point that is farthest from all others, and the iteration comes to the same clusters.
 *
 *     npx heddle run examples/kmeans.ts --workers 1:3              # 6 clusters; 3 s
 *     npx heddle run examples/kmeans.ts --workers 1:3 -- 1@1       # the same, though rank 1 kills itself in iteration 1
 */
import { comm, type IterationPlace, iterate, tensor } from "heddle";

const clusters = 6;
/** A number from 0 to 1 that looks random, and is the same on every worker. */
const drawn = (index: number): number => {
  const large = Math.sin(index) * 43_758.5453;
  return large - Math.floor(large);
};
// Points around 6 places.
const points = Array.from({ length: 600 }, (_unused, index): [number, number] => {
  const angle = (2 * Math.PI * (index % clusters)) / clusters;
  return [10 * Math.cos(angle) + 6 * drawn(index), 10 * Math.sin(angle) + 6 * drawn(index + 1000)];
});
const [victim, when] = (process.argv[2] ?? "").split("@");

/** The first and the last but one of `count` things that a worker has. */
const bounds = (count: number, rank: number, size: number): [number, number] => [
  Math.floor((count * rank) / size),
  Math.floor((count * (rank + 1)) / size),
];
const distance = ([x, y]: readonly number[], [left, top]: readonly number[]): number =>
  ((x as number) - (left as number)) ** 2 + ((y as number) - (top as number)) ** 2;
const pairs = (flat: ArrayLike<number>): number[][] =>
  Array.from({ length: flat.length / 2 }, (_unused, index) => [
    flat[2 * index] as number,
    flat[2 * index + 1] as number,
  ]);

/** The number of the nearest centroid, and how far it is. */
function nearest(point: readonly number[], centroids: readonly (readonly number[])[]): [number, number] {
  const distances = centroids.map((centroid) => distance(point, centroid));
  const least = Math.min(...distances);
  return [distances.indexOf(least), least];
}

const { part, size, rank, runtime, iteration, compensations } = await iterate<{ centroids: Float64Array }>({
  iterations: 200,
  initial: ({ rank, size }) => ({
    centroids: Float64Array.from(points.slice(...bounds(clusters, rank, size)).flat()),
  }),
  step: async ({ centroids }, { rank, size, runtime, iteration }) => {
    if (process.env["HEDDLE_EPOCH"] === "0" && `${rank}` === victim && `${iteration}` === when)
      process.kill(process.pid, "SIGKILL");
    const [first, end] = bounds(clusters, rank, size);
    const all = Array.from({ length: 2 * clusters }, () => 0);
    all.splice(2 * first, centroids.length, ...centroids);
    const whole = pairs(await sum(all, runtime));
    // Of each cluster: the sums of both coordinates, and the number of points.
    const own = Array.from({ length: 3 * clusters }, () => 0);
    for (const point of points.slice(...bounds(points.length, rank, size))) {
      const [cluster] = nearest(point, whole);
      for (const [at, value] of [...point, 1].entries())
        own[3 * cluster + at] = (own[3 * cluster + at] as number) + value;
    }
    const sums = await sum(own, runtime);
    const next = whole.map((centroid, cluster) => {
      const count = sums[3 * cluster + 2] as number;
      return count === 0
        ? centroid
        : [(sums[3 * cluster] as number) / count, (sums[3 * cluster + 1] as number) / count];
    });
    const moved = Math.max(...next.map((centroid, cluster) => distance(centroid, whole[cluster] as number[])));
    return { part: { centroids: Float64Array.from(next.slice(first, end).flat()) }, done: moved === 0 };
  },
  compensate: ({ parts }, { rank, size }) => {
    const known = parts.flatMap((part) => (part === undefined ? [] : pairs(part.centroids)));
    while (known.length < clusters) {
      const far = points.map((point) => nearest(point, known)[1]);
      known.push(points[far.indexOf(Math.max(...far))] as [number, number]);
    }
    return { centroids: Float64Array.from(known.slice(...bounds(clusters, rank, size)).flat()) };
  },
});

/** The sum over all workers. */
async function sum(values: readonly number[], runtime: IterationPlace["runtime"]): Promise<number[]> {
  return [...(await comm.allReduce(tensor([...values], { dtype: "f64" }), { runtime }).data())] as number[];
}

const all = Array.from({ length: 2 * clusters }, () => 0);
all.splice(2 * bounds(clusters, rank, size)[0], part.centroids.length, ...part.centroids);
const centroids = pairs(await sum(all, runtime));
const error = points.reduce((total, point) => total + nearest(point, centroids)[1], 0);
if (rank === 0) {
  console.log(`${size} workers, ${iteration} iterations, ${compensations} compensations`);
  console.log(`sum of squared distances ${error.toFixed(6)}`);
}
