/** @module Builtins for systems of equations and factorisations. */

import { cholesky, det, diag, eigh, evaluate, eye, inv, lstsq, lu, qr, solve, svd } from "../../matrix/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { builtin } from "../builtin.ts";
import { Scalar } from "../values.ts";

builtin("solve", "A b", "X with A %*% X = b, or the least squares if A has more rows: ncol(A) x ncol(b)", (args) => {
  const [a, b] = [args.matrix("A"), args.matrix("b")];
  return a.rows === a.columns ? solve(a, b) : lstsq(a, b);
});
builtin("inv inverse", "A", "the inverse: the size of A", (args) => inv(args.matrix("A")));
builtin("sqrtMatrixJava", "A", "the matrix whose product with itself is A: the size of A", (args) => {
  // Denman and Beavers, "The matrix sign function and computations in systems" (1976): it converges quadratically.
  let [y, z] = [args.matrix("A"), eye(args.matrix("A").rows)];
  for (let step = 0; step < 50; step++) {
    const next = y.add(inv(z)).div(2);
    z = z.add(inv(y)).div(2);
    const moved = next.sub(y).pow(2).sum();
    y = next;
    evaluate(y, z, moved);
    if (!(moved.itemSync() > 1e-28 * y.size)) break;
  }
  return y;
});
builtin("cholesky", "A", "the lower triangle L with L %*% t(L) = A: the size of A", (args) =>
  cholesky(args.matrix("A")),
);
builtin("det", "A", "the determinant: a scalar", (args) => new Scalar("double", det(args.matrix("A"))));
builtin("eigen", "A", "[values, vectors] of a symmetric matrix, ascending: n x 1 and n x n", (args) => {
  const a = args.matrix("A");
  const [rows, size] = [a.dataSync(), a.rows];
  const scale = rows.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-300);
  for (let i = 0; i < size; i++)
    for (let j = 0; j < i; j++)
      if (Math.abs((rows[i * size + j] as number) - (rows[j * size + i] as number)) > 1e-9 * scale)
        throw new HeddleError("value", "eigen: the matrix is not symmetric", {
          hint: "only symmetric matrices are decomposed",
        });
  const { values, vectors } = eigh(a);
  return [values, vectors];
});
builtin("svd", "A", "[U, S, V] with A = U %*% S %*% t(V), S diagonal", (args) => {
  const { u, s, v } = svd(args.matrix("A"));
  return [u, diag(s), v];
});
builtin("qr", "A", "[Q, R] with A = Q %*% R", (args) => {
  const { q, r } = qr(args.matrix("A"));
  return [q, r];
});
builtin("lu", "A", "[P, L, U] with P %*% A = L %*% U", (args) => {
  const { p, l, u } = lu(args.matrix("A"));
  return [p, l, u];
});
