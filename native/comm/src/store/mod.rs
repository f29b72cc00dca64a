//! A small TCP key-value store: where the processes of a run meet.

mod client;
mod server;
mod table;
mod wire;

pub use client::{CompareAndSet, StoreClient};
pub use server::StoreServer;
