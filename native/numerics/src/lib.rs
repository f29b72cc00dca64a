//! Fourier transforms, instantiated for the floats of Heddle: what uses this crate compiles none of the library's code.

use std::sync::Arc;

use rustfft::{FftPlanner, FftPlannerScalar};

pub use rustfft::num_complex::Complex;
pub use rustfft::{Fft, FftDirection, FftNum};

/// A float with planned Fourier transforms.
pub trait Fourier: FftNum {
    /// The transform of `length` complex numbers; without vector instructions when `scalar`.
    fn plan(length: usize, direction: FftDirection, scalar: bool) -> Arc<dyn Fft<Self>>;
}

macro_rules! fourier {
    ($($t:ty)+) => {$(
        impl Fourier for $t {
            fn plan(length: usize, direction: FftDirection, scalar: bool) -> Arc<dyn Fft<Self>> {
                if scalar {
                    FftPlannerScalar::new().plan_fft(length, direction)
                } else {
                    FftPlanner::new().plan_fft(length, direction)
                }
            }
        }
    )+};
}

fourier!(f32 f64);
