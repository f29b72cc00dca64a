/** @module Log-softmax over very many classes, with rare classes in clusters. */
import { concat, logSoftmax, type Tensor, type Tensors, zeros } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { uniformByFanIn } from "./initialise.ts";
import { type Layer, madeBy, positioned, scopeKey } from "./layer.ts";
import { type LinearParams, linearly } from "./linear.ts";

/** Options of {@link adaptiveLogSoftmax}. */
export interface AdaptiveLogSoftmaxOptions {
  /** Number of classes, the most frequent first. */
  readonly classes: number;
  /** First classes of the clusters, ascending and below `classes`. The classes before the first cluster are in the head. */
  readonly cutoffs: readonly number[];
  /** Cluster i (from 0) has the features of the input divided by `divValue^(i + 1)`; default 4. */
  readonly divValue?: number;
  /** Add a bias in the head; default false. */
  readonly headBias?: boolean;
}

/** A cluster's two linear layers: to fewer features, and from these to its classes. */
type Cluster = { readonly 0: LinearParams; readonly 1: LinearParams };

/**
 * Logarithms of the probabilities of very many classes, `[…, in]` to `[…, classes]`, by the adaptive softmax (Grave et al., 2017): a head for
 * the frequent classes with one entry per cluster, and a small network for each cluster of rare classes. `losses.nll` is its loss
 * (PyTorch's `AdaptiveLogSoftmaxWithLoss` is both), `argMax` its prediction. It saves parameters; all clusters are computed for all
 * rows, since shapes do not depend on labels. Parameters as PyTorch's: `head.weight`, `head.bias`, `tail.0.0.weight`, `tail.0.1.weight`, ….
 *
 * @throws HeddleError `option` for cutoffs that do not ascend within the classes; `shape` when a cluster is left without features
 */
export function adaptiveLogSoftmax(options: AdaptiveLogSoftmaxOptions): Layer {
  const kind = "adaptiveLogSoftmax";
  checkOptions(kind, options, ["classes", "cutoffs", "divValue", "headBias"]);
  const { classes, cutoffs, divValue = 4, headBias = false } = options;
  checkCutoffs(kind, classes, cutoffs);
  checkNumber(kind, "divValue", divValue, Number.MIN_VALUE);
  const bounds = [...cutoffs, classes];
  const [frequent] = cutoffs as [number];
  const headSize = frequent + cutoffs.length;
  return madeBy(
    positioned({
      kind,
      needsRange: true,
      init(key, input) {
        const size = checkFeatures(input);
        const { dtype } = input;
        const linear = (ordinal: number, out: number, from: number): LinearParams => ({
          weight: uniformByFanIn(scopeKey(key, ordinal), [out, from], from, dtype),
        });
        const clusters = cutoffs.map((cutoff, index): Cluster => {
          const features = Math.floor(size / divValue ** (index + 1));
          if (features < 1)
            throw new HeddleError("shape", `cluster ${index} has no features left of ${size}: divValue is ${divValue}`);
          const count = (bounds[index + 1] as number) - cutoff;
          return { 0: linear(2 * index + 1, features, size), 1: linear(2 * index + 2, count, features) };
        });
        const bias = headBias ? { bias: zeros([headSize], { dtype }) } : {};
        const head = { ...linear(0, headSize, size), ...bias };
        const params = { head, tail: Object.fromEntries(clusters.entries()) } as unknown as Tensors;
        return { params, state: {}, output: { dtype, shape: [...input.shape.slice(0, -1), classes] } };
      },
      apply({ params }, x) {
        checkFeatures(x);
        return { y: logProbabilities(params, x, frequent, cutoffs.length), state: {} };
      },
    }),
    "adaptiveLogSoftmax",
    options,
  );
}

function checkCutoffs(kind: string, classes: number, cutoffs: readonly number[]): void {
  checkInteger(kind, "classes", classes, 2);
  if (!Array.isArray(cutoffs) || cutoffs.length === 0)
    throw new HeddleError("option", `${kind}: cutoffs must be a list of at least one class`);
  let last = 0;
  for (const cutoff of cutoffs) {
    checkInteger(kind, "each of cutoffs, which ascend,", cutoff, last + 1, classes - 1);
    last = cutoff;
  }
}

function checkFeatures(input: TensorType): number {
  if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
  const size = input.shape.at(-1);
  if (size === undefined) throw new HeddleError("shape", `takes […, in], got the scalar ${formatType(input)}`);
  return size;
}

function logProbabilities(params: Tensors, x: Tensor, frequent: number, clusters: number): Tensor {
  const { head, tail } = params as unknown as { head: LinearParams; tail: { readonly [cluster: number]: Cluster } };
  const top = logSoftmax(linearly(x, head));
  const lead = x.shape.slice(0, -1);
  const columns = (from: number, to: number): Tensor => top.slice([...lead.map(() => 0), from], [...lead, to]);
  const parts = Array.from({ length: clusters }, (_unused, cluster) => {
    const { 0: inner, 1: outer } = tail[cluster] as Cluster;
    const column = frequent + cluster;
    return logSoftmax(linearly(linearly(x, inner), outer)).add(columns(column, column + 1));
  });
  return concat([columns(0, frequent), ...parts], lead.length);
}
