/** @module Factorisations of matrices. */
import { room } from "./room.ts";
import { dtype, flag, kernel, listOf, oneOf, reads, sized, writes } from "./schema.ts";

const [square, wide, sign] = ["[batch m m]", "[batch m n]", "[batch]"];
const [tall, flat, diagonal] = ["[batch m min(m,n)]", "[batch min(m,n) n]", "[batch min(m,n)]"];

/** Factorisations and solutions, one for each matrix of a batch. */
export const factor = kernel(
  "factor",
  {
    what: oneOf("FactorKind", ["cholesky", "triangularSolve", "lu", "qr", "svd", "eigh"]),
    dtype: dtype(),
    ...sized("batch", "m", "n"),
    in: listOf(
      reads({
        by: "what",
        cases: {
          cholesky: [square],
          triangularSolve: [square, wide],
          lu: [square],
          qr: [wide],
          svd: [wide],
          eigh: [square],
        },
      }),
    ),
    out: listOf(
      writes({
        by: "what",
        cases: {
          cholesky: [square],
          triangularSolve: [wide],
          lu: [square, "i32[batch m]", sign],
          qr: [tall, flat, sign],
          svd: [tall, diagonal, flat],
          eigh: ["[batch m]", square],
        },
      }),
    ),
    lower: flag(),
    transpose: flag(),
    unit: flag(),
  },
  {
    doc: "The factorization `what` of each matrix, row-major. The last result of `lu` is the sign of the row permutation; that of `qr` is the determinant of Q if Q is square, else 1. f32 is computed in f64. Signs are those of `src/ops/factor.ts`. A zero on the diagonal (`triangularSolve`) or a matrix that is not positive definite (`cholesky`) is an error of the run, which names the index of the matrix in the batch.",
    work: ({ what, batch, m, n }) => {
      const k = Math.min(m, n);
      const numbers = {
        cholesky: m * m + m,
        triangularSolve: m * m + 2 * m * n,
        lu: m * m + m,
        // The matrix; Q, R, the reflectors with their factors, and a row.
        qr: m * n + m * k + k * n + m * k + k + Math.max(n, k),
        svd: m * n,
        eigh: m * m,
      };
      return room(batch, 8 * numbers[what]);
    },
  },
);
