/**
 * @module The composite ops: importing this folder defines them all, beside the ops of `src/ops`. Reading programs from text needs
 * both.
 */
import "../../ops/index.ts";
import "./attention.ts";
import "./determinant.ts";
import "./matrix-exp.ts";
import "./normalize.ts";
import "./cross-entropy.ts";
import "./solve.ts";
