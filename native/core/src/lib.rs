//! Runs lowered programs: see `docs/internals/lowered-program.md` for the format.

pub mod buffer;
pub mod dtype;
pub mod error;
pub mod exec;
pub mod isa;
pub mod kernels;
pub mod math;
pub mod pool;
pub mod program;
pub mod simd;
pub mod verify;

pub use error::{Error, Result};
