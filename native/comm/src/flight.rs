//! The flight recorder: the last collectives of a rank, in a shared file mapping that outlives the process.
//!
//! The file is 64-bit words in native byte order: an 8-word header, then 256 slots of 32 words. A slot is invalidated
//! before it is rewritten and carries a checksum of what does not change while the collective runs, so a reader of a
//! process killed at any instant leaves out the one slot that was being written.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::small::{Described, TEXT_WORDS, mix, used_words};
use crate::{Error, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"HDLFLT03");
const SLOTS: usize = 256;
const HEADER: usize = 8;
const SLOT: usize = 32;
const WORDS: usize = HEADER + SLOTS * SLOT;
const TEXT_AT: usize = SLOT - TEXT_WORDS;

/// State of a recorded collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlightState {
    /// Not finished when the file was read.
    Running,
    /// Finished.
    Done,
    /// Ended with an error.
    Failed,
}

/// One recorded collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightEntry {
    /// Number of the collective in this world, from 0.
    pub index: u64,
    /// Sequence number in its group.
    pub sequence: u64,
    /// Identity of the group.
    pub group: u64,
    /// Training step when it started.
    pub step: u64,
    /// Frames received so far.
    pub progress: u64,
    /// What it is, such as `allReduce sum f32 x 320 'gradients 0'`; cut to 176 bytes.
    pub description: String,
    /// Start, nanoseconds since the Unix epoch; of messages of at most 16 KiB, to a few milliseconds.
    pub started: u64,
    /// End, nanoseconds since the Unix epoch, to a few milliseconds; 0 while it runs.
    pub finished: u64,
    /// How far it came.
    pub state: FlightState,
}

/// Content of a flight recorder file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight {
    /// The rank that wrote it.
    pub rank: usize,
    /// Number of ranks in its world.
    pub size: usize,
    /// Last training step set.
    pub step: u64,
    /// The last collectives that could be read, oldest first.
    pub entries: Vec<FlightEntry>,
    /// The collective that was running, if any.
    pub current: Option<FlightEntry>,
}

/// Writes a flight recorder file, or nothing when it has none.
pub(crate) struct Recorder {
    map: Option<MmapRaw>,
    started: AtomicU64,
}

fn now(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Gives the file its size with room on the disk: a mapped page that finds none is a fatal signal, not an error.
fn reserve(mut file: &File) -> std::io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, (WORDS * 8) as u64) {
        // Not every file system can reserve.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => file.write_all(&[0; WORDS * 8]),
        result => Ok(result?),
    }
}

impl Recorder {
    /// A recorder that keeps nothing.
    pub(crate) fn none() -> Self {
        Self { map: None, started: AtomicU64::new(0) }
    }

