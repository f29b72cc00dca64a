/**
 * @module The table of ONNX ops: each row says from which opset on it is right, and how the op is composed of tensors'
 * operations. The files beside this one have the rows, by kind; an op without a row is named when a model is read.
 */
import { HeddleError } from "../../extend/index.ts";
import type { Row, Rows } from "./context.ts";
import { domainOf } from "./functions.ts";
import type { NodeProto } from "./messages.ts";
import { calledNode } from "./needed.ts";
import { attentionRows } from "./ops-attention.ts";
import { controlRows } from "./ops-control.ts";
import { elementwiseRows } from "./ops-elementwise.ts";
import { imageRows } from "./ops-image.ts";
import { lookupRows } from "./ops-lookup.ts";
import { lossRows } from "./ops-loss.ts";
import { normRows } from "./ops-norm.ts";
import { productRows } from "./ops-product.ts";
import { quantizedRows } from "./ops-quantized.ts";
import { randomRows } from "./ops-random.ts";
import { recurrentRows } from "./ops-recurrent.ts";
import { reduceRows } from "./ops-reduce.ts";
import { resizeRows } from "./ops-resize.ts";
import { shapeRows } from "./ops-shape.ts";
import { signalRows } from "./ops-signal.ts";
import { transformerRows } from "./ops-transformer.ts";
import { uniqueRows } from "./ops-unique.ts";
import { windowRows } from "./ops-window.ts";

/** Opsets that are read. A row holds from the opset `since` on; few rows hold below opset 13. */
export const oldestOpset = 7;
export const newestOpset = 28;

const rows: Rows = {
  ...elementwiseRows,
  ...shapeRows,
  ...signalRows,
  ...lookupRows,
  ...reduceRows,
  ...productRows,
  ...quantizedRows,
  ...windowRows,
  ...normRows,
  ...lossRows,
  ...recurrentRows,
  ...resizeRows,
  ...imageRows,
  ...transformerRows,
  ...attentionRows,
  ...controlRows,
  ...randomRows,
  ...uniqueRows,
};

/** Names of the ops that are imported. */
export const onnxOps: readonly string[] = Object.keys(rows).sort();

/** The row of a node's op. @throws HeddleError `model` naming node, op and file where there is none. */
export function rowOf(node: NodeProto, opset: number, file: string): Row {
  const { opType = "" } = node;
  const domain = domainOf(node);
  const isOnnx = domain === "";
  const found = isOnnx && Object.hasOwn(rows, opType) ? rows[opType] : undefined;
  const candidates = found === undefined ? [] : "since" in found ? [found as Row] : (found as readonly Row[]);
  const fitting = candidates.find(({ since, until = newestOpset }) => opset >= since && opset <= until);
  if (fitting !== undefined) return fitting;
  const op = isOnnx ? opType : `${domain}.${opType}`;
  const [first] = candidates;
  const why =
    first === undefined
      ? `${op}, which is not imported`
      : `${op} of opset ${opset}, of which versions ${candidates.map(({ since, until }) => `${since} to ${until ?? newestOpset}`).join(" and ")} are imported`;
  throw new HeddleError("model", `${file}: ${calledNode(node)} is ${why}`, {
    hint: first === undefined ? "docs/onnx.md lists the ops that are" : "export the model with another opset",
  });
}
