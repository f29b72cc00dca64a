//! Sine, cosine and tangent of any number: x·2/π modulo 4 from the digits of 2/π that are significant for x (M. Payne and R. Hanek,
//! "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983), then polynomials of the
//! remainder, in quarter turns.

use super::ops::{Family, Ops, Rounding, Steps};

/// The number of digits of 2/π in a window, and the number of digits from one window to the next.
const DIGITS: usize = 6;
const STRIDE: usize = 2;

const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Digit `slot` of a window, as a number below 2^(-bits·slot). The first window begins with a zero before the point.
fn digit<N: Family>(window: usize, slot: usize) -> f64 {
    let at = STRIDE * window + slot;
    if at == 0 {
        return 0.0;
    }
    N::FITS.two_over_pi[at - 1] as f64 * power_of_two(-N::BITS * (slot as i32 + 1))
}

/// A constant of the window of each number, which follows from the magnitude of the number.
#[inline(always)]
fn choose<O: Ops>(o: &mut O, smaller: &[O::M], of: impl Fn(usize) -> f64) -> O::F {
    let mut value = o.number(of(0));
    for (w, m) in smaller.iter().enumerate() {
        let next = o.number(of(w + 1));
        value = o.select(*m, value, next);
    }
    value
}

/// a + b and its rounding error, where `a` is a multiple of the unit in the last place of `b` (T. Dekker, 1971).
#[inline(always)]
pub fn sum<O: Ops>(o: &mut O, a: O::F, b: O::F) -> (O::F, O::F) {
    let s = o.add(a, b);
    let added = o.sub(s, a);
    (s, o.sub(b, added))
}

/// a·b and its rounding error.
#[inline(always)]
pub fn product<O: Ops>(o: &mut O, a: O::F, b: O::F) -> (O::F, O::F) {
    let p = o.mul(a, b);
    let minus = o.negated(p);
    (p, o.fma(a, b, minus))
}

/// Subtracts a multiple of 4, exactly; the result is from -2 to 2.
#[inline(always)]
fn modulo_4<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (quarter, minus) = (o.number(0.25), o.number(-4.0));
    let q = o.mul(x, quarter);
    let q = o.round(q, Rounding::HalfToEven);
    o.fma(q, minus, x)
}

/// The least magnitude that needs a later window than this.
fn window_end<N: Family>(window: usize) -> f64 {
    power_of_two((STRIDE * (window + 1)) as i32 * N::BITS + 1)
}

/// The allowed arguments: all numbers, or only those whose digits of 2/π are in the first window. Both ranges have the same steps
/// and so the same bits; for near numbers no window is selected.
#[derive(Clone, Copy)]
enum Range {
    Near,
    All,
}

/// Numbers whose magnitude is below this limit are near.
pub fn near_end<N: Family>() -> f64 {
    window_end::<N>(0)
}

/// Whether the functions of [`near`] apply to a number.
#[inline(always)]
pub fn is_near<O: Ops>(o: &mut O, x: O::F) -> O::M {
    let (a, limit) = (o.magnitude(x), o.number(near_end::<O::N>()));
    o.less(a, limit)
}

/// The integer `n`, and `f` within about ±1/2 in two parts, with n + f = a·2/π modulo 4, for `a` from 0.
///
/// With p bits in a significand, a digit is skipped if its product with `a` is a multiple of 4, that is for `a` from 2^(p+1) times
/// the unit of the digit. The error of six digits is below 2^(-3p); no number is nearer than 2^(-p-10) to a multiple of π/2.
#[inline(always)]
fn quarter_turns<O: Ops>(o: &mut O, a: O::F, range: Range) -> (O::F, O::F, O::F) {
    let bits = <O::N as Family>::BITS;
    let windows = match range {
        Range::Near => 1,
        Range::All => (<O::N as Family>::FITS.two_over_pi.len() - DIGITS + STRIDE + 1) / STRIDE,
    };
    let below = |o: &mut O, w: usize| {
        let limit = o.number(window_end::<O::N>(w));
        o.less(a, limit)
    };
    let mut smaller = [below(o, 0); 9];
    for (w, m) in smaller.iter_mut().enumerate().take(windows - 1) {
        *m = below(o, w);
    }
    let smaller = &smaller[..windows - 1];
    let factor = choose(o, smaller, |w| power_of_two(bits * (1 - (STRIDE * w) as i32)));
    let a = o.mul(a, factor);
    let mut products = [(a, a); DIGITS];
    for (slot, p) in products.iter_mut().enumerate() {
        let c = choose(o, smaller, |w| digit::<O::N>(w, slot));
        *p = product(o, a, c);
    }
    let [(h0, l0), (h1, l1), (h2, l2), (h3, l3), (h4, l4), (h5, _)] = products;
    let (h0, l0) = (modulo_4(o, h0), modulo_4(o, l0));
    let (h1, l1, h2) = (modulo_4(o, h1), modulo_4(o, l1), modulo_4(o, h2));
    // The product of the first digit is a multiple of 2^(2-p), so the sum of its parts is exact.
    let mut s = o.add(h0, l0);
    let mut rest = [h1, l1, h2, l2, h3, l3, h4];
    for r in &mut rest[..5] {
        (s, *r) = sum(o, s, *r);
    }
    let n = o.round(s, Rounding::HalfToEven);
    let mut f = o.sub(s, n);
    let mut low = o.add(l4, h5);
    for r in rest {
        let lost;
        (f, lost) = sum(o, f, r);
        low = o.add(low, lost);
    }
    (n, f, low)
}

