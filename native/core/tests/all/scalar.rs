//! The scalar functions against libm.

use heddle_core::scalar::functions::{erf, exp, expm1, log, log1p, logistic, softplus, tanh};
use heddle_core::scalar::ops::Plain;

fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    let unit = (rounded.abs().max(f32::MIN_POSITIVE).to_bits() & 0x7f80_0000) as f64;
    let unit = f32::from_bits(unit as u32) as f64 * 2f64.powi(-23);
    (got as f64 - want).abs() / unit
}

fn beyond(error: f64, bound: f64) -> bool {
    error > bound || error.is_nan()
}

/// Every 256th of all floats, so every exponent and sign.
fn sweep() -> impl Iterator<Item = f32> {
    (0..=u32::MAX >> 8).map(|i| f32::from_bits((i << 8) | (i.wrapping_mul(0x9e37_79b9) >> 24)))
}

fn exact_logistic(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

fn exact_softplus(x: f64) -> f64 {
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + libm::log1p(libm::exp(-x.abs()))
}

/// That of `libm` gives a number for some x far below 0.
fn exact_acosh(x: f64) -> f64 {
    if x < 1.0 {
        f64::NAN
    } else {
        libm::acosh(x)
    }
}

/// By steps of Halley's from S. Winitzki's formula.
fn exact_erf_inv(x: f64) -> f64 {
    let a = x.abs();
    if x == 0.0 || a.is_nan() || a >= 1.0 {
        return if a > 1.0 { f64::NAN } else { x / (1.0 - a).abs() };
    }
    let rest = 1.0 - a;
    let w = -libm::log(rest * (1.0 + a));
    let half = 2.0 / (std::f64::consts::PI * 0.147) - w / 2.0;
    let mut y = (libm::sqrt(half * half + w / 0.147) - half).max(0.0).sqrt();
    for _ in 0..4 {
        let error = if a < 0.5 { libm::erf(y) - a } else { rest - libm::erfc(y) };
        y -= error / (std::f64::consts::FRAC_2_SQRT_PI * libm::exp(-y * y) + y * error);
    }
    y.copysign(x)
}

#[test]
fn f32_functions_are_within_two_ulp() {
    type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64);
    let cases: [Case; 8] = [
        ("exp", |x| exp(&mut Plain::<f32>::new(), x), libm::exp),
        ("expm1", |x| expm1(&mut Plain::<f32>::new(), x), libm::expm1),
        ("log", |x| log(&mut Plain::<f32>::new(), x), libm::log),
        ("log1p", |x| log1p(&mut Plain::<f32>::new(), x), libm::log1p),
        ("tanh", |x| tanh(&mut Plain::<f32>::new(), x), libm::tanh),
        ("logistic", |x| logistic(&mut Plain::<f32>::new(), x), exact_logistic),
        ("erf", |x| erf(&mut Plain::<f32>::new(), x), libm::erf),
        ("softplus", |x| softplus(&mut Plain::<f32>::new(), x), exact_softplus),
    ];
    for (name, function, oracle) in cases {
        let (mut worst, mut at) = (0.0, 0.0);
        for x in sweep() {
            let (got, want) = (function(x), oracle(f64::from(x)));
            let error = ulps(got, want);
            assert!(got.is_nan() == want.is_nan(), "{name}({x}) is {got}, not {want}");
            if error > worst {
                (worst, at) = (error, x);
            }
        }
        assert!(worst <= 2.0, "{name}: {worst} ULP at {at}");
    }
}

