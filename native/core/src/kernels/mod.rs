//! One file per family of kernels. Each has a `new` that verifies the step and a `run` that relies on it, and registers both.

use crate::exec::Load;

/// All kernels, by name.
pub(crate) fn all() -> impl Iterator<Item = &'static (&'static str, Load)> {
    [
        attention::KERNELS,
        collective::KERNELS,
        conv::KERNELS,
        conv_groups::KERNELS,
        conv_groups_filter::KERNELS,
        dot::KERNELS,
        factor::KERNELS,
        fft::KERNELS,
        fused::KERNELS,
        index::KERNELS,
        random::KERNELS,
        reduce::KERNELS,
        rows::KERNELS,
        scatter::KERNELS,
        softmax::KERNELS,
        sort::KERNELS,
        transfer::KERNELS,
        window::KERNELS,
        crate::control::STEPS,
    ]
    .into_iter()
    .flatten()
}

/// Where element number `index` of some dims lies, counted row-major; there may be more strides than dims.
pub(crate) fn place(sizes: &[usize], strides: &[isize], mut index: usize) -> isize {
    let mut offset = 0;
    for (size, stride) in sizes.iter().zip(strides).rev() {
        offset += (index % size) as isize * stride;
        index /= size;
    }
    offset
}

pub mod attention;
pub mod collective;
pub mod conv;
pub mod conv_groups;
mod conv_groups_filter;
mod conv_spread;
pub mod dot;
pub mod epilogue;
pub mod factor;
pub mod fft;
pub mod fold;
pub mod fused;
pub mod index;
pub mod lu;
pub mod micro;
pub mod product;
pub mod qr;
pub mod random;
pub mod reduce;
pub mod room;
pub mod row_walk;
pub mod rows;
pub mod scatter;
pub mod softmax;
pub mod sort;
pub mod spectral;
pub mod tally;
pub mod transfer;
pub mod transpose;
pub mod whole;
pub mod window;
