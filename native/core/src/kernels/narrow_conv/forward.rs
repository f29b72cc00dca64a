//! Convolutions by tiles: a tile has a row for each of up to 16 results, and a column for each channel.

use super::shape::Shape;
use super::strip::{join, sums, write, Last, Left, DEPTH, SUMS, TILES};
use super::taps::each_tap;
use crate::calls::{ConvJson, EpilogueJson};
use crate::kernels::narrow::amx::{begin, end, TILE};
use crate::kernels::narrow::operands::{with_room, Lines};
use crate::kernels::narrow::pack::{tile, Side};
use crate::step::Run;
use crate::verify::At;
use crate::{bail, Result};

/// Multiply-adds of a task: about 20 microseconds.
const GRAIN: usize = 1 << 23;
/// Fewest rows of a tile that are read in place.
const ROWS: usize = 8;

pub struct Tiles {
    shape: Shape,
    /// Rows of a tile, and the first result of each: tiles overlap rather than to be shorter.
    rows: usize,
    first: Vec<usize>,
    in_place: bool,
    /// Bytes from a tile's first row to each step.
    steps: Vec<usize>,
    x: At,
    weight: At,
    strides: [isize; 6],
    out: At,
    epilogue: EpilogueJson,
}

/// Cuts `count` results into tiles of equal size.
fn cut(count: usize) -> (usize, impl Iterator<Item = usize> + Clone) {
    let rows = count.div_ceil(count.div_ceil(16));
    (rows, (0..count.div_ceil(rows)).map(move |i| (i * rows).min(count - rows)))
}

impl Tiles {
    pub fn new(call: &ConvJson) -> Result<Option<Tiles>> {
        let Some(shape) = Shape::new(&call.sizes, false)? else { return Ok(None) };
        let Ok(strides) = call.weight.strides.as_slice().try_into() else { bail!("weight: six strides are needed") };
        let (wide, row_starts) = cut(shape.g.s.ow);
        let runs = shape.runs(32).filter(|_| wide >= ROWS);
        let in_place = runs.is_some();
        let (rows, first) = if in_place {
            let starts = (0..shape.pixels.len()).step_by(shape.g.s.ow);
            (wide, starts.flat_map(|row| row_starts.clone().map(move |x| row + x)).collect())
        } else {
            let (rows, starts) = cut(shape.pixels.len());
            (rows, starts.collect())
        };
        let steps = runs.unwrap_or_else(|| (0..shape.patch).step_by(32).collect());
        let steps = steps.into_iter().map(|start| 2 * start).collect();
        let ConvJson { x, ref weight, out, ref epilogue, .. } = *call;
        let (weight, epilogue) = (weight.at, epilogue.clone());
        Ok(Some(Tiles { shape, rows, first, in_place, steps, x, weight, strides, out, epilogue }))
    }

    pub unsafe fn run(&self, run: &Run) {
        let s = &self.shape.g.s;
        self.pack(run);
        let work = self.shape.pixels.len() * self.shape.patch * s.o;
        let (images, group) = (s.n * s.g, (GRAIN / work).clamp(1, s.n * s.g));
        run.pool.run(images.div_ceil(group), usize::MAX, |_, task| {
            let patches = if self.in_place { 0 } else { 2 * TILES * 16 * self.shape.patch };
            with_room(self.shape.slot() + patches + 8 * SUMS, |room| {
                std::slice::from_raw_parts_mut(room.add(self.shape.slot()), patches).fill(0);
                begin(self.rows);
                (task * group..images.min((task + 1) * group)).for_each(|i| self.image(run, i, room));
                end();
            });
        });
    }

    /// Bytes of the packed weights of a group.
    fn weights(&self) -> usize {
        self.steps.len() * self.shape.g.s.o.div_ceil(16) * TILE
    }

