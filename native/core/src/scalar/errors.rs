//! The error function, its complement and its inverse.

use super::ops::{Ops, Steps};

/// e^(-a²)·erfcx(a), where erfcx is a polynomial of t = (a - center) / (a + center), divided by 1 + 2a (M. Shepherd and J. Laframboise,
/// "Chebyshev approximation of (1 + 2x)exp(x²)erfc x", Mathematics of Computation 36, 1981).
#[inline(always)]
fn tail<O: Ops>(o: &mut O, a: O::F, center: f64, fit: &[f64]) -> O::F {
    let (one, two, center) = (o.number(1.0), o.number(2.0), o.number(center));
    let (top, bottom) = (o.sub(a, center), o.add(a, center));
    let t = o.div(top, bottom);
    let p = o.polynomial(t, fit);
    let scale = o.fma(a, two, one);
    let scaled = o.div(p, scale);
    let square = o.mul(a, a);
    let minus = o.negated(square);
    let lost = o.fma(a, a, minus);
    let e = super::functions::exp(o, minus);
    let less = o.negated(e);
    let e = o.fma(less, lost, e);
    o.mul(scaled, e)
}

/// 1 - `near` for |x| up to 1/2; beyond, the tail, or 2 minus the tail if x is negative.
#[inline(always)]
fn complement<O: Ops>(o: &mut O, x: O::F, tail: O::F, near: O::F) -> O::F {
    let (zero, one, two, half) = (o.number(0.0), o.number(1.0), o.number(2.0), o.number(0.5));
    let negative = o.less(x, zero);
    let other = o.sub(two, tail);
    let far = o.select(negative, other, tail);
    let near = o.sub(one, near);
    let a = o.magnitude(x);
    let small = o.less(a, half);
    o.select(small, near, far)
}

pub mod single {
    use super::super::functions::{exp, log};
    use super::{complement, tail, Ops, Steps};

    /// N. Juffa's polynomials: one of x² for small x; beyond, one in the exponent of 1 - exp.
    #[inline(always)]
    pub fn erf<O: Ops>(o: &mut O, x: O::F) -> O::F {
        let a = o.magnitude(x);
        let limit = o.number(4.0);
        let a = o.lesser(limit, a);
        let s = o.mul(x, x);
        let small = o.polynomial(
            s,
            &[-5.967_617_03e-4, 4.991_194_23e-3, -2.676_813_49e-2, 1.128_199_25e-1, -3.761_253_36e-1, 1.283_791_66e-1],
        );
        let small = o.fma(small, x, x);
        let t = o.mul(a, a);
        let high = o.polynomial(a, &[-1.728_534_70e-5, 3.831_974_20e-4]);
        let low = o.polynomial(a, &[-3.883_964_38e-3, 2.425_462_19e-2]);
        let r = o.fma(high, t, low);
        let c = o.number(-1.067_778_77e-1);
        let r = o.fma(r, a, c);
        let c = o.number(-6.348_466_87e-1);
        let r = o.fma(r, a, c);
        let c = o.number(-1.287_175_12e-1);
        let r = o.fma(r, a, c);
        let minus = o.negated(a);
        let r = o.fma(r, a, minus);
        let e = exp(o, r);
        let one = o.number(1.0);
        let large = o.sub(one, e);
        let large = o.with_sign(large, x);
        let boundary = o.number(0.927734375);
        let far = o.less(boundary, a);
        o.select(far, large, small)
    }

