/** @module Random bits in StableHLO. */
import { type Shape, stridesOf } from "../ir/shape.ts";
import type { RandomAttrs } from "../ops/random.ts";
import type { HloBlock, HloContext, HloValue } from "./block.ts";
import { stablehloRules } from "./rules.ts";

const mask = 0xffffffff;

/** One round of Philox 4x32 on 32-bit words in 64-bit integers. */
function philoxRound(hlo: HloBlock, words: readonly HloValue[], keys: readonly HloValue[]): HloValue[] {
  const [c0, c1, c2, c3] = words as [HloValue, HloValue, HloValue, HloValue];
  const low = (x: HloValue): HloValue => hlo.same("and", x, hlo.like(x, mask));
  const high = (x: HloValue): HloValue => hlo.same("shift_right_logical", x, hlo.like(x, 32));
  const first = hlo.same("multiply", c0, hlo.like(c0, 0xd2511f53));
  const second = hlo.same("multiply", c2, hlo.like(c2, 0xcd9e8d57));
  const mixed = (product: HloValue, word: HloValue, key: HloValue): HloValue =>
    hlo.same("xor", hlo.same("xor", high(product), word), key);
  return [mixed(second, c1, keys[0] as HloValue), low(second), mixed(first, c3, keys[1] as HloValue), low(first)];
}

/** Words of Philox 4x32-10 at the positions of a block, as src/ops/random.ts defines them. */
export function hloPhilox(
  hlo: HloBlock,
  key: HloValue,
  start: HloValue,
  { shape, strides, stream }: { shape: Shape; strides: readonly number[]; stream: number },
): HloValue {
  const wide = { shape, dtype: "u64" as const };
  const spread = (x: HloValue): HloValue => hlo.broadcast(hlo.convert(x, "u64"), shape, []);
  const position = shape.reduce(
    (total, _size, dim) => {
      const iota = hlo.one("iota", [], wide, { iota_dimension: `${dim} : i64` });
      const coordinate = hlo.same("add", iota, spread(hlo.element(start, dim)));
      return hlo.same("add", total, hlo.same("multiply", coordinate, hlo.constant(wide, strides[dim] as number)));
    },
    hlo.constant(wide, 0),
  );
  const block = hlo.same("shift_right_logical", position, hlo.constant(wide, 2));
  let words: HloValue[] = [
    hlo.same("and", block, hlo.constant(wide, mask)),
    hlo.same("shift_right_logical", block, hlo.constant(wide, 32)),
    hlo.constant(wide, stream),
    hlo.constant(wide, 0),
  ];
  const keys = [spread(hlo.element(key, 0)), spread(hlo.element(key, 1))];
  const steps = [0x9e3779b9, 0xbb67ae85];
  for (let round = 0; round < 10; round++) {
    const roundKeys = keys.map((word, index) => {
      const sum = hlo.same("add", word, hlo.constant(wide, round * (steps[index] as number)));
      return hlo.same("and", sum, hlo.constant(wide, mask));
    });
    words = philoxRound(hlo, words, roundKeys);
  }
  const lane = hlo.same("and", position, hlo.constant(wide, 3));
  const chosen = words.reduceRight((others, word, index) =>
    hlo.select(hlo.compare("EQ", lane, hlo.constant(wide, index)), word, others),
  );
  return hlo.convert(chosen, "u32");
}

stablehloRules.define({
  randomBits: ({ hlo, inputs, attrs: { shape, total, stream } }: HloContext<RandomAttrs>) => {
    const [key, start] = inputs as [HloValue, HloValue];
    return [hloPhilox(hlo, key, start, { shape, strides: stridesOf(total), stream })];
  },
});
