//! Blocks of CSV to typed columns, as far as records are plain: without quotes, each on a line of its own, with as many fields as the file has,
//! and with numbers that are what their column holds. The first record that is not is left to the caller, which has the words for what is wrong.

mod number;
mod read;

pub use number::number;
pub use read::{read, Column, Format, Kind, Read, Values};
