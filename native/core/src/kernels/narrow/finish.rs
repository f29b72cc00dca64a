//! Sums become results: rounded to the result's dtype, with the epilogue.

use heddle_half::{Bf16, Half};

use crate::dtype::Element;
use crate::isa::{by_isa, Level};
use crate::kernels::product::Matrix;

/// A dtype of results. The operations have the bits of a fused step on the rounded results.
pub trait Outcome: Copy + Send + Sync + 'static {
    /// From the bits of a sum.
    fn of(sum: u32) -> Self;
    fn plus(self, bias: Self) -> Self;
    fn relu(self) -> Self;
    /// Two sums as one.
    fn join(total: u32, sum: u32) -> u32;
}

impl Outcome for f32 {
    #[inline(always)]
    fn of(sum: u32) -> f32 {
        f32::from_bits(sum)
    }
    #[inline(always)]
    fn plus(self, bias: f32) -> f32 {
        self + bias
    }
    #[inline(always)]
    fn relu(self) -> f32 {
        self.max_nan(0.0)
    }
    #[inline(always)]
    fn join(total: u32, sum: u32) -> u32 {
        (f32::from_bits(total) + f32::from_bits(sum)).to_bits()
    }
}

impl Outcome for Bf16 {
    #[inline(always)]
    fn of(sum: u32) -> Bf16 {
        Bf16::narrow(f32::from_bits(sum))
    }
    #[inline(always)]
    fn plus(self, bias: Bf16) -> Bf16 {
        Bf16::narrow(self.wide() + bias.wide())
    }
    #[inline(always)]
    fn relu(self) -> Bf16 {
        Bf16::narrow(self.wide().max_nan(0.0))
    }
    #[inline(always)]
    fn join(total: u32, sum: u32) -> u32 {
        f32::join(total, sum)
    }
}

impl Outcome for i32 {
    #[inline(always)]
    fn of(sum: u32) -> i32 {
        sum.cast_signed()
    }
    #[inline(always)]
    fn plus(self, bias: i32) -> i32 {
        self.wrapping_add(bias)
    }
    #[inline(always)]
    fn relu(self) -> i32 {
        self.max(0)
    }
    #[inline(always)]
    fn join(total: u32, sum: u32) -> u32 {
        total.wrapping_add(sum)
    }
}

/// What happens to the results of some columns after rounding.
#[derive(Clone, Copy)]
pub struct Epilogue<O> {
    /// The bias of the first column.
    pub bias: Option<*const O>,
    pub relu: bool,
}

/// Rows of sums, `width` apart.
#[derive(Clone, Copy)]
pub struct Sums {
    pub from: *mut u32,
    pub width: usize,
    pub rows: usize,
    pub columns: usize,
}

impl Sums {
    #[inline(always)]
    unsafe fn row<'a>(self, i: usize) -> &'a mut [u32] {
        std::slice::from_raw_parts_mut(self.from.add(i * self.width), self.columns)
    }
}

by_isa! { pub fn write<O: Outcome>(sums: Sums, out: Matrix<O>, epilogue: Epilogue<O>) => write_body }
by_isa! { pub fn join<O: Outcome>(totals: Sums, sums: Sums) => join_body }

#[inline(always)]
unsafe fn write_body<L: Level, O: Outcome>(sums: Sums, out: Matrix<O>, Epilogue { bias, relu }: Epilogue<O>) {
    let last = |value: O| if relu { value.relu() } else { value };
    for i in 0..sums.rows {
        let row = sums.row(i);
        if out.columns != 1 {
            for (j, sum) in row.iter().enumerate() {
                let value = bias.map_or(O::of(*sum), |bias| O::of(*sum).plus(*bias.add(j)));
                *out.at(i, j).cast_mut() = last(value);
            }
            continue;
        }
        let to = std::slice::from_raw_parts_mut(out.at(i, 0).cast_mut(), sums.columns);
        match bias {
            Some(bias) => {
                let bias = std::slice::from_raw_parts(bias, sums.columns);
                to.iter_mut().zip(row).zip(bias).for_each(|((to, sum), bias)| *to = last(O::of(*sum).plus(*bias)));
            }
            None => to.iter_mut().zip(row).for_each(|(to, sum)| *to = last(O::of(*sum))),
        }
    }
}

#[inline(always)]
unsafe fn join_body<L: Level, O: Outcome>(totals: Sums, sums: Sums) {
    for i in 0..sums.rows {
        totals.row(i).iter_mut().zip(sums.row(i)).for_each(|(total, sum)| *total = O::join(*total, *sum));
    }
}
