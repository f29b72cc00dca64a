//! What a part of a product of narrow numbers reads and writes, and its memory.

use super::finish::Epilogue;
use crate::isa::Isa;
use crate::kernels::product::Matrix;

/// The dtypes of the two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pair {
    Bf16,
    /// 8-bit integers, and whether those of the left and of the right side have a sign.
    Bytes {
        signed: [bool; 2],
    },
}

/// Rows or columns of a matrix from a place on; strides in elements.
#[derive(Clone, Copy)]
pub struct Lines {
    pub from: *const u8,
    /// Bytes of an element: 1 or 2.
    pub size: usize,
    /// From one row or column to the next.
    pub across: isize,
    /// Along the contracted dim.
    pub along: isize,
}

impl Lines {
    pub fn at(self, line: usize, step: usize) -> Lines {
        let elements = line as isize * self.across + step as isize * self.along;
        Lines { from: self.from.wrapping_offset(elements * self.size as isize), ..self }
    }
}

/// A part of a product: sizes, both sides, results, and what follows.
pub struct Part<O> {
    pub isa: Isa,
    pub pair: Pair,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub x: Lines,
    pub y: Lines,
    pub out: Matrix<O>,
    pub epilogue: Epilogue<O>,
}

thread_local! {
    // Grows to the largest part seen and stays: no allocation after the first step.
    static ROOM: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Memory of this thread, at a multiple of 64, with anything in it.
pub fn with_room(bytes: usize, f: impl FnOnce(*mut u8)) {
    ROOM.with_borrow_mut(|room| {
        let words = bytes.div_ceil(8) + 8;
        if room.len() < words {
            room.resize(words, 0);
        }
        f((room.as_mut_ptr() as usize).next_multiple_of(64) as *mut u8)
    })
}
