/**
 * Your own rewrite rule: log(exp(x)) = x. It is not a built-in rule, since exp overflows where x does not. By adding it you
 * accept that difference.
 *
 *     heddle run examples/extend/rule.ts     # log(exp(1000)) is 1000 and no longer Infinity; 2 s
 */
import { exp, jit, log, mesh, planFunction, type Tensor, tensor } from "heddle";
import type { Node } from "heddle/ir";
import { addRewriteRule } from "heddle/passes";
import { rule } from "heddle/rewrite";

const f = (x: Tensor): Tensor => log(exp(x));
const x = tensor([1000, 2]);
const unchanged = [...(await jit(f)(x).data())].join(" ");

addRewriteRule(
  rule("log", "log of exp", "log(exp(x)) = x", (node) => {
    const [inner] = node.inputs as [Node];
    return inner.op.name === "exp" ? inner.inputs[0] : undefined;
  }),
);

const { graph } = planFunction(f, [x], mesh({}));
console.log("before", unchanged);
console.log("after", [...(await jit(f)(x).data())].join(" "));
console.log("ops left", graph.outputs.filter(({ op }) => op.name !== "parameter").length);
