/**
 * @module Plain `if`, `for` and `while` on tensors: the transform of source for functions that say `"use heddle"`, and what the
 * transformed functions call. `heddle run` applies it to the user's files; docs/autograph.md says what it turns.
 */
export { maxIterations } from "./bound.ts";
export {
  branch,
  broke,
  choose,
  continued,
  type Ending,
  each,
  type LoopParts,
  leave,
  loop,
  plain,
  rethrow,
  returned,
  Signal,
  type State,
  thrown,
} from "./control.ts";
export {
  add,
  and,
  compared,
  div,
  type Equality,
  first,
  ge,
  gt,
  increment,
  le,
  lt,
  mul,
  neg,
  not,
  numeric,
  or,
  pow,
  rem,
  same,
  sub,
} from "./operators.ts";
export { directive } from "./parse.ts";
export { type Transformed, transformSource } from "./transform.ts";
