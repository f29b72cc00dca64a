//! Operations of a product or convolution on its results while they are in cache. The bits are equal to those of the same
//! operations in a fused step.

use super::product::Matrix;
use crate::calls::EpilogueJson;
use crate::dtype::Element;
use crate::isa::{by_isa, Level};
use crate::scalar::Float;
use crate::step::Run;

impl EpilogueJson {
    /// Finishes `rows` rows; the columns are those from `first` on.
    ///
    /// # Safety
    /// `out` must be valid for that size.
    pub unsafe fn apply<T: Float>(&self, run: &Run, out: Matrix<T>, rows: usize, first: usize, columns: usize) {
        let bias = self.bias.map(|at| run.ptr::<T>(at).add(first).cast_const());
        if bias.is_some() || self.relu {
            finish::<T>(run.isa, &out, rows, columns, bias, self.relu);
        }
    }
}

by_isa! {
    fn finish<T: Float>(out: &Matrix<T>, rows: usize, columns: usize, bias: Option<*const T>, relu: bool) => finish_body
}

#[inline(always)]
unsafe fn finish_body<L: Level, T: Float>(
    out: &Matrix<T>,
    rows: usize,
    columns: usize,
    bias: Option<*const T>,
    relu: bool,
) {
    let last = |v: T| if relu { v.max_nan(T::ZERO) } else { v };
    if out.columns != 1 {
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let to = out.at(i, j).cast_mut();
            *to = last(bias.map_or(*to, |b| Element::add(*to, *b.add(j))));
        }
        return;
    }
    for i in 0..rows {
        let row = std::slice::from_raw_parts_mut(out.at(i, 0).cast_mut(), columns);
        match bias {
            Some(bias) => {
                let bias = std::slice::from_raw_parts(bias, columns);
                row.iter_mut().zip(bias).for_each(|(v, b)| *v = last(Element::add(*v, *b)));
            }
            None => row.iter_mut().for_each(|v| *v = last(*v)),
        }
    }
}
