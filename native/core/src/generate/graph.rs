//! A kernel before its code is written: lists of operations for the vectors of a row and for the end of the row.

use super::value::{Id, Node};
use crate::dtype::DType;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    pub dtype: DType,
    /// Neighbours in a row are neighbours in memory; else the row has one value.
    pub along: bool,
    /// Written by streaming stores, which bypass the caches.
    pub streamed: bool,
    /// Bytes from what is read to what is fetched meanwhile, for a later walk; 0 for nothing.
    pub fetched: usize,
    /// For a fold: the bits of its identity. The lanes of the fold may stay in registers for the length of a row.
    pub lanes: Option<u64>,
}

/// The target of a value: an operand, with the number of the vector in an unrolled copy, or a held register.
#[derive(Clone, Copy)]
pub enum Target {
    Operand(usize, usize),
    Held(usize),
}

/// Operations in the order in which they run, and the targets of their values.
#[derive(Default)]
pub struct List {
    pub nodes: Vec<Node>,
    pub stores: Vec<(Target, Id)>,
    /// Conditions that send an unrolled copy to another list, before anything is stored, if a condition holds in a lane.
    pub leave: Vec<Id>,
}

pub struct Graph {
    /// For each vector of a row.
    pub each: List,
    /// The same with fewer operations, for near numbers; copies with other numbers run `each`.
    pub near: Option<List>,
    /// At the end of a row: the held registers, combined and written.
    pub last: List,
    /// The identity of each fold, which has [`HELD`] held registers.
    pub held: Vec<u64>,
    pub views: Vec<View>,
    /// Whether there are values of 8 bytes, so that a vector has half as many lanes.
    pub long: bool,
}

/// Held registers of a fold: together they have 64 lanes.
pub const HELD: usize = 4;
