/**
 * Linear regression by conjugate gradients on a matrix that lies in blocks of rows on the workers. When a worker is lost, the others compute its
 * rows again from their lineage, and take what they had whole from their memory.
 *
 *     npx heddle run examples/blocks.ts --workers 2                # the weights, and the operators that were chosen; 4 s
 *     npx heddle run examples/blocks.ts --workers 1:3 -- 1@5       # the same weights, though rank 1 kills itself in step 5
 */
import { withLineage } from "heddle";
import { evaluate, matrix, matrixPrograms, rand, zeros } from "heddle/matrix";

const rows = 20_000;
const truth = [1, -2, 3, 0, 0.5, 4, -1, 2];
const [victim, when] = (process.argv[2] ?? "").split("@");

await withLineage(async (place) => {
  const { rank, size, recoveries } = place;
  const x = rand(rows, truth.length, { seed: 1, distribution: "normal" });
  const y = x.matmul(matrix(truth)).add(rand(rows, 1, { seed: 2 }).sub(0.5));
  evaluate(x, y);
  let w = zeros(truth.length, 1);
  let r = x.T.matmul(y).mul(-1);
  let p = r.mul(-1);
  let norm = r.pow(2).sum();
  for (let step = 0; step < truth.length; step++) {
    if (recoveries === 0 && `${rank}` === victim && `${step}` === when) process.kill(process.pid, "SIGKILL");
    const q = x.T.matmul(x.matmul(p));
    const rate = norm.div(p.mul(q).sum());
    w = w.add(rate.mul(p));
    r = r.add(rate.mul(q));
    const before = norm;
    norm = r.pow(2).sum();
    p = norm.div(before).mul(p).sub(r);
    evaluate(w, r, p, norm);
  }
  const error = await x.matmul(w).sub(y).pow(2).mean().item();
  const weights = await w.data();
  if (rank > 0) return;
  const together = matrixPrograms().flatMap((program) => program.together ?? []);
  const operators = new Set(together.flatMap(({ lines }) => lines.flatMap((line) => line.how.split(":")[0] ?? [])));
  console.log(`${size} workers, ${recoveries} recoveries, values from memory: ${place.recalled > 0 ? "some" : "none"}`);
  if (size > 1) console.log(`operators: ${[...operators].filter((name) => /mm|rand/.test(name)).join(", ")}`);
  console.log(`weights ${[...weights].map((weight) => weight.toFixed(2)).join(" ")}, error ${error.toFixed(4)}`);
});
