//! Generic numeric libraries, instantiated for the dtypes of Heddle: what uses this crate compiles none of their code.

use std::sync::Arc;

use nalgebra::{DMatrix, SymmetricEigen, SVD};
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

/// Iterations after which a decomposition gives up.
const STEPS: usize = 10_000;

/// Eigenvalues, in no order, and eigenvectors one after the other.
pub struct Eigen {
    pub values: Vec<f64>,
    pub vectors: Vec<f64>,
}

/// Of the symmetric n x n matrix whose lower triangle is that of the rows of `a`; none if it does not converge.
pub fn symmetric_eigen(a: &[f64], n: usize) -> Option<Eigen> {
    let matrix = DMatrix::from_fn(n, n, |i, j| a[i.max(j) * n + i.min(j)]);
    let found = SymmetricEigen::try_new(matrix, f64::EPSILON, STEPS)?;
    Some(Eigen { values: found.eigenvalues.as_slice().to_vec(), vectors: found.eigenvectors.as_slice().to_vec() })
}

/// Singular values, in no order, with the left vectors of m and the right vectors of n numbers one after the other.
pub struct Singular {
    pub values: Vec<f64>,
    pub left: Vec<f64>,
    pub right: Vec<f64>,
}

/// Of the m x n matrix with the rows of `a`; none if it does not converge.
pub fn singular(a: &[f64], m: usize, n: usize) -> Option<Singular> {
    let found = SVD::try_new(DMatrix::from_row_slice(m, n, a), true, true, f64::EPSILON, STEPS)?;
    Some(Singular {
        values: found.singular_values.as_slice().to_vec(),
        left: found.u?.as_slice().to_vec(),
        right: found.v_t?.transpose().as_slice().to_vec(),
    })
}
