//! The scalar functions of fused steps, as loops over tiles.

use crate::dtype::{DType, Element};
use crate::isa::{by_isa, Isa, Level};
use crate::scalar::ops::Plain;
use crate::scalar::table::{binary_functions, unary_functions};
use crate::scalar::{functions, single, special};

/// Operands (unused ones null), result, length. Operands never overlap the result.
pub type Loop = unsafe fn(Isa, *const u8, *const u8, *const u8, *mut u8, usize);

pub trait Unary {
    type In: Copy;
    type Out: Copy;
    fn apply(a: Self::In) -> Self::Out;
}

pub trait Binary {
    type In: Copy;
    type Out: Copy;
    fn apply(a: Self::In, b: Self::In) -> Self::Out;
}

by_isa! { fn unary<O: Unary>(a: *const u8, out: *mut u8, n: usize) => unary_body }
by_isa! { fn binary<O: Binary>(a: *const u8, b: *const u8, out: *mut u8, n: usize) => binary_body }
by_isa! { fn choose<T: Copy>(c: *const u8, a: *const u8, b: *const u8, out: *mut u8, n: usize) => choose_body }

#[inline(always)]
unsafe fn unary_body<L: Level, O: Unary>(a: *const u8, out: *mut u8, n: usize) {
    unary_slices::<O>(slice(a, n), std::slice::from_raw_parts_mut(out.cast(), n));
}

// Slices as parameters tell the compiler that operands and result are apart.
#[inline(always)]
fn unary_slices<O: Unary>(a: &[O::In], out: &mut [O::Out]) {
    for (o, a) in out.iter_mut().zip(a) {
        *o = O::apply(*a);
    }
}

#[inline(always)]
unsafe fn binary_body<L: Level, O: Binary>(a: *const u8, b: *const u8, out: *mut u8, n: usize) {
    binary_slices::<O>(slice(a, n), slice(b, n), std::slice::from_raw_parts_mut(out.cast(), n));
}

#[inline(always)]
fn binary_slices<O: Binary>(a: &[O::In], b: &[O::In], out: &mut [O::Out]) {
    for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
        *o = O::apply(*a, *b);
    }
}

#[inline(always)]
unsafe fn choose_body<L: Level, T: Copy>(c: *const u8, a: *const u8, b: *const u8, out: *mut u8, n: usize) {
    choose_slices::<T>(slice(c, n), slice(a, n), slice(b, n), std::slice::from_raw_parts_mut(out.cast(), n));
}

#[inline(always)]
fn choose_slices<T: Copy>(c: &[u8], a: &[T], b: &[T], out: &mut [T]) {
    for (((o, c), a), b) in out.iter_mut().zip(c).zip(a).zip(b) {
        *o = if *c != 0 { *a } else { *b };
    }
}

#[inline(always)]
unsafe fn slice<'a, T>(ptr: *const u8, n: usize) -> &'a [T] {
    std::slice::from_raw_parts(ptr.cast(), n)
}

unsafe fn run_unary<O: Unary>(isa: Isa, a: *const u8, _: *const u8, _: *const u8, out: *mut u8, n: usize) {
    unary::<O>(isa, a, out, n)
}

unsafe fn run_binary<O: Binary>(isa: Isa, a: *const u8, b: *const u8, _: *const u8, out: *mut u8, n: usize) {
    binary::<O>(isa, a, b, out, n)
}

unsafe fn run_choose<T: Copy>(isa: Isa, c: *const u8, a: *const u8, b: *const u8, out: *mut u8, n: usize) {
    choose::<T>(isa, c, a, b, out, n)
}

macro_rules! one {
    ($in:ty => $out:ty, |$a:ident| $e:expr) => {{
        struct O;
        impl Unary for O {
            type In = $in;
            type Out = $out;
            #[inline(always)]
            fn apply($a: $in) -> $out {
                $e
            }
        }
        run_unary::<O> as Loop
    }};
}

macro_rules! two {
    ($in:ty => $out:ty, |$a:ident, $b:ident| $e:expr) => {{
        struct O;
        impl Binary for O {
            type In = $in;
            type Out = $out;
            #[inline(always)]
            fn apply($a: $in, $b: $in) -> $out {
                $e
            }
        }
        run_binary::<O> as Loop
    }};
}

