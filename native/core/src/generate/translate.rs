//! From the instructions of a fused group to vector operations; what has none is left to the interpreter.

use super::kernel::{Graph, List, Target, View, HELD};
use super::value::{kind_of, Builder, Compare, Do, Id, Kind, Lanes};
use crate::dtype::DType;
use crate::scalar::functions;
use crate::scalar::ops::Ops;
use crate::scalar::table::{binary_functions, unary_functions};

/// A register of a group: where its value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Operand.
    Input(usize),
    Constant(u64),
    /// Name, registers.
    Compute(String, Vec<usize>),
}

/// What a generated kernel depends on; equal ones share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Description {
    pub views: Vec<View>,
    pub registers: Vec<(Instruction, DType)>,
    /// Operand and register of each output.
    pub outputs: Vec<(usize, usize)>,
}

/// Longer groups would fill the instruction cache.
const MAX_NODES: usize = 2000;

/// Longer bodies, of which a kernel with held registers has many copies, keep their lanes in memory.
const MAX_HELD_NODES: usize = 160;
const MAX_FOLDS: usize = 4;

/// The operations of a group. With AVX-512, lanes of a fold stay in registers where there are enough of them.
pub fn translate(description: &Description, wide: bool) -> Option<Graph> {
    let folds = description.views.iter().filter(|v| v.lanes.is_some()).count();
    if wide && (1..=MAX_FOLDS).contains(&folds) {
        let graph = write_down(description, wide, true)?;
        if !graph.long && graph.each.nodes.len() <= MAX_HELD_NODES {
            return Some(graph);
        }
    }
    write_down(description, wide, false)
}

fn write_down(description: &Description, wide: bool, hold: bool) -> Option<Graph> {
    let mut builder = Builder::new(wide);
    let mut values = Vec::with_capacity(description.registers.len());
    let held: Vec<usize> =
        (0..description.views.len()).filter(|v| hold && description.views[*v].lanes.is_some()).collect();
    let number = |operand: usize| held.iter().position(|o| *o == operand).map(|fold| fold * HELD);
    for (instruction, dtype) in &description.registers {
        let id = match instruction {
            Instruction::Input(operand) if number(*operand).is_some() => {
                builder.push(Do::Held(number(*operand).unwrap_or(0)), Kind::Word, &[])
            }
            Instruction::Input(operand) => input(&mut builder, *operand, description.views[*operand], *dtype),
            Instruction::Constant(bits) if *dtype == DType::Bool => {
                let all = builder.all_true();
                if *bits != 0 {
                    all
                } else {
                    builder.opposite(all)
                }
            }
            Instruction::Constant(bits) => builder.constant(*bits, kind_of(*dtype)),
            Instruction::Compute(name, inputs) => {
                let ids: Vec<Id> = inputs.iter().map(|i| values[*i]).collect();
                let from = inputs.first().map_or(*dtype, |i| description.registers[*i].1);
                compute(&mut builder, name, *dtype, from, &ids)?
            }
        };
        values.push(id);
    }
    let mut stores = Vec::new();
    for (operand, register) in &description.outputs {
        let mut id = values[*register];
        if description.registers[*register].1 == DType::Bool {
            let (one, zero) = (builder.constant(1, Kind::Word), builder.constant(0, Kind::Word));
            id = builder.push(Do::Select, Kind::Word, &[id, one, zero]);
        }
        stores.push((number(*operand).map_or(Target::Operand(*operand, 0), Target::Held), id));
    }
    let nodes = builder.nodes;
    let long = nodes.iter().any(|n| n.kind == Kind::Long) || description.views.iter().any(|v| v.dtype.size() == 8);
    // The lanes of AVX2 conditions have the width of what was compared.
    let narrow = nodes.iter().any(|n| n.kind == Kind::Word) || description.views.iter().any(|v| v.dtype.size() < 8);
    if (long && narrow && !wide) || nodes.len() > MAX_NODES {
        return None;
    }
    let last = together(description, &held, wide)?;
    let held = held.iter().filter_map(|operand| description.views[*operand].lanes).collect();
    Some(Graph { each: List { nodes, stores }, last, held, views: description.views.clone(), long })
}

/// The end of a row: the held registers of each fold combine by halves.
fn together(description: &Description, held: &[usize], wide: bool) -> Option<List> {
    let mut builder = Builder::new(wide);
    let mut stores = Vec::new();
    for (fold, operand) in held.iter().enumerate() {
        let (_, register) = description.outputs.iter().find(|(o, _)| o == operand)?;
        let (Instruction::Compute(name, _), dtype) = &description.registers[*register] else { return None };
        let mut lanes: Vec<Id> = (0..HELD).map(|i| builder.push(Do::Held(fold * HELD + i), Kind::Word, &[])).collect();
        while lanes.len() > 1 {
            let half = lanes.len() / 2;
            for i in 0..half {
                lanes[i] = compute(&mut builder, name, *dtype, *dtype, &[lanes[i], lanes[i + half]])?;
            }
            lanes.truncate(half);
        }
        stores.push((Target::Operand(*operand, 0), lanes[0]));
    }
    Some(List { nodes: builder.nodes, stores })
}

