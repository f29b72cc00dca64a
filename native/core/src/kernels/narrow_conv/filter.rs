//! Gradients of convolutions by the weight, by tiles: a tile of sums has a row for each of 16 channels of the result, and a column for
//! each of 16 numbers of a patch. What is contracted are the results of a few images at once.

use heddle_half::{Bf16, Half};

use super::shape::Shape;
use super::strip::{join, rows, sums, Left, DEPTH, SUMS, TILES};
use crate::calls::ConvFilterJson;
use crate::kernels::dot::tree;
use crate::kernels::micro::SPAN;
use crate::kernels::narrow::amx::{begin, end, TILE};
use crate::kernels::narrow::operands::{with_room, Lines};
use crate::kernels::narrow::pack::{tile, Side};
use crate::kernels::tally::totals;
use crate::step::Run;
use crate::verify::At;
use crate::Result;

/// Steps of a block: where channels have four tiles of rows or more, the cotangents of fewer steps stay in L1 beside the columns.
fn depth(channels: usize) -> usize {
    (28 / channels.div_ceil(16)).clamp(7, DEPTH)
}

pub struct Tiles {
    shape: Shape,
    chunks: usize,
    /// Images that lie side by side, and where each of their results is.
    together: usize,
    pixels: Vec<usize>,
    /// Most results of a block.
    block: usize,
    /// Where the patches of a block are, if the image is not read in place.
    patches: Vec<usize>,
    /// Where each 16 columns begin, from an image's result on or in a patch.
    in_place: bool,
    columns: Vec<usize>,
    x: At,
    dy: At,
    out: At,
}

impl Tiles {
    pub fn new(call: &ConvFilterJson) -> Result<Option<Tiles>> {
        let Some(shape) = Shape::new(&call.sizes, true)? else { return Ok(None) };
        let (count, s) = (shape.pixels.len(), &shape.g.s);
        let most = 32 * depth(s.o);
        let together = if s.g == 1 { (most / count).clamp(1, s.n) } else { 1 };
        let all = (0..together).flat_map(|i| shape.pixels.iter().map(move |pixel| (i, *pixel)));
        let pixels: Vec<usize> = all.map(|(i, pixel)| i * shape.image + pixel).collect();
        let block = pixels.len().div_ceil(pixels.len().div_ceil(most)).next_multiple_of(32);
        let runs = shape.runs(16);
        let in_place = runs.is_some();
        let patches = (0..block).map(|i| i * shape.patch).collect();
        let columns = runs.unwrap_or_else(|| (0..shape.g.taps()).step_by(16).collect());
        let ConvFilterJson { x, dy, out, .. } = *call;
        let chunks = shape.g.s.chunks().get("chunks")?;
        Ok(Some(Tiles { shape, chunks, together, pixels, block, patches, in_place, columns, x, dy, out }))
    }

    /// Tiles of rows.
    fn rows(&self) -> usize {
        self.shape.g.s.o.div_ceil(16)
    }

    /// Sums of a group: for each 16 columns the tiles of all rows.
    fn area(&self) -> usize {
        self.columns.len() * self.rows() * TILE / 4
    }

    pub unsafe fn run(&self, run: &Run) {
        let (s, area) = (&self.shape.g.s, self.area());
        let sums = run.extra as usize;
        run.pool.run(self.chunks * s.g, usize::MAX, |_, task| {
            let (chunk, group) = (task / s.g, task % s.g);
            let sum = (sums as *mut f32).add(task * area);
            let (first, last) = (s.n * chunk / self.chunks, s.n * (chunk + 1) / self.chunks);
            let slots = self.together * self.shape.slot();
            let patches = if self.in_place { 0 } else { 2 * self.block * self.shape.patch };
            let tiles = self.block / 32 * TILE;
            with_room(slots + patches + (self.rows() + 1) * tiles + 4 * SUMS, |room| {
                std::slice::from_raw_parts_mut(room.add(slots), patches).fill(0);
                let add = |images: [usize; 2], to: *mut f32| {
                    std::slice::from_raw_parts_mut(to, area).fill(0.0);
                    for i in (images[0]..images[1]).step_by(self.together) {
                        self.images(run, [i, images[1].min(i + self.together)], group, room, to);
                    }
                };
                begin(16);
                let many = (4 * SPAN / self.shape.pixels.len()).max(1);
                if last - first <= many {
                    add([first, last], sum);
                } else {
                    totals(run.isa, area, |tally| {
                        for start in (first..last).step_by(many) {
                            add([start, last.min(start + many)], tally.sums.as_mut_ptr());
                            tally.join();
                        }
                        tally.settle();
                        std::ptr::copy_nonoverlapping(tally.totals.as_ptr(), sum, area);
                    });
                }
                end();
            });
        });
        tree(sums as *mut f32, self.chunks, s.g * area, s.g * area);
        self.write(run, sums as *const f32);
    }

