//! What a kernel does, before it is written: lists of operations for the vectors of a row and for its end.

use super::value::{Id, Node};
use crate::dtype::DType;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    pub dtype: DType,
    /// Neighbours in a row are neighbours in memory; else the row has one value.
    pub along: bool,
    /// Written past the caches.
    pub streamed: bool,
    /// What the row is folded into starts from these bits: lanes, which may stay in registers for the length of a row.
    pub lanes: Option<u64>,
}

/// Where a value goes: an operand, and which vector of a turn; or a held register.
#[derive(Clone, Copy)]
pub enum Target {
    Operand(usize, usize),
    Held(usize),
}

/// Operations in the order in which they run, and what is done with their values.
#[derive(Default)]
pub struct List {
    pub nodes: Vec<Node>,
    pub stores: Vec<(Target, Id)>,
    /// Conditions that send a turn to another list, before anything is stored, if they hold in a lane.
    pub leave: Vec<Id>,
}

pub struct Graph {
    /// For each vector of a row.
    pub each: List,
    /// The same in fewer steps for most numbers; turns with others leave it for `each`.
    pub near: Option<List>,
    /// At the end of a row: the held registers, combined and written.
    pub last: List,
    /// What each group of [`HELD`] held registers starts from.
    pub held: Vec<u64>,
    pub views: Vec<View>,
    /// Values of 8 bytes occur, so that a vector has half as many lanes.
    pub long: bool,
}

/// Held registers of a fold: together they have 64 lanes.
pub const HELD: usize = 4;