    #[inline(always)]
    pub fn erfc<O: Ops>(o: &mut O, x: O::F) -> O::F {
        let (a, limit) = (o.magnitude(x), o.number(10.1));
        let a = o.lesser(limit, a);
        let fit = &[
            2.304_872_177_774_086_6e-4, -3.207_681_293_133_646e-4, -1.481_577_637_605_369e-3,
            1.223_233_528_435_230_3e-3, 8.730_659_261_345_863e-3, -8.026_141_673_326_492e-3, -0.054_221_011_698_246,
            0.164_050_742_983_818_05, -0.166_030_347_347_259_52, -0.092_763_818_800_449_37, 1.276_978_373_527_526_9,
        ];
        let far = tail(o, a, 2.0, fit);
        let near = erf(o, x);
        complement(o, x, far, near)
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
                2.810_226_36e-8, 3.432_739_39e-7, -3.523_387_7e-6, -4.391_506_54e-6, 2.185_808_7e-4, -1.253_725_03e-3,
                -4.177_681_64e-3, 0.246_640_727, 1.501_409_41,
            ],
        );
        let root = o.sqrt(w);
        let t = o.sub(root, three);
        let tail = o.polynomial(
            t,
            &[
                -2.002_142_57e-4, 1.009_505_58e-4, 1.349_343_22e-3, -3.673_428_44e-3, 5.739_507_73e-3, -7.622_461_3e-3,
                9.438_870_47e-3, 1.001_674_06, 2.832_976_82,
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
}

pub mod double {
    use super::super::functions::{exp, log};
    use super::{complement, Ops, Steps};

    /// erf(x) for |x| up to 1: x plus x times a truncated Chebyshev series of x².
    #[inline(always)]
    fn central<O: Ops>(o: &mut O, x: O::F) -> O::F {
        let s = o.mul(x, x);
        let p = o.polynomial(
            s,
            &[
                5.957_176_147_748_911e-11, -1.137_284_885_679_167_4e-9, 1.465_977_527_404_743_6e-8,
                -1.635_031_270_105_469_5e-7, 1.646_100_048_412_136_8e-6, -1.492_559_526_683_118_2e-5,
                0.000_120_553_311_116_427_1, -0.000_854_832_698_083_379, 0.005_223_977_624_818_014_5,
                -0.026_866_170_645_076_792, 0.112_837_916_709_548_79, -0.376_126_389_031_837_5,
                0.128_379_167_095_512_6,
            ],
        );
        o.fma(p, x, x)
    }

    /// erfc(a) for a from 1/2.
    #[inline(always)]
    fn tail<O: Ops>(o: &mut O, a: O::F) -> O::F {
        let limit = o.number(27.5);
        let a = o.lesser(limit, a);
        let fit = &[
            -9.056_380_402_320_203e-9, 7.415_323_491_118_425e-8, 5.835_747_018_672_216e-8, -7.818_301_230_736_041e-7,
            3.096_098_915_111_25e-7, 5.679_141_745_077_291e-6, -1.123_116_715_274_131_8e-5, -2.438_585_880_350_937e-5,
            0.000_150_624_975_772_549_95, -0.000_199_260_407_566_071_83, -0.000_757_774_038_120_672_5,
            0.005_031_970_628_580_688_6, -0.016_197_733_953_407_338, 0.037_167_515_468_668_14,
            -0.066_330_365_820_584_19, 0.093_732_835_002_364_8, -0.101_039_066_035_964_41, 0.068_097_054_254_584_9,
            0.015_379_652_102_614_41, -0.139_621_116_840_561_67, 1.232_995_118_625_552_6,
        ];
        super::tail(o, a, 4.0, fit)
    }

    #[inline(always)]
    pub fn erf<O: Ops>(o: &mut O, x: O::F) -> O::F {
        let (a, one) = (o.magnitude(x), o.number(1.0));
        let small = central(o, x);
        let rest = tail(o, a);
        let large = o.sub(one, rest);
        let large = o.with_sign(large, x);
        let far = o.less(one, a);
        o.select(far, large, small)
    }

    #[inline(always)]
    pub fn erfc<O: Ops>(o: &mut O, x: O::F) -> O::F {
        let a = o.magnitude(x);
        let (far, near) = (tail(o, a), central(o, x));
        complement(o, x, far, near)
    }

    /// erfInv(x) / x as a polynomial of w = -log(1 - x²) for w up to 5, and of √w - 4 beyond.
    const INVERSE_NEAR: &[f64] = &[
        4.671_932_509_038_665e-10, -2.041_884_197_542_678_5e-8, 3.440_101_487_642_903e-7, -2.696_533_465_757_212e-6,
        6.531_430_799_205_241e-6, 3.898_163_736_842_689_5e-5, -0.000_120_025_701_365_870_74,
        -0.002_340_027_075_783_301_7, 0.011_550_900_732_630_565, 0.232_013_473_107_482_27, 0.886_226_929_443_373_1,
    ];
    const INVERSE_FAR: &[f64] = &[
        -3.661_242_832_298_109_7e-7, -2.249_930_897_996_586_4e-6, 2.406_741_334_148_258e-5, -6.131_434_740_109_501e-5,
        6.261_045_558_105_498e-5, -7.527_513_775_892_939e-5, 0.000_300_794_319_942_973_5, -0.000_892_814_875_097_167_8,
        0.001_270_564_349_300_048_6, 1.009_496_804_842_010_8, 3.839_783_021_366_159,
    ];

    /// Polynomials of w = -log(1 - x²), or of √w, as in M. Giles's method for single precision, then one step of Halley's method
    /// on erf, or on erfc if erf is near 1.
    #[inline(always)]
    pub fn erf_inv<O: Ops>(o: &mut O, x: O::F) -> O::F {
        let (a, one) = (o.magnitude(x), o.number(1.0));
        let rest = o.sub(one, a);
        let sum = o.add(one, a);
        let w = o.mul(rest, sum);
        let w = log(o, w);
        let w = o.negated(w);
        let near = o.polynomial(w, INVERSE_NEAR);
        let (root, four, limit) = (o.sqrt(w), o.number(4.0), o.number(5.0));
        let t = o.sub(root, four);
        let far = o.polynomial(t, INVERSE_FAR);
        let inner = o.less(w, limit);
        let guess = o.select(inner, near, far);
        let y = o.mul(guess, a);
        let (value, less) = (central(o, y), tail(o, y));
        let (value, less) = (o.sub(value, a), o.sub(rest, less));
        let boundary = o.number(0.75);
        let inner = o.less(a, boundary);
        let error = o.select(inner, value, less);
        let (square, factor) = (o.mul(y, y), o.number(std::f64::consts::FRAC_2_SQRT_PI));
        let square = o.negated(square);
        let slope = exp(o, square);
        let slope = o.mul(slope, factor);
        let slope = o.fma(y, error, slope);
        let step = o.div(error, slope);
        let y = o.sub(y, step);
        let (end, infinity) = (o.equal(a, one), o.number(f64::INFINITY));
        let y = o.select(end, infinity, y);
        o.with_sign(y, x)
    }
}
