//! Sizes that follow from fields of calls (see `calls.rs`). `Size::get` refuses sizes that overflow.

use std::ops::{Add, Mul};

use crate::{bail, Result};

/// A size, or nothing where it is too large.
#[derive(Clone, Copy)]
pub struct Size(Option<usize>);

impl Size {
    pub fn of(size: usize) -> Size {
        Size(Some(size))
    }

    pub fn get(self, name: &str) -> Result<usize> {
        match self.0 {
            Some(size) => Ok(size),
            None => bail!("{name}: its size is too large"),
        }
    }

    fn with(self, other: Size, combine: impl Fn(usize, usize) -> Option<usize>) -> Size {
        Size(self.0.zip(other.0).and_then(|(a, b)| combine(a, b)))
    }
}

impl Add for Size {
    type Output = Size;
    fn add(self, other: Size) -> Size {
        self.with(other, usize::checked_add)
    }
}

impl Mul for Size {
    type Output = Size;
    fn mul(self, other: Size) -> Size {
        self.with(other, usize::checked_mul)
    }
}

/// The smaller size; too large if either is too large.
pub fn min(a: Size, b: Size) -> Size {
    a.with(b, |a, b| Some(a.min(b)))
}

/// The next multiple of 64.
pub fn aligned(size: Size) -> Size {
    Size(size.0.and_then(|size| size.checked_next_multiple_of(64)))
}

/// The distance from the first to the last of `count` items that are `by` apart.
pub fn reach(count: Size, by: Size) -> Size {
    count.with(by, |count, by| count.saturating_sub(1).checked_mul(by))
}

/// All sizes but the last.
pub fn init(sizes: &[usize]) -> &[usize] {
    &sizes[..sizes.len().saturating_sub(1)]
}

/// All sizes but the first.
pub fn tail(sizes: &[usize]) -> &[usize] {
    &sizes[sizes.len().min(1)..]
}

/// Sizes of the transform of real numbers: the last dim is reduced to `size / 2 + 1`.
pub fn half(sizes: &[usize]) -> Vec<usize> {
    let last = sizes.last().map(|size| size / 2 + 1);
    init(sizes).iter().copied().chain(last).collect()
}

/// The offset of element `index`, counted in row-major order, of a view; there may be more strides than dims.
pub(crate) fn offset_of(sizes: &[usize], strides: &[isize], mut index: usize) -> isize {
    let mut offset = 0;
    for (size, stride) in sizes.iter().zip(strides).rev() {
        offset += (index % size) as isize * stride;
        index /= size;
    }
    offset
}
