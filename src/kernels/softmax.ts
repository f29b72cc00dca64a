/** @module The cross-entropy of rows. */
import { dtype, kernel, reads, sized, writes } from "./schema.ts";

const shared = {
  dtype: dtype(),
  ...sized("rows", "cols"),
  logits: reads("[rows cols]"),
  labels: reads("i32[rows]"),
};
const struct = "CrossEntropy";

/** Cross-entropy of rows of logits with integer labels. */
export const softmaxCrossEntropy = kernel(
  "softmaxCrossEntropy",
  { ...shared, out: writes("[rows]") },
  { doc: "`logsumexp(row) - row[label]`. A label outside [0, cols) is an error of the run.", struct },
);

/** The gradient of {@link softmaxCrossEntropy} by its logits. */
export const softmaxCrossEntropyGrad = kernel(
  "softmaxCrossEntropyGrad",
  { ...shared, dy: reads("[rows]"), out: writes("[rows cols]") },
  { doc: "`(softmax(row) - onehot(label)) · dy[row]`.", struct },
);
