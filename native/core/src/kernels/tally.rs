//! Totals of many values side by side, in a worker's own memory.

use std::cell::RefCell;

use super::fold::{add_rows, settle, Sum};
use crate::buffer::Pages;
use crate::isa::Isa;
use crate::scalar::Float;

thread_local! {
    // Grows to the largest part seen and stays: no allocation after the first step.
    static ROOM: RefCell<Pages> = const { RefCell::new(Pages::NONE) };
}

pub struct Tally<'a, T> {
    isa: Isa,
    /// What is joined next.
    pub sums: &'a mut [T],
    pub totals: &'a mut [T],
    lost: &'a mut [T],
}

/// Calls `f` with totals of zero for `count` values; `f` must not ask for others.
pub fn totals<T: Float>(isa: Isa, count: usize, f: impl FnOnce(&mut Tally<T>)) {
    ROOM.with(|room| {
        let mut room = room.borrow_mut();
        // Any bits are a float.
        let all = unsafe { std::slice::from_raw_parts_mut(room.room::<T>(3 * count), 3 * count) };
        all.fill(T::ZERO);
        let (sums, rest) = all.split_at_mut(count);
        let (totals, lost) = rest.split_at_mut(count);
        f(&mut Tally { isa, sums, totals, lost });
    });
}

impl<T: Float> Tally<'_, T> {
    pub fn join(&mut self) {
        add_rows(self.isa, self.totals, self.lost, self.sums);
    }

    /// Makes results of the totals.
    pub fn settle(&mut self) {
        settle::<T, Sum>(self.totals, self.lost);
    }
}
