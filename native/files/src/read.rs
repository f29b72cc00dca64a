//! Reading chunks of a file to where their bytes are needed.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::slice::{from_raw_parts, from_raw_parts_mut};

use crate::sha256::BLOCK;
use crate::sums::{Running, Sum, PART};

/// Bytes of a chunk that are needed: from where in the chunk, to where in the target.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub from: usize,
    pub to: usize,
    pub bytes: usize,
}

/// A chunk of a file.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    pub offset: u64,
    pub bytes: usize,
    pub sum: Sum,
    /// What is needed of it. Without runs the chunk is only verified.
    pub runs: &'a [Run],
}

impl Chunk<'_> {
    /// Where in the target the chunk lies, if all of it is needed in one place.
    fn place(&self) -> Option<usize> {
        match *self.runs {
            [Run { from: 0, to, bytes }] if bytes == self.bytes => Some(to),
            _ => None,
        }
    }
}

/// Reads chunks and puts their runs into `target`; gives the first chunk that does not have its sum, if any. Then, and after an error,
/// the target holds bytes that nobody may use.
///
/// # Errors
/// `InvalidInput` if a run is outside of its chunk or of the target, `UnexpectedEof` if the file ends before a chunk does, and those of the system.
pub fn read_chunks(file: &File, chunks: &[Chunk], target: &mut [u8]) -> Result<Option<usize>> {
    let inside = |at: usize, bytes: usize, all: usize| at.checked_add(bytes).is_some_and(|end| end <= all);
    let fits =
        |chunk: &Chunk, run: &Run| inside(run.from, run.bytes, chunk.bytes) && inside(run.to, run.bytes, target.len());
    if !chunks.iter().all(|chunk| chunk.runs.iter().all(|run| fits(chunk, run))) {
        return Err(Error::new(ErrorKind::InvalidInput, "a run is outside of its chunk, or of the target"));
    }
    let mut rooms = [Vec::new(), Vec::new()];
    for (index, pair) in chunks.chunks(2).enumerate() {
        let mut lanes = Vec::with_capacity(2);
        for (chunk, room) in pair.iter().zip(&mut rooms) {
            let to = match chunk.place() {
                Some(to) => target[to..to + chunk.bytes].as_mut_ptr(),
                None => {
                    room.resize(chunk.bytes.max(room.len()), 0);
                    room.as_mut_ptr()
                }
            };
            lanes.push(Lane { chunk, to, done: 0, sum: Running::of(&chunk.sum) });
        }
        if let [first, second] = &mut lanes[..] {
            first.read_with(second, file)?;
        }
        for (at, lane) in lanes.into_iter().enumerate() {
            let (chunk, bytes) = (lane.chunk, lane.to);
            if lane.finish(file)? != chunk.sum {
                return Ok(Some(2 * index + at));
            }
            if chunk.place().is_none() {
                // The lane has filled its room.
                let read = unsafe { from_raw_parts(bytes, chunk.bytes) };
                for run in chunk.runs {
                    target[run.to..run.to + run.bytes].copy_from_slice(&read[run.from..run.from + run.bytes]);
                }
            }
        }
    }
    Ok(None)
}

/// A chunk that is being read.
struct Lane<'a> {
    chunk: &'a Chunk<'a>,
    /// Where all of it goes, which no other thread uses. Two chunks may be given one place: then it is no matter what lies there.
    to: *mut u8,
    done: usize,
    sum: Running,
}

impl Lane<'_> {
    /// Reads the next bytes.
    fn part(&mut self, file: &File, bytes: usize) -> Result<&'static [u8]> {
        let to = self.to.wrapping_add(self.done);
        // `bytes` are left of the chunk, and the place has room for all of it. The slice is used before the next part is read.
        read_exact(file, unsafe { from_raw_parts_mut(to, bytes) }, self.chunk.offset + self.done as u64)?;
        self.done += bytes;
        Ok(unsafe { from_raw_parts(to, bytes) })
    }

    /// Reads the whole blocks that two chunks have in common in number.
    fn read_with(&mut self, other: &mut Lane, file: &File) -> Result<()> {
        let common = self.chunk.bytes.min(other.chunk.bytes) / BLOCK * BLOCK;
        while self.done < common {
            let bytes = PART.min(common - self.done);
            let parts = [self.part(file, bytes)?, other.part(file, bytes)?];
            Running::update_both(&mut self.sum, &mut other.sum, parts);
        }
        Ok(())
    }

    /// Reads what is left; gives the sum of all.
    fn finish(mut self, file: &File) -> Result<Sum> {
        while self.chunk.bytes - self.done > PART {
            let part = self.part(file, PART)?;
            self.sum.update(part);
        }
        let last = self.part(file, self.chunk.bytes - self.done)?;
        Ok(self.sum.finish(last))
    }
}

#[cfg(unix)]
fn read_exact(file: &File, into: &mut [u8], offset: u64) -> Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(windows)]
fn read_exact(file: &File, mut into: &mut [u8], mut offset: u64) -> Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, offset) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                into = &mut into[bytes..];
                offset += bytes as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
