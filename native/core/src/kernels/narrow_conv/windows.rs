//! Extremes of windows of bf16, and their gradients where windows do not overlap: numbers are compared and moved, and never rounded.

use std::cmp::Ordering;

use crate::calls::{ReduceOp, WindowJson};
use crate::dtype::Element;
use crate::kernels::fold::{Max, Min};
use crate::kernels::window::{reduce_windows, scatter, Kind, Window};
use crate::step::{Kernel, Run};
use crate::Result;

/// A bf16 by its bits.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Brief(u16);

impl Brief {
    /// An integer of the same order; NaN is above all, and -0 is 0.
    #[inline(always)]
    fn key(self) -> i16 {
        let bits = self.0.cast_signed();
        let ordered = bits ^ ((bits >> 15) & i16::MAX);
        if self.nan() {
            i16::MAX
        } else {
            ordered + i16::from(bits == i16::MIN)
        }
    }
}

impl PartialEq for Brief {
    #[inline(always)]
    fn eq(&self, other: &Brief) -> bool {
        (self.key() == other.key()) & !self.nan()
    }
}

impl PartialOrd for Brief {
    #[inline(always)]
    fn partial_cmp(&self, other: &Brief) -> Option<Ordering> {
        (!self.nan() && !other.nan()).then(|| self.key().cmp(&other.key()))
    }
    #[inline(always)]
    fn gt(&self, other: &Brief) -> bool {
        (self.key() > other.key()) & !self.nan()
    }
    #[inline(always)]
    fn lt(&self, other: &Brief) -> bool {
        (self.key() < other.key()) & !other.nan()
    }
    #[inline(always)]
    fn le(&self, other: &Brief) -> bool {
        (self.key() <= other.key()) & !other.nan()
    }
}

impl Element for Brief {
    const ZERO: Brief = Brief(0);
    const ONE: Brief = Brief(0x3f80);
    const LOWEST: Brief = Brief(0xff80);
    const HIGHEST: Brief = Brief(0x7f80);
    const WIDE: bool = true;
    const FLOAT: bool = true;
    const ALL: Brief = Brief(u16::MAX);
    /// Of numbers one of which is 0, as when a gradient is the first to be added.
    #[inline(always)]
    fn add(self, other: Brief) -> Brief {
        debug_assert!(self.0 == 0);
        Brief(if other.0 == 0x8000 { 0 } else { other.0 })
    }
    fn sub(self, _: Brief) -> Brief {
        unreachable!("windows of bf16 compare")
    }
    fn mul(self, _: Brief) -> Brief {
        unreachable!("windows of bf16 compare")
    }
    #[inline(always)]
    fn nan(self) -> bool {
        self.0 & 0x7fff > 0x7f80
    }
    #[inline(always)]
    fn bit_and(self, other: Brief) -> Brief {
        Brief(self.0 & other.0)
    }
    #[inline(always)]
    fn bit_or(self, other: Brief) -> Brief {
        Brief(self.0 | other.0)
    }
    fn from_index(_: usize) -> Brief {
        unreachable!("windows of bf16 compare")
    }
    fn bits(self) -> u64 {
        u64::from(self.0)
    }
    fn of_bits(bits: u64) -> Brief {
        Brief(bits as u16)
    }
}

/// Windows of any dtype that they can have.
pub struct Windows(Window);

impl Windows {
    pub fn new(kind: Kind, call: WindowJson) -> Result<Windows> {
        Window::new(kind, call).map(Windows)
    }
}

impl Kernel for Windows {
    fn run(&self, run: &Run, step: usize) -> Result<()> {
        let Windows(window) = self;
        let WindowJson { dtype, op, n, c, .. } = window.call;
        match (window.kind, op) {
            _ if !dtype.is_half() => return window.run(run, step),
            _ if n * c == 0 => (),
            (Kind::Reduce, ReduceOp::Max) => window.images::<Brief>(run, reduce_windows::<Brief, Max>),
            (Kind::Reduce, _) => window.images::<Brief>(run, reduce_windows::<Brief, Min>),
            (_, ReduceOp::Max) => window.images::<Brief>(run, scatter::<Brief, Max>),
            _ => window.images::<Brief>(run, scatter::<Brief, Min>),
        }
        Ok(())
    }
}
