//! The scalar functions of fused steps, as loops over tiles.

use heddle_half::{Bf16, Half, Odd, F16};

use crate::dtype::{for_bits, for_size, DType, Element};
use crate::isa::{by_isa, Isa, Level};
use crate::scalar::ops::Plain;
use crate::scalar::table::{binary_functions, unary_functions};
use crate::scalar::{functions, special, trigonometric};

/// Operands (unused ones null), result, length. Operands never overlap the result.
pub type Loop = unsafe fn(Isa, *const u8, *const u8, *const u8, *mut u8, usize);

pub trait Unary {
    type In: Element;
    type Out: Element;
    fn apply(a: Self::In) -> Self::Out;

    /// Whether `apply_near` gives the same bits in fewer steps for numbers that are near.
    const NEAR: bool = false;

    #[inline(always)]
    fn is_near(_: Self::In) -> bool {
        false
    }

    #[inline(always)]
    fn apply_near(a: Self::In) -> Self::Out {
        Self::apply(a)
    }
}

pub trait Binary {
    type In: Element;
    type Out: Element;
    fn apply(a: Self::In, b: Self::In) -> Self::Out;
}

by_isa! {
    fn unary<O: Unary>(a: *const u8, out: *mut u8, n: usize) => unary_body, wide if O::In::WIDE && O::Out::WIDE
}
by_isa! {
    fn binary<O: Binary>(a: *const u8, b: *const u8, out: *mut u8, n: usize) => binary_body,
    wide if O::In::WIDE && O::Out::WIDE
}
by_isa! {
    fn choose<T: Copy>(c: *const u8, a: *const u8, b: *const u8, out: *mut u8, n: usize) => choose_body,
    wide if size_of::<T>() == size_of::<f32>()
}

#[inline(always)]
unsafe fn unary_body<L: Level, O: Unary>(a: *const u8, out: *mut u8, n: usize) {
    unary_slices::<O>(slice(a, n), std::slice::from_raw_parts_mut(out.cast(), n));
}

