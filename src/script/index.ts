/** @module DML scripts, as SystemDS reads them, on the matrices of `heddle/matrix`. */

export { type Builtin, builtins } from "./builtin.ts";
export { Interpreter, runScript, type ScriptOptions } from "./interpreter.ts";
export { parseScript } from "./parser.ts";
export { Frame, List, Scalar, type ScalarType, type Value } from "./values.ts";
