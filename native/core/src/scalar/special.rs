//! Special functions in f64 that only the interpreter runs; the f32 versions round their results once.

use super::functions::digamma;
use super::ops::Plain;

/// The Bernoulli numbers B2, B4, … B24.
const BERNOULLI: [f64; 12] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174_611.0 / 330.0,
    854_513.0 / 138.0,
    -236_364_091.0 / 2730.0,
];

/// The derivative of order `n` of digamma: (-1)^(n+1) n! zeta(n + 1, x).
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(&mut Plain::<f64>::new(), x);
    }
    if !(0.0..=170.0).contains(&n) || libm::floor(n) != n || x.is_nan() || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * libm::tgamma(n + 1.0) * zeta(n + 1.0, x)
}

pub fn polygamma32(n: f32, x: f32) -> f32 {
    polygamma(f64::from(n), f64::from(x)) as f32
}

/// The Hurwitz zeta function for integers s from 2, by the Euler-Maclaurin formula.
fn zeta(s: f64, q: f64) -> f64 {
    if q <= 0.0 && libm::floor(q) == q {
        return if s % 2.0 == 0.0 { f64::INFINITY } else { f64::NAN };
    }
    if q == f64::INFINITY {
        return 0.0;
    }
    // Far below 0 only the terms near 0 are significant, and a loop to them would take too long.
    let mut a = if q < -1e5 { q - libm::floor(q) - 1e5 } else { q };
    let mut sum = 0.0;
    // The asymptotic series is accurate for `a` well above s.
    while a < 12.0 + s {
        sum += libm::pow(a, -s);
        a += 1.0;
    }
    let power = libm::pow(a, -s);
    sum += a * power / (s - 1.0) + 0.5 * power;
    let mut factor = s * power / a;
    for (i, b) in BERNOULLI.iter().enumerate() {
        let k = 2.0 * (i as f64 + 1.0);
        sum += b * factor / gamma_of(k);
        factor *= (s + k - 1.0) * (s + k) / (a * a);
    }
    sum
}

/// k! for small integers k.
fn gamma_of(k: f64) -> f64 {
    (2..=k as u32).map(f64::from).product()
}
