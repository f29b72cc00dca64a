//! One file per family of kernels. Each has a `new` that verifies the step and a `run` that relies on it, and registers both.

use crate::reader::Load;

/// The kernel of this name.
pub(crate) fn find(name: &str) -> Option<(&'static str, Load)> {
    let families = [
        attention::KERNELS,
        collective::KERNELS,
        control::KERNELS,
        conv_groups::KERNELS,
        conv_groups_filter::KERNELS,
        dot::KERNELS,
        entries::KERNELS,
        factor::KERNELS,
        fft::KERNELS,
        fused::KERNELS,
        index::KERNELS,
        narrow_conv::KERNELS,
        narrow_weights::KERNELS,
        random::KERNELS,
        reduce::KERNELS,
        rows::KERNELS,
        scatter::KERNELS,
        softmax::KERNELS,
        sort::KERNELS,
        transfer::KERNELS,
    ];
    families.into_iter().flatten().find(|(known, _)| *known == name).copied()
}

pub mod attention;
pub mod collective;
mod control;
pub mod conv;
pub mod conv_groups;
mod conv_groups_filter;
mod conv_spread;
pub mod dot;
mod entries;
pub mod epilogue;
pub mod factor;
pub mod fft;
pub mod fold;
pub mod fused;
pub mod index;
pub(crate) mod loop_views;
pub mod lu;
pub mod micro;
pub mod narrow;
mod narrow_conv;
pub(crate) mod narrow_layer;
mod narrow_weights;
#[cfg(target_arch = "x86_64")]
mod narrow_words;
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
mod symmetric;
pub mod tally;
pub mod transfer;
pub mod transpose;
pub mod whole;
pub mod window;
