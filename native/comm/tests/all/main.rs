//! All tests that need no process of their own, as one binary.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod collectives;
mod failures;
mod flight;
mod lanes;
mod memory;
mod store;
mod transfers;
