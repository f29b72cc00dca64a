//! One file per family of kernels. Each has a `new` that verifies the step and a `run` that relies on it.

pub mod attention;
pub mod collective;
pub mod conv;
pub mod conv_groups;
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
pub mod random;
pub mod reduce;
pub mod room;
pub mod row_walk;
pub mod rows;
pub mod scatter;
pub mod softmax;
pub mod sort;
pub mod transfer;
pub mod transpose;
pub mod whole;
pub mod window;
