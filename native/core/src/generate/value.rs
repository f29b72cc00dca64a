//! A group as a list of vector operations, in the order in which they will run.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::scalar::ops::{Ops, Rounding};

/// A value: its place in the list.
pub type Id = usize;

/// The lanes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Of 4 bytes: f32, i32, u32, and the bits of narrower values with zeros above them.
    Word,
    /// Of 8 bytes.
    Long,
    /// Conditions: mask registers with AVX-512, lanes of all ones with AVX2.
    Mask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    Equal,
    Unequal,
    Less,
    LessEqual,
}

/// What one instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Do {
    /// The same bits in all lanes.
    Constant(u64),
    /// Loads a vector of an operand, by the number of the vector in an unrolled copy.
    Load(usize, usize),
    /// The value of an operand that has one value per row.
    Row(usize),
    /// A held register, which keeps its value from iteration to iteration, by number; later vectors of an iteration use the next numbers.
    Held(usize),
    Add,
    Sub,
    Mul,
    Div,
    Sqrt,
    Fma,
    Lesser,
    Greater,
    Round(Rounding),
    Scale,
    Compare(Compare),
    Select,
    And,
    Or,
    Xor,
    Plus,
    Minus,
    Times,
    ShiftLeft(u8),
    ShiftRight(u8),
    ShiftLeftBy,
    ShiftRightBy,
    ShiftSignedBy,
    Smaller,
    Larger,
    SmallerUnsigned,
    LargerUnsigned,
    /// Comparisons of integers; AVX2 has only some of them.
    CompareInt(Compare),
    CompareUnsigned(Compare),
    ToFloat,
    ToInt,
    Widen,
    Narrow,
    /// From and to the bits of f16.
    FromHalf,
    ToHalf,
    MaskAnd,
    MaskOr,
    MaskXor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub what: Do,
    pub kind: Kind,
    pub inputs: [Id; 3],
    pub arity: usize,
}

/// Collects operations; equal ones become one.
#[derive(Default)]
pub struct Builder {
    pub nodes: Vec<Node>,
    known: HashMap<Node, Id>,
    /// Whether the processor has AVX-512.
    pub wide: bool,
    /// Whether functions are written for near numbers only.
    pub near: bool,
    /// The condition that a number is not near.
    pub far: Option<Id>,
}

impl Builder {
    pub fn new(wide: bool) -> Builder {
        Builder { wide, ..Builder::default() }
    }

    /// A builder that writes functions for near numbers alone.
    pub fn near(wide: bool) -> Builder {
        Builder { wide, near: true, ..Builder::default() }
    }

