//! What makes small collectives fast: descriptions that are written once, messages that are read
//! ahead and taken whole.

mod ahead;
mod lane;
mod mutual;
mod sums;
mod texts;
mod whole;

pub(crate) use ahead::Ahead;
pub(crate) use lane::{Lane, Pair, Steps};
pub(crate) use mutual::carry;
pub(crate) use sums::sum;
pub(crate) use texts::{Described, TEXT_WORDS, hash_text, mix, used_words};
pub(crate) use whole::spins;
