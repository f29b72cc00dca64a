/** @module ONNX's branches. */
import { cond, type Tensor } from "../../tensor/index.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";

/** One branch where the condition is known, else a branch of the program. */
function branch(c: NodeContext): Result[] {
  const build = (name: string): Tensor[] => c.buildGraph(c.graph(name), []).map((value) => value.tensor);
  const { host } = c.value(0);
  if (host !== undefined) {
    const chosen = Number(host.data[0]) !== 0 ? "then_branch" : "else_branch";
    return c.buildGraph(c.graph(chosen), []).map((value) => value.host ?? value.tensor);
  }
  return cond(
    c.x().reshape([]),
    () => build("then_branch"),
    () => build("else_branch"),
  );
}

export const controlRows: Rows = {
  If: row(1, branch),
};