/// Rows of the table as loops over one float type; `$single` picks between the two columns of functions.
macro_rules! float_unary {
    ([$name:ident f32] steps { $($s:literal $sf:ident)* } single { $($o:literal $of:ident $od:path;)* }
     library { $($l:literal $lf:path, $ld:path;)* } conditions { $($c:literal $cf:ident)* }) => {
        float_unary!(@ $name f32 [$($s functions::$sf)* $($o single::$of)*] [$($l $lf;)*] [$($c $cf)*])
    };
    ([$name:ident f64] steps { $($s:literal $sf:ident)* } single { $($o:literal $of:ident $od:path;)* }
     library { $($l:literal $lf:path, $ld:path;)* } conditions { $($c:literal $cf:ident)* }) => {
        float_unary!(@ $name f64 [$($s functions::$sf)*] [$($o $od;)* $($l $ld;)*] [$($c $cf)*])
    };
    (@ $name:ident $t:ident [$($s:literal $m:ident::$sf:ident)*] [$($l:literal $lf:path;)*] [$($c:literal $cf:ident)*]) => {
        match $name {
            $($s => one!($t => $t, |a| $m::$sf(&mut Plain::<$t>::new(), a)),)*
            $($l => one!($t => $t, |a| $lf(a)),)*
            $($c => one!($t => u8, |a| u8::from(functions::$cf(&mut Plain::<$t>::new(), a))),)*
            _ => return None,
        }
    };
}

pub fn find_unary(name: &str, dtype: DType) -> Option<Loop> {
    Some(match dtype {
        DType::F32 => unary_functions!(float_unary name f32),
        DType::F64 => unary_functions!(float_unary name f64),
        DType::I32 => match name {
            "neg" => one!(i32 => i32, |a| a.wrapping_neg()),
            "abs" => one!(i32 => i32, |a| a.wrapping_abs()),
            "sign" => one!(i32 => i32, |a| a.signum()),
            "not" => one!(i32 => i32, |a| !a),
            "popcount" => one!(i32 => i32, |a| a.count_ones() as i32),
            "countLeadingZeros" => one!(i32 => i32, |a| a.leading_zeros() as i32),
            _ => return None,
        },
        DType::U32 => match name {
            "neg" => one!(u32 => u32, |a| a.wrapping_neg()),
            "abs" => one!(u32 => u32, |a| a),
            "sign" => one!(u32 => u32, |a| u32::from(a != 0)),
            "not" => one!(u32 => u32, |a| !a),
            "popcount" => one!(u32 => u32, |a| a.count_ones() as u32),
            "countLeadingZeros" => one!(u32 => u32, |a| a.leading_zeros() as u32),
            _ => return None,
        },
        DType::U8 => match name {
            "neg" => one!(u8 => u8, |a| a.wrapping_neg()),
            "abs" => one!(u8 => u8, |a| a),
            "sign" => one!(u8 => u8, |a| u8::from(a != 0)),
            "not" => one!(u8 => u8, |a| !a),
            "popcount" => one!(u8 => u8, |a| a.count_ones() as u8),
            "countLeadingZeros" => one!(u8 => u8, |a| a.leading_zeros() as u8),
            _ => return None,
        },
        DType::Bool => match name {
            "not" => one!(u8 => u8, |a| u8::from(a == 0)),
            _ => return None,
        },
    })
}

macro_rules! float_binary {
    ([$name:ident $t:ident $pow:path, $atan2:path, $polygamma:path] steps { $($s:literal $sf:ident)* } library { $($l:literal)* } conditions { $($c:literal $cf:ident)* }) => {
        match $name {
            $($s => two!($t => $t, |a, b| functions::$sf(&mut Plain::<$t>::new(), a, b)),)*
            "rem" => two!($t => $t, |a, b| a % b),
            "pow" => two!($t => $t, |a, b| $pow(a, b)),
            "atan2" => two!($t => $t, |a, b| $atan2(a, b)),
            "polygamma" => two!($t => $t, |a, b| $polygamma(a, b)),
            _ => return None,
        }
    };
}

/// Rows of the table whose result is a condition.
macro_rules! float_compare {
    ([$name:ident $t:ident] steps { $($s:literal $sf:ident)* } library { $($l:literal)* } conditions { $($c:literal $cf:ident)* }) => {
        match $name {
            $($c => two!($t => u8, |a, b| u8::from(functions::$cf(&mut Plain::<$t>::new(), a, b))),)*
            _ => return None,
        }
    };
}

