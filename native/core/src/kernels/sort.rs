//! Sorting along the last dim, and its k largest elements: keys become integers in the order wanted, pairs of key and
//! position are sorted, and operands follow the positions. The order is total, so threads change nothing.

use crate::calls::{SortJson, TopKJson};
use crate::dtype::{for_number, for_size, DType};
use crate::kernels::room::Room;
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::{bail, Result};

kernels! {
    sort = Sort::new;
    topK = TopK::new;
}

/// Longer rows are sorted digit by digit.
const RADIX: usize = 1024;
/// Elements of one task.
const TASK: usize = 1 << 12;

/// A number as an integer in the order of numbers: zeros are equal, NaN is above all.
trait Key: Copy {
    fn key(self) -> u64;
    const BITS: u32;
}

macro_rules! float_key {
    ($t:ident, $u:ident, $bits:expr) => {
        impl Key for $t {
            const BITS: u32 = $bits;
            #[inline(always)]
            fn key(self) -> u64 {
                if self.is_nan() {
                    return $u::MAX as u64;
                }
                // Adding 0 turns -0 into 0.
                let bits = (self + 0.0).to_bits();
                let flip = if bits >> ($bits - 1) == 1 { $u::MAX } else { 1 << ($bits - 1) };
                (bits ^ flip) as u64
            }
        }
    };
}
float_key!(f32, u32, 32);
float_key!(f64, u64, 64);

macro_rules! integer_key {
    ($t:ident, $u:ident, $bits:expr, $flip:expr) => {
        impl Key for $t {
            const BITS: u32 = $bits;
            #[inline(always)]
            fn key(self) -> u64 {
                (self as $u ^ $flip) as u64
            }
        }
    };
}
integer_key!(i32, u32, 32, 1 << 31);
integer_key!(u32, u32, 32, 0);
integer_key!(u8, u8, 8, 0);
integer_key!(i8, u8, 8, 1 << 7);
integer_key!(i64, u64, 64, 1 << 63);
integer_key!(u64, u64, 64, 0);