    pub fn push(&mut self, what: Do, kind: Kind, inputs: &[Id]) -> Id {
        let mut padded = [0; 3];
        padded[..inputs.len()].copy_from_slice(inputs);
        let node = Node { what, kind, inputs: padded, arity: inputs.len() };
        *self.known.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    pub fn constant(&mut self, bits: u64, kind: Kind) -> Id {
        self.push(Do::Constant(bits), kind, &[])
    }

    /// Notes the condition of lanes for which the list, written for near numbers, does not hold.
    pub fn leave_out(&mut self, far: Id) {
        self.far = Some(match self.far {
            Some(other) => self.push(Do::MaskOr, Kind::Mask, &[other, far]),
            None => far,
        });
    }

    pub fn as_constant(&self, id: Id) -> Option<u64> {
        match self.nodes[id].what {
            Do::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// Conditions from lanes that are 0 or not.
    pub fn truth(&mut self, id: Id) -> Id {
        let zero = self.constant(0, Kind::Word);
        if self.wide {
            return self.push(Do::CompareInt(Compare::Unequal), Kind::Mask, &[id, zero]);
        }
        // AVX2 has no test for "unequal"; truth values are 0 or positive.
        self.push(Do::CompareInt(Compare::Less), Kind::Mask, &[zero, id])
    }

    /// The opposite of a condition.
    pub fn opposite(&mut self, id: Id) -> Id {
        let all = self.all_true();
        self.push(Do::MaskXor, Kind::Mask, &[id, all])
    }

    pub fn all_true(&mut self) -> Id {
        let zero = self.constant(0, Kind::Word);
        self.push(Do::CompareInt(Compare::Equal), Kind::Mask, &[zero, zero])
    }
}

/// Writes down the operations of a float function on lanes of `T`.
pub struct Lanes<'a, T> {
    pub builder: &'a mut Builder,
    pub kind: Kind,
    float: std::marker::PhantomData<T>,
}

impl<'a, T> Lanes<'a, T> {
    pub fn new(builder: &'a mut Builder, kind: Kind) -> Lanes<'a, T> {
        Lanes { builder, kind, float: std::marker::PhantomData }
    }

    fn one(&mut self, what: Do, inputs: &[Id]) -> Id {
        self.builder.push(what, self.kind, inputs)
    }
}

// Functions are written out into thousands of these, which run once for each kernel: calls, not copies, compile quickly.
macro_rules! simple {
    ($($name:ident $what:ident ($($a:ident)+))+) => { $(
        #[inline(never)]
        fn $name(&mut self, $($a: Id),+) -> Id {
            self.one(Do::$what, &[$($a),+])
        }
    )+ };
}

macro_rules! conditions {
    ($($name:ident $how:ident)+) => { $(
        #[inline(never)]
        fn $name(&mut self, a: Id, b: Id) -> Id {
            self.builder.push(Do::Compare(Compare::$how), Kind::Mask, &[a, b])
        }
    )+ };
}

macro_rules! lanes {
    ($t:ident, $mantissa:expr, $bias:expr, $magic:expr) => {
        impl Ops for Lanes<'_, $t> {
            type N = $t;
            type F = Id;
            type I = Id;
            type M = Id;

            simple! {
                add Add (a b)
                sub Sub (a b)
                mul Mul (a b)
                div Div (a b)
                sqrt Sqrt (a)
                fma Fma (a b c)
                lesser Lesser (a b)
                greater Greater (a b)
                select Select (condition a b)
                plus Plus (a b)
                minus Minus (a b)
                and And (a b)
                or Or (a b)
                xor Xor (a b)
            }

            #[inline(never)]
            fn number(&mut self, value: f64) -> Id {
                self.builder.constant((value as $t).to_bits() as u64, self.kind)
            }

            #[inline(never)]
            fn integer(&mut self, bits: u64) -> Id {
                self.builder.constant(bits, self.kind)
            }

            #[inline(never)]
            fn round(&mut self, a: Id, how: Rounding) -> Id {
                self.one(Do::Round(how), &[a])
            }

            #[inline(never)]
            fn scale(&mut self, a: Id, n: Id) -> Id {
                if self.builder.wide {
                    return self.one(Do::Scale, &[a, n]);
                }
                // The two factors of `Plain::scale`; how n is halved does not matter.
                let half = self.number(0.5);
                let half = self.mul(n, half);
                let half = self.round(half, Rounding::Down);
                let rest = self.sub(n, half);
                let mut value = a;
                for part in [half, rest] {
                    let shift = self.number($magic + $bias);
                    let shifted = self.add(part, shift);
                    let power = self.shift_left(shifted, $mantissa);
                    value = self.mul(value, power);
                }
                value
            }

            conditions! {
                less Less
                less_equal LessEqual
                equal Equal
                unequal Unequal
            }

            fn to_bits(&mut self, a: Id) -> Id {
                a
            }

            fn of_bits(&mut self, a: Id) -> Id {
                a
            }

            #[inline(never)]
            fn shift_left(&mut self, a: Id, by: u32) -> Id {
                self.one(Do::ShiftLeft(by as u8), &[a])
            }

            #[inline(never)]
            fn shift_right(&mut self, a: Id, by: u32) -> Id {
                self.one(Do::ShiftRight(by as u8), &[a])
            }
        }
    };
}

lanes!(f32, 23, 127.0, 12582912.0);
lanes!(f64, 52, 1023.0, 6755399441055744.0);

pub fn kind_of(dtype: DType) -> Kind {
    match dtype {
        DType::F64 | DType::I64 | DType::U64 => Kind::Long,
        DType::Bool => Kind::Mask,
        _ => Kind::Word,
    }
}