    /// For each group and 16 channels, a right tile for each step.
    unsafe fn pack(&self, run: &Run) {
        let (s, patch) = (&self.shape.g.s, self.shape.patch);
        let columns = s.o.div_ceil(16);
        let to = run.extra as usize;
        run.pool.run(s.g * columns, usize::MAX, |_, task| {
            let (group, o) = (task / columns, task % columns * 16);
            let count = (s.o - o).min(16);
            with_room(32 * patch, |room| {
                let rows: *mut u16 = room.cast();
                std::slice::from_raw_parts_mut(rows, 16 * patch).fill(0);
                let mut row = rows;
                each_tap(s, run.ptr(self.weight), &self.strides, group, |from| {
                    for i in 0..count {
                        *row.add(i) = *from.wrapping_offset((o + i) as isize * self.strides[5]);
                    }
                    row = row.add(16);
                });
                let lines = Lines { from: room, size: 2, across: 1, along: 16 };
                let to = (to as *mut u8).add(task * self.steps.len() * TILE);
                for step in 0..self.steps.len() {
                    tile(lines.at(0, 32 * step), 16, 32, Side::Right, false, to.add(step * TILE));
                }
            });
        });
    }

    unsafe fn image(&self, run: &Run, at: usize, room: *mut u8) {
        let (shape, s) = (&self.shape, &self.shape.g.s);
        let (i, group) = (at / s.g, at % s.g);
        let image = shape.read(run.ptr(self.x), i, group, room.cast());
        let patches = room.add(shape.slot()).cast::<u16>();
        let totals = patches.add(if self.in_place { 0 } else { TILES * 16 * shape.patch }).cast::<f32>();
        let weights = run.extra.add(group * self.weights());
        let apart = s.g * s.o;
        let out = run.ptr::<u16>(self.out).add(i * shape.pixels.len() * apart + group * s.o);
        for strip in self.first.chunks(TILES) {
            let left = self.left(image, strip, patches);
            for (column, o) in (0..s.o).step_by(16).enumerate() {
                let right = weights.add(column * self.steps.len() * TILE);
                self.totals(left, strip.len(), right, totals);
                let bias = self.epilogue.bias.map(|at| run.ptr::<u16>(at).add(group * s.o + o).cast_const());
                let last = Last { columns: (s.o - o).min(16), bias, relu: self.epilogue.relu };
                for (tile, first) in strip.iter().enumerate() {
                    write(totals.add(tile * TILE / 4), self.rows, out.add(first * apart + o), apart, last);
                }
            }
        }
    }

    /// The left side of a strip; tiles that it lacks are its last one.
    unsafe fn left(&self, image: *const u16, strip: &[usize], patches: *mut u16) -> Left<'_> {
        let (shape, steps) = (&self.shape, self.steps.as_slice());
        let last = strip.len() - 1;
        if self.in_place {
            let tiles = [0, 1, 2, 3].map(|tile| image.add(shape.pixels[strip[last.min(tile)]]).cast());
            return Left { tiles, row: 2 * shape.g.s.strides[2] * shape.g.pixel, steps };
        }
        for (tile, first) in strip.iter().enumerate() {
            for (row, pixel) in shape.pixels[*first..first + self.rows].iter().enumerate() {
                shape.write_patch(image, *pixel, patches.add((tile * self.rows + row) * shape.patch));
            }
        }
        let tiles = [0, 1, 2, 3].map(|tile| patches.add(last.min(tile) * self.rows * shape.patch).cast_const().cast());
        Left { tiles, row: 2 * shape.patch, steps }
    }

    /// All sums of a strip, in blocks of steps.
    unsafe fn totals(&self, left: Left, tiles: usize, right: *const u8, totals: *mut f32) {
        for (block, steps) in left.steps.chunks(DEPTH).enumerate() {
            let to = if block == 0 { totals } else { totals.add(SUMS) };
            sums(Left { steps, ..left }, tiles > 2, right.add(block * DEPTH * TILE), to);
            if block > 0 {
                join(totals, to, tiles * TILE / 4);
            }
        }
    }
}