macro_rules! int_binary {
    ($name:expr, $t:ident, $signed:ident, $unsigned:ident, $bits:expr, |$a:ident, $s:ident| $right:expr) => {
        match $name {
            "add" => two!($t => $t, |a, b| a.wrapping_add(b)),
            "sub" => two!($t => $t, |a, b| a.wrapping_sub(b)),
            "mul" => two!($t => $t, |a, b| a.wrapping_mul(b)),
            // Zero divisors are refused before; 1 keeps the loop free of panics.
            "div" => two!($t => $t, |a, b| a.wrapping_div(if b == 0 { 1 } else { b })),
            "rem" => two!($t => $t, |a, b| a.wrapping_rem(if b == 0 { 1 } else { b })),
            "pow" => two!($t => $t, |a, b| int_pow(a as i64, b as i64) as $t),
            "max" => two!($t => $t, |a, b| a.max(b)),
            "min" => two!($t => $t, |a, b| a.min(b)),
            "and" => two!($t => $t, |a, b| a & b),
            "or" => two!($t => $t, |a, b| a | b),
            "xor" => two!($t => $t, |a, b| a ^ b),
            "shiftLeft" => two!($t => $t, |a, b| if (b as u32) < $bits { a << (b as u32 % $bits) } else { 0 }),
            "shiftRight" => two!($t => $t, |$a, b| {
                let $s = b as u32;
                $right
            }),
            "shiftRightLogical" => two!($t => $t, |a, b| {
                if (b as u32) < $bits { ((a as $unsigned) >> (b as u32 % $bits)) as $t } else { 0 }
            }),
            "shiftRightArithmetic" => two!($t => $t, |a, b| ((a as $signed) >> (b as u32).min($bits - 1)) as $t),
            _ => return None,
        }
    };
}

/// Wraps; a negative exponent gives the truncated quotient.
fn int_pow(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    base.wrapping_pow(exponent.min(u32::MAX as i64) as u32)
}

pub fn find_binary(name: &str, dtype: DType) -> Option<Loop> {
    Some(match dtype {
        DType::F32 => binary_functions!(float_binary name f32 libm::powf, libm::atan2f, special::polygamma32),
        DType::F64 => binary_functions!(float_binary name f64 libm::pow, libm::atan2, special::polygamma),
        DType::I32 => int_binary!(name, i32, i32, u32, 32, |a, s| a >> s.min(31)),
        DType::U32 => int_binary!(name, u32, i32, u32, 32, |a, s| if s < 32 { a >> (s % 32) } else { 0 }),
        DType::U8 => int_binary!(name, u8, i8, u8, 8, |a, s| if s < 8 { a >> (s % 8) } else { 0 }),
        DType::Bool => match name {
            "max" | "or" => two!(u8 => u8, |a, b| u8::from((a | b) != 0)),
            "min" | "and" | "mul" => two!(u8 => u8, |a, b| u8::from(a != 0 && b != 0)),
            "xor" => two!(u8 => u8, |a, b| u8::from((a != 0) != (b != 0))),
            _ => return None,
        },
    })
}

macro_rules! compare {
    ($name:expr, $t:ident) => {
        match $name {
            "eq" => two!($t => u8, |a, b| u8::from(a == b)),
            "ne" => two!($t => u8, |a, b| u8::from(a != b)),
            "lt" => two!($t => u8, |a, b| u8::from(a < b)),
            "le" => two!($t => u8, |a, b| u8::from(a <= b)),
            "gt" => two!($t => u8, |a, b| u8::from(a > b)),
            "ge" => two!($t => u8, |a, b| u8::from(a >= b)),
            _ => return None,
        }
    };
}

pub fn find_comparison(name: &str, dtype: DType) -> Option<Loop> {
    Some(match dtype {
        DType::F32 => binary_functions!(float_compare name f32),
        DType::F64 => binary_functions!(float_compare name f64),
        DType::I32 => compare!(name, i32),
        DType::U32 => compare!(name, u32),
        DType::U8 | DType::Bool => compare!(name, u8),
    })
}

macro_rules! cast_to {
    ($to:expr, $from:ident) => {
        match $to {
            DType::F32 => one!($from => f32, |a| a as f32),
            DType::F64 => one!($from => f64, |a| a as f64),
            DType::I32 => one!($from => i32, |a| a as i32),
            DType::U32 => one!($from => u32, |a| a as u32),
            DType::U8 => one!($from => u8, |a| a as u8),
            DType::Bool => one!($from => u8, |a| u8::from(a != $from::ZERO)),
        }
    };
}

pub fn cast(from: DType, to: DType) -> Loop {
    match from {
        DType::F32 => cast_to!(to, f32),
        DType::F64 => cast_to!(to, f64),
        DType::I32 => cast_to!(to, i32),
        DType::U32 => cast_to!(to, u32),
        DType::U8 | DType::Bool => cast_to!(to, u8),
    }
}

pub fn select(dtype: DType) -> Loop {
    match dtype.size() {
        8 => run_choose::<u64>,
        4 => run_choose::<u32>,
        _ => run_choose::<u8>,
    }
}

/// Whether any of `n` integers is zero.
pub(super) unsafe fn any_zero(dtype: DType, ptr: *const u8, n: usize) -> bool {
    match dtype.size() {
        4 => slice::<u32>(ptr, n).contains(&0),
        _ => slice::<u8>(ptr, n).contains(&0),
    }
}
