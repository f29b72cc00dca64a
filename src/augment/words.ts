/** @module Augmentation of texts as ids of words `[batch, length]`: words left out, and swapped with their neighbours. */
import { arange, random, roll, select, type Tensor } from "../functions/index.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { type Augmentation, checkIds, ofInputs } from "./augmentation.ts";

/** Options of {@link dropWords}. */
export interface DropWordsOptions {
  /** How likely each word is replaced; default 0.1. */
  readonly probability?: number;
  /** The id that stands in the place of a word; default 1, which is another word in `frames.words`. */
  readonly to?: number;
  /** The id that fills texts up, which stays; default 0. */
  readonly pad?: number;
}

/** Words replaced by one id at random. */
export function dropWords(options: DropWordsOptions = {}): Augmentation {
  checkOptions("dropWords", options, ["probability", "to", "pad"]);
  const { probability = 0.1, to = 1, pad = 0 } = options;
  checkNumber("dropWords", "probability", probability, 0, 1);
  checkInteger("dropWords", "to", to, -(2 ** 31), 2 ** 31 - 1);
  checkInteger("dropWords", "pad", pad, -(2 ** 31), 2 ** 31 - 1);
  return ofInputs((key, x) => {
    checkIds("dropWords", x);
    const dropped = random.bernoulli(key, probability, x.shape);
    return select(x.ne(pad), select(dropped, x.mul(0).add(to), x), x);
  });
}

/** Options of {@link swapWords}. */
export interface SwapWordsOptions {
  /** How likely a pair of neighbours changes places; default 0.1. */
  readonly probability?: number;
  /** The id that fills texts up, which stays at the end; default 0. */
  readonly pad?: number;
}

/** Pairs of neighbours changed places at random: the pairs begin at an even place or at an odd one, each text by chance. */
export function swapWords(options: SwapWordsOptions = {}): Augmentation {
  checkOptions("swapWords", options, ["probability", "pad"]);
  const { probability = 0.1, pad = 0 } = options;
  checkNumber("swapWords", "probability", probability, 0, 1);
  checkInteger("swapWords", "pad", pad, -(2 ** 31), 2 ** 31 - 1);
  return ofInputs((key, x) => {
    const [batch, length] = checkIds("swapWords", x);
    if (length < 2) return x;
    const ones = (value: Tensor): Tensor => value.cast("i32");
    const places = arange(length).reshape([1, length]);
    const start = ones(random.bernoulli(random.foldIn(key, 0), 0.5, [batch, 1]));
    const chosen = ones(random.bernoulli(random.foldIn(key, 1), probability, [batch, length]));
    const shifted = places.add(start);
    const isFirst = ones(shifted.sub(shifted.div(2).mul(2)).eq(0)).mul(ones(places.lt(length - 1)));
    const both = ones(x.ne(pad)).mul(ones(roll(x, -1, 1).ne(pad)));
    const swaps = isFirst.mul(chosen).mul(both);
    const second = roll(swaps, 1, 1);
    return select(swaps.gt(0), roll(x, -1, 1), select(second.gt(0), roll(x, 1, 1), x));
  });
}
