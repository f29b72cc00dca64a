//! Trigonometric and hyperbolic functions, their inverses, other bases, the cube root and erfc in f32: polynomials fitted to
//! the smallest largest relative error (Lawson's iteration), each at most 2 ULP from the exact value, `erfc` and `erfInv` 4.

use super::ops::{Ops, Steps};
use super::single::{ends, erf, exp, exp_of_remainder, log, log1p, log_parts};
use super::{clamp, ops::Rounding};

const HALF_PI_LOW: f64 = -4.371_138_828_673_793e-8;
const HALF_PI: f64 = 1.570_796_370_506_286_6;
const LN2: f64 = std::f64::consts::LN_2;

/// π/2 - y, or π - y with `twice`, in two parts.
#[inline(always)]
fn from_half_pi<O: Ops>(o: &mut O, y: O::F, twice: bool) -> O::F {
    let times = if twice { 2.0 } else { 1.0 };
    let (high, low) = (o.number(times * HALF_PI), o.number(times * HALF_PI_LOW));
    let y = o.sub(y, low);
    o.sub(high, y)
}

/// `r + r·s·p(s)`.
#[inline(always)]
fn odd<O: Ops>(o: &mut O, r: O::F, s: O::F, coefficients: &[f64]) -> O::F {
    let p = o.polynomial(s, coefficients);
    let p = o.mul(p, s);
    o.fma(p, r, r)
}

#[inline(always)]
pub fn atan<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one) = (o.magnitude(x), o.number(1.0));
    let far = o.less(one, a);
    let inverse = o.div(one, a);
    let r = o.select(far, inverse, a);
    let s = o.mul(r, r);
    let y = odd(
        o,
        r,
        s,
        &[
            0.002_974_543_254_822_492_6,
            -0.016_580_997_034_907_34,
            0.043_553_240_597_248_08,
            -0.075_805_529_952_049_26,
            0.106_789_290_904_998_78,
            -0.142_142_057_418_823_24,
            0.199_941_366_910_934_45,
            -0.333_331_674_337_387_1,
        ],
    );
    let beyond = from_half_pi(o, y, false);
    let y = o.select(far, beyond, y);
    o.with_sign(y, x)
}

/// Whether |x| is above 1/2, and asin of |x| or, above, of sqrt((1 - |x|) / 2).
#[inline(always)]
fn asin_parts<O: Ops>(o: &mut O, x: O::F) -> (O::M, O::F) {
    let (a, half, minus) = (o.magnitude(x), o.number(0.5), o.number(-0.5));
    let far = o.less(half, a);
    let (square, rest) = (o.mul(a, a), o.fma(minus, a, half));
    let s = o.select(far, rest, square);
    let root = o.sqrt(rest);
    let r = o.select(far, root, a);
    let y = odd(
        o,
        r,
        s,
        &[
            0.037_695_132_195_949_554,
            0.014_314_185_827_970_505,
            0.031_839_832_663_536_07,
            0.044_513_206_928_968_43,
            0.075_005_233_287_811_28,
            0.166_666_597_127_914_43,
        ],
    );
    (far, y)
}

#[inline(always)]
pub fn asin<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (far, y) = asin_parts(o, x);
    let twice = o.add(y, y);
    let beyond = from_half_pi(o, twice, false);
    let y = o.select(far, beyond, y);
    o.with_sign(y, x)
}

#[inline(always)]
pub fn acos<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (far, y) = asin_parts(o, x);
    let twice = o.add(y, y);
    let below = from_half_pi(o, twice, true);
    let zero = o.number(0.0);
    let negative = o.less(x, zero);
    let beyond = o.select(negative, below, twice);
    let y = o.with_sign(y, x);
    let near = from_half_pi(o, y, false);
    o.select(far, beyond, near)
}

/// e^|x| / 2, which is a number where e^|x| no longer is.
#[inline(always)]
fn half_exp<O: Ops>(o: &mut O, a: O::F) -> O::F {
    // 235 ln 2, whose error in f32 is small.
    let (limit, offset) = (o.number(80.0), o.number(162.889_587_402_343_75));
    let large = o.less(limit, a);
    let moved = o.sub(a, offset);
    let argument = o.select(large, moved, a);
    let e = exp(o, argument);
    let (power, half, one) = (o.number(2f64.powi(117)), o.number(0.5), o.number(1.0));
    let first = o.select(large, power, half);
    let second = o.select(large, power, one);
    let e = o.mul(e, first);
    o.mul(e, second)
}

