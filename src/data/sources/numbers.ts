/** @module Numbers in bytes of text, without a text for each: most have few digits, and are exact by one product or quotient. */

/** Powers of ten that a double holds exactly. */
const powers = Float64Array.from({ length: 23 }, (_unused, exponent) => Number(`1e${exponent}`));
/** More digits than this may round twice. */
const mostDigits = 15;

/**
 * The number in `bytes` from `start` to `end`, spaces around it left out: the double that `Number` gives. NaN for what is not a decimal
 * number, or `inf` or `infinity`.
 */
export function numberIn(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  let to = end;
  while (at < to && bytes[at] === 0x20) at++;
  while (to > at && bytes[to - 1] === 0x20) to--;
  const first = at;
  const isNegative = bytes[at] === 0x2d;
  if (isNegative || bytes[at] === 0x2b) at++;
  let value = 0;
  let digits = 0;
  let fraction = 0;
  for (; at < to; at++) {
    const digit = (bytes[at] as number) - 0x30;
    if (digit < 0 || digit > 9) break;
    value = value * 10 + digit;
    digits++;
  }
  if (at < to && bytes[at] === 0x2e) {
    at++;
    for (; at < to; at++) {
      const digit = (bytes[at] as number) - 0x30;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      fraction++;
    }
    digits += fraction;
  }
  if (digits === 0 || at < to || digits > mostDigits) return slow(bytes, first, to);
  const scaled = fraction === 0 ? value : value / (powers[fraction] as number);
  return isNegative ? -scaled : scaled;
}

/** Exponents, many digits, infinities: by way of a text. */
function slow(bytes: Uint8Array, start: number, end: number): number {
  if (end - start > 400) return Number.NaN;
  const text = String.fromCharCode(...bytes.subarray(start, end));
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,5})?$/i.test(text)) return Number(text);
  const infinite = /^([+-]?)inf(inity)?$/i.exec(text);
  if (infinite === null) return Number.NaN;
  return infinite[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}
