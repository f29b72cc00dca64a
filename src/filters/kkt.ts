/**
 * @module The KKT filter for an L1 penalty (Li et al., OSDI 2014; DARLIN): a weight of zero whose gradient says that it stays zero is not
 * sent. How sure the filter is follows the largest violation of the last pass; at the end all weights are looked at once more, so what
 * the filter held back cannot be missed.
 */
import { HeddleError } from "../util/errors.ts";
import {
  eachPart,
  type Filter,
  type FilterSender,
  type Message,
  numbersOf,
  type Part,
  registerFilter,
  rowsAt,
  rowsOf,
} from "./filter.ts";

/** A sender of a KKT filter, with what the training tells it. */
export interface KktSender extends FilterSender {
  /** A pass over the data has ended: sets the threshold of the next one from the largest violation. */
  pass(examples: number): void;
  /** All rows are active again: to confirm the end. */
  reset(): void;
  /** The largest violation of the optimality conditions so far in this pass. */
  readonly violation: number;
  /** Rows of a tensor that are held back. */
  held(tensor: string): number;
}

/** A filter whose sender the training tells about its passes. */
export interface KktFilter extends Filter {
  sender(): KktSender;
}

/** A KKT filter for the penalty `lambda · Σ|w|`; `ratio` scales the threshold. */
export const kkt = (lambda: number, ratio = 10): KktFilter => ({
  name: "kkt",
  needsWeights: true,
  sender: () => new Kkt(lambda, ratio),
  receiver: () => ({ decode: (message) => message }),
});

class Kkt implements KktSender {
  violation = 0;
  private readonly lambda: number;
  private readonly ratio: number;
  /** Off until the first pass has ended. */
  private threshold = Infinity;
  private readonly inactive = new Map<string, Set<bigint>>();

  constructor(lambda: number, ratio: number) {
    this.lambda = lambda;
    this.ratio = ratio;
  }

  encode(
    message: Message,
    given: { readonly weights?: { readonly [tensor: string]: Float32Array | Float64Array } } = {},
  ) {
    return eachPart(message, (part, tensor) => {
      const weights = given.weights?.[tensor];
      if (weights?.length !== part.values.length)
        throw new HeddleError("argument", `filter 'kkt' needs the weights of the rows of '${tensor}'`, {
          hint: "encode(message, { weights: { [tensor]: values of the same rows } })",
        });
      return this.choose(part, tensor, weights);
    });
  }

  pass(examples: number): void {
    this.threshold = (this.violation / examples) * this.ratio;
    this.violation = 0;
  }

  reset(): void {
    this.inactive.clear();
  }

  held(tensor: string): number {
    return this.inactive.get(tensor)?.size ?? 0;
  }

  private choose(part: Part, tensor: string, weights: Float32Array | Float64Array): Part {
    const inactive = this.inactive.get(tensor) ?? new Set<bigint>();
    this.inactive.set(tensor, inactive);
    const { width } = part;
    const gradients = numbersOf(part, "kkt");
    const positions: number[] = [];
    for (const [position, row] of rowsOf(part, "kkt").entries()) {
      if (inactive.has(row)) continue;
      let stays = true;
      for (let index = position * width; index < (position + 1) * width; index++) {
        const [weight, gradient] = [weights[index] as number, gradients[index] as number];
        const violation =
          weight === 0
            ? Math.max(0, Math.abs(gradient) - this.lambda)
            : Math.abs(gradient + this.lambda * Math.sign(weight));
        if (violation > this.violation) this.violation = violation;
        // A NaN is below nothing, so it is sent.
        stays &&= weight === 0 && Math.abs(gradient) < this.lambda - this.threshold;
      }
      if (stays) inactive.add(row);
      else positions.push(position);
    }
    return rowsAt(part, positions, "kkt");
  }
}

registerFilter({
  name: "kkt",
  doc: "leaves out gradients of zero weights that an L1 penalty of LAMBDA keeps at zero",
  numbers: [
    { name: "LAMBDA", doc: "the factor of the penalty", fraction: true },
    { name: "RATIO", doc: "scales the threshold", fraction: true, default: 10 },
  ],
  make: (lambda, ratio) => kkt(lambda as number, ratio as number),
});