// Slices as parameters tell the compiler that operands and result are apart.
#[inline(always)]
fn unary_slices<O: Unary>(a: &[O::In], out: &mut [O::Out]) {
    // Without an early end, so that the test takes vectors.
    if O::NEAR && a.iter().fold(true, |near, a| near & O::is_near(*a)) {
        for (o, a) in out.iter_mut().zip(a) {
            *o = O::apply_near(*a);
        }
        return;
    }
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

/// A function with a shorter way for tiles whose numbers are all near.
macro_rules! periodic {
    ($t:ident $name:ident) => {{
        struct O;
        impl Unary for O {
            type In = $t;
            type Out = $t;
            const NEAR: bool = true;
            #[inline(always)]
            fn apply(a: $t) -> $t {
                functions::$name(&mut Plain::<$t>::new(), a)
            }
            #[inline(always)]
            fn is_near(a: $t) -> bool {
                trigonometric::is_near(&mut Plain::<$t>::new(), a)
            }
            #[inline(always)]
            fn apply_near(a: $t) -> $t {
                trigonometric::near::$name(&mut Plain::<$t>::new(), a)
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

/// Rows of the table as loops over one float type.
macro_rules! float_unary {
    ([$name:ident $t:ident] steps { $($s:literal $sf:ident)* } periodic { $($p:literal $pf:ident)* }
     conditions { $($c:literal $cf:ident)* }) => {
        match $name {
            $($s => one!($t => $t, |a| functions::$sf(&mut Plain::<$t>::new(), a)),)*
            $($p => periodic!($t $pf),)*
            $($c => one!($t => u8, |a| u8::from(functions::$cf(&mut Plain::<$t>::new(), a))),)*
            _ => return None,
        }
    };
}

/// Functions that give the same bits for signed and unsigned integers.
macro_rules! wrapping_unary {
    ($name:expr, $t:ident) => {
        match $name {
            "neg" => Some(one!($t => $t, |a| a.wrapping_neg())),
            "not" => Some(one!($t => $t, |a| !a)),
            "popcount" => Some(one!($t => $t, |a| a.count_ones() as $t)),
            "countLeadingZeros" => Some(one!($t => $t, |a| a.leading_zeros() as $t)),
            _ => None,
        }
    };
}

macro_rules! signed_unary {
    ($name:expr, $t:ident) => {
        match $name {
            "abs" => one!($t => $t, |a| a.wrapping_abs()),
            "sign" => one!($t => $t, |a| a.signum()),
            _ => return None,
        }
    };
}

macro_rules! unsigned_unary {
    ($name:expr, $t:ident) => {
        match $name {
            "abs" => one!($t => $t, |a| a),
            "sign" => one!($t => $t, |a| $t::from(a != 0)),
            _ => return None,
        }
    };
}

fn find_wrapping_unary(name: &str, dtype: DType) -> Option<Loop> {
    match dtype {
        DType::I32 | DType::U32 => wrapping_unary!(name, u32),
        DType::I8 | DType::U8 => wrapping_unary!(name, u8),
        DType::I64 | DType::U64 => wrapping_unary!(name, u64),
        _ => None,
    }
}

pub fn find_unary(name: &str, dtype: DType) -> Option<Loop> {
    if let Some(found) = find_wrapping_unary(name, dtype) {
        return Some(found);
    }
    Some(match dtype {
        DType::F32 => unary_functions!(float_unary name f32),
        DType::F64 => unary_functions!(float_unary name f64),
        DType::I32 => signed_unary!(name, i32),
        DType::U32 => unsigned_unary!(name, u32),
        DType::U8 => unsigned_unary!(name, u8),
        DType::I8 => signed_unary!(name, i8),
        DType::I64 => signed_unary!(name, i64),
        DType::U64 => unsigned_unary!(name, u64),
        // Kernels compute nothing in 16-bit floats.
        DType::F16 | DType::Bf16 => return None,
        DType::Bool => match name {
            "not" => one!(u8 => u8, |a| u8::from(a == 0)),
            _ => return None,
        },
    })
}

macro_rules! float_binary {
    ([$name:ident $t:ident $polygamma:path] steps { $($s:literal $sf:ident)* } library { $($l:literal)* } conditions { $($c:literal $cf:ident)* }) => {
        match $name {
            $($s => two!($t => $t, |a, b| functions::$sf(&mut Plain::<$t>::new(), a, b)),)*
            "rem" => two!($t => $t, |a, b| a % b),
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

/// Functions that give the same bits for signed and unsigned integers.
macro_rules! wrapping_binary {
    ($name:expr, $t:ident, $signed:ident, $wide:ident) => {
        match $name {
            "add" => Some(two!($t => $t, |a, b| a.wrapping_add(b))),
            "sub" => Some(two!($t => $t, |a, b| a.wrapping_sub(b))),
            "mul" => Some(two!($t => $t, |a, b| a.wrapping_mul(b))),
            "and" => Some(two!($t => $t, |a, b| a & b)),
            "or" => Some(two!($t => $t, |a, b| a | b)),
            "xor" => Some(two!($t => $t, |a, b| a ^ b)),
            // Negative amounts count as large ones.
            "shiftLeft" => Some(two!($t => $t, |a, b| {
                let by = b as $signed as $wide;
                if by < $t::BITS as $wide { a << (by % $t::BITS as $wide) } else { 0 }
            })),
            "shiftRightLogical" => Some(two!($t => $t, |a, b| {
                let by = b as $signed as $wide;
                if by < $t::BITS as $wide { a >> (by % $t::BITS as $wide) } else { 0 }
            })),
            "shiftRightArithmetic" => Some(two!($t => $t, |a, b| {
                (a as $signed >> (b as $signed as $wide).min($t::BITS as $wide - 1)) as $t
            })),
            _ => None,
        }
    };
}

macro_rules! int_binary {
    ($name:expr, $t:ident) => {
        match $name {
            // Zero divisors are refused before; 1 keeps the loop free of panics.
            "div" => two!($t => $t, |a, b| a.wrapping_div(if b == 0 { 1 } else { b })),
            "rem" => two!($t => $t, |a, b| a.wrapping_rem(if b == 0 { 1 } else { b })),
            "pow" => two!($t => $t, |a, b| int_pow(i128::from(a), i128::from(b)) as $t),
            "max" => two!($t => $t, |a, b| a.max(b)),
            "min" => two!($t => $t, |a, b| a.min(b)),
            _ => return None,
        }
    };
}

fn find_wrapping_binary(name: &str, dtype: DType) -> Option<Loop> {
    let name = match (name, dtype) {
        ("shiftRight", DType::I32 | DType::I8 | DType::I64) => "shiftRightArithmetic",
        ("shiftRight", _) => "shiftRightLogical",
        _ => name,
    };
    match dtype {
        DType::I32 | DType::U32 => wrapping_binary!(name, u32, i32, u32),
        DType::I8 | DType::U8 => wrapping_binary!(name, u8, i8, u32),
        DType::I64 | DType::U64 => wrapping_binary!(name, u64, i64, u64),
        _ => None,
    }
}

/// Wraps around; a negative exponent gives the truncated quotient.
#[inline(never)]
fn int_pow(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    // By squares: the exponent may have 64 bits.
    let (mut result, mut square, mut rest) = (1i128, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

pub fn find_binary(name: &str, dtype: DType) -> Option<Loop> {
    if let Some(found) = find_wrapping_binary(name, dtype) {
        return Some(found);
    }
    Some(match dtype {
        DType::F32 => binary_functions!(float_binary name f32 special::polygamma32),
        DType::F64 => binary_functions!(float_binary name f64 special::polygamma),
        DType::I32 => int_binary!(name, i32),
        DType::U32 => int_binary!(name, u32),
        DType::U8 => int_binary!(name, u8),
        DType::I8 => int_binary!(name, i8),
        DType::I64 => int_binary!(name, i64),
        DType::U64 => int_binary!(name, u64),
        DType::F16 | DType::Bf16 => return None,
        DType::Bool => match name {
            "max" | "or" => two!(u8 => u8, |a, b| u8::from((a | b) != 0)),
            "min" | "and" | "mul" => two!(u8 => u8, |a, b| u8::from(a != 0 && b != 0)),
            "xor" => two!(u8 => u8, |a, b| u8::from((a != 0) != (b != 0))),
            _ => return None,
        },
    })
}

macro_rules! equality {
    ($name:expr, $t:ident) => {
        match $name {
            "eq" => Some(two!($t => u8, |a, b| u8::from(a == b))),
            "ne" => Some(two!($t => u8, |a, b| u8::from(a != b))),
            _ => None,
        }
    };
}

/// Equal bits are equal integers.
fn find_equality(name: &str, dtype: DType) -> Option<Loop> {
    match dtype {
        DType::I32 | DType::U32 => equality!(name, u32),
        DType::I8 | DType::U8 | DType::Bool => equality!(name, u8),
        DType::I64 | DType::U64 => equality!(name, u64),
        _ => None,
    }
}

macro_rules! order {
    ($name:expr, $t:ident) => {
        match $name {
            "lt" => two!($t => u8, |a, b| u8::from(a < b)),
            "le" => two!($t => u8, |a, b| u8::from(a <= b)),
            "gt" => two!($t => u8, |a, b| u8::from(a > b)),
            "ge" => two!($t => u8, |a, b| u8::from(a >= b)),
            _ => return None,
        }
    };
}

pub fn find_comparison(name: &str, dtype: DType) -> Option<Loop> {
    if let Some(found) = find_equality(name, dtype) {
        return Some(found);
    }
    Some(match dtype {
        DType::F32 => binary_functions!(float_compare name f32),
        DType::F64 => binary_functions!(float_compare name f64),
        DType::I32 => order!(name, i32),
        DType::U32 => order!(name, u32),
        DType::U8 | DType::Bool => order!(name, u8),
        DType::I8 => order!(name, i8),
        DType::I64 => order!(name, i64),
        DType::U64 => order!(name, u64),
        DType::F16 | DType::Bf16 => return None,
    })
}

/// `$read` gives the number of an element, of type `$number`; `$integer` casts to a dtype of integers.
macro_rules! cast_to {
    ($to:expr, $from:ident, $number:ident, |$a:ident| $read:expr, |$dtype:ident| $integer:expr) => {
        match $to {
            DType::F32 => one!($from => f32, |$a| $read as f32),
            DType::F64 => one!($from => f64, |$a| $read as f64),
            DType::F16 => one!($from => u16, |$a| F16::narrow($read.odd()).bits()),
            DType::Bf16 => one!($from => u16, |$a| Bf16::narrow($read.odd()).bits()),
            DType::Bool => one!($from => u8, |$a| u8::from($read != $number::ZERO)),
            $dtype => $integer,
        }
    };
}

/// Casts of floats to integers saturate.
macro_rules! float_cast {
    ($to:expr, $from:ident, $number:ident, |$a:ident| $read:expr) => {
        cast_to!($to, $from, $number, |$a| $read, |to| match to {
            DType::I32 => one!($from => i32, |$a| $read as i32),
            DType::U32 => one!($from => u32, |$a| $read as u32),
            DType::I8 => one!($from => i8, |$a| $read as i8),
            DType::I64 => one!($from => i64, |$a| $read as i64),
            DType::U64 => one!($from => u64, |$a| $read as u64),
            _ => one!($from => u8, |$a| $read as u8),
        })
    };
}

/// Integers keep their low bits, whatever the sign of the new type.
macro_rules! integer_cast {
    ($to:expr, $from:ident) => {
        cast_to!($to, $from, $from, |a| a, |to| match to.size() {
            8 => one!($from => u64, |a| a as u64),
            4 => one!($from => u32, |a| a as u32),
            _ => one!($from => u8, |a| a as u8),
        })
    };
}

pub fn cast(from: DType, to: DType) -> Loop {
    match from {
        DType::F32 => float_cast!(to, f32, f32, |a| a),
        DType::F64 => float_cast!(to, f64, f64, |a| a),
        DType::I32 => integer_cast!(to, i32),
        DType::U32 => integer_cast!(to, u32),
        DType::U8 | DType::Bool => integer_cast!(to, u8),
        DType::I8 => integer_cast!(to, i8),
        DType::I64 => integer_cast!(to, i64),
        DType::U64 => integer_cast!(to, u64),
        DType::F16 | DType::Bf16 if to == from => one!(u16 => u16, |a| a),
        DType::F16 => float_cast!(to, u16, f32, |a| F16::of_bits(a).wide()),
        DType::Bf16 => float_cast!(to, u16, f32, |a| Bf16::of_bits(a).wide()),
    }
}

pub fn select(dtype: DType) -> Loop {
    for_size!(dtype.size(), T => run_choose::<T>)
}

/// Whether any of `n` integers is zero.
pub(super) unsafe fn any_zero(dtype: DType, ptr: *const u8, n: usize) -> bool {
    for_bits!(dtype, T => slice::<T>(ptr, n).contains(&0))
}