/// Lowering casts 16-bit floats to f32.
fn refuse_half(dtype: DType) -> Result<()> {
    if dtype.is_half() {
        bail!("sorting {} is not supported", dtype.name());
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    key: u64,
    place: u32,
}

/// Writes the pairs of a row, in the order of positions.
unsafe fn fill<T: Key>(row: *const T, pairs: &mut [Pair], descending: bool) {
    let mask = if descending { u64::MAX >> (64 - T::BITS) } else { 0 };
    for (i, pair) in pairs.iter_mut().enumerate() {
        *pair = Pair { key: (*row.add(i)).key() ^ mask, place: i as u32 };
    }
}

/// Sorts by the least significant digit first, between two buffers; a digit that all keys share is skipped.
fn radix<'a>(mut pairs: &'a mut [Pair], mut other: &'a mut [Pair], bits: u32) -> &'a [Pair] {
    let digits = (bits / 8) as usize;
    let mut counts = [[0usize; 256]; 8];
    for pair in &*pairs {
        for (digit, count) in counts.iter_mut().enumerate().take(digits) {
            count[(pair.key >> (8 * digit)) as usize & 255] += 1;
        }
    }
    for (digit, count) in counts.iter().enumerate().take(digits) {
        if count.contains(&pairs.len()) {
            continue;
        }
        let mut starts = [0usize; 256];
        for i in 1..256 {
            starts[i] = starts[i - 1] + count[i - 1];
        }
        for pair in &*pairs {
            let at = &mut starts[(pair.key >> (8 * digit)) as usize & 255];
            other[*at] = *pair;
            *at += 1;
        }
        std::mem::swap(&mut pairs, &mut other);
    }
    pairs
}

/// Pairs of scratch that sorting `count` of them takes.
fn room(count: usize) -> usize {
    if count > RADIX {
        2 * count
    } else {
        count
    }
}

/// The first `count` pairs in order.
fn sorted(memory: &mut [Pair], count: usize, bits: u32) -> &[Pair] {
    let (pairs, other) = memory.split_at_mut(count);
    if count > RADIX {
        return radix(pairs, &mut other[..count], bits);
    }
    // Positions make all pairs differ: this is stable.
    pairs.sort_unstable();
    pairs
}

unsafe fn follow<T: Copy>(from: *const T, to: *mut T, pairs: &[Pair]) {
    for (i, pair) in pairs.iter().enumerate() {
        *to.add(i) = *from.add(pair.place as usize);
    }
}

unsafe fn follow_bytes(size: usize, from: *const u8, to: *mut u8, pairs: &[Pair]) {
    for_size!(size, T => follow(from.cast::<T>(), to.cast(), pairs))
}

fn positions(cols: usize) -> Result<()> {
    if cols > i32::MAX as usize {
        bail!("rows of {cols} elements are too long for positions of 32 bits");
    }
    Ok(())
}

pub struct Sort {
    call: SortJson,
    room: Room,
}

/// Rows of one task.
fn per_task(cols: usize) -> usize {
    (TASK / cols.max(1)).max(1)
}

impl Sort {
    pub fn new(call: SortJson) -> Result<Sort> {
        let Some(keys) = call.operands.first() else { bail!("`operands` is empty: there is nothing to sort") };
        refuse_half(keys.dtype)?;
        positions(call.cols)?;
        let room = Room::new::<Pair>(call.rows.div_ceil(per_task(call.cols)), room(call.cols))?;
        Ok(Sort { call, room })
    }
}

impl Kernel for Sort {
    fn extra(&self) -> usize {
        self.room.bytes()
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_number!(self.call.operands[0].dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl Sort {
    unsafe fn typed<T: Key>(&self, run: &Run) {
        let per_task = per_task(self.call.cols);
        run.pool.run(self.call.rows.div_ceil(per_task), self.room.workers, |worker, task| {
            let memory = &mut *self.room.of::<Pair>(run, 0, worker);
            for row in task * per_task..self.call.rows.min((task + 1) * per_task) {
                let start = row * self.call.cols;
                let keys = run.ptr::<T>(self.call.operands[0].input).add(start);
                fill(keys, &mut memory[..self.call.cols], self.call.descending);
                let order = sorted(memory, self.call.cols, T::BITS);
                for operand in &self.call.operands {
                    let size = operand.dtype.size();
                    let (from, to) = (run.ptr::<u8>(operand.input), run.ptr::<u8>(operand.out));
                    follow_bytes(size, from.add(start * size), to.add(start * size), order);
                }
            }
        });
    }
}

pub struct TopK {
    call: TopKJson,
    room: Room,
}

impl TopK {
    pub fn new(call: TopKJson) -> Result<TopK> {
        let TopKJson { rows, cols, count, dtype, .. } = call;
        if count > cols {
            bail!("there are no {count} largest of {cols} elements");
        }
        refuse_half(dtype)?;
        positions(cols)?;
        let room = Room::new::<Pair>(rows.div_ceil(per_task(cols)), cols.max(room(count)))?;
        Ok(TopK { call, room })
    }
}

impl Kernel for TopK {
    fn extra(&self) -> usize {
        self.room.bytes()
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_number!(self.call.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl TopK {
    unsafe fn typed<T: Key>(&self, run: &Run) {
        let TopKJson { rows, cols, count, input, ref outputs, .. } = self.call;
        let per_task = per_task(cols);
        run.pool.run(rows.div_ceil(per_task), self.room.workers, |worker, task| {
            let memory = &mut *self.room.of::<Pair>(run, 0, worker);
            for row in task * per_task..rows.min((task + 1) * per_task) {
                let from = run.ptr::<T>(input).add(row * cols);
                let pairs = &mut memory[..cols];
                fill(from, pairs, true);
                if count > 0 && count < cols {
                    pairs.select_nth_unstable(count - 1);
                }
                let order = sorted(memory, count, T::BITS);
                follow(from, run.ptr::<T>(outputs[0]).add(row * count), order);
                let places = run.ptr::<i32>(outputs[1]).add(row * count);
                for (i, pair) in order.iter().enumerate() {
                    *places.add(i) = pair.place as i32;
                }
            }
        });
    }
}
