//! All tests that need no process of their own, as one binary: linking each alone took longer than running it.

#[path = "../common/mod.rs"]
mod common;

mod async_collectives;
mod attention;
mod elements;
mod gamma;
mod generated;
mod limits;
mod loop_views;
mod loops;
mod malformed;
mod narrow;
mod narrow_layers;
mod pool;
mod products;
mod reductions;
mod rows;
mod scalar;
mod spectral;
mod tiles;
mod transposes;