/// Fewer points than above, which are enough for functions made of those: a quarter of a million.
#[test]
fn f32_functions_made_of_others_are_within_their_bounds() {
    use heddle_core::scalar::functions as f;
    type Case = (&'static str, fn(&mut Plain<f32>, f32) -> f32, fn(f64) -> f64, f64);
    let cases: [Case; 16] = [
        ("sin", f::sin, libm::sin, 2.0),
        ("cos", f::cos, libm::cos, 2.0),
        ("tan", f::tan, libm::tan, 2.0),
        ("atan", f::atan, libm::atan, 2.0),
        ("asin", f::asin, libm::asin, 2.0),
        ("acos", f::acos, libm::acos, 2.0),
        ("sinh", f::sinh, libm::sinh, 2.0),
        ("cosh", f::cosh, libm::cosh, 2.0),
        ("asinh", f::asinh, libm::asinh, 2.0),
        ("acosh", f::acosh, exact_acosh, 2.0),
        ("atanh", f::atanh, libm::atanh, 2.0),
        ("exp2", f::exp2, libm::exp2, 2.0),
        ("log2", f::log2, libm::log2, 2.0),
        ("cbrt", f::cbrt, libm::cbrt, 2.0),
        ("erfc", f::erfc, libm::erfc, 4.0),
        ("erfInv", f::erf_inv, exact_erf_inv, 4.0),
    ];
    let mut failures = Vec::new();
    for (name, function, oracle, bound) in cases {
        let (mut worst, mut at) = (0.0, 0.0);
        for x in sweep().step_by(61) {
            let (got, want) = (function(&mut Plain::<f32>::new(), x), oracle(f64::from(x)));
            let error = if got.is_nan() == want.is_nan() { ulps(got, want) } else { f64::INFINITY };
            if error > worst {
                (worst, at) = (error, x);
            }
        }
        if worst > bound {
            failures.push(format!("{name}: {worst} ULP at {at}"));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

fn worst64(low: f64, high: f64, f: impl Fn(f64) -> f64, oracle: impl Fn(f64) -> f64) -> f64 {
    let points = (0..50_000).map(|i| low + (high - low) * (i as f64 / 50_000.0));
    let errors = points.map(|x| {
        let (got, want) = (f(x), oracle(x));
        if got == want {
            0.0
        } else {
            (got - want).abs() / want.abs()
        }
    });
    errors.fold(0.0, |worst, e| if beyond(e, worst) { e } else { worst })
}

#[test]
fn f64_functions_are_within_1e15() {
    use heddle_core::scalar::functions as f;
    type Case = (&'static str, f64, f64, fn(&mut Plain<f64>, f64) -> f64, fn(f64) -> f64);
    let cases: [Case; 44] = [
        ("exp", -700.0, 709.0, f::exp, libm::exp),
        ("expm1", -40.0, 700.0, f::expm1, libm::expm1),
        ("expm1 near 0", -1.0, 1.0, f::expm1, libm::expm1),
        ("log", 1e-300, 10.0, f::log, libm::log),
        ("log large", 1.5, 1e300, f::log, libm::log),
        ("log1p", -0.999, 3.0, f::log1p, libm::log1p),
        ("log1p near 0", -1e-3, 1e-3, f::log1p, libm::log1p),
        ("log1p large", 3.0, 1e300, f::log1p, libm::log1p),
        ("tanh", -20.0, 20.0, f::tanh, libm::tanh),
        ("logistic", -700.0, 700.0, f::logistic, exact_logistic),
        ("softplus", -40.0, 40.0, f::softplus, exact_softplus),
        ("sin", -8.0, 8.0, f::sin, libm::sin),
        ("sin large", -1e6, 1e6, f::sin, libm::sin),
        ("sin huge", -8e307, 8e307, f::sin, libm::sin),
        ("sin of more than 2^107", 1e32, 1e48, f::sin, libm::sin),
        ("cos", -8.0, 8.0, f::cos, libm::cos),
        ("cos large", -1e22, 1e22, f::cos, libm::cos),
        ("tan", -8.0, 8.0, f::tan, libm::tan),
        ("tan large", -1e9, 1e9, f::tan, libm::tan),
        ("atan", -4.0, 4.0, f::atan, libm::atan),
        ("atan large", -1e20, 1e20, f::atan, libm::atan),
        ("asin", -1.0, 1.0, f::asin, libm::asin),
        ("acos", -1.0, 0.999, f::acos, libm::acos),
        ("sinh", -4.0, 4.0, f::sinh, libm::sinh),
        ("sinh large", -710.4, 710.4, f::sinh, libm::sinh),
        ("cosh", -4.0, 4.0, f::cosh, libm::cosh),
        ("cosh large", -710.4, 710.4, f::cosh, libm::cosh),
        ("asinh", -4.0, 4.0, f::asinh, libm::asinh),
        ("asinh large", -1e300, 1e300, f::asinh, libm::asinh),
        ("acosh", 1.0, 4.0, f::acosh, exact_acosh),
        ("acosh large", 4.0, 1e300, f::acosh, exact_acosh),
        ("atanh", -1.0, 1.0, f::atanh, libm::atanh),
        ("exp2", -1020.0, 1023.0, f::exp2, libm::exp2),
        ("exp2 near 0", -2.0, 2.0, f::exp2, libm::exp2),
        ("log2", 1e-3, 3.0, f::log2, libm::log2),
        ("log2 large", 3.0, 1e300, f::log2, libm::log2),
        ("cbrt", -10.0, 10.0, f::cbrt, libm::cbrt),
        ("cbrt large", -1e300, 1e300, f::cbrt, libm::cbrt),
        ("erf", -7.0, 7.0, f::erf, libm::erf),
        ("erf near 0", -1e-3, 1e-3, f::erf, libm::erf),
        ("erfc", -7.0, 3.0, f::erfc, libm::erfc),
        ("erfc far", 3.0, 26.5, f::erfc, libm::erfc),
        ("erfInv", -1.0, 1.0, f::erf_inv, exact_erf_inv),
        ("erfInv near 0", -1e-3, 1e-3, f::erf_inv, exact_erf_inv),
    ];
    let worst = cases.map(|(name, low, high, function, oracle)| {
        (name, worst64(low, high, |x| function(&mut Plain::new(), x), oracle))
    });
    let failures: Vec<_> = worst.iter().filter(|(_, worst)| beyond(*worst, 1e-15)).collect();
    assert!(failures.is_empty(), "{failures:?} of {worst:?}");
}

/// Random numbers of every size.
fn sizes(n: u64, exponents: i32) -> impl Iterator<Item = f64> {
    (1..=n).map(move |i| {
        let bits = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mantissa = 1.0 + (bits >> 12) as f64 * 2f64.powi(-52);
        let exponent = (bits.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as i32 % exponents;
        mantissa * 2f64.powi(exponent - exponents / 2) * if bits & 1 == 0 { 1.0 } else { -1.0 }
    })
}

#[test]
fn functions_of_two_numbers() {
    use heddle_core::scalar::functions as f;
    let (mut single, mut double) = ([(0.0, (0.0, 0.0)); 2], [(0.0, (0.0, 0.0)); 2]);
    for (y, x) in sizes(100_000, 40).zip(sizes(100_001, 44).skip(1)) {
        let base = x.abs();
        let cases = [(libm::atan2(y, x), (y, x)), (libm::pow(base, y), (base, y))];
        for (k, (want, at)) in cases.into_iter().enumerate() {
            let o = &mut Plain::<f64>::new();
            let got = if k == 0 { f::atan2(o, y, x) } else { f::pow(o, base, y) };
            let error = if got == want || want.abs() < 1e-300 { 0.0 } else { ((got - want) / want).abs() };
            if beyond(error, double[k].0) {
                double[k] = (error, at);
            }
            let (a, b) = (at.0 as f32, at.1 as f32);
            let exact = if k == 0 { libm::atan2 } else { libm::pow };
            let (want, o) = (exact(f64::from(a), f64::from(b)), &mut Plain::<f32>::new());
            let error = ulps(if k == 0 { f::atan2(o, a, b) } else { f::pow(o, a, b) }, want);
            if beyond(error, single[k].0) {
                single[k] = (error, at);
            }
        }
    }
    assert!(single.iter().all(|s| s.0 <= 2.0) && double.iter().all(|d| d.0 <= 1e-15), "{single:?} {double:?}");
}

fn single(f: fn(&mut Plain<f32>, f32) -> f32, x: f32) -> f64 {
    f64::from(f(&mut Plain::new(), x))
}

fn double(f: fn(&mut Plain<f64>, f64) -> f64, x: f64) -> f64 {
    f(&mut Plain::new(), x)
}

#[test]
fn special_values() {
    use heddle_core::scalar::functions as f;
    use std::f64::consts::{FRAC_PI_2, LN_2};
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    // At -inf, inf, -0, 0, NaN.
    let points = [-inf, inf, -0.0, 0.0, nan];
    type Row = (&'static str, fn(&mut Plain<f32>, f32) -> f32, fn(&mut Plain<f64>, f64) -> f64, [f64; 5]);
    let rows: [Row; 31] = [
        ("exp", f::exp, f::exp, [0.0, inf, 1.0, 1.0, nan]),
        ("expm1", f::expm1, f::expm1, [-1.0, inf, -0.0, 0.0, nan]),
        ("log", f::log, f::log, [nan, inf, -inf, -inf, nan]),
        ("tanh", f::tanh, f::tanh, [-1.0, 1.0, -0.0, 0.0, nan]),
        ("logistic", f::logistic, f::logistic, [0.0, 1.0, 0.5, 0.5, nan]),
        ("sign", f::sign, f::sign, [-1.0, 1.0, -0.0, 0.0, nan]),
        ("abs", f::abs, f::abs, [inf, inf, 0.0, 0.0, nan]),
        ("log1p", f::log1p, f::log1p, [nan, inf, -0.0, 0.0, nan]),
        ("softplus", f::softplus, f::softplus, [0.0, inf, LN_2, LN_2, nan]),
        ("erf", f::erf, f::erf, [-1.0, 1.0, -0.0, 0.0, nan]),
        ("erfc", f::erfc, f::erfc, [2.0, 0.0, 1.0, 1.0, nan]),
        ("erfInv", f::erf_inv, f::erf_inv, [nan, nan, -0.0, 0.0, nan]),
        ("sin", f::sin, f::sin, [nan, nan, -0.0, 0.0, nan]),
        ("cos", f::cos, f::cos, [nan, nan, 1.0, 1.0, nan]),
        ("tan", f::tan, f::tan, [nan, nan, -0.0, 0.0, nan]),
        ("atan", f::atan, f::atan, [-FRAC_PI_2, FRAC_PI_2, -0.0, 0.0, nan]),
        ("asin", f::asin, f::asin, [nan, nan, -0.0, 0.0, nan]),
        ("acos", f::acos, f::acos, [nan, nan, FRAC_PI_2, FRAC_PI_2, nan]),
        ("sinh", f::sinh, f::sinh, [-inf, inf, -0.0, 0.0, nan]),
        ("cosh", f::cosh, f::cosh, [inf, inf, 1.0, 1.0, nan]),
        ("asinh", f::asinh, f::asinh, [-inf, inf, -0.0, 0.0, nan]),
        ("acosh", f::acosh, f::acosh, [nan, inf, nan, nan, nan]),
        ("atanh", f::atanh, f::atanh, [nan, nan, -0.0, 0.0, nan]),
        ("exp2", f::exp2, f::exp2, [0.0, inf, 1.0, 1.0, nan]),
        ("log2", f::log2, f::log2, [nan, inf, -inf, -inf, nan]),
        ("cbrt", f::cbrt, f::cbrt, [-inf, inf, -0.0, 0.0, nan]),
        ("floor", f::floor, f::floor, [-inf, inf, -0.0, 0.0, nan]),
        ("trunc", f::trunc, f::trunc, [-inf, inf, -0.0, 0.0, nan]),
        ("sqrt", f::sqrt, f::sqrt, [nan, inf, -0.0, 0.0, nan]),
        ("lgamma", f::lgamma, f::lgamma, [inf, inf, inf, inf, nan]),
        ("digamma", f::digamma, f::digamma, [nan, inf, inf, -inf, nan]),
    ];
    let same = |a: f64, b: f64| (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits();
    for (name, f32s, f64s, want) in rows {
        for (x, want) in points.into_iter().zip(want) {
            assert!(same(single(f32s, x as f32), f64::from(want as f32)), "{name}({x}) in f32");
            assert!(same(double(f64s, x), want), "{name}({x}) in f64");
        }
    }
    assert_eq!(double(f::log, 5e-324), libm::log(5e-324));
    assert_eq!(single(log1p, -1.0), -inf);
    assert_eq!(double(f::exp, 1000.0), inf);
}

/// Poles, the ends of domains, and the smallest numbers.
#[test]
fn ends_of_domains() {
    use heddle_core::scalar::functions as f;
    let inf = f64::INFINITY;
    for x in [1.0, -1.0] {
        assert_eq!((single(f::erf_inv, x as f32), double(f::erf_inv, x)), (x * inf, x * inf));
        assert_eq!((single(f::atanh, x as f32), double(f::atanh, x)), (x * inf, x * inf));
        for f in [f::sin, f::tan, f::asin, f::atan, f::sinh, f::asinh, f::atanh] {
            assert_eq!(single(f, x as f32 * 1e-45), f64::from(x as f32 * 1e-45));
        }
        for f in [f::sin, f::tan, f::asin, f::atan, f::sinh, f::asinh, f::atanh] {
            assert_eq!(double(f, x * 5e-324), x * 5e-324);
        }
    }
    assert!(double(f::erf_inv, 1.1).is_nan() && double(f::atanh, 2.0).is_nan() && double(f::log1p, -2.0).is_nan());
}

/// C's rules for `pow` and `atan2`: every pair of special values against libm.
#[test]
fn special_pairs() {
    use heddle_core::scalar::functions as f;
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let values =
        [-inf, -1e30, -3.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 16777215.0, 1e30, inf, nan, 5e-324, 1e-45];
    for (x, y) in values.into_iter().flat_map(|x| values.map(|y| (x, y))) {
        let same = |got: f64, want: f64| {
            (got.is_nan() && want.is_nan())
                || got == want && got.is_sign_negative() == want.is_sign_negative()
                || (got - want).abs() <= 2.5e-7 * want.abs() && want.is_normal()
        };
        let (power, angle) = (libm::pow(x, y), libm::atan2(x, y));
        let o = &mut Plain::<f64>::new();
        assert!(same(f::pow(o, x, y), power), "pow({x}, {y}) is {}, not {power}", f::pow(o, x, y));
        assert!(same(f::atan2(o, x, y), angle), "atan2({x}, {y}) is {}, not {angle}", f::atan2(o, x, y));
        let (x, y, o) = (x as f32, y as f32, &mut Plain::<f32>::new());
        let power = f64::from(libm::pow(f64::from(x), f64::from(y)) as f32);
        let angle = f64::from(libm::atan2(f64::from(x), f64::from(y)) as f32);
        assert!(same(f64::from(f::pow(o, x, y)), power), "pow({x}, {y}) is {}, not {power}", f::pow(o, x, y));
        assert!(same(f64::from(f::atan2(o, x, y)), angle), "atan2({x}, {y}) is not {angle}");
    }
}

#[test]
fn decay_has_the_bits_of_exp_where_that_is_normal() {
    use heddle_core::scalar::functions::decay;
    for x in sweep().filter(|x| x.is_nan() || *x <= 88.0) {
        let (got, want) = (decay(&mut Plain::<f32>::new(), x), exp(&mut Plain::<f32>::new(), x));
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same || (got == 0.0 && want < 2.0 * f32::MIN_POSITIVE), "{x}: {got}, not {want}");
    }
    for x in (-750_000..700_000).map(|i| f64::from(i) / 1000.0) {
        let (got, want) = (decay(&mut Plain::<f64>::new(), x), exp(&mut Plain::<f64>::new(), x));
        assert!(got == want || (got == 0.0 && want < 2.0 * f64::MIN_POSITIVE), "{x}: {got}, not {want}");
    }
}
