//! Convolutions of bf16 and their gradients by the weight, with sums in f32 that are rounded once. Processors with AMX multiply tiles
//! (`forward`, `filter`); all others widen one image after another (`wide`). Bits depend on the shape and the instruction set alone.

use super::conv::{Conv, ConvFilter};
use super::window::Kind;
use crate::calls::{ConvFilterJson, ConvJson, ConvSizes};
use crate::dtype::DType;
use crate::reader::kernels;
use crate::sizes::{aligned, Size};
use crate::step::{Kernel, Run};
use crate::Result;

#[cfg(target_arch = "x86_64")]
mod filter;
#[cfg(target_arch = "x86_64")]
mod forward;
#[cfg(target_arch = "x86_64")]
mod shape;
#[cfg(target_arch = "x86_64")]
mod strip;
mod taps;
mod wide;
mod windows;

use windows::Windows;

kernels! {
    conv = Forward::new;
    convFilter = Filter::new;
    reduceWindow = |call| Windows::new(Kind::Reduce, call);
    selectAndScatter = |call| Windows::new(Kind::Scatter, call);
    windowTake = |call| Windows::new(Kind::Take, call);
}

/// A convolution of any float dtype but f16.
enum Forward {
    Plain(Box<Conv>),
    Narrow {
        #[cfg(target_arch = "x86_64")]
        tiles: Option<Box<forward::Tiles>>,
        wide: Box<wide::Forward>,
        extra: usize,
    },
}

impl Forward {
    fn new(call: ConvJson) -> Result<Forward> {
        if call.sizes.dtype != DType::Bf16 {
            return Ok(Forward::Plain(Box::new(Conv::new(call)?)));
        }
        Ok(Forward::Narrow {
            extra: room(&call.sizes, 1)?,
            #[cfg(target_arch = "x86_64")]
            tiles: forward::Tiles::new(&call)?.map(Box::new),
            wide: Box::new(wide::Forward::new(call)?),
        })
    }
}

impl Kernel for Forward {
    fn run(&self, run: &Run, step: usize) -> Result<()> {
        match self {
            Forward::Plain(conv) => conv.run(run, step),
            #[cfg(target_arch = "x86_64")]
            Forward::Narrow { tiles: Some(tiles), .. } if shape::tiled(run.isa) => {
                unsafe { tiles.run(run) };
                Ok(())
            }
            Forward::Narrow { wide, .. } => wide.run(run),
        }
    }

    fn extra(&self) -> usize {
        if let Forward::Narrow { extra, .. } = self {
            return *extra;
        }
        0
    }
}

/// The gradient of a convolution by its weight.
enum Filter {
    Plain(Box<ConvFilter>),
    Narrow {
        #[cfg(target_arch = "x86_64")]
        tiles: Option<Box<filter::Tiles>>,
        wide: Box<wide::Filter>,
        extra: usize,
    },
}

impl Filter {
    fn new(call: ConvFilterJson) -> Result<Filter> {
        if call.sizes.dtype != DType::Bf16 {
            return Ok(Filter::Plain(Box::new(ConvFilter::new(call)?)));
        }
        Ok(Filter::Narrow {
            extra: room(&call.sizes, call.sizes.chunks().get("chunks")?)?,
            #[cfg(target_arch = "x86_64")]
            tiles: filter::Tiles::new(&call)?.map(Box::new),
            wide: Box::new(wide::Filter::new(call)?),
        })
    }
}

impl Kernel for Filter {
    fn run(&self, run: &Run, step: usize) -> Result<()> {
        match self {
            Filter::Plain(filter) => return filter.run(run, step),
            #[cfg(target_arch = "x86_64")]
            Filter::Narrow { tiles: Some(tiles), .. } if shape::tiled(run.isa) => unsafe { tiles.run(run) },
            Filter::Narrow { wide, .. } => unsafe { wide.run(run) },
        }
        Ok(())
    }

    fn extra(&self) -> usize {
        if let Filter::Narrow { extra, .. } = self {
            return *extra;
        }
        0
    }
}

/// Bytes of f32 for so many weights, with taps and results rounded up to whole tiles.
fn room(s: &ConvSizes, areas: usize) -> Result<usize> {
    let taps = [s.kd, s.kh, s.kw, s.c].into_iter().fold(Size::of(2), |size, dim| size * Size::of(dim));
    let of_group = aligned(taps) * aligned(Size::of(4) * Size::of(s.o));
    Ok((Size::of(areas) * Size::of(s.g) * of_group).get("room")? / 2)
}
