//! The logarithm of the gamma function and its derivative, in f32.

use super::functions::log;
use super::ops::{Ops, Rounding, Steps};
use super::trigonometric::{odd, waves};

/// sin and cos of π·a, both perhaps with the opposite sign; exact at whole and half numbers.
#[inline(always)]
fn half_waves<O: Ops>(o: &mut O, a: O::F) -> (O::F, O::F) {
    let whole = o.round(a, Rounding::HalfToEven);
    let part = o.sub(a, whole);
    let twice = o.add(part, part);
    let n = o.round(twice, Rounding::HalfToEven);
    let (f, zero) = (o.sub(twice, n), o.number(0.0));
    let (sine, cosine) = waves(o, f, zero);
    let turned = odd(o, n);
    let minus = o.negated(sine);
    (o.select(turned, cosine, sine), o.select(turned, minus, cosine))
}

/// What the polynomials around 2 are taken of: a - 2, or a - 1 below 1 for the functions at a + 1.
#[inline(always)]
fn from_two<O: Ops>(o: &mut O, a: O::F) -> (O::M, O::F) {
    let (one, two) = (o.number(1.0), o.number(2.0));
    let small = o.less(a, one);
    let start = o.select(small, one, two);
    (small, o.sub(a, start))
}

/// log gamma(a), or log gamma(1 + a) for a below 1: its zeros at 1 and 2 times a polynomial up to 3; the same about 5 up to 7;
/// Stirling's series beyond (Abramowitz & Stegun 6.1.40).
#[inline(always)]
fn lgamma_of<O: Ops>(o: &mut O, a: O::F) -> (O::M, O::F) {
    let (one, three, five, seven) = (o.number(1.0), o.number(3.0), o.number(5.0), o.number(7.0));
    let (small, z) = from_two(o, a);
    let p = o.polynomial(
        z,
        &[
            -9.059_813_237_399_794e-6,
            1.923_082_345_456_350_6e-5,
            -9.279_912_774_218_246e-6,
            2.048_189_526_249_189e-5,
            -8.925_201_109_377_667e-5,
            0.000_195_539_600_099_436_94,
            -0.000_403_461_192_036_047_6,
            0.000_910_639_937_501_400_7,
            -0.002_108_514_076_098_799_7,
            0.004_999_449_476_599_693,
            -0.012_384_167_872_369_29,
            0.032_964_948_564_767_84,
            -0.100_317_299_365_997_31,
            0.422_784_328_460_693_36,
        ],
    );
    let next = o.add(z, one);
    let zeros = o.mul(z, next);
    let near = o.mul(p, zeros);
    let w = o.sub(a, five);
    let p = o.polynomial(
        w,
        &[
            4.990_807_322_968_749e-9,
            -2.692_648_415_347_776e-8,
            9.155_611_024_880_272e-8,
            -5.083_963_401_375_513e-7,
            3.085_040_589_212_44e-6,
            -1.765_272_827_469_743_8e-5,
            0.000_103_236_969_152_931_12,
            -0.000_628_874_113_317_579,
            0.004_056_344_740_092_754,
            -0.028_978_932_648_897_17,
            0.264_837_831_258_773_8,
        ],
    );
    let (first, second) = (o.sub(a, one), o.number(2.0));
    let second = o.sub(a, second);
    let zeros = o.mul(first, second);
    let middle = o.mul(p, zeros);
    let inverse = o.div(one, a);
    let v = o.mul(inverse, inverse);
    let series = o.polynomial(v, &[0.000_775_994_500_145_316_1, -0.002_777_643_967_419_862_7, 0.083_333_335_816_860_2]);
    let (half, constant) = (o.number(0.5), o.number(0.418_938_533_204_672_67));
    let rest = o.fma(series, inverse, constant);
    let l = log(o, a);
    let (l, factor) = (o.sub(l, one), o.sub(a, half));
    let far = o.fma(factor, l, rest);
    let lower = o.less(a, three);
    let y = o.select(lower, near, middle);
    let upper = o.less(a, seven);
    (small, o.select(upper, y, far))
}

