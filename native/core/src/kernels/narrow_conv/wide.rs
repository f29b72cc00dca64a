//! Convolutions of bf16 in f32, image by image: what processors without AMX do, with the bits of a convolution of f32 between casts.

use heddle_half::{Bf16, Half};

use super::taps::each_tap;
use crate::calls::{ConvFilterJson, ConvJson, ConvSizes, EpilogueJson, StridedJson};
use crate::dtype::DType;
use crate::isa::{by_isa, Level};
use crate::kernels::conv::{Conv, ConvFilter};
use crate::kernels::narrow::finish::{write, Epilogue, Sums};
use crate::kernels::narrow::operands::with_room;
use crate::kernels::product::Matrix;
use crate::step::{Kernel, Run};
use crate::verify::{count, At};
use crate::{bail, Result};

/// Elements of an image, of its results, and of the weights.
fn counts(s: &ConvSizes) -> Result<[usize; 3]> {
    Ok([
        count(&[s.d, s.h, s.w, s.g, s.c])?,
        count(&[s.od, s.oh, s.ow, s.g, s.o])?,
        count(&[s.g, s.kd, s.kh, s.kw, s.c, s.o])?,
    ])
}

pub struct Forward {
    call: ConvJson,
    strides: [isize; 6],
    /// Of one image.
    plain: Conv,
    counts: [usize; 3],
    scratch: usize,
}

impl Forward {
    pub fn new(call: ConvJson) -> Result<Forward> {
        let Ok(strides) = call.weight.strides.as_slice().try_into() else { bail!("weight: six strides are needed") };
        let sizes = ConvSizes { dtype: DType::F32, n: 1, slots: 1, ..call.sizes.clone() };
        let (s, counts) = (&call.sizes, counts(&call.sizes)?);
        let steps = [s.kd, s.kh, s.kw, s.c, s.o, 1];
        let dense = (0..6).map(|i| steps[i..].iter().product::<usize>() as isize).collect();
        let [x, weight, out, scratch] = [0, 1, 2, 3].map(|space| At { space, offset: 0 });
        let scratch_bytes = (sizes.weights() + sizes.slot()).get("scratch")?;
        let weight = StridedJson { at: weight, strides: dense };
        let plain = ConvJson { sizes, epilogue: EpilogueJson { bias: None, relu: false }, x, weight, out, scratch };
        Ok(Forward { plain: Conv::new(plain)?, strides, counts, scratch: scratch_bytes, call })
    }

    pub fn run(&self, run: &Run) -> Result<()> {
        let (s, [size, results, _]) = (&self.call.sizes, self.counts);
        let weights: *mut f32 = run.extra.cast();
        if s.n * results == 0 {
            return Ok(());
        }
        unsafe {
            let mut to = weights;
            for group in 0..s.g {
                each_tap(s, run.ptr(self.call.weight.at), &self.strides, group, |from| {
                    for o in 0..s.o {
                        *to = Bf16::of_bits(*from.wrapping_offset(o as isize * self.strides[5])).wide();
                        to = to.add(1);
                    }
                });
            }
        }
        let weights = weights as usize;
        run.pool.run(s.n, usize::MAX, |_, i| unsafe {
            with_room(self.scratch + 4 * (size + results), |room| {
                let x: *mut f32 = room.add(self.scratch).cast();
                let out = x.add(size);
                widen(run.isa, run.ptr::<u16>(self.call.x).add(i * size), x, size);
                let bases = [x.cast(), weights as *mut u8, out.cast(), room];
                // It has nothing that could fail once it was made.
                let _ = self.plain.run(&Run { bases: &bases, ..*run }, 0);
                let columns = s.g * s.o;
                let sums = Sums { from: out.cast(), width: columns, rows: results / columns, columns };
                let to = run.ptr::<Bf16>(self.call.out).add(i * results).cast_const();
                let EpilogueJson { bias, relu } = self.call.epilogue;
                let epilogue = Epilogue { bias: bias.map(|at| run.ptr::<Bf16>(at).cast_const()), relu };
                write(run.isa, sums, Matrix { ptr: to, rows: columns as isize, columns: 1 }, epilogue);
            });
        });
        Ok(())
    }
}

pub struct Filter {
    call: ConvFilterJson,
    plain: ConvFilter,
    counts: [usize; 3],
    slot: usize,
}

impl Filter {
    pub fn new(call: ConvFilterJson) -> Result<Filter> {
        let sizes = ConvSizes { dtype: DType::F32, ..call.sizes.clone() };
        let (slot, counts) = (sizes.slot().get("slot")?, counts(&sizes)?);
        Ok(Filter { plain: ConvFilter::new(ConvFilterJson { sizes, ..call.clone() })?, counts, slot, call })
    }

    pub unsafe fn run(&self, run: &Run) {
        let (s, [size, results, weights]) = (&self.call.sizes, self.counts);
        let out = run.ptr::<Bf16>(self.call.out);
        if s.n * results * weights == 0 {
            return std::slice::from_raw_parts_mut(out, weights).fill(Bf16(0));
        }
        let (x, dy) = (run.ptr::<u16>(self.call.x) as usize, run.ptr::<u16>(self.call.dy) as usize);
        let sums: *mut f32 = run.extra.cast();
        self.plain.sum(run, sums, sums, &|[_, i, group], f| {
            with_room(self.slot + 4 * (size + results), |room| {
                let wide: *mut f32 = room.add(self.slot).cast();
                widen(run.isa, (x as *const u16).add(i * size), wide, size);
                widen(run.isa, (dy as *const u16).add(i * results), wide.add(size), results);
                f(self.plain.g.image(wide, 0, group, room.cast()), wide.add(size + group * s.o));
            });
        });
        let total = Sums { from: sums.cast(), width: weights, rows: 1, columns: weights };
        let to = Matrix { ptr: out.cast_const(), rows: weights as isize, columns: 1 };
        write(run.isa, total, to, Epilogue { bias: None, relu: false });
    }
}

by_isa! { fn widen(from: *const u16, to: *mut f32, count: usize) => widen_body }

#[inline(always)]
unsafe fn widen_body<L: Level>(from: *const u16, to: *mut f32, count: usize) {
    for i in 0..count {
        *to.add(i) = Bf16::of_bits(*from.add(i)).wide();
    }
}
