//! Runs lowered programs: see `docs/internals/lowered-program.md` for the format.

mod async_collectives;
pub mod buffer;
mod calls;
pub mod collectives;
pub mod dtype;
pub mod error;
pub mod exec;
mod fields;
pub mod generate;
pub mod isa;
pub mod kernels;
pub mod limits;
mod operands;
pub mod pool;
pub mod profile;
pub mod program;
mod reader;
pub mod scalar;
mod simd;
mod sizes;
mod step;
#[cfg(target_arch = "x86_64")]
mod straight;
mod verify;
mod walk;

pub use error::{Error, Fault, Result};
