/** @module Who talks to whom without a server, with which weights, and how fast values spread. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger } from "../../util/options.ts";

/** Workers, whom each one hears, and the weights with which it mixes what it hears. */
export interface Topology {
  /** `ring:8`. */
  readonly name: string;
  readonly workers: number;
  /** For each worker the workers whose values it takes, itself among them, and their weights: they add up to 1. */
  readonly mixing: readonly ReadonlyMap<number, number>[];
}

/** A ring: each worker hears the one before and the one after it. @throws HeddleError `option` */
export function ring(workers: number): Topology {
  checkInteger("ring", "workers", workers, 1);
  const edges = Array.from({ length: workers }, (_unused, worker) => [worker, (worker + 1) % workers] as const);
  return { ...fromEdges(workers, edges), name: `ring:${workers}` };
}

/** A torus: a grid whose rows and columns are rings. @throws HeddleError `option` */
export function torus(rows: number, columns: number): Topology {
  checkInteger("torus", "rows", rows, 1);
  checkInteger("torus", "columns", columns, 1);
  const at = (row: number, column: number): number => (row % rows) * columns + (column % columns);
  const edges: [number, number][] = [];
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      edges.push([at(row, column), at(row, column + 1)], [at(row, column), at(row + 1, column)]);
  return { ...fromEdges(rows * columns, edges), name: `torus:${rows}x${columns}` };
}

/** Each worker hears all others. @throws HeddleError `option` */
export function complete(workers: number): Topology {
  checkInteger("complete", "workers", workers, 1);
  const edges: [number, number][] = [];
  for (let left = 0; left < workers; left++)
    for (let right = left + 1; right < workers; right++) edges.push([left, right]);
  return { ...fromEdges(workers, edges), name: `complete:${workers}` };
}

/**
 * Each worker hears those 1, 2, 4, … before it, with equal weights (Assran et al., "Stochastic Gradient Push", 2019): few messages, and
 * values spread almost as fast as over all pairs. The weights to a worker add up to 1, too. @throws HeddleError `option`
 */
export function exponential(workers: number): Topology {
  checkInteger("exponential", "workers", workers, 1);
  const steps = [0];
  for (let step = 1; step < workers; step *= 2) steps.push(step);
  const mixing = Array.from(
    { length: workers },
    (_unused, worker) => new Map(steps.map((step) => [(worker + workers - step) % workers, 1 / steps.length])),
  );
  return { name: `exponential:${workers}`, workers, mixing };
}

/**
 * Any graph: workers of an edge hear each other. Weights are those of Metropolis and Hastings, 1 / (1 + the larger degree), and the rest
 * is a worker's own: the matrix is symmetric, so a mix leaves the mean as it is.
 *
 * @throws HeddleError `option` for an edge to a worker that is not there, and for a graph in several parts
 */
export function fromEdges(workers: number, edges: readonly (readonly [number, number])[]): Topology {
  checkInteger("fromEdges", "workers", workers, 1);
  const neighbours = Array.from({ length: workers }, () => new Set<number>());
  for (const [left, right] of edges) {
    const [from, to] = [neighbours[left], neighbours[right]];
    if (from === undefined || to === undefined)
      throw new HeddleError(
        "option",
        `fromEdges: the edge ${left}-${right} is not between workers 0 to ${workers - 1}`,
      );
    if (left === right) continue;
    from.add(right);
    to.add(left);
  }
  const mixing = neighbours.map((own, worker) => {
    const weights = [...own].map((other) => {
      const degree = Math.max(own.size, (neighbours[other] as Set<number>).size);
      return [other, 1 / (1 + degree)] as const;
    });
    return new Map([[worker, 1 - weights.reduce((sum, [, weight]) => sum + weight, 0)], ...weights]);
  });
  checkConnected(mixing);
  return { name: `edges:${workers}`, workers, mixing };
}

function checkConnected(mixing: Topology["mixing"]): void {
  const reached = new Set([0]);
  for (const worker of reached) for (const other of mixing[worker]?.keys() ?? []) reached.add(other);
  if (reached.size === mixing.length) return;
  const lost = mixing.findIndex((_unused, worker) => !reached.has(worker));
  throw new HeddleError("option", `fromEdges: no path leads from worker 0 to worker ${lost}`);
}

/**
 * The spectral gap of a topology: 1 less the largest factor by which a mix leaves the workers' differences from their mean. 1: one mix makes
 * all equal; near 0: values spread slowly. From 0 to 1.
 */
export function spectralGap({ mixing, workers }: Topology): number {
  const rest = mixing.map((weights) =>
    Float64Array.from({ length: workers }, (_unused, other) => (weights.get(other) ?? 0) - 1 / workers),
  );
  // The largest singular value is the root of the largest eigenvalue of the matrix times its transpose.
  const gram = rest.map((left) =>
    Float64Array.from(rest, (right) => left.reduce((sum, value, index) => sum + value * (right[index] as number), 0)),
  );
  return 1 - Math.sqrt(Math.max(0, largestEigenvalue(gram)));
}

/** The largest eigenvalue of a symmetric matrix, which is overwritten: rotations of Jacobi until it is diagonal. */
function largestEigenvalue(matrix: readonly Float64Array[]): number {
  const size = matrix.length;
  const at = (row: number, column: number): number => (matrix[row] as Float64Array)[column] as number;
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0;
    for (let row = 0; row < size; row++)
      for (let column = row + 1; column < size; column++) {
        off += at(row, column) ** 2;
        if (Math.abs(at(row, column)) < 1e-300) continue;
        const ratio = (at(column, column) - at(row, row)) / (2 * at(row, column));
        const tangent = (ratio >= 0 ? 1 : -1) / (Math.abs(ratio) + Math.sqrt(1 + ratio * ratio));
        const cosine = 1 / Math.sqrt(1 + tangent * tangent);
        rotate(matrix, row, column, cosine, tangent * cosine);
      }
    if (off < 1e-26) break;
  }
  return Math.max(...matrix.map((line, index) => line[index] as number));
}

function rotate(matrix: readonly Float64Array[], row: number, column: number, cosine: number, sine: number): void {
  for (const line of matrix) {
    const [left, right] = [line[row] as number, line[column] as number];
    line[row] = cosine * left - sine * right;
    line[column] = sine * left + cosine * right;
  }
  const [first, second] = [matrix[row] as Float64Array, matrix[column] as Float64Array];
  for (let index = 0; index < matrix.length; index++) {
    const [left, right] = [first[index] as number, second[index] as number];
    first[index] = cosine * left - sine * right;
    second[index] = sine * left + cosine * right;
  }
}
