//! Interleaves the operations of several vectors of an unrolled copy, so that neighbouring operations do not depend on each other.
//!
//! A function is one long chain of dependent operations. A processor holds a few hundred waiting operations, hardly one vector of
//! a larger group: with the vectors one after another, its units would be mostly idle.

use super::graph::{List, Target};
use super::value::{Do, Id, Kind};

/// Registers that constants need beside the values of the vectors.
const ROOM: usize = 5;

/// Beyond these steps an unrolled copy would fill the instruction cache.
const MOST_STEPS: usize = 400;

impl List {
    /// The list for `count` vectors instead of one; constants are shared.
    pub fn interleaved(&self, count: usize) -> List {
        let mut interleaved = List::default();
        let mut places: Vec<Vec<Id>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let copies = if matches!(node.what, Do::Constant(_) | Do::Row(_)) { 1 } else { count };
            let first = interleaved.nodes.len();
            for vector in 0..copies {
                let mut copy = *node;
                for input in &mut copy.inputs[..node.arity] {
                    *input = places[*input][vector];
                }
                copy.what = match node.what {
                    Do::Load(operand, at) => Do::Load(operand, at + vector),
                    Do::Held(i) => Do::Held(i + vector),
                    what => what,
                };
                interleaved.nodes.push(copy);
            }
            places.push((0..count).map(|vector| first + vector.min(copies - 1)).collect());
        }
        interleaved.leave = self.leave.iter().flat_map(|id| places[*id].clone()).collect();
        for (target, id) in &self.stores {
            for (vector, place) in places[*id].iter().enumerate() {
                let target = match target {
                    Target::Operand(operand, at) => Target::Operand(*operand, at + vector),
                    Target::Held(i) => Target::Held(i + vector),
                };
                interleaved.stores.push((target, *place));
            }
        }
        interleaved
    }

    /// How many vectors are best written side by side: 4, 2 or 1, as many as have room in registers.
    pub fn breadth(&self, vectors: usize, masks: usize) -> usize {
        let (values, conditions) = self.peak(masks > 0);
        let fits = |count: usize| {
            let steps = count * (self.work() + self.stores.len());
            count * values + ROOM <= vectors && count * conditions <= masks && steps <= MOST_STEPS
        };
        [4, 2].into_iter().find(|count| fits(*count)).unwrap_or(1)
    }

    /// The number of operations that cost time.
    pub fn work(&self) -> usize {
        self.nodes.iter().filter(|n| !matches!(n.what, Do::Constant(_) | Do::Row(_) | Do::Held(_))).count()
    }

    /// The most values, and conditions in mask registers, that are needed at a time; constants lie in memory.
    fn peak(&self, masks: bool) -> (usize, usize) {
        let nodes = &self.nodes;
        let mut last: Vec<Option<usize>> = vec![None; nodes.len()];
        let results = self.stores.iter().map(|(_, id)| id).chain(&self.leave);
        results.for_each(|id| last[*id] = Some(nodes.len()));
        for i in (0..nodes.len()).rev() {
            if last[i].is_some() {
                for input in &nodes[i].inputs[..nodes[i].arity] {
                    last[*input].get_or_insert(i);
                }
            }
        }
        let held = |id: Id| !matches!(nodes[id].what, Do::Constant(_) | Do::Row(_) | Do::Held(_));
        let (mut live, mut most) = ([0usize; 2], [0usize; 2]);
        for i in (0..nodes.len()).filter(|i| held(*i) && last[*i].is_some()) {
            let bank = |id: Id| usize::from(masks && nodes[id].kind == Kind::Mask);
            live[bank(i)] += 1;
            (0..2).for_each(|k| most[k] = most[k].max(live[k]));
            let mut inputs = nodes[i].inputs[..nodes[i].arity].to_vec();
            inputs.sort_unstable();
            inputs.dedup();
            for input in inputs.into_iter().filter(|input| held(*input) && last[*input] == Some(i)) {
                live[bank(input)] -= 1;
            }
        }
        (most[0], most[1])
    }
}