    /// Starts a file anew.
    pub(crate) fn create(path: &Path, rank: usize, size: usize) -> Result<Self> {
        let failed = |error| Error::io(format!("could not make the flight recorder {}", path.display()), error);
        // A new file, not a truncated one: another process may still have the old one mapped.
        let _ = std::fs::remove_file(path);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).map_err(failed)?;
        if let Err(error) = reserve(&file) {
            let _ = std::fs::remove_file(path);
            return Err(failed(error));
        }
        let map = MmapOptions::new().len(WORDS * 8).map_raw(&file).map_err(failed)?;
        let recorder = Self { map: Some(map), started: AtomicU64::new(0) };
        // Touching every page now keeps page faults out of the collectives.
        recorder.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        recorder.words()[1].store((rank as u64) << 32 | size as u64, Ordering::Relaxed);
        recorder.words()[0].store(MAGIC, Ordering::Release);
        Ok(recorder)
    }

    fn words(&self) -> &[AtomicU64] {
        match &self.map {
            // SAFETY: the mapping is page-aligned, WORDS words long, lives as long as self, and is only ever accessed
            // through these atomics.
            Some(map) => unsafe { std::slice::from_raw_parts(map.as_mut_ptr().cast(), WORDS) },
            None => &[],
        }
    }

    /// Notes the training step.
    pub(crate) fn set_step(&self, step: u64) {
        if let Some(word) = self.words().get(2) {
            word.store(step, Ordering::Relaxed);
        }
    }

    /// Records a collective that begins; returns its number. One at a time: `coarse`, for a short one, takes the time of the
    /// system's last tick, which is a single load.
    pub(crate) fn start(&self, group: u64, sequence: u64, description: &Described, coarse: bool) -> u64 {
        let index = self.started.load(Ordering::Relaxed);
        self.started.store(index + 1, Ordering::Relaxed);
        let words = self.words();
        if words.is_empty() {
            return index;
        }
        let at = HEADER + (index as usize % SLOTS) * SLOT;
        let slot = &words[at..at + SLOT];
        slot[0].store(0, Ordering::Release);
        let started = now(if coarse { ClockId::RealtimeCoarse } else { ClockId::Realtime });
        let fixed = [index, sequence, group, words[2].load(Ordering::Relaxed), started, description.length];
        fixed.iter().zip(&slot[1..]).for_each(|(value, word)| word.store(*value, Ordering::Relaxed));
        description.used().iter().zip(&slot[TEXT_AT..]).for_each(|(value, word)| word.store(*value, Ordering::Relaxed));
        slot[7].store(0, Ordering::Relaxed);
        slot[8].store(1, Ordering::Relaxed);
        slot[9].store(0, Ordering::Relaxed);
        slot[0].store(mix(description.check, fixed.into_iter()), Ordering::Release);
        index
    }

    /// Notes how many frames of collective `index` have been received.
    pub(crate) fn progress(&self, index: u64, frames: u64) {
        if let Some(word) = self.words().get(HEADER + (index as usize % SLOTS) * SLOT + 7) {
            word.store(frames, Ordering::Relaxed);
        }
    }

    /// Notes the end of collective `index`.
    pub(crate) fn finish(&self, index: u64, succeeded: bool) {
        let at = HEADER + (index as usize % SLOTS) * SLOT;
        if let Some(slot) = self.words().get(at..at + SLOT) {
            let ended = now(ClockId::RealtimeCoarse).max(slot[5].load(Ordering::Relaxed));
            slot[9].store(ended, Ordering::Relaxed);
            slot[8].store(if succeeded { 2 } else { 3 }, Ordering::Release);
        }
    }
}

/// Reads a flight recorder file; entries that are torn or corrupt are left out.
pub fn read_flight(path: &Path) -> Result<Flight> {
    let what = || format!("could not read the flight recorder {}", path.display());
    let length = std::fs::metadata(path).map_err(|error| Error::io(what(), error))?.len();
    if length != (WORDS * 8) as u64 {
        return Err(Error::io(what(), format!("it has {length} bytes instead of {}", WORDS * 8)));
    }
    let bytes = std::fs::read(path).map_err(|error| Error::io(what(), error))?;
    let words: Vec<u64> = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8"))).collect();
    if words.len() != WORDS || words[0] != MAGIC {
        return Err(Error::io(what(), "it is not a flight recorder, or of another version"));
    }
    let mut entries: Vec<FlightEntry> = words[HEADER..].chunks_exact(SLOT).enumerate().filter_map(read_slot).collect();
    entries.sort_by_key(|entry| entry.index);
    // Slots further back than one round are left-overs of a damaged file.
    let newest = entries.last().map_or(0, |entry| entry.index);
    entries.retain(|entry| newest - entry.index < SLOTS as u64);
    let current = entries.last().filter(|entry| entry.state == FlightState::Running).cloned();
    let (rank, size) = ((words[1] >> 32) as usize, (words[1] & 0xffff_ffff) as usize);
    Ok(Flight { rank, size, step: words[2], entries, current })
}

fn read_slot((position, slot): (usize, &[u64])) -> Option<FlightEntry> {
    let text = &slot[TEXT_AT..][..used_words(slot[6])];
    let check = mix(mix(0, text.iter().copied()), slot[1..7].iter().copied());
    if slot[0] != check || slot[1] as usize % SLOTS != position {
        return None;
    }
    let state = match slot[8] {
        1 => FlightState::Running,
        2 => FlightState::Done,
        3 => FlightState::Failed,
        _ => return None,
    };
    let text: Vec<u8> = text.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = &text[..(slot[6] as usize).min(text.len())];
    Some(FlightEntry {
        index: slot[1],
        sequence: slot[2],
        group: slot[3],
        step: slot[4],
        started: slot[5],
        progress: slot[7],
        finished: slot[9],
        description: String::from_utf8_lossy(text).into_owned(),
        state,
    })
}
