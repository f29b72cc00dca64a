//! Memory that JavaScript holds by handle.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::Arc;

use napi::bindgen_prelude::{ClassInstance, Int32Array, Object, ObjectFinalize, Uint8ArraySlice};
use napi::{Env, Result};
use napi_derive::napi;

use heddle_core::buffer::{Buffer, Span};

use crate::handles::piece_of;
use crate::promise::background;
use crate::{fail, whole, Failure};

/// A buffer and who is using it.
pub struct Memory {
    pub buffer: Buffer,
    /// Queued or running tasks that read or write it.
    readers: AtomicUsize,
    writers: AtomicUsize,
    /// Running tasks: their number while they read, -1 while one writes.
    running: AtomicI32,
}

/// One task's use of a buffer.
pub struct Use {
    memory: Arc<Memory>,
    pub span: Span,
    writes: bool,
    running: bool,
}

impl Use {
    /// Takes the buffer for a running task; fails if another device is using it in conflict.
    pub fn begin(&mut self) -> std::result::Result<(), Failure> {
        let running = &self.memory.running;
        let taken = if self.writes {
            running.compare_exchange(0, -1, Ordering::AcqRel, Ordering::Acquire).is_ok()
        } else {
            running.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n >= 0).then_some(n + 1)).is_ok()
        };
        self.running = taken;
        if taken {
            Ok(())
        } else {
            Err(heddle_core::Error::new("a buffer is used by two devices at once and one of them writes it").into())
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if self.running && self.writes {
            self.memory.running.store(0, Ordering::Release);
        } else if self.running {
            self.memory.running.fetch_sub(1, Ordering::AcqRel);
        }
        let count = if self.writes { &self.memory.writers } else { &self.memory.readers };
        count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A range of a memory, which other ranges may share.
#[derive(Clone)]
pub struct Piece {
    pub memory: Arc<Memory>,
    offset: usize,
    pub bytes: usize,
}

impl Piece {
    pub fn new(bytes: usize) -> std::result::Result<Piece, Failure> {
        let buffer = Buffer::new(bytes)?;
        let memory =
            Memory { buffer, readers: AtomicUsize::new(0), writers: AtomicUsize::new(0), running: AtomicI32::new(0) };
        Ok(Piece { memory: Arc::new(memory), offset: 0, bytes })
    }

    /// Where its bytes are.
    pub fn span(&self) -> Span {
        Span { ptr: self.memory.buffer.as_ptr().wrapping_add(self.offset), len: self.bytes }
    }

    /// A part of this piece.
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Piece> {
        let offset = self.offset + self.range("share", offset, bytes)?;
        Ok(Piece { memory: self.memory.clone(), offset, bytes })
    }

    /// Notes a queued use; the returned value ends it.
    pub fn queue(&self, writes: bool) -> Use {
        let count = if writes { &self.memory.writers } else { &self.memory.readers };
        count.fetch_add(1, Ordering::AcqRel);
        Use { memory: self.memory.clone(), span: self.span(), writes, running: false }
    }

    pub fn read(&self, dst: &mut [u8], offset: usize) -> Result<()> {
        if self.memory.writers.load(Ordering::Acquire) > 0 {
            return Err(fail("the buffer is written by a queued run: await it before reading"));
        }
        let offset = self.range("read", offset, dst.len())?;
        unsafe { std::ptr::copy_nonoverlapping(self.span().ptr.add(offset), dst.as_mut_ptr(), dst.len()) };
        Ok(())
    }

    fn write(&self, src: &[u8], offset: usize) -> Result<()> {
        if self.memory.readers.load(Ordering::Acquire) + self.memory.writers.load(Ordering::Acquire) > 0 {
            return Err(fail("the buffer is used by a queued run: await it before writing"));
        }
        let offset = self.range("write", offset, src.len())?;
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), self.span().ptr.add(offset), src.len()) };
        Ok(())
    }

    fn range(&self, what: &str, offset: usize, bytes: usize) -> Result<usize> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(fail(format!(
                "cannot {what} {bytes} bytes at offset {offset} of a buffer of {} bytes",
                self.bytes
            )));
        }
        Ok(offset)
    }
}

