/**
 * Algorithms on matrices in blocks: `heddle run programs.ts --workers 4 -- FOLDER [victim@program]`. The folder has x.csv and x.npy. Prints a line of JSON for
 * each algorithm, and what was sent. The victim's worker kills itself in the middle of the algorithm of that name.
 */
import { io, withLineage } from "heddle";
import {
  binary,
  eigh,
  evaluate,
  gradient,
  type Matrix,
  matrix,
  matrixPrograms,
  ones,
  rand,
  solve,
  unary,
  zeros,
} from "heddle/matrix";

const [folder = "", fault = ""] = process.argv.slice(2);
const [victim, when] = fault.split("@");
// No multiple of 2 or 4, so that blocks differ.
const rows = 1003;
const columns = 7;

/** Ends this worker if the fault says so; the run has not begun again then. */
const middle = (name: string, rank: number): void => {
  if (process.env["HEDDLE_EPOCH"] === "0" && name === when && `${rank}` === victim)
    process.kill(process.pid, "SIGKILL");
};

interface Place {
  readonly rank: number;
  readonly recoveries: number;
  readonly recalled: number;
}

const algorithms: Readonly<Record<string, (x: Matrix, y: Matrix, place: Place) => Matrix[]>> = {
  direct: (x, y) => [solve(x.T.matmul(x).add(1e-3), x.T.matmul(y))],
  cg: (x, y, { rank }) => {
    let w = zeros(columns, 1);
    let r = x.T.matmul(y).mul(-1);
    let p = r.mul(-1);
    let norm = r.pow(2).sum();
    for (let step = 0; step < columns; step++) {
      if (step === 3) middle("cg", rank);
      const q = x.T.matmul(x.matmul(p)).add(p.mul(1e-3));
      const rate = norm.div(p.mul(q).sum());
      w = w.add(rate.mul(p));
      r = r.add(rate.mul(q));
      const before = norm;
      norm = r.pow(2).sum();
      p = norm.div(before).mul(p).sub(r);
      evaluate(w, r, p, norm);
    }
    return [w];
  },
  // The residual lies in blocks, and is carried from step to step.
  residual: (x, y, { rank }) => {
    let w = zeros(columns, 1);
    let r = y;
    for (let step = 0; step < 6; step++) {
      if (step === 4) middle("residual", rank);
      const slope = x.T.matmul(r).div(rows);
      w = w.add(slope);
      r = r.sub(x.matmul(slope));
      evaluate(w, r);
    }
    return [w, r.pow(2).sum(), r];
  },
  kmeans: (x, _y, { rank }) => {
    let centres = x.slice([0, 4]);
    for (let step = 0; step < 5; step++) {
      if (step === 2) middle("kmeans", rank);
      const far = x.matmul(centres.T).mul(-2).add(centres.pow(2).sum(1).T);
      const member = binary("eq", far, far.min(1));
      centres = member.T.matmul(x).div(member.sum(0).T);
      evaluate(centres);
    }
    return [centres];
  },
  logistic: (x, y) => {
    const label = binary("gt", y, 0);
    let w = zeros(columns, 1);
    for (let step = 0; step < 8; step++) {
      const p = unary("sigmoid", x.matmul(w));
      const weight = p.mul(p.mul(-1).add(1));
      const slope = x.T.matmul(p.sub(label)).add(w);
      const hessian = x.T.matmul(x.mul(weight)).add(binary("mul", eyeOf(columns), 1));
      w = w.sub(solve(hessian, slope));
      evaluate(w);
    }
    return [w, unary("log", unary("exp", x.matmul(w)).add(1)).sum()];
  },
  pca: (x) => {
    const centred = x.sub(x.mean(0));
    const { values } = eigh(centred.T.matmul(centred).div(rows - 1));
    return [values, x.var(0), x.std(), x.max(0), x.min(), x.mean(1).sum()];
  },
  mmchain: (x, y) => {
    let v = ones(columns, 1);
    for (let step = 0; step < 3; step++) v = x.T.matmul(y.mul(x.matmul(v))).div(rows);
    return [v];
  },
  gradient: (x, y) => {
    const loss = (w: Matrix): Matrix => unary("log", unary("exp", x.matmul(w).mul(y).mul(-1)).add(1)).sum();
    const { value, gradients } = gradient(loss, [zeros(columns, 1).add(0.01)]);
    return [value, ...gradients];
  },
  wsloss: (x) => {
    const [u, v] = [rand(rows, 3, { seed: 11 }), rand(columns, 3, { seed: 12 })];
    const weight = binary("gt", x, 0);
    return [weight.mul(x.sub(u.matmul(v.T)).pow(2)).sum(), u.T.matmul(weight.mul(x))];
  },
  // The blocks of 2 workers are long enough for passes over rows, and one has a row less than the others.
  lengths: () => {
    const [odd, even] = [rand(9_999, 30, { seed: 31 }), rand(10_000, 30, { seed: 32 })];
    evaluate(odd, even);
    const sums = [odd.sum(0), even.sum(0)];
    evaluate(...sums);
    const reversed = [even.mul(2).sum(0), odd.mul(2).sum(0)];
    evaluate(...reversed);
    return [...sums, ...reversed];
  },
  // Products of two matrices in blocks, parts of blocks, and what is gathered.
  blocks: (x, y) => {
    const [a, b] = [rand(90, rows, { seed: 21 }), rand(rows, 90, { seed: 22 })];
    const product = rand(90, 10_000, { seed: 23 }).matmul(rand(10_000, 90, { seed: 24 }));
    return [
      product.sum(0),
      a.matmul(x).sum(1),
      b.T.cumsum(0).sum(1),
      x.slice([5, 9]),
      x.slice([0, rows], [1, 3]).sum(0),
      x.take([1002, 3, 3, 500]),
      x.take([2, 0], 1).sum(0),
      x.update(y, 0, 2).sum(0),
      y.cumsum(0).slice([rows - 1, rows]),
      x.argmax(0),
      x.T.matmul(x).reshape(1, columns * columns),
      b.matmul(a).sum(),
    ];
  },
};

const eyeOf = (size: number): Matrix =>
  matrix(Array.from({ length: size }, (_unused, i) => Array.from({ length: size }, (_cell, j) => Number(i === j))));

await withLineage(
  async (place) => {
    console.log(`RECOVERIES ${place.recoveries}`);
    const x = await io.readMatrix(`${folder}/x.csv`);
    const again = await io.readMatrix(`${folder}/x.npy`);
    const noise = rand(rows, 1, { seed: 5, distribution: "normal" });
    const y = x.matmul(matrix([[1], [-2], [3], [0], [0.5], [4], [-1]])).add(noise.mul(0.1));
    evaluate(y);
    const results: Record<string, number[][]> = {};
    for (const [name, run] of Object.entries(algorithms)) {
      const values = run(x, y, place);
      evaluate(...values);
      results[name] = values.map((value) => [...value.dataSync()]);
    }
    results["npy"] = [[again.sub(x).pow(2).sum().itemSync()]];
    const operators = matrixPrograms().flatMap(({ together }) => together?.lines ?? []);
    if (place.rank === 0) {
      const how = [...new Set(operators.flatMap(({ step, how }) => (step === undefined ? [] : [how.split(":")[0]])))];
      console.log(`RESULT ${JSON.stringify({ results, how, recoveries: place.recoveries, recalled: place.recalled })}`);
    }
  },
  { wholeBytes: 4096 },
);
