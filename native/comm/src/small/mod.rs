//! What makes small collectives fast: descriptions that are written once, messages that are read
//! ahead and taken whole.

mod ahead;
mod texts;
mod whole;

pub(crate) use ahead::Ahead;
pub(crate) use texts::{Texts, hash_text};
pub(crate) use whole::spins;
