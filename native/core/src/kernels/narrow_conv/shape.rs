//! How tiles read an image: in place, or from patches, which are rows of all numbers that a result is made of.

use super::strip::copy;
use crate::calls::ConvSizes;
use crate::dtype::DType;
use crate::isa::Isa;
use crate::kernels::conv::{Geometry, Reading};
use crate::Result;

/// Most elements of a padded image, in images: a convolution with more zeros than that between pixels is done by f32.
const ZEROS: usize = 8;

/// Whether the instruction set has tiles.
pub fn tiled(isa: Isa) -> bool {
    isa >= Isa::Amx
}

pub struct Shape {
    pub g: Geometry,
    /// Elements of an image as read.
    pub image: usize,
    /// The offset in an image as read of each result.
    pub pixels: Vec<usize>,
    /// Elements of a patch, which are followed by zeros.
    pub patch: usize,
}

impl Shape {
    /// The shape, where there is something to multiply and an image has no more than a few times its own size in zeros.
    pub fn new(sizes: &ConvSizes, filter: bool) -> Result<Option<Shape>> {
        let g = Geometry::new(ConvSizes { dtype: DType::F32, ..sizes.clone() }, filter)?;
        let s = &g.s;
        let volume = g.extent.iter().fold(s.c, |size, dim| size.saturating_mul(*dim));
        let real = s.d * s.h * s.w * s.c;
        let work = s.n * s.g * g.pixels() * g.taps() * s.o;
        let padded = g.reading != Reading::InPlace;
        if work == 0 || g.reading == Reading::Columns || (padded && volume > ZEROS.saturating_mul(real)) {
            return Ok(None);
        }
        let step = s.strides[2] * g.pixel;
        let pixels = g.rows().flat_map(|row| (0..s.ow).map(move |x| row + x * step)).collect();
        let image = if padded { volume } else { s.d * s.h * s.w * s.g * s.c };
        Ok(Some(Shape { image, pixels, patch: g.taps().next_multiple_of(32), g }))
    }

    /// Bytes of a padded image.
    pub fn slot(&self) -> usize {
        (2 * self.image).next_multiple_of(64)
    }

    /// A group of an image as read; `slot` has room for a padded one.
    pub unsafe fn read(&self, x: *const u16, i: usize, group: usize, slot: *mut u16) -> *const u16 {
        let s = &self.g.s;
        let image = x.add(i * s.d * s.h * s.w * s.g * s.c + group * s.c);
        if self.g.reading == Reading::InPlace {
            return image;
        }
        self.g.pad(image, slot);
        slot
    }

    /// The offsets of runs of `width` elements, in the order of taps, if all of a tap's neighbours can be cut so.
    pub fn runs(&self, width: usize) -> Option<Vec<usize>> {
        let whole = self.g.segment.is_multiple_of(width);
        let within = |start: &isize| {
            let start = *start as usize;
            (0..self.g.segment / width).map(move |i| start + i * width)
        };
        whole.then(|| self.g.segments.iter().flat_map(within).collect())
    }

    /// Writes the patch of a pixel; the zeros behind it are not written.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn write_patch(&self, image: *const u16, pixel: usize, to: *mut u16) {
        let from = image.add(pixel);
        for (i, start) in self.g.segments.iter().enumerate() {
            copy(from.offset(*start), to.add(i * self.g.segment), self.g.segment);
        }
    }
}