    /// Adds the products of some images that lie side by side.
    unsafe fn images(&self, run: &Run, [first, last]: [usize; 2], group: usize, room: *mut u8, total: *mut f32) {
        let (shape, s, apart) = (&self.shape, &self.shape.g.s, self.shape.g.s.g * self.shape.g.s.o);
        let image = shape.read(run.ptr(self.x), first, group, room.cast());
        for i in first + 1..last {
            shape.read(run.ptr(self.x), i, group, room.cast::<u16>().add((i - first) * shape.image));
        }
        let dy = run.ptr::<u16>(self.dy).add(first * shape.pixels.len() * apart + group * s.o);
        let patches = room.add(self.together * shape.slot()).cast::<u16>();
        let right = patches.add(if self.in_place { 0 } else { self.block * shape.patch }).cast::<u8>();
        let pixels = &self.pixels[..(last - first) * shape.pixels.len()];
        for (at, mut block) in pixels.chunks(self.block).enumerate() {
            let from = Lines {
                from: dy.add(at * self.block * apart).cast_const().cast(),
                size: 2,
                across: 1,
                along: apart as isize,
            };
            let left = right.add(block.len().div_ceil(32) * TILE);
            self.turn(from, block.len(), left);
            if !self.in_place {
                for (i, pixel) in block.iter().enumerate() {
                    shape.write_patch(image, *pixel, patches.add(i * shape.patch));
                }
                block = &self.patches[..block.len()];
            }
            let from = if self.in_place { image } else { patches.cast_const() };
            for (column, start) in self.columns.iter().enumerate() {
                let to = total.add(column * self.rows() * TILE / 4);
                self.column(block, from.add(*start), [left, right], to);
            }
        }
    }

    /// Tiles of the cotangents: for each 16 channels one for each 32 results.
    unsafe fn turn(&self, from: Lines, count: usize, to: *mut u8) {
        let steps = count.div_ceil(32);
        for (row, o) in (0..self.shape.g.s.o).step_by(16).enumerate() {
            for step in 0..steps {
                let (lines, along) = ((self.shape.g.s.o - o).min(16), (count - 32 * step).min(32));
                tile(from.at(o, 32 * step), lines, along, Side::Left, false, to.add((row * steps + step) * TILE));
            }
        }
    }

    /// Adds the products of a block with 16 columns.
    unsafe fn column(&self, block: &[usize], from: *const u16, [left, right]: [*mut u8; 2], total: *mut f32) {
        for (step, pixels) in block.chunks(32).enumerate() {
            rows(pixels, from, right.add(step * TILE));
        }
        let steps: [usize; DEPTH] = std::array::from_fn(|step| step * TILE);
        let steps = &steps[..block.len().div_ceil(32)];
        let sums_at = left.add(self.rows() * steps.len() * TILE).cast::<f32>();
        for row in (0..self.rows()).step_by(TILES) {
            let count = TILES.min(self.rows() - row);
            let tiles = [0, 1, 2, 3].map(|i| left.add((row + i.min(count - 1)) * steps.len() * TILE).cast_const());
            sums(Left { tiles, row: 64, steps }, count > 2, right, sums_at);
            join(total.add(row * TILE / 4), sums_at, count * TILE / 4);
        }
    }

    /// Rounds the sums: rows are channels, which come last in the result.
    unsafe fn write(&self, run: &Run, sums: *const f32) {
        let s = &self.shape.g.s;
        let (taps, out, sums) = (self.shape.g.taps(), run.ptr::<Bf16>(self.out) as usize, sums as usize);
        let columns = self.columns.len();
        run.pool.run(s.g * columns, usize::MAX, |_, task| {
            let (group, column) = (task / columns, task % columns);
            let from = (sums as *const f32).add(group * self.area() + column * self.rows() * TILE / 4);
            let to = (out as *mut Bf16).add((group * taps + 16 * column) * s.o);
            for k in 0..16.min(taps - 16 * column) {
                for o in 0..s.o {
                    *to.add(k * s.o + o) = Bf16::narrow(*from.add(16 * o + k));
                }
            }
        });
    }
}
