/** @module The intermediate representation: dtypes, shapes, nodes, graphs, their text. */
export * from "./communication.ts";
export * from "./control.ts";
export * from "./dtype.ts";
export * from "./equation.ts";
export * from "./graph.ts";
export * from "./kernel.ts";
export * from "./leaf.ts";
export * from "./node.ts";
export * from "./op.ts";
export * from "./parse.ts";
export * from "./print.ts";
export * from "./shape.ts";
export * from "./target.ts";
export * from "./trace.ts";
export { defineOp, enter } from "./user-op.ts";
export * from "./verify.ts";
export * from "./walk.ts";
