//! The logarithm of the gamma function and its derivative against mpmath's values.

use heddle_core::scalar::functions::{digamma, lgamma};
use heddle_core::scalar::ops::Plain;
use serde_json::Value;

type Double = fn(f64) -> f64;

fn double(name: &str) -> Double {
    match name {
        "lgamma" => |x| lgamma(&mut Plain::<f64>::new(), x),
        _ => |x| digamma(&mut Plain::<f64>::new(), x),
    }
}

fn single(name: &str, x: f32) -> f32 {
    match name {
        "lgamma" => lgamma(&mut Plain::<f32>::new(), x),
        _ => digamma(&mut Plain::<f32>::new(), x),
    }
}

/// The last place of a number.
fn place(x: f64) -> f64 {
    f64::from_bits(x.abs().to_bits() + 1) - x.abs()
}

/// The values of `test/fixtures/gamma.py`: on all ranges, near the zeros and near the poles.
#[test]
fn f64_values_of_mpmath() {
    let text = include_str!("../../../../test/fixtures/gamma.json");
    let fixture: Value = serde_json::from_str(text).expect("a fixture");
    let mut failures = Vec::new();
    for case in fixture["cases"].as_array().expect("cases") {
        let name = case["op"].as_str().expect("a name");
        let numbers = |key: &str| -> Vec<f64> {
            let row = case[key].as_array().expect("a row").iter();
            row.map(|text| text.as_str().and_then(|t| t.parse().ok()).expect("a number")).collect()
        };
        let (xs, values, units) = (numbers("x"), numbers("value"), numbers("unit"));
        for ((x, value), unit) in xs.into_iter().zip(values).zip(units) {
            let got = double(name)(x);
            let error = (got - value).abs() / place(unit);
            if error > 4.0 || error.is_nan() {
                failures.push(format!("{name}({x}) is {got}, not {value}: {error} ULP, {}", case["title"]));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// f32 against f64. Above 0 to 4 ULP; below in places of the larger of the numbers whose difference it is.
#[test]
fn f32_is_as_f64() {
    for name in ["lgamma", "digamma"] {
        let exact = double(name);
        let (mut worst, mut at) = (0.0, 0.0);
        let all = (0..=u32::MAX >> 8).step_by(37);
        let all = all.map(|i| f32::from_bits((i << 8) | (i.wrapping_mul(0x9e37_79b9) >> 24)));
        let near = (1..40_000).map(|i| i as f32 * 3e-4);
        for x in all.chain(near.clone()).chain(near.map(|x| -x)) {
            let (got, want) = (single(name, x), exact(f64::from(x)));
            let rounded = want as f32;
            let error = if got == rounded || (got.is_nan() && rounded.is_nan()) {
                0.0
            } else if x < 0.0 && got.is_finite() {
                let size = want.abs().max(exact(1.0 - f64::from(x)).abs()).max(1.0);
                (f64::from(got) - want).abs() / size / f64::from(f32::EPSILON)
            } else {
                let unit = f32::from_bits(rounded.abs().max(f32::MIN_POSITIVE).to_bits() & 0x7f80_0000);
                (f64::from(got) - want).abs() / f64::from(unit * f32::EPSILON)
            };
            if error > worst || error.is_nan() {
                (worst, at) = (error, x);
            }
        }
        assert!(worst <= 4.0, "{name}: {worst} ULP at {at}");
    }
}

/// Poles, zeros, and the ends of the range of numbers.
#[test]
fn ends() {
    let inf = f64::INFINITY;
    let (lgamma, digamma) = (double("lgamma"), double("digamma"));
    for pole in [-1.0, -2.0, -3e6, -4_503_599_627_370_497.0, -1e10, -1e37] {
        assert!(lgamma(pole) == inf && digamma(pole).is_nan(), "at {pole}");
        let near = pole as f32;
        assert!(single("lgamma", near) == f32::INFINITY && single("digamma", near).is_nan(), "at {near}");
    }
    for x in [1.0, 2.0] {
        assert_eq!((lgamma(x).to_bits(), single("lgamma", x as f32).to_bits()), (0, 0));
    }
    assert!((f64::from(single("digamma", -1e-30)) - 1e30).abs() < 1e23);
    assert_eq!(single("lgamma", 3e38), f32::INFINITY);
    // The largest number whose logarithm of gamma is one lies between; that of the least is 1074 log 2.
    assert!(lgamma(2.55e305).is_finite() && lgamma(2.56e305) == inf);
    for least in [5e-324, -5e-324] {
        let want = 1074.0 * std::f64::consts::LN_2;
        assert!((lgamma(least) - want).abs() <= place(want), "{}", lgamma(least));
        assert_eq!(digamma(least), -inf * least.signum());
    }
    let want = libm::log(f64::MAX);
    assert!((digamma(f64::MAX) - want).abs() <= place(want));
}
