/** @module Heddle's peer for linear algebra: programs of heddle/matrix, and estimators of heddle/ml. */
import { dense, diag, entries, evaluate, type Matrix, ones, solve, unary, zeros } from "heddle/matrix";
import { kMeans, linearSvc, logisticRegression, logLoss, pca } from "heddle/ml";
import type { LinalgProblem, LinalgSizes } from "../kinds/index.ts";
import { digest, type Peer, type Spec } from "./link.ts";

/** Uniform numbers in [0, 1): the hash of a position ("lowbias32" by C. Wellons). `linalg_peer.py` has the same. */
function hashed(length: number, seed: number): Float64Array {
  const values = new Float64Array(length);
  const offset = Math.imul(seed, 0x9e3779b9);
  for (let at = 0; at < length; at++) {
    let bits = (at + offset) | 0;
    bits = Math.imul(bits ^ (bits >>> 16), 0x7feb352d);
    bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
    values[at] = ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 32;
  }
  return values;
}

const uniform = (rows: number, columns: number, seed: number): Matrix =>
  dense(hashed(rows * columns, seed), rows, columns);

/** As many entries in each row, one in each of as many equal parts of the columns. */
function sparse({ rows, columns, entries: perRow }: LinalgSizes): Matrix {
  const count = rows * perRow;
  const [places, values] = [hashed(count, 2), hashed(count, 3)];
  const [at, to] = [new Int32Array(count), new Int32Array(count)];
  for (let entry = 0; entry < count; entry++) {
    at[entry] = Math.floor(entry / perRow);
    to[entry] = Math.floor((((entry % perRow) + (places[entry] as number)) * columns) / perRow);
  }
  return entries(values, at, to, [rows, columns]);
}

/** A run gives the numbers that peers compare. */
type Run = () => Promise<number[]> | number[];

/** Conjugate gradients for (XᵀX + I) w = Xᵀy, so many steps. */
function conjugateGradients(x: Matrix, y: Matrix, count: number): Run {
  return () => {
    let w = zeros(x.columns, 1);
    let r = x.T.matmul(y);
    let p = r;
    let norm = r.pow(2).sum();
    for (let step = 0; step < count; step++) {
      const q = x.T.matmul(x.matmul(p)).add(p);
      const rate = norm.div(p.mul(q).sum());
      w = w.add(p.mul(rate));
      r = r.sub(q.mul(rate));
      const next = r.pow(2).sum();
      p = r.add(p.mul(next.div(norm)));
      norm = next;
      evaluate(w, r, p, norm);
    }
    return [digest(w.dataSync())];
  };
}

/** The place of the largest of the first ten columns, half of the next ten added. */
function tenLabels(x: Matrix): Matrix {
  const scores = x.slice([0, x.rows], [0, 10]).add(x.slice([0, x.rows], [10, 20]).mul(0.5));
  return scores.argmax(1);
}

const problems: Readonly<Record<LinalgProblem, (sizes: LinalgSizes) => Run>> = {
  "cg-dense": ({ rows, columns, count }) => conjugateGradients(uniform(rows, columns, 1), uniform(rows, 1, 4), count),
  "cg-sparse": (sizes) => conjugateGradients(sparse(sizes), uniform(sizes.rows, 1, 4), sizes.count),
  direct: ({ rows, columns }) => {
    const [x, y] = [uniform(rows, columns, 1), uniform(rows, 1, 4)];
    const penalty = diag(ones(columns, 1));
    return () => [digest(solve(x.T.matmul(x).add(penalty), x.T.matmul(y)).dataSync())];
  },
  kmeans: ({ rows, columns, count }) => {
    const x = uniform(rows, columns, 1);
    const init = x.slice([0, 20]);
    const estimator = kMeans({ clusters: 20, init, tolerance: 0, maxIterations: count });
    return async () => [(await estimator.fit(x)).inertia];
  },
  logistic: ({ rows, columns }) => {
    const x = uniform(rows, columns, 1);
    const y = tenLabels(x);
    const estimator = logisticRegression({ tolerance: 1e-4 });
    evaluate(x, y);
    return async () => [logLoss(y, (await estimator.fit(x, y)).probabilities(x))];
  },
  svm: ({ rows, columns }) => {
    const x = uniform(rows, columns, 1);
    const part = (column: number): Matrix => x.slice([0, rows], [column, column + 1]);
    const y = unary("sign", part(0).add(part(1).mul(0.5)).add(part(2)).sub(1.25));
    const estimator = linearSvc({ tolerance: 1e-4 });
    evaluate(x, y);
    return async () => {
      const model = await estimator.fit(x, y);
      const short = unary("sign", unary("abs", model.scores(x).mul(y).sub(1)));
      const missed = model.scores(x).mul(y).mul(-1).add(1);
      const hinge = missed.add(unary("abs", missed)).div(2).mul(short);
      const size = model.coefficients.pow(2).sum().add(model.intercept.pow(2).sum());
      return [hinge.pow(2).sum().add(size.div(2)).itemSync()];
    };
  },
  pca: ({ rows, columns }) => {
    const x = uniform(rows, columns, 1);
    const estimator = pca({ components: 10 });
    return async () => [digest((await estimator.fit(x)).explainedVariance.dataSync())];
  },
  mmchain: ({ rows, columns, count }) => {
    const x = uniform(rows, columns, 1);
    return () => {
      let v = ones(columns, 1);
      for (let step = 0; step < count; step++) {
        const q = x.T.matmul(x.matmul(v));
        v = q.div(q.max());
        evaluate(v);
      }
      return [digest(v.dataSync())];
    };
  },
  wsloss: (sizes) => {
    const x = sparse(sizes);
    const [u, v] = [uniform(sizes.rows, 20, 5), uniform(20, sizes.columns, 6)];
    return () => [
      x
        .sub(unary("sign", x).mul(u.matmul(v)))
        .pow(2)
        .sum()
        .itemSync(),
    ];
  },
};

export function linalg(spec: Spec): Peer {
  const sizes = spec.sizes as LinalgSizes;
  const run = problems[sizes.problem](sizes);
  return {
    versions: {},
    check: async () => run(),
    async steps(count) {
      const milliseconds: number[] = [];
      let losses: number[] = [];
      for (let step = 0; step < count; step++) {
        const started = performance.now();
        losses = await run();
        milliseconds.push(performance.now() - started);
      }
      return { milliseconds, losses: [losses[0] as number, losses[0] as number] };
    },
  };
}
