//! Conversions between dtypes, in vector operations.

use super::value::{Builder, Compare, Do, Id, Kind, Lanes};
use crate::dtype::DType;
use crate::scalar::ops::Ops;

/// Casts a value to another dtype; `None` where no instruction does that.
pub fn cast(b: &mut Builder, from: DType, to: DType, x: Id) -> Option<Id> {
    use DType::{Bf16, Bool, F16, F32, F64, I32, I64, I8, U32, U64, U8};
    Some(match (from, to) {
        _ if from == to => x,
        (I32, U32) | (U32, I32) | (U8, I32 | U32) | (I64, U64) | (U64, I64) | (U8, I8) | (I8, U8) => x,
        (I8, I32 | U32) => sign_extended(b, from, x),
        (I32 | U32, I8 | U8) => low_byte(b, x),
        (U8 | I32, F32) => b.push(Do::ToFloat, Kind::Word, &[x]),
        (I8, F32) => {
            let x = sign_extended(b, from, x);
            b.push(Do::ToFloat, Kind::Word, &[x])
        }
        (F32, I8 | U8) => {
            let (low, high) = if to == U8 { (0i32, 255) } else { (-128, 127) };
            let whole = to_integer(b, x);
            let (low, high) = (b.constant(u64::from(low as u32), Kind::Word), b.constant(high, Kind::Word));
            let above = b.push(Do::Larger, Kind::Word, &[whole, low]);
            let within = b.push(Do::Smaller, Kind::Word, &[above, high]);
            low_byte(b, within)
        }
        (F16, F32) => b.push(Do::FromHalf, Kind::Word, &[x]),
        (F32, F16) => b.push(Do::ToHalf, Kind::Word, &[x]),
        (Bf16, F32) => b.push(Do::ShiftLeft(16), Kind::Word, &[x]),
        (F32, Bf16) => to_bf16(b, x),
        (F16 | Bf16, _) => {
            let wide = cast(b, from, F32, x)?;
            cast(b, F32, to, wide)?
        }
        // Exact in f32, so that it is rounded once.
        (U8 | I8 | Bool, F16 | Bf16) => {
            let wide = cast(b, from, F32, x)?;
            cast(b, F32, to, wide)?
        }
        (I32 | U32 | U8 | I8, Bool) => {
            let zero = b.constant(0, Kind::Word);
            let same = b.push(Do::CompareInt(Compare::Equal), Kind::Mask, &[x, zero]);
            b.opposite(same)
        }
        (F32, Bool) => {
            let mut o = Lanes::<f32>::new(b, Kind::Word);
            let zero = o.number(0.0);
            o.unequal(x, zero)
        }
        (Bool, F32 | I32 | U32 | U8 | I8) => {
            let bits = if to == F32 { u64::from(1f32.to_bits()) } else { 1 };
            let (one, zero) = (b.constant(bits, Kind::Word), b.constant(0, Kind::Word));
            b.push(Do::Select, Kind::Word, &[x, one, zero])
        }
        (Bool, F64) => {
            let (one, zero) = (b.constant(1f64.to_bits(), Kind::Long), b.constant(0, Kind::Long));
            b.push(Do::Select, Kind::Long, &[x, one, zero])
        }
        (F32, I32) => to_integer(b, x),
        (F32, F64) => b.push(Do::Widen, Kind::Long, &[x]),
        (F64, F32) => b.push(Do::Narrow, Kind::Word, &[x]),
        _ => return None,
    })
}

/// To nearest even; NaN stays NaN and is quiet.
fn to_bf16(b: &mut Builder, x: Id) -> Id {
    let (one, most, quiet) =
        (b.constant(1, Kind::Word), b.constant(0x7fff, Kind::Word), b.constant(0x40_0000, Kind::Word));
    let high = b.push(Do::ShiftRight(16), Kind::Word, &[x]);
    let odd = b.push(Do::And, Kind::Word, &[high, one]);
    let up = b.push(Do::Plus, Kind::Word, &[x, most]);
    let rounded = b.push(Do::Plus, Kind::Word, &[up, odd]);
    let nan = b.push(Do::Or, Kind::Word, &[x, quiet]);
    let undefined = b.push(Do::Compare(Compare::Unequal), Kind::Mask, &[x, x]);
    let chosen = b.push(Do::Select, Kind::Word, &[undefined, nan, rounded]);
    b.push(Do::ShiftRight(16), Kind::Word, &[chosen])
}

/// Truncates and saturates; NaN gives 0. The instruction itself gives the lowest integer for numbers out of range.
fn to_integer(b: &mut Builder, x: Id) -> Id {
    let plain = b.push(Do::ToInt, Kind::Word, &[x]);
    let (highest, zero) = (b.constant(0x7fff_ffff, Kind::Word), b.constant(0, Kind::Word));
    let mut o = Lanes::<f32>::new(b, Kind::Word);
    let limit = o.number(2_147_483_648.0);
    let above = o.less_equal(limit, x);
    let fitted = o.select(above, highest, plain);
    let undefined = o.unequal(x, x);
    o.select(undefined, zero, fitted)
}

/// Extends the sign of an i8; other dtypes stay as they are.
pub fn sign_extended(b: &mut Builder, dtype: DType, x: Id) -> Id {
    if dtype != DType::I8 {
        return x;
    }
    let by = b.constant(24, Kind::Word);
    let high = b.push(Do::ShiftLeft(24), Kind::Word, &[x]);
    b.push(Do::ShiftSignedBy, Kind::Word, &[high, by])
}

pub fn low_byte(b: &mut Builder, x: Id) -> Id {
    let low = b.constant(0xff, Kind::Word);
    b.push(Do::And, Kind::Word, &[x, low])
}
