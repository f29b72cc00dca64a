//! Aligned memory that is zero when it is first mapped, recycled by size class, and counted.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;

use crate::{Fault, Result};

const HUGE: usize = 2 << 20;
const ALIGN: usize = 64;
/// Under a sanitizer every buffer is an allocation of its exact size, so that the sanitizer sees where the buffer ends.
const EXACT: bool = cfg!(heddle_exact);
/// Most bytes kept for reuse.
const KEPT: usize = 512 << 20;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);
static FREE: Mutex<Free> = Mutex::new(Free { blocks: BTreeMap::new(), bytes: 0 });

struct Free {
    blocks: BTreeMap<usize, Vec<Block>>,
    bytes: usize,
}

struct Block {
    ptr: *mut u8,
    capacity: usize,
}

unsafe impl Send for Block {}

pub struct Buffer {
    ptr: *mut u8,
    len: usize,
    capacity: usize,
}

unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

/// An argument of a run: the bytes of a buffer, or a part of them.
#[derive(Clone, Copy)]
pub struct Span {
    pub ptr: *mut u8,
    pub len: usize,
}

unsafe impl Send for Span {}

impl Span {
    /// Whether the two spans have a byte in common.
    pub(crate) fn overlaps(self, other: Span) -> bool {
        self.ptr < other.ptr.wrapping_add(other.len) && other.ptr < self.ptr.wrapping_add(self.len)
    }
}

impl From<&Buffer> for Span {
    fn from(buffer: &Buffer) -> Span {
        Span { ptr: buffer.ptr, len: buffer.len }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub live_buffers: usize,
    pub live_bytes: usize,
    pub peak_bytes: usize,
}

pub fn memory() -> Memory {
    Memory {
        live_buffers: LIVE.load(Relaxed),
        live_bytes: LIVE_BYTES.load(Relaxed),
        peak_bytes: PEAK_BYTES.load(Relaxed),
    }
}

/// Size classes: four per power of two, so at most a quarter is wasted.
fn class(bytes: usize) -> usize {
    if EXACT {
        return bytes.max(1);
    }
    if bytes <= 256 {
        return 256;
    }
    let step = (bytes.next_power_of_two() >> 3).max(64);
    bytes.div_ceil(step) * step
}

impl Buffer {
    pub fn new(bytes: usize) -> Result<Buffer> {
        if bytes > isize::MAX as usize / 4 {
            return Err(Fault::Memory { bytes }.into());
        }
        let mut capacity = class(bytes);
        if capacity >= HUGE && !EXACT {
            capacity = capacity.div_ceil(HUGE) * HUGE;
        }
        let reused = {
            let mut free = FREE.lock().unwrap_or_else(|e| e.into_inner());
            let block = free.blocks.get_mut(&capacity).and_then(Vec::pop);
            if block.is_some() {
                free.bytes -= capacity;
            }
            block
        };
        let ptr = match reused {
            Some(block) => block.ptr,
            None => map(capacity),
        };
        if ptr.is_null() {
            return Err(Fault::Memory { bytes }.into());
        }
        LIVE.fetch_add(1, Relaxed);
        let live = LIVE_BYTES.fetch_add(capacity, Relaxed) + capacity;
        PEAK_BYTES.fetch_max(live, Relaxed);
        Ok(Buffer { ptr, len: bytes, capacity })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    pub fn as_slice(&self) -> &[u8] {
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Relaxed);
        LIVE_BYTES.fetch_sub(self.capacity, Relaxed);
        let block = Block { ptr: self.ptr, capacity: self.capacity };
        let mut free = FREE.lock().unwrap_or_else(|e| e.into_inner());
        if !EXACT && free.bytes + self.capacity <= KEPT {
            free.bytes += self.capacity;
            free.blocks.entry(self.capacity).or_default().push(block);
        } else {
            drop(free);
            unmap(block);
        }
    }
}

/// Memory of a kernel's own that grows and is not counted: on huge pages where it is large.
pub struct Pages(Block);

impl Pages {
    pub const NONE: Pages = Pages(Block { ptr: std::ptr::null_mut(), capacity: 0 });

    /// Room for `count` values; what it held is lost when it grows.
    pub fn room<T>(&mut self, count: usize) -> *mut T {
        let bytes = (count * std::mem::size_of::<T>()).max(ALIGN);
        if self.0.capacity < bytes {
            *self = Pages::NONE;
            let capacity =
                if bytes > HUGE / 4 && !EXACT { bytes.next_multiple_of(HUGE) } else { bytes.next_multiple_of(ALIGN) };
            self.0 = Block { ptr: map(capacity), capacity };
            assert!(!self.0.ptr.is_null(), "no memory for {bytes} bytes");
        }
        self.0.ptr.cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.0.capacity > 0 {
            unmap(Block { ..self.0 });
        }
    }
}

fn map(capacity: usize) -> *mut u8 {
    if capacity < HUGE || EXACT {
        return unsafe { alloc_zeroed(Layout::from_size_align_unchecked(capacity, ALIGN)) };
    }
    #[cfg(target_os = "linux")]
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let raw = libc::mmap(std::ptr::null_mut(), capacity + HUGE, protection, flags, -1, 0);
        if raw == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        // Unmap the bytes before and after the aligned range.
        let start = (raw as usize).next_multiple_of(HUGE);
        let before = start - raw as usize;
        if before > 0 {
            libc::munmap(raw, before);
        }
        if before < HUGE {
            libc::munmap((start + capacity) as *mut _, HUGE - before);
        }
        libc::madvise(start as *mut _, capacity, libc::MADV_HUGEPAGE);
        start as *mut u8
    }
    #[cfg(not(target_os = "linux"))]
    unsafe {
        alloc_zeroed(Layout::from_size_align_unchecked(capacity, HUGE))
    }
}

fn unmap(block: Block) {
    unsafe {
        if block.capacity < HUGE || EXACT {
            dealloc(block.ptr, Layout::from_size_align_unchecked(block.capacity, ALIGN));
            return;
        }
        #[cfg(target_os = "linux")]
        libc::munmap(block.ptr as *mut _, block.capacity);
        #[cfg(not(target_os = "linux"))]
        dealloc(block.ptr, Layout::from_size_align_unchecked(block.capacity, HUGE));
    }
}