fn input(builder: &mut Builder, operand: usize, view: View, dtype: DType) -> Id {
    let kind = if dtype.size() == 8 { Kind::Long } else { Kind::Word };
    let what = if view.along { Do::Load(operand, 0) } else { Do::Row(operand) };
    let id = builder.push(what, kind, &[]);
    match dtype {
        DType::Bool => builder.truth(id),
        _ => id,
    }
}

fn compute(b: &mut Builder, name: &str, dtype: DType, from: DType, inputs: &[Id]) -> Option<Id> {
    match (name, inputs) {
        ("cast", [x]) => cast(b, from, dtype, *x),
        ("select", [c, x, y]) if dtype == DType::Bool => {
            let not = b.opposite(*c);
            let (x, y) = (b.push(Do::MaskAnd, Kind::Mask, &[*c, *x]), b.push(Do::MaskAnd, Kind::Mask, &[not, *y]));
            Some(b.push(Do::MaskOr, Kind::Mask, &[x, y]))
        }
        ("select", [c, x, y]) => Some(b.push(Do::Select, kind_of(dtype), &[*c, *x, *y])),
        (_, [x]) => match from {
            DType::F32 => float_unary(&mut Lanes::<f32>::new(b, Kind::Word), name, *x),
            DType::F64 => float_unary(&mut Lanes::<f64>::new(b, Kind::Long), name, *x),
            DType::I32 | DType::U32 | DType::I64 | DType::U64 => integer_unary(b, name, from, *x),
            DType::U8 | DType::I8 if matches!(name, "popcount" | "countLeadingZeros") => None,
            DType::U8 | DType::I8 => {
                let x = sign_extended(b, from, *x);
                let id = integer_unary(b, name, DType::I32, x)?;
                Some(low_byte(b, id))
            }
            DType::Bool if name == "not" => Some(b.opposite(*x)),
            _ => None,
        },
        (_, [x, y]) => match from {
            DType::F32 => float_binary(&mut Lanes::<f32>::new(b, Kind::Word), name, *x, *y),
            DType::F64 => float_binary(&mut Lanes::<f64>::new(b, Kind::Long), name, *x, *y),
            DType::I32 | DType::U32 | DType::I64 | DType::U64 => integer_binary(b, name, from, *x, *y),
            DType::U8 | DType::I8 => {
                // What is shifted, by its sign or without one.
                let of_x = match name {
                    "shiftRightArithmetic" => DType::I8,
                    "shiftRightLogical" => DType::U8,
                    _ => from,
                };
                let (x, y) = (sign_extended(b, of_x, *x), sign_extended(b, from, *y));
                let id = integer_binary(b, name, DType::I32, x, y)?;
                Some(if b.nodes[id].kind == Kind::Mask { id } else { low_byte(b, id) })
            }
            DType::Bool => condition_binary(b, name, *x, *y),
            DType::F16 | DType::Bf16 => None,
        },
        _ => None,
    }
}

macro_rules! unary_match {
    ([$o:ident $name:ident $x:ident] steps { $($s:literal $sf:ident)* } periodic { $($p:literal $pf:ident)* }
     conditions { $($c:literal $cf:ident)* }) => {
        match $name {
            $($s => Some(functions::$sf($o, $x)),)*
            $($p => Some(functions::$pf($o, $x)),)*
            $($c => Some(functions::$cf($o, $x)),)*
            _ => None,
        }
    };
}

macro_rules! binary_match {
    ([$o:ident $name:ident $x:ident $y:ident] steps { $($s:literal $sf:ident)* } library { $($l:literal)* }
     conditions { $($c:literal $cf:ident)* }) => {
        match $name {
            $($s => Some(functions::$sf($o, $x, $y)),)*
            $($c => Some(functions::$cf($o, $x, $y)),)*
            _ => None,
        }
    };
}

fn float_unary<'a, T>(o: &mut Lanes<'a, T>, name: &str, x: Id) -> Option<Id>
where
    Lanes<'a, T>: Ops<F = Id, M = Id, I = Id>,
{
    unary_functions!(unary_match o name x)
}

