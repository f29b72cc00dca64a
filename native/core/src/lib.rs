//! Runs lowered programs: see `docs/internals/lowered-program.md` for the format.

pub mod buffer;
mod calls;
mod control;
pub mod dtype;
pub mod error;
pub mod exec;
mod fields;
mod flights;
pub mod generate;
pub mod isa;
pub mod kernels;
pub mod limits;
pub mod pool;
pub mod profile;
pub mod program;
pub mod scalar;
mod simd;
mod sizes;
#[cfg(target_arch = "x86_64")]
mod straight;
mod verify;

pub use error::{Error, Fault, Result};
