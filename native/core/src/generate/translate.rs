//! Translates the instructions of a fused group to vector operations. The interpreter runs groups with other instructions.

use super::cast::{cast, low_byte, sign_extended};
use super::graph::{Graph, List, Target, View, HELD};
use super::value::{kind_of, Builder, Compare, Do, Id, Kind, Lanes};
use crate::dtype::DType;
use crate::scalar::functions;
use crate::scalar::ops::{Ops, Steps};
use crate::scalar::table::{binary_functions, unary_functions};
use crate::scalar::trigonometric::{self, near};

/// A register of a group: where its value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Operand.
    Input(usize),
    Constant(u64),
    /// Name, registers.
    Compute(String, Vec<usize>),
}

/// All that a generated kernel depends on; equal descriptions share a kernel.
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
    let held: Vec<usize> =
        (0..description.views.len()).filter(|v| hold && description.views[*v].lanes.is_some()).collect();
    let each = list(description, &held, Builder::new(wide))?;
    let nodes = &each.nodes;
    let long = nodes.iter().any(|n| n.kind == Kind::Long) || description.views.iter().any(|v| v.dtype.size() == 8);
    // The lanes of AVX2 conditions have the width of what was compared.
    let narrow = nodes.iter().any(|n| n.kind == Kind::Word) || description.views.iter().any(|v| v.dtype.size() < 8);
    if (long && narrow && !wide) || nodes.len() > MAX_NODES {
        return None;
    }
    let periodic = description.registers.iter().any(|(i, _)| matches!(i, Instruction::Compute(f, _) if is_periodic(f)));
    let near = match periodic {
        true => Some(list(description, &held, Builder::near(wide))?),
        false => None,
    };
    let last = together(description, &held, wide)?;
    let held = held.iter().filter_map(|operand| description.views[*operand].lanes).collect();
    Some(Graph { each, near, last, held, views: description.views.clone(), long })
}

/// What is done for one vector.
fn list(description: &Description, held: &[usize], mut builder: Builder) -> Option<List> {
    let mut values = Vec::with_capacity(description.registers.len());
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
    Some(List { nodes: builder.nodes, stores, leave: builder.far.into_iter().collect() })
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
    Some(List { nodes: builder.nodes, stores, leave: Vec::new() })
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
                // The shifted operand is extended with its sign or with zeros.
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
            $($p if $o.builder.near => {
                leave_out_far($o, $x);
                Some(near::$pf($o, $x))
            })*
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

macro_rules! periodic_match {
    ([$name:ident] steps { $($s:literal $sf:ident)* } periodic { $($p:literal $pf:ident)* }
     conditions { $($c:literal $cf:ident)* }) => {
        matches!($name, $($p)|*)
    };
}

fn is_periodic(name: &str) -> bool {
    unary_functions!(periodic_match name)
}

/// Makes iterations with numbers that are not near, NaN included, run the other list. The bits of magnitudes have their order.
fn leave_out_far<'a, T>(o: &mut Lanes<'a, T>, x: Id)
where
    Lanes<'a, T>: Ops<F = Id, M = Id, I = Id>,
{
    let a = o.magnitude(x);
    let end = o.number(trigonometric::near_end::<<Lanes<'a, T> as Ops>::N>());
    let last = o.builder.as_constant(end).map_or(0, |bits| bits - 1);
    let last = o.integer(last);
    let far = o.builder.push(Do::CompareInt(Compare::Less), Kind::Mask, &[last, a]);
    o.builder.leave_out(far);
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
        // The larger of -0 and 0 is 0: adding 0 turns -0 into 0.
        ("max", 0) => {
            let r = o.greater(y, x);
            Some(o.add(r, y))
        }
        ("max", _) => Some(o.greater(y, x)),
        ("min", bits) if bits != sign => Some(o.lesser(y, x)),
        _ => None,
    }
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
            // The lowest integer stays, as its negation wraps.
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