#[inline(always)]
pub fn sinh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one, quarter) = (o.magnitude(x), o.number(1.0), o.number(0.25));
    let s = o.mul(a, a);
    let small = odd(
        o,
        a,
        s,
        &[2.817_439_735_736_116e-6, 1.983_606_634_894_386_3e-4, 8.333_350_531_756_878e-3, 0.166_666_671_633_720_4],
    );
    let h = half_exp(o, a);
    let rest = o.div(quarter, h);
    let large = o.sub(h, rest);
    let near = o.less(a, one);
    let y = o.select(near, small, large);
    o.with_sign(y, x)
}

#[inline(always)]
pub fn cosh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, quarter) = (o.magnitude(x), o.number(0.25));
    let h = half_exp(o, a);
    let rest = o.div(quarter, h);
    o.add(h, rest)
}

/// log(2a) for large a, in place of `y`.
#[inline(always)]
fn log_of_twice<O: Ops>(o: &mut O, a: O::F, y: O::F) -> O::F {
    let (limit, ln2) = (o.number(1e9), o.number(LN2));
    let large = o.less(limit, a);
    let far = log(o, a);
    let far = o.add(far, ln2);
    o.select(large, far, y)
}

#[inline(always)]
pub fn asinh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one, half) = (o.magnitude(x), o.number(1.0), o.number(0.5));
    let s = o.mul(a, a);
    let small = odd(
        o,
        a,
        s,
        &[
            -0.006_590_860_962_867_737,
            0.014_850_714_243_948_46,
            -0.021_895_265_206_694_603,
            0.030_330_322_682_857_513,
            -0.044_639_822_095_632_55,
            0.074_999_913_573_265_08,
            -0.166_666_671_633_720_4,
        ],
    );
    let root = o.add(s, one);
    let root = o.sqrt(root);
    let bottom = o.add(root, one);
    let extra = o.div(s, bottom);
    let sum = o.add(a, extra);
    let large = log1p(o, sum);
    let large = log_of_twice(o, a, large);
    let near = o.less(a, half);
    let y = o.select(near, small, large);
    o.with_sign(y, x)
}

#[inline(always)]
pub fn acosh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, two) = (o.number(1.0), o.number(2.0));
    let t = o.sub(x, one);
    let product = o.add(t, two);
    let product = o.mul(t, product);
    let root = o.sqrt(product);
    let sum = o.add(t, root);
    let y = log1p(o, sum);
    let y = log_of_twice(o, x, y);
    let undefined = o.number(f64::NAN);
    let below = o.less(x, one);
    o.select(below, undefined, y)
}

#[inline(always)]
pub fn atanh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one, half) = (o.magnitude(x), o.number(1.0), o.number(0.5));
    let s = o.mul(a, a);
    let small = odd(
        o,
        a,
        s,
        &[
            0.176_457_792_520_523_07,
            0.024_076_445_028_185_844,
            0.102_977_514_266_967_77,
            0.109_646_767_377_853_4,
            0.142_950_639_128_685,
            0.199_997_186_660_766_6,
            0.333_333_373_069_763_2,
        ],
    );
    let (twice, rest) = (o.add(a, a), o.sub(one, a));
    let quotient = o.div(twice, rest);
    let large = log1p(o, quotient);
    let large = o.mul(large, half);
    let near = o.less(a, half);
    let y = o.select(near, small, large);
    o.with_sign(y, x)
}

#[inline(always)]
pub fn exp2<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let x = clamp(o, x, -152.0, 129.0);
    let n = o.round(x, Rounding::HalfToEven);
    let ln2 = o.number(LN2);
    let r = o.sub(x, n);
    let r = o.mul(r, ln2);
    let p = exp_of_remainder(o, r);
    o.scale(p, n)
}