fn float_binary<'a, T>(o: &mut Lanes<'a, T>, name: &str, x: Id, y: Id) -> Option<Id>
where
    Lanes<'a, T>: Ops<F = Id, M = Id, I = Id>,
{
    if let Some(id) = extreme(o, name, x, y) {
        return Some(id);
    }
    binary_functions!(binary_match o name x y)
}

/// `max` and `min` with a constant need no care for NaN on both sides; zeros keep their signs in the same way.
fn extreme<'a, T>(o: &mut Lanes<'a, T>, name: &str, x: Id, y: Id) -> Option<Id>
where
    Lanes<'a, T>: Ops<F = Id, M = Id, I = Id>,
{
    let sign = <<Lanes<'a, T> as Ops>::N as crate::scalar::Family>::SIGN;
    let infinity = {
        let id = o.number(f64::INFINITY);
        o.builder.as_constant(id)?
    };
    let constant = |o: &Lanes<T>, id: Id| o.builder.as_constant(id).filter(|bits| bits & !sign <= infinity);
    let (x, y, bits) = match (constant(o, x), constant(o, y)) {
        (_, Some(bits)) => (x, y, bits),
        (Some(bits), _) => (y, x, bits),
        _ => return None,
    };
    match (name, bits) {
        // The larger of -0 and 0 is 0: adding it makes -0 that.
        ("max", 0) => {
            let r = o.greater(y, x);
            Some(o.add(r, y))
        }
        ("max", _) => Some(o.greater(y, x)),
        ("min", bits) if bits != sign => Some(o.lesser(y, x)),
        _ => None,
    }
}

/// An i8 as an i32; a u8 is one already.
fn sign_extended(b: &mut Builder, dtype: DType, x: Id) -> Id {
    if dtype != DType::I8 {
        return x;
    }
    let by = b.constant(24, Kind::Word);
    let high = b.push(Do::ShiftLeft(24), Kind::Word, &[x]);
    b.push(Do::ShiftSignedBy, Kind::Word, &[high, by])
}

fn low_byte(b: &mut Builder, x: Id) -> Id {
    let low = b.constant(0xff, Kind::Word);
    b.push(Do::And, Kind::Word, &[x, low])
}

fn integer_unary(b: &mut Builder, name: &str, dtype: DType, x: Id) -> Option<Id> {
    let kind = kind_of(dtype);
    let zero = b.constant(0, kind);
    Some(match (name, dtype) {
        ("neg", _) => b.push(Do::Minus, kind, &[zero, x]),
        ("not", _) => {
            let all = b.constant(if kind == Kind::Long { u64::MAX } else { 0xffff_ffff }, kind);
            b.push(Do::Xor, kind, &[x, all])
        }
        ("popcount", DType::I32 | DType::U32) => ones(b, x),
        ("countLeadingZeros", DType::I32 | DType::U32) => {
            // All bits below the highest one are set: what is left are the leading zeros.
            let mut filled = x;
            for by in [1, 2, 4, 8, 16] {
                let moved = b.push(Do::ShiftRight(by), Kind::Word, &[filled]);
                filled = b.push(Do::Or, Kind::Word, &[filled, moved]);
            }
            let all = b.constant(0xffff_ffff, Kind::Word);
            let rest = b.push(Do::Xor, Kind::Word, &[filled, all]);
            ones(b, rest)
        }
        ("abs", DType::U32 | DType::U64) => x,
        ("abs", DType::I32) => {
            let minus = b.push(Do::Minus, Kind::Word, &[zero, x]);
            // The lowest integer stays, as it does when wrapped.
            b.push(Do::Larger, Kind::Word, &[x, minus])
        }
        ("sign", DType::I32) => {
            let (one, minus) = (b.constant(1, Kind::Word), b.constant(0xffff_ffff, Kind::Word));
            let up = b.push(Do::Smaller, Kind::Word, &[x, one]);
            b.push(Do::Larger, Kind::Word, &[up, minus])
        }
        _ => return None,
    })
}

/// The number of bits that are set, by sums of neighbours (H. S. Warren, "Hacker's Delight", 5-1).
fn ones(b: &mut Builder, x: Id) -> Id {
    let masked = |b: &mut Builder, x: Id, mask: u64| {
        let mask = b.constant(mask, Kind::Word);
        b.push(Do::And, Kind::Word, &[x, mask])
    };
    let half = b.push(Do::ShiftRight(1), Kind::Word, &[x]);
    let half = masked(b, half, 0x5555_5555);
    let pairs = b.push(Do::Minus, Kind::Word, &[x, half]);
    let upper = b.push(Do::ShiftRight(2), Kind::Word, &[pairs]);
    let (upper, lower) = (masked(b, upper, 0x3333_3333), masked(b, pairs, 0x3333_3333));
    let fours = b.push(Do::Plus, Kind::Word, &[upper, lower]);
    let upper = b.push(Do::ShiftRight(4), Kind::Word, &[fours]);
    let bytes = b.push(Do::Plus, Kind::Word, &[fours, upper]);
    let bytes = masked(b, bytes, 0x0f0f_0f0f);
    let all = b.constant(0x0101_0101, Kind::Word);
    let sum = b.push(Do::Times, Kind::Word, &[bytes, all]);
    b.push(Do::ShiftRight(24), Kind::Word, &[sum])
}

