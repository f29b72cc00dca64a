//! Philox 4x32-10: bits are a function of key, stream and the index in the global tensor.

use crate::calls::RandomBitsJson;
use crate::isa::{by_isa, Level};
use crate::reader::kernels;
use crate::sizes::offset_of;
use crate::step::{Kernel, Run};
use crate::verify::{contiguous, count};
use crate::{bail, Result};

kernels! {
    randomBits = RandomBits::new;
}

pub struct RandomBits {
    call: RandomBitsJson,
    strides: Vec<isize>,
    count: usize,
}

impl RandomBits {
    pub fn new(call: RandomBitsJson) -> Result<RandomBits> {
        count(&call.total)?;
        if call.shape.len() != call.total.len() {
            bail!("shape {:?} and total {:?} differ in rank", call.shape, call.total);
        }
        Ok(RandomBits { strides: contiguous(&call.total), count: count(&call.shape)?, call })
    }
}

impl Kernel for RandomBits {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let (key, start) = unsafe {
            let start = std::slice::from_raw_parts(run.ptr::<i32>(self.call.start), self.call.shape.len());
            (*run.ptr::<[u32; 2]>(self.call.key), start)
        };
        for (d, at) in start.iter().enumerate() {
            let (size, total) = (self.call.shape[d] as i64, self.call.total[d] as i64);
            if (*at as i64) < 0 || *at as i64 + size > total {
                bail!("start {at} of dim {d} puts {size} elements outside the {total} of the whole");
            }
        }
        let strides = &self.strides;
        let first: i64 = start.iter().zip(strides).map(|(at, s)| *at as i64 * *s as i64).sum();
        // Trailing dims that are whole form one run with the last cut dim.
        let rank = self.call.shape.len();
        let mut cut = rank.saturating_sub(1);
        while cut > 0 && self.call.shape[cut] == self.call.total[cut] {
            cut -= 1;
        }
        let length: usize = self.call.shape[cut.min(rank)..].iter().product();
        const PIECE: usize = 1 << 14;
        let pieces = length.div_ceil(PIECE);
        let out = run.ptr::<u32>(self.call.out) as usize;
        run.pool.run(self.count / length * pieces, usize::MAX, |_, task| {
            let (row, piece) = (task / pieces, task % pieces);
            let index =
                (first + offset_of(&self.call.shape[..cut], strides, row) as i64) as u64 + (piece * PIECE) as u64;
            let n = PIECE.min(length - piece * PIECE);
            unsafe {
                let to = (out as *mut u32).add(row * length + piece * PIECE);
                fill(run.isa, key, self.call.stream, index, std::slice::from_raw_parts_mut(to, n));
            }
        });
        Ok(())
    }
}

by_isa! { pub(super) fn fill(key: [u32; 2], stream: u32, index: u64, out: &mut [u32]) => fill_body }

/// Blocks computed side by side.
const WIDE: usize = 16;

#[inline(always)]
unsafe fn fill_body<L: Level>(key: [u32; 2], stream: u32, index: u64, out: &mut [u32]) {
    let mut done = 0;
    let mut block = index / 4;
    let mut skip = (index % 4) as usize;
    while done < out.len() {
        let words = blocks(key, stream, block);
        if let (0, Some(whole)) = (skip, out.get_mut(done..done + 4 * WIDE)) {
            for (b, four) in whole.chunks_exact_mut(4).enumerate() {
                for w in 0..4 {
                    four[w] = words[w][b];
                }
            }
            done += 4 * WIDE;
            block = block.wrapping_add(WIDE as u64);
            continue;
        }
        let n = (4 * WIDE - skip).min(out.len() - done);
        for (i, o) in out[done..done + n].iter_mut().enumerate() {
            let at = skip + i;
            *o = words[at % 4][at / 4];
        }
        done += n;
        skip = 0;
        block = block.wrapping_add(WIDE as u64);
    }
}

/// Bits of as many counters as a vector is wide, from `first` on: word w of block b at `[w][b]`.
#[inline(always)]
pub fn blocks(key: [u32; 2], stream: u32, first: u64) -> [[u32; WIDE]; 4] {
    let mut c = [[0u32; WIDE]; 4];
    for b in 0..WIDE {
        let at = first.wrapping_add(b as u64);
        c[0][b] = at as u32;
        c[1][b] = (at >> 32) as u32;
        c[2][b] = stream;
    }
    let mut k = key;
    for _ in 0..10 {
        for b in 0..WIDE {
            let p0 = 0xd251_1f53u64 * c[0][b] as u64;
            let p1 = 0xcd9e_8d57u64 * c[2][b] as u64;
            let (x0, x2) = ((p1 >> 32) as u32 ^ c[1][b] ^ k[0], (p0 >> 32) as u32 ^ c[3][b] ^ k[1]);
            c[0][b] = x0;
            c[1][b] = p1 as u32;
            c[2][b] = x2;
            c[3][b] = p0 as u32;
        }
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    c
}