/// sin and cos of (f + low)·π/2, for |f| up to 1/2; each is the sum of two parts.
#[inline(always)]
fn parts<O: Ops>(o: &mut O, f: O::F, low: O::F) -> [(O::F, O::F); 2] {
    let fits = &<O::N as Family>::FITS;
    let twice = o.add(f, f);
    let s = o.mul(twice, low);
    let s = o.fma(f, f, s);
    let (high, rest) = (o.number(fits.half_pi[0]), o.number(fits.half_pi[1]));
    let p = o.polynomial(s, fits.sin);
    let p = o.mul(p, s);
    let small = o.mul(low, high);
    let small = o.fma(f, rest, small);
    let p = o.fma(p, f, small);
    let q = o.polynomial(s, fits.cos);
    let (linear, lost) = product(o, f, high);
    [(linear, o.add(p, lost)), (o.number(1.0), o.mul(q, s))]
}

/// sin and cos of (f + low)·π/2, for |f| up to 1/2.
#[inline(always)]
pub fn waves<O: Ops>(o: &mut O, f: O::F, low: O::F) -> (O::F, O::F) {
    let [sine, cosine] = parts(o, f, low);
    (o.add(sine.0, sine.1), o.add(cosine.0, cosine.1))
}

/// Bits whose lowest bits are those of a small integer.
#[inline(always)]
fn integer_bits<O: Ops>(o: &mut O, n: O::F) -> O::I {
    let magic = o.number(<O::N as Family>::MAGIC);
    let shifted = o.add(n, magic);
    o.to_bits(shifted)
}

/// Whether a small integer is odd.
#[inline(always)]
pub fn odd<O: Ops>(o: &mut O, n: O::F) -> O::M {
    let bits = integer_bits(o, n);
    let (one, zero) = (o.number(1.0), o.number(0.0));
    let sign = o.shift_left(bits, <O::N as Family>::SIGN.trailing_zeros());
    let one = o.to_bits(one);
    let signed = o.or(sign, one);
    let signed = o.of_bits(signed);
    o.less(signed, zero)
}

/// The sign bit for the quarters 2 and 3 of a turn, else 0.
#[inline(always)]
fn lower_half<O: Ops>(o: &mut O, n: O::F) -> O::I {
    let bits = integer_bits(o, n);
    let shifted = o.shift_left(bits, <O::N as Family>::SIGN.trailing_zeros() - 1);
    let mask = o.integer(<O::N as Family>::SIGN);
    o.and(shifted, mask)
}

#[inline(always)]
fn flipped<O: Ops>(o: &mut O, x: O::F, sign: O::I) -> O::F {
    let bits = o.to_bits(x);
    let bits = o.xor(bits, sign);
    o.of_bits(bits)
}

/// `y`, negated if x is negative; `x` itself if |x| is so small that the function rounds to x.
#[inline(always)]
fn finished<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    let (bits, mask) = (o.to_bits(x), o.integer(<O::N as Family>::SIGN));
    let sign = o.and(bits, mask);
    let y = flipped(o, y, sign);
    let (a, limit) = (o.magnitude(x), o.number(power_of_two(-<O::N as Family>::BITS / 2 - 1)));
    let tiny = o.less(a, limit);
    o.select(tiny, x, y)
}

#[inline(always)]
fn sin_in<O: Ops>(o: &mut O, x: O::F, range: Range) -> O::F {
    let a = o.magnitude(x);
    let (n, f, low) = quarter_turns(o, a, range);
    let (sine, cosine) = waves(o, f, low);
    let turned = odd(o, n);
    let y = o.select(turned, cosine, sine);
    let sign = lower_half(o, n);
    let y = flipped(o, y, sign);
    finished(o, x, y)
}

#[inline(always)]
fn cos_in<O: Ops>(o: &mut O, x: O::F, range: Range) -> O::F {
    let (a, one) = (o.magnitude(x), o.number(1.0));
    let (n, f, low) = quarter_turns(o, a, range);
    let (sine, cosine) = waves(o, f, low);
    let turned = odd(o, n);
    let y = o.select(turned, sine, cosine);
    let next = o.add(n, one);
    let sign = lower_half(o, next);
    flipped(o, y, sign)
}

#[inline(always)]
fn tan_in<O: Ops>(o: &mut O, x: O::F, range: Range) -> O::F {
    let a = o.magnitude(x);
    let (n, f, low) = quarter_turns(o, a, range);
    let [sine, cosine] = parts(o, f, low).map(|(high, low)| sum(o, high, low));
    let turned = odd(o, n);
    let top = (o.select(turned, cosine.0, sine.0), o.select(turned, cosine.1, sine.1));
    let bottom = (o.select(turned, sine.0, cosine.0), o.select(turned, sine.1, cosine.1));
    // The rounding error of the quotient of the first parts: (top - y·bottom) / bottom.
    let y = o.div(top.0, bottom.0);
    let minus = o.negated(y);
    let missing = o.fma(minus, bottom.0, top.0);
    let missing = o.add(missing, top.1);
    let missing = o.fma(minus, bottom.1, missing);
    let missing = o.div(missing, bottom.0);
    let y = o.add(y, missing);
    let minus = o.negated(y);
    let y = o.select(turned, minus, y);
    finished(o, x, y)
}

macro_rules! ranges {
    ($($name:ident $with:ident)+) => {
        $(
            #[inline(always)]
            pub fn $name<O: Ops>(o: &mut O, x: O::F) -> O::F {
                $with(o, x, Range::All)
            }
        )+

        /// The same functions for numbers that [`is_near`] accepts.
        pub mod near {
            use super::{Ops, Range};
            $(
                #[inline(always)]
                pub fn $name<O: Ops>(o: &mut O, x: O::F) -> O::F {
                    super::$with(o, x, Range::Near)
                }
            )+
        }
    };
}
ranges!(sin sin_in cos cos_in tan tan_in);
