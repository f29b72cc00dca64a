/**
 * @module The composite ops: importing this folder defines them all, beside those of `src/ops`. Whoever reads programs from text
 * needs it.
 */
import "../../ops/index.ts";
import "./attention.ts";
import "./determinant.ts";
import "./matrix-exp.ts";
import "./normalize.ts";
import "./cross-entropy.ts";
import "./solve.ts";
