/** @module Sizes that follow the noise of the gradient (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018). */
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import type { BatchSizes, StepNoise } from "./batch-sizes.ts";

/** Options of {@link byNoise}. */
export interface ByNoiseOptions {
  readonly least: number;
  readonly most: number;
  /** The size before the noise is known; default `least`. */
  readonly first?: number;
  /** How much of a running mean a new measurement is; default 0.1. */
  readonly share?: number;
  /** The size as a multiple of the noise scale; default 1. */
  readonly scale?: number;
}

/** Sizes by noise, with the noise as it is known. */
export interface NoiseSizes extends BatchSizes {
  /** The noise scale: the variance of a sample's gradient over the squared length of the mean; NaN before it is known. */
  readonly noiseScale: number;
  take(noise: StepNoise): void;
}

/**
 * The size is the simple noise scale: with smaller batches a step loses little progress for each sample, with larger ones it gains
 * little. Both its parts are estimated without bias from gradients of two sizes, those of the workers and of all together, and each is a
 * running mean of its own. @throws HeddleError `option`
 */
export function byNoise(options: ByNoiseOptions): NoiseSizes {
  checkOptions("byNoise", options, ["least", "most", "first", "share", "scale"]);
  const { least, most, first = least, share = 0.1, scale = 1 } = options;
  checkInteger("byNoise", "least", least, 1);
  checkInteger("byNoise", "most", most, least);
  checkInteger("byNoise", "first", first, 1);
  checkNumber("byNoise", "share", share, Number.MIN_VALUE, 1);
  checkNumber("byNoise", "scale", scale, Number.MIN_VALUE, Infinity);
  let [variance, squared, known] = [0, 0, 0];
  const sizes = {
    get noiseScale() {
      // A mean gradient that is not told from 0 has no scale yet: the estimate may be below 0.
      return known === 0 ? NaN : squared > 0 ? Math.max(0, variance) / squared : Infinity;
    },
    take({ small, large, smallSquared, largeSquared }: StepNoise) {
      if (!(large > small) || !Number.isFinite(smallSquared) || !Number.isFinite(largeSquared)) return;
      const newSquared = (large * largeSquared - small * smallSquared) / (large - small);
      const newVariance = (smallSquared - largeSquared) / (1 / small - 1 / large);
      known++;
      // The first measurements are a plain mean.
      const weight = Math.max(share, 1 / known);
      squared += weight * (newSquared - squared);
      variance += weight * (newVariance - variance);
    },
    at(_step: number) {
      const wanted = sizes.noiseScale * scale;
      return Number.isNaN(wanted) ? first : Math.min(most, Math.max(least, Math.round(wanted)));
    },
  };
  return sizes;
}