fn integer_binary(b: &mut Builder, name: &str, dtype: DType, x: Id, y: Id) -> Option<Id> {
    let signed = matches!(dtype, DType::I32 | DType::I64);
    let kind = kind_of(dtype);
    // AVX2 has no such instructions for 8 bytes.
    let missing = matches!(name, "mul" | "max" | "min" | "shiftRight" | "shiftRightArithmetic" | "shiftRightLogical");
    if kind == Kind::Long && !b.wide && missing {
        return None;
    }
    let what = match name {
        "add" => Do::Plus,
        "sub" => Do::Minus,
        "mul" => Do::Times,
        "and" => Do::And,
        "or" => Do::Or,
        "xor" => Do::Xor,
        "max" if signed => Do::Larger,
        "max" => Do::LargerUnsigned,
        "min" if signed => Do::Smaller,
        "min" => Do::SmallerUnsigned,
        "shiftLeft" => Do::ShiftLeftBy,
        "shiftRightArithmetic" => Do::ShiftSignedBy,
        "shiftRightLogical" => Do::ShiftRightBy,
        "shiftRight" if signed => Do::ShiftSignedBy,
        "shiftRight" => Do::ShiftRightBy,
        _ => return integer_compare(b, name, signed, x, y),
    };
    Some(b.push(what, kind, &[x, y]))
}

fn integer_compare(b: &mut Builder, name: &str, signed: bool, x: Id, y: Id) -> Option<Id> {
    let (how, x, y) = match name {
        "eq" => (Compare::Equal, x, y),
        "ne" => (Compare::Unequal, x, y),
        "lt" => (Compare::Less, x, y),
        "le" => (Compare::LessEqual, x, y),
        "gt" => (Compare::Less, y, x),
        "ge" => (Compare::LessEqual, y, x),
        _ => return None,
    };
    if b.wide {
        let what = if signed { Do::CompareInt(how) } else { Do::CompareUnsigned(how) };
        return Some(b.push(what, Kind::Mask, &[x, y]));
    }
    // AVX2 knows "equal" and signed "greater" only.
    let kind = b.nodes[x].kind;
    let flip = b.constant(if kind == Kind::Long { 1 << 63 } else { 1 << 31 }, kind);
    let mut shifted = |id| if signed { id } else { b.push(Do::Xor, kind, &[id, flip]) };
    let (x, y) = (shifted(x), shifted(y));
    let (how, x, y, opposite) = match how {
        Compare::Unequal => (Compare::Equal, x, y, true),
        Compare::LessEqual => (Compare::Less, y, x, true),
        how => (how, x, y, false),
    };
    let id = b.push(Do::CompareInt(how), Kind::Mask, &[x, y]);
    Some(if opposite { b.opposite(id) } else { id })
}

fn condition_binary(b: &mut Builder, name: &str, x: Id, y: Id) -> Option<Id> {
    let both = |b: &mut Builder, x, y| b.push(Do::MaskAnd, Kind::Mask, &[x, y]);
    let either = |b: &mut Builder, x, y| b.push(Do::MaskOr, Kind::Mask, &[x, y]);
    Some(match name {
        "and" | "mul" | "min" => both(b, x, y),
        "or" | "max" => either(b, x, y),
        "xor" | "ne" => b.push(Do::MaskXor, Kind::Mask, &[x, y]),
        "eq" => {
            let differ = b.push(Do::MaskXor, Kind::Mask, &[x, y]);
            b.opposite(differ)
        }
        "lt" | "gt" => {
            let (x, y) = if name == "lt" { (x, y) } else { (y, x) };
            let not = b.opposite(x);
            both(b, not, y)
        }
        "le" | "ge" => {
            let (x, y) = if name == "le" { (x, y) } else { (y, x) };
            let not = b.opposite(x);
            either(b, not, y)
        }
        _ => return None,
    })
}

fn cast(b: &mut Builder, from: DType, to: DType, x: Id) -> Option<Id> {
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
    let kept = b.push(Do::Select, Kind::Word, &[undefined, nan, rounded]);
    b.push(Do::ShiftRight(16), Kind::Word, &[kept])
}

/// Truncates and saturates; NaN gives 0. The instruction gives the lowest integer for all that does not fit.
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