#[inline(always)]
pub fn log2<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (n, y) = log_parts(o, x);
    let (high, low) = (o.number(1.442_695_021_629_333_5), o.number(1.925_963_033_500_570_7e-8));
    let rest = o.mul(y, low);
    let y = o.fma(y, high, rest);
    let y = o.add(n, y);
    let (zero, undefined) = (o.number(0.0), o.number(f64::NAN));
    let positive = o.less(zero, x);
    let y = o.select(positive, y, undefined);
    ends(o, x, x, y)
}

/// e^(log|x| / 3) and a step of Newton's.
#[inline(always)]
pub fn cbrt<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, third) = (o.magnitude(x), o.number(1.0 / 3.0));
    let l = log(o, a);
    let l = o.mul(l, third);
    let y = exp(o, l);
    let square = o.mul(y, y);
    let quotient = o.div(a, square);
    let step = o.sub(quotient, y);
    let y = o.fma(step, third, y);
    let y = o.with_sign(y, x);
    let (zero, infinity) = (o.number(0.0), o.number(f64::INFINITY));
    let plain = o.less(zero, a);
    let y = o.select(plain, y, x);
    let finite = o.less(a, infinity);
    o.select(finite, y, x)
}

/// e^(-x²)·erfcx(x) beyond 1/2, where erfcx is a polynomial of (x - 2) / (x + 2) over 1 + 2x.
#[inline(always)]
pub fn erfc<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, two, limit) = (o.number(1.0), o.number(2.0), o.number(10.1));
    let a = o.magnitude(x);
    let a = o.lesser(limit, a);
    let (top, bottom) = (o.sub(a, two), o.add(a, two));
    let t = o.div(top, bottom);
    let p = o.polynomial(
        t,
        &[
            2.304_872_177_774_086_6e-4,
            -3.207_681_293_133_646e-4,
            -1.481_577_637_605_369e-3,
            1.223_233_528_435_230_3e-3,
            8.730_659_261_345_863e-3,
            -8.026_141_673_326_492e-3,
            -0.054_221_011_698_246,
            0.164_050_742_983_818_05,
            -0.166_030_347_347_259_52,
            -0.092_763_818_800_449_37,
            1.276_978_373_527_526_9,
        ],
    );
    let scale = o.fma(a, two, one);
    let scaled = o.div(p, scale);
    let square = o.mul(a, a);
    let minus = o.negated(square);
    let lost = o.fma(a, a, minus);
    let e = exp(o, minus);
    let less = o.negated(e);
    let e = o.fma(less, lost, e);
    let tail = o.mul(scaled, e);
    let zero = o.number(0.0);
    let negative = o.less(x, zero);
    let other = o.sub(two, tail);
    let far = o.select(negative, other, tail);
    let near = erf(o, x);
    let near = o.sub(one, near);
    let half = o.number(0.5);
    let small = o.less(a, half);
    o.select(small, near, far)
}

/// M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), in single precision.
#[inline(always)]
pub fn erf_inv<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, minus) = (o.number(1.0), o.negated(x));
    let rest = o.fma(minus, x, one);
    let w = log(o, rest);
    let w = o.negated(w);
    let (shift, three, limit) = (o.number(2.5), o.number(3.0), o.number(5.0));
    let t = o.sub(w, shift);
    let central = o.polynomial(
        t,
        &[
            2.810_226_36e-8,
            3.432_739_39e-7,
            -3.523_387_7e-6,
            -4.391_506_54e-6,
            2.185_808_7e-4,
            -1.253_725_03e-3,
            -4.177_681_64e-3,
            0.246_640_727,
            1.501_409_41,
        ],
    );
    let root = o.sqrt(w);
    let t = o.sub(root, three);
    let tail = o.polynomial(
        t,
        &[
            -2.002_142_57e-4,
            1.009_505_58e-4,
            1.349_343_22e-3,
            -3.673_428_44e-3,
            5.739_507_73e-3,
            -7.622_461_3e-3,
            9.438_870_47e-3,
            1.001_674_06,
            2.832_976_82,
        ],
    );
    let near = o.less(w, limit);
    let p = o.select(near, central, tail);
    let y = o.mul(p, x);
    let (a, infinity) = (o.magnitude(x), o.number(f64::INFINITY));
    let end = o.equal(a, one);
    let last = o.with_sign(infinity, x);
    o.select(end, last, y)
}
