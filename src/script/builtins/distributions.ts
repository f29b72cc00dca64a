/** @module Builtins of probability: distributions and their inverses. */

import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin } from "../builtin.ts";
import { double } from "../values.ts";

/** The logarithm of the gamma function, by Lanczos' series (g = 7, 9 terms). */
function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * x))) - logGamma(1 - x);
  const terms = [
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
  ];
  const sum = terms.reduce((total, term, index) => total + term / (x + index), 0.99999999999980993);
  const t = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

/** The shares of a distribution below and above a number: a share near 0 has all its digits, which 1 less the other one has not. */
type Shares = readonly [below: number, above: number];

const swapped = ([below, above]: Shares): Shares => [above, below];

/** The regularised incomplete gamma functions: the series of the lower one, or the continued fraction of the upper one above a + 1. */
function gammaShares(a: number, x: number): Shares {
  if (x <= 0) return [0, 1];
  if (x === Infinity) return [1, 0];
  const scale = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let [term, sum] = [1 / a, 1 / a];
    for (let n = 1; n < 1000 && Math.abs(term) > 1e-17 * sum; n++) {
      term *= x / (a + n);
      sum += term;
    }
    return [sum * scale, 1 - sum * scale];
  }
  const tiny = 1e-300;
  let b = x + 1 - a;
  let [c, d] = [1 / tiny, 1 / b];
  let h = d;
  for (let n = 1; n < 1000; n++) {
    const step = -n * (n - a);
    b += 2;
    d = 1 / (step * d + b || tiny);
    c = b + step / c || tiny;
    h *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return [1 - scale * h, scale * h];
}

/** The regularised incomplete beta functions, by a continued fraction; y is 1 - x. */
function betaShares(a: number, b: number, x: number, y: number): Shares {
  if (x <= 0) return [0, 1];
  if (y <= 0) return [1, 0];
  if (x > (a + 1) / (a + b + 2)) return swapped(betaShares(b, a, y, x));
  const scale = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(y)) / a;
  const tiny = 1e-300;
  let [c, d] = [1, 1 / (1 - ((a + b) * x) / (a + 1) || tiny)];
  let h = d;
  for (let m = 1; m < 1000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d || tiny);
    c = 1 + even / c || tiny;
    h *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d || tiny);
    c = 1 + odd / c || tiny;
    h *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return [scale * h, 1 - scale * h];
}

function normalShares(z: number): Shares {
  const [within, outside] = gammaShares(0.5, (z * z) / 2);
  const shares: Shares = [0.5 + 0.5 * within, 0.5 * outside];
  return z < 0 ? swapped(shares) : shares;
}

type Distribution = (x: number, args: Args) => Shares;
const distributions: Readonly<Record<string, Distribution>> = {
  normal: (x, args) => normalShares((x - args.number("mean", 0)) / args.number("sd", 1)),
  exp: (x, args) => {
    const events = args.number("rate", 1) * x;
    return x <= 0 ? [0, 1] : [-Math.expm1(-events), Math.exp(-events)];
  },
  chisq: (x, args) => gammaShares(args.number("df") / 2, x / 2),
  t: (x, args) => {
    const df = args.number("df");
    // At infinity the quotient of infinities is 1.
    const far = Number.isFinite(x) ? (x * x) / (df + x * x) : 1;
    const [outside, within] = betaShares(df / 2, 0.5, df / (df + x * x), far);
    const shares: Shares = [0.5 + 0.5 * within, 0.5 * outside];
    return x < 0 ? swapped(shares) : shares;
  },
  f: (x, args) => {
    const [df1, df2] = [args.number("df1"), args.number("df2")];
    if (x <= 0) return [0, 1];
    return x === Infinity ? [1, 0] : betaShares(df1 / 2, df2 / 2, (df1 * x) / (df1 * x + df2), df2 / (df1 * x + df2));
  },
};

function distributionOf(what: string, name: string): Distribution {
  if (Object.hasOwn(distributions, name)) return distributions[name] as Distribution;
  throw new HeddleError("argument", `${what}: the distribution "${name}" is not there`, {
    hint: `there are ${Object.keys(distributions).join(", ")}`,
  });
}

function shareOf(args: Args, name: string): number {
  const [below, above] = distributionOf("cdf", name)(args.number("target"), args);
  return args.flag("lower.tail", true) ? below : above;
}

/** The number with this share below it, or above it where `lower.tail` is FALSE: bisection down to neighbouring doubles. */
function inverse(args: Args, name: string): number {
  const distribution = distributionOf("icdf", name);
  const share = args.number("target");
  if (!(share >= 0 && share <= 1)) throw new HeddleError("argument", `icdf: ${share} is not from 0 to 1`);
  const isLower = args.flag("lower.tail", true);
  const least = name === "normal" || name === "t" ? -Infinity : 0;
  if (share === 0 || share === 1) return (share === 0) === isLower ? least : Infinity;
  /** Below 0 where x is too small. */
  const order = (x: number): number => {
    const [below, above] = distribution(x, args);
    return isLower ? below - share : share - above;
  };
  let [low, high] = [least === 0 ? 0 : -1, 1];
  while (low < 0 && order(low) > 0 && low > -1e300) low *= 2;
  while (order(high) < 0 && high < 1e300) high *= 2;
  for (;;) {
    const middle = (low + high) / 2;
    const side = middle === low || middle === high ? 0 : order(middle);
    if (side === 0) return middle;
    if (side < 0) low = middle;
    else high = middle;
  }
}

const parameters = "target mean? sd? rate? df? df1? df2? lower.tail?";
builtin("cdf", `${parameters} dist?`, "the share of a distribution below a number: a scalar", (args) =>
  double(shareOf(args, args.text("dist", "normal"))),
);
builtin("icdf invcdf", `${parameters} dist?`, "the number with a share of a distribution below it: a scalar", (args) =>
  double(inverse(args, args.text("dist", "normal"))),
);
for (const [word, name] of [
  ["norm", "normal"],
  ["exp", "exp"],
  ["chisq", "chisq"],
  ["t", "t"],
  ["f", "f"],
] as const) {
  builtin(`p${word}`, parameters, `the share of the ${name} distribution below a number: a scalar`, (args) =>
    double(shareOf(args, name)),
  );
  builtin(`q${word}`, parameters, `the number with a share of the ${name} distribution below it: a scalar`, (args) =>
    double(inverse(args, name)),
  );
}
