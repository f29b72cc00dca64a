/** @module The ops: importing this folder defines them all. */
import "./barrier.ts";
import "./bitcast.ts";
import "./cast.ts";
import "./collective.ts";
import "./control.ts";
import "./convolution.ts";
import "./cumulative.ts";
import "./custom.ts";
import "./exchange.ts";
import "./factor.ts";
import "./lu.ts";
import "./fourier.ts";
import "./lookup.ts";
import "./lookup-part.ts";
import "./product.ts";
import "./random.ts";
import "./reduce.ts";
import "./remat.ts";
import "./scalar-ops.ts";
import "./slicing.ts";
import "./sort.ts";
import "./scatter.ts";
import "./movement.ts";
import "./transfer.ts";
import "./window.ts";

export { refuseGradient } from "./activation.ts";
export { moveDim, spreadBatch } from "./batch.ts";
export { ownPart } from "./collective.ts";
export { bodyGraph, type CompositeDef, defineComposite, expandNode } from "./composite.ts";
export {
  type CondAttrs,
  cond,
  type ScanAttrs,
  scan,
  stackLimit,
  type WhileAttrs,
  whileLoop,
} from "./control.ts";
export { type ConvAttrs, convDims, convForm, convOrders } from "./convolution-lower.ts";
export { type CustomGradientAttrs, type CustomJvpAttrs, notLinear } from "./custom.ts";
export { dependentOutputs } from "./depends.ts";
export { distinct } from "./distinct.ts";
export * from "./emit.ts";
export { entriesDot, sampledDot } from "./entries/dot.ts";
export { type EvaluationContext, evaluateGraph, evaluateNode } from "./evaluate.ts";
export { cholesky, eigh, qr, svd, triangularSolve } from "./factor.ts";
export { fft, ifft, irfft, realPart, rfft } from "./fourier.ts";
export { sliceOf } from "./host-arrays.ts";
export { foldKeys } from "./random.ts";
export { type Combination, identityOf } from "./reduce.ts";
export type { RematAttrs } from "./remat.ts";
export { resultsOf } from "./results.ts";
export { scalarNames } from "./scalar.ts";
export { argsort, sort, sortTogether, topK } from "./sort.ts";
export { sampled, sparse } from "./sparse.ts";
export { checkExponent } from "./spelling.ts";
export { inFloat32 } from "./wide.ts";
export type { WindowAttrs } from "./window-lower.ts";
