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

/** The regularised lower incomplete gamma function: its series, or its continued fraction above a + 1. */
function gammaShare(a: number, x: number): number {
  if (x <= 0) return 0;
  const scale = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let [term, sum] = [1 / a, 1 / a];
    for (let n = 1; n < 1000 && Math.abs(term) > 1e-17 * sum; n++) {
      term *= x / (a + n);
      sum += term;
    }
    return sum * scale;
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
  return 1 - scale * h;
}

/** The regularised incomplete beta function, by its continued fraction. */
function betaShare(a: number, b: number, x: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaShare(b, a, 1 - x);
  const scale = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x)) / a;
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
  return scale * h;
}

const normalShare = (z: number): number =>
  z < 0 ? 0.5 * (1 - gammaShare(0.5, (z * z) / 2)) : 0.5 * (1 + gammaShare(0.5, (z * z) / 2));

type Distribution = (x: number, args: Args) => number;
const shares: Readonly<Record<string, Distribution>> = {
  normal: (x, args) => normalShare((x - args.number("mean", 0)) / args.number("sd", 1)),
  exp: (x, args) => (x <= 0 ? 0 : 1 - Math.exp(-args.number("rate", 1) * x)),
  chisq: (x, args) => gammaShare(args.number("df") / 2, x / 2),
  t: (x, args) => {
    const tail = 0.5 * betaShare(args.number("df") / 2, 0.5, args.number("df") / (args.number("df") + x * x));
    return x < 0 ? tail : 1 - tail;
  },
  f: (x, args) => {
    const [df1, df2] = [args.number("df1"), args.number("df2")];
    return x <= 0 ? 0 : betaShare(df1 / 2, df2 / 2, (df1 * x) / (df1 * x + df2));
  },
};

function shareOf(args: Args, name: string): number {
  const distribution = shares[name];
  if (distribution === undefined) throw new HeddleError("argument", `cdf: the distribution "${name}" is not there`);
  const lower = distribution(args.number("target"), args);
  return args.flag("lower.tail", true) ? lower : 1 - lower;
}

/** The number with this share below it, by bisection over doubles. */
function inverse(args: Args, name: string): number {
  const distribution = shares[name];
  const share = args.number("target");
  if (distribution === undefined) throw new HeddleError("argument", `icdf: the distribution "${name}" is not there`);
  if (!(share >= 0 && share <= 1)) throw new HeddleError("argument", `icdf: ${share} is not from 0 to 1`);
  let [low, high] = [name === "normal" || name === "t" ? -1 : 0, 1];
  while (low < 0 && distribution(low, args) > share) low *= 2;
  while (distribution(high, args) < share && high < 1e300) high *= 2;
  for (let step = 0; step < 200 && high - low > 1e-15 * Math.max(1, Math.abs(low)); step++) {
    const middle = (low + high) / 2;
    if (distribution(middle, args) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
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
