//! Peak rates of this machine: multiply-adds in registers, and bytes to and from memory.

use std::hint::black_box;
use std::time::Instant;

use crate::buffer::Buffer;
use crate::isa::{by_isa, Isa};
use crate::pool::Pool;
use crate::simd::Simd;
use crate::Result;

/// Rates of all threads of a device together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// f32 operations per second; a multiply-add counts as two.
    pub flops: f64,
    /// Bytes per second of `a = b + s c`: two reads and a write of f32, from memory.
    pub bytes: f64,
}

/// The best of this many tries counts, since other processes disturb some of them.
const TRIES: usize = 5;
/// Independent chains, enough to hide the latency of a multiply-add.
const CHAINS: usize = 12;
const ROUNDS: usize = 200_000;
/// Elements of each array: three of 32 MB are more than most caches.
const ELEMENTS: usize = 8 << 20;
const CHUNK: usize = 64 << 10;

/// Measures for about a tenth of a second.
pub fn measure(pool: &Pool, isa: Isa) -> Result<Limits> {
    let threads = pool.threads();
    let lanes = unsafe { chains(isa, 1) };
    let operations = (2 * CHAINS * ROUNDS * lanes * threads) as f64;
    let arithmetic = fastest(|| {
        pool.run(threads, threads, |_, _| {
            unsafe { chains(isa, ROUNDS) };
        })
    });
    let arrays = [Buffer::new(4 * ELEMENTS)?, Buffer::new(4 * ELEMENTS)?, Buffer::new(4 * ELEMENTS)?];
    let [a, b, c] = [0, 1, 2].map(|i| Shared(arrays[i].as_ptr().cast::<f32>()));
    let memory = fastest(|| {
        pool.run(ELEMENTS / CHUNK, threads, |_, task| {
            let offset = task * CHUNK;
            // Each task has its own part of the arrays.
            unsafe { triad(isa, a.at(offset), b.at(offset), c.at(offset), CHUNK) }
        })
    });
    Ok(Limits { flops: operations / arithmetic, bytes: (12 * ELEMENTS) as f64 / memory })
}

#[derive(Clone, Copy)]
struct Shared(*mut f32);

unsafe impl Sync for Shared {}

impl Shared {
    fn at(&self, offset: usize) -> *mut f32 {
        self.0.wrapping_add(offset)
    }
}

fn fastest(mut work: impl FnMut()) -> f64 {
    // The first try maps memory and wakes the threads.
    work();
    let time = |_| {
        let began = Instant::now();
        work();
        began.elapsed().as_secs_f64()
    };
    (0..TRIES).map(time).fold(f64::INFINITY, f64::min)
}

by_isa! {
    /// Runs the chains of multiply-adds; returns the lanes of a vector.
    fn chains(rounds: usize) -> usize => chains_body
}

#[inline(always)]
unsafe fn chains_body<S: Simd<f32>>(rounds: usize) -> usize {
    let factor = S::splat(black_box(0.999));
    let term = S::splat(black_box(0.001));
    let mut sums = [S::zero(); CHAINS];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = S::mul_add(*sum, factor, term);
        }
    }
    let mut total = S::zero();
    for sum in sums {
        total = S::add(total, sum);
    }
    let mut out = [0.0f32; 64];
    S::store(out.as_mut_ptr(), total);
    black_box(out);
    S::LANES
}

by_isa! {
    /// `a = b + c / 2` for the whole vectors of `count` elements.
    ///
    /// # Safety
    /// The arrays must have `count` elements.
    pub fn triad(a: *mut f32, b: *const f32, c: *const f32, count: usize) => triad_body
}

#[inline(always)]
unsafe fn triad_body<S: Simd<f32>>(a: *mut f32, b: *const f32, c: *const f32, count: usize) {
    let factor = S::splat(black_box(0.5));
    let mut i = 0;
    while i + S::LANES <= count {
        S::store(a.add(i), S::mul_add(S::load(c.add(i)), factor, S::load(b.add(i))));
        i += S::LANES;
    }
}