#[napi(custom_finalize)]
pub struct NativeBuffer {
    piece: Option<Piece>,
    bytes: usize,
    /// Bytes that the garbage collector knows of: none of a part of another buffer.
    counted: usize,
}

impl ObjectFinalize for NativeBuffer {
    fn finalize(self, env: Env) -> Result<()> {
        if self.piece.is_some() && self.counted > 0 {
            env.adjust_external_memory(-(self.counted as i64))?;
        }
        Ok(())
    }
}

#[napi]
impl NativeBuffer {
    #[napi(constructor)]
    pub fn new(env: Env, bytes: f64) -> Result<NativeBuffer> {
        let bytes = whole("bytes", bytes)?;
        let piece = Piece::new(bytes)?;
        env.adjust_external_memory(bytes as i64)?;
        Ok(NativeBuffer { piece: Some(piece), bytes, counted: bytes })
    }

    /// The buffer of a handle (`handles.rs`), which counts its bytes.
    #[napi(factory)]
    pub fn of_handle(handle: f64) -> Result<NativeBuffer> {
        let piece = piece_of(handle)?;
        Ok(NativeBuffer { bytes: piece.bytes, piece: Some(piece), counted: 0 })
    }

    #[napi(getter)]
    pub fn bytes(&self) -> f64 {
        self.bytes as f64
    }

    #[napi]
    pub fn write(&self, src: &[u8], offset: Option<f64>) -> Result<()> {
        self.piece()?.write(src, whole("offset", offset.unwrap_or(0.0))?)
    }

    #[napi]
    pub fn read(&self, mut dst: Uint8ArraySlice, offset: Option<f64>) -> Result<()> {
        self.piece()?.read(unsafe { dst.as_mut() }, whole("offset", offset.unwrap_or(0.0))?)
    }

    #[napi]
    pub fn dispose(&mut self, env: Env) -> Result<()> {
        if self.piece.take().is_some() && self.counted > 0 {
            env.adjust_external_memory(-(self.counted as i64))?;
        }
        Ok(())
    }
}

impl NativeBuffer {
    pub fn piece(&self) -> Result<&Piece> {
        self.piece.as_ref().ok_or_else(|| fail("the buffer was disposed"))
    }
}

/// Copies rows of `src`, in the order of `rows`, to `dst`; off the JavaScript thread.
#[napi]
pub fn gather_rows<'e>(
    env: &'e Env,
    src: ClassInstance<NativeBuffer>,
    row_bytes: f64,
    rows: Int32Array,
    dst: ClassInstance<NativeBuffer>,
    dst_offset: f64,
) -> Result<Object<'e>> {
    let (row, offset) = (whole("rowBytes", row_bytes)?, whole("dstOffset", dst_offset)?);
    if Arc::ptr_eq(&src.piece()?.memory, &dst.piece()?.memory) {
        return Err(fail("gatherRows cannot copy within one buffer"));
    }
    let (mut source, mut target) = (src.piece()?.queue(false), dst.piece()?.queue(true));
    let count = source.span.len.checked_div(row).unwrap_or(0);
    let rows: Vec<i32> = rows.to_vec();
    if let Some(at) = rows.iter().position(|r| *r < 0 || *r as usize >= count) {
        return Err(fail(format!("row {} at position {at} is outside [0, {count})", rows[at])));
    }
    let end = rows.len().checked_mul(row).and_then(|n| n.checked_add(offset));
    if end.is_none_or(|end| end > target.span.len) {
        let (n, have) = (rows.len(), target.span.len);
        return Err(fail(format!("{n} rows of {row} bytes at offset {offset} do not fit into {have} bytes")));
    }
    let work = move || {
        source.begin()?;
        target.begin()?;
        let (from, to) = (source.span.ptr, target.span.ptr);
        for (i, r) in rows.iter().enumerate() {
            unsafe { std::ptr::copy_nonoverlapping(from.add(*r as usize * row), to.add(offset + i * row), row) };
        }
        Ok(())
    };
    background(env, work, |_, ()| Ok(()))
}
