//! The scalar functions against libm.

use heddle_core::scalar::double::library_softplus;
use heddle_core::scalar::functions::{exp, expm1, log, logistic, tanh};
use heddle_core::scalar::ops::Plain;
use heddle_core::scalar::single::{erf, log1p, softplus};

fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    let unit = (rounded.abs().max(f32::MIN_POSITIVE).to_bits() & 0x7f80_0000) as f64;
    let unit = f32::from_bits(unit as u32) as f64 * 2f64.powi(-23);
    (got as f64 - want).abs() / unit
}

/// Every 256th of all floats, so every exponent and sign.
fn sweep() -> impl Iterator<Item = f32> {
    (0..=u32::MAX >> 8).map(|i| f32::from_bits((i << 8) | (i.wrapping_mul(0x9e37_79b9) >> 24)))
}

fn exact_logistic(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
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
        ("softplus", |x| softplus(&mut Plain::<f32>::new(), x), library_softplus),
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
    use heddle_core::scalar::inverse as f;
    type Case = (&'static str, fn(&mut Plain<f32>, f32) -> f32, fn(f64) -> f64, f64);
    let cases: [Case; 14] = [
        ("atan", f::atan, libm::atan, 2.0),
        ("asin", f::asin, libm::asin, 2.0),
        ("acos", f::acos, libm::acos, 2.0),
        ("sinh", f::sinh, libm::sinh, 2.0),
        ("cosh", f::cosh, libm::cosh, 2.0),
        ("asinh", f::asinh, libm::asinh, 2.0),
        ("acosh", f::acosh, heddle_core::scalar::special::acosh, 2.0),
        ("atanh", f::atanh, libm::atanh, 2.0),
        ("exp2", f::exp2, libm::exp2, 2.0),
        ("log2", f::log2, libm::log2, 2.0),
        ("cbrt", f::cbrt, libm::cbrt, 2.0),
        ("erfc", f::erfc, libm::erfc, 4.0),
        ("erfInv", f::erf_inv, heddle_core::scalar::special::erf_inv, 4.0),
        ("tan", |_, x| libm::tanf(x), libm::tan, 2.0),
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
    let points = (0..200_000).map(|i| low + (high - low) * (i as f64 / 200_000.0));
    let errors = points.map(|x| {
        let (got, want) = (f(x), oracle(x));
        if got == want {
            0.0
        } else {
            (got - want).abs() / want.abs()
        }
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn f64_functions_are_within_1e15() {
    let double = Plain::<f64>::new;
    let cases: [(&str, f64); 7] = [
        ("exp", worst64(-700.0, 709.0, |x| exp(&mut double(), x), libm::exp)),
        ("expm1", worst64(-40.0, 700.0, |x| expm1(&mut double(), x), libm::expm1)),
        ("expm1 near 0", worst64(-1.0, 1.0, |x| expm1(&mut double(), x), libm::expm1)),
        ("log", worst64(1e-300, 10.0, |x| log(&mut double(), x), libm::log)),
        ("log large", worst64(1.5, 1e300, |x| log(&mut double(), x), libm::log)),
        ("tanh", worst64(-20.0, 20.0, |x| tanh(&mut double(), x), libm::tanh)),
        ("logistic", worst64(-700.0, 700.0, |x| logistic(&mut double(), x), exact_logistic)),
    ];
    for (name, worst) in cases {
        assert!(worst <= 1e-15, "{name}: {worst}");
    }
}

#[test]
fn special_values() {
    fn single(f: fn(&mut Plain<f32>, f32) -> f32, x: f32) -> f64 {
        f64::from(f(&mut Plain::new(), x))
    }
    fn double(f: fn(&mut Plain<f64>, f64) -> f64, x: f64) -> f64 {
        f(&mut Plain::new(), x)
    }
    use heddle_core::scalar::functions as f;
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    // At -inf, inf, -0, 0, NaN.
    let points = [-inf, inf, -0.0, 0.0, nan];
    type Row = (&'static str, fn(&mut Plain<f32>, f32) -> f32, Option<fn(&mut Plain<f64>, f64) -> f64>, [f64; 5]);
    let rows: [Row; 9] = [
        ("exp", f::exp, Some(f::exp), [0.0, inf, 1.0, 1.0, nan]),
        ("expm1", f::expm1, Some(f::expm1), [-1.0, inf, -0.0, 0.0, nan]),
        ("log", f::log, Some(f::log), [nan, inf, -inf, -inf, nan]),
        ("log1p", log1p, None, [nan, inf, -0.0, 0.0, nan]),
        ("tanh", f::tanh, Some(f::tanh), [-1.0, 1.0, -0.0, 0.0, nan]),
        ("logistic", f::logistic, Some(f::logistic), [0.0, 1.0, 0.5, 0.5, nan]),
        ("erf", erf, None, [-1.0, 1.0, -0.0, 0.0, nan]),
        ("sign", f::sign, Some(f::sign), [-1.0, 1.0, -0.0, 0.0, nan]),
        ("abs", f::abs, Some(f::abs), [inf, inf, 0.0, 0.0, nan]),
    ];
    let same = |a: f64, b: f64| (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits();
    for (name, f32s, f64s, want) in rows {
        for (x, want) in points.into_iter().zip(want) {
            assert!(same(single(f32s, x as f32), want), "{name}({x}) in f32");
            if let Some(f64s) = f64s {
                assert!(same(double(f64s, x), want), "{name}({x}) in f64");
            }
        }
    }
    assert_eq!(double(f::log, 5e-324), libm::log(5e-324));
    assert_eq!(single(log1p, -1.0), -inf);
    assert_eq!(double(f::exp, 1000.0), inf);
}