/// Below 0 by log(π / |a sin πa|) - log gamma(a) with a = -x (Abramowitz & Stegun 6.1.17).
#[inline(always)]
pub fn lgamma<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, zero, one) = (o.magnitude(x), o.number(0.0), o.number(1.0));
    let (small, y) = lgamma_of(o, a);
    let (sine, _) = half_waves(o, a);
    let sine = o.magnitude(sine);
    let part = o.number(std::f64::consts::FRAC_1_PI);
    let sine = o.mul(sine, part);
    let product = o.mul(sine, a);
    let below = o.select(small, sine, product);
    let above = o.select(small, a, one);
    let negative = o.less(x, zero);
    let argument = o.select(negative, below, above);
    let minus = o.negated(y);
    let y = o.select(negative, minus, y);
    let l = log(o, argument);
    let y = o.sub(y, l);
    let (pole, infinity) = (o.equal(argument, zero), o.number(f64::INFINITY));
    let y = o.select(pole, infinity, y);
    let end = o.equal(a, infinity);
    o.select(end, infinity, y)
}

/// digamma(a), or digamma(1 + a) for a below 1: its zero times a polynomial up to 3, then the asymptotic series
/// (Abramowitz & Stegun 6.3.18).
#[inline(always)]
fn digamma_of<O: Ops>(o: &mut O, a: O::F, inverse: O::F) -> (O::M, O::F) {
    let (small, z) = from_two(o, a);
    let p = o.polynomial(
        z,
        &[
            5.911_840_707_994_997_5e-5,
            -0.000_118_281_270_260_922_61,
            1.500_263_988_418_737_4e-5,
            -3.024_394_754_902_459_7e-5,
            0.000_393_754_598_917_439_6,
            -0.000_789_976_620_581_001,
            0.001_333_504_915_237_426_8,
            -0.002_690_290_100_872_516_6,
            0.005_557_582_248_002_291,
            -0.011_349_090_375_006_199,
            0.023_446_807_637_810_707,
            -0.049_550_030_380_487_44,
            0.108_999_930_322_170_26,
            -0.260_738_968_849_182_13,
            0.785_307_526_588_439_9,
        ],
    );
    // 2 less the zero, in two parts.
    let (high, low) = (o.number(0.538_367_867_469_787_6), o.number(1.243_814_993_89e-8));
    let distance = o.add(z, high);
    let distance = o.sub(distance, low);
    let near = o.mul(p, distance);
    let v = o.mul(inverse, inverse);
    let series = o.polynomial(
        v,
        &[
            -0.002_966_348_780_319_094_7,
            0.003_893_513_232_469_558_7,
            -0.008_331_742_137_670_517,
            0.083_333_328_366_279_6,
        ],
    );
    let series = o.mul(series, v);
    let half = o.number(0.5);
    let rest = o.fma(inverse, half, series);
    let l = log(o, a);
    let far = o.sub(l, rest);
    let three = o.number(3.0);
    let lower = o.less(a, three);
    (small, o.select(lower, near, far))
}

/// Below 0 by digamma(1 + a) + π cot πa with a = -x (Abramowitz & Stegun 6.3.7).
#[inline(always)]
pub fn digamma<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, zero, one) = (o.magnitude(x), o.number(0.0), o.number(1.0));
    let inverse = o.div(one, a);
    let (small, y) = digamma_of(o, a, inverse);
    let minus = o.negated(inverse);
    let above = o.select(small, minus, zero);
    let below = o.select(small, zero, inverse);
    let (sine, cosine) = half_waves(o, a);
    let (cotangent, pi) = (o.div(cosine, sine), o.number(std::f64::consts::PI));
    let (turn, undefined) = (o.mul(cotangent, pi), o.number(f64::NAN));
    let pole = o.equal(sine, zero);
    let turn = o.select(pole, undefined, turn);
    let negative = o.less(x, zero);
    let more = o.select(negative, below, above);
    let y = o.add(y, more);
    let reflected = o.add(y, turn);
    let y = o.select(negative, reflected, y);
    // Infinite at 0, with the sign against that of zero.
    let (nothing, infinity, minus) = (o.equal(x, zero), o.number(f64::INFINITY), o.negated(x));
    let end = o.with_sign(infinity, minus);
    o.select(nothing, end, y)
}
