//! Memory that JavaScript holds by handle.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::Arc;

use napi::bindgen_prelude::{ClassInstance, Int32Array, Object, ObjectFinalize, Uint8ArraySlice};
use napi::{Env, Result};
use napi_derive::napi;

use heddle_core::buffer::{Buffer, Span};

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

#[napi(custom_finalize)]
pub struct NativeBuffer {
    memory: Option<Arc<Memory>>,
    /// Where it begins in the memory, which other buffers may share.
    offset: usize,
    bytes: usize,
    /// Bytes that the garbage collector knows of: none of a part of another buffer.
    counted: usize,
}

impl ObjectFinalize for NativeBuffer {
    fn finalize(self, env: Env) -> Result<()> {
        if self.memory.is_some() {
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
        let buffer = Buffer::new(bytes).map_err(Failure::from)?;
        env.adjust_external_memory(bytes as i64)?;
        let memory =
            Memory { buffer, readers: AtomicUsize::new(0), writers: AtomicUsize::new(0), running: AtomicI32::new(0) };
        Ok(NativeBuffer { memory: Some(Arc::new(memory)), offset: 0, bytes, counted: bytes })
    }

    /// A part of this buffer by a handle of its own. The memory lives as long as either of them.
    #[napi]
    pub fn part(&self, offset: f64, bytes: f64) -> Result<NativeBuffer> {
        let memory = self.memory()?.clone();
        let bytes = whole("bytes", bytes)?;
        let offset = self.offset + self.range("share", Some(offset), bytes)?;
        Ok(NativeBuffer { memory: Some(memory), offset, bytes, counted: 0 })
    }

    #[napi(getter)]
    pub fn bytes(&self) -> f64 {
        self.bytes as f64
    }

    #[napi]
    pub fn write(&self, src: &[u8], offset: Option<f64>) -> Result<()> {
        let memory = self.memory()?;
        if memory.readers.load(Ordering::Acquire) + memory.writers.load(Ordering::Acquire) > 0 {
            return Err(fail("the buffer is used by a queued run: await it before writing"));
        }
        let offset = self.range("write", offset, src.len())?;
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), self.span(memory).ptr.add(offset), src.len()) };
        Ok(())
    }

    #[napi]
    pub fn read(&self, mut dst: Uint8ArraySlice, offset: Option<f64>) -> Result<()> {
        let memory = self.memory()?;
        if memory.writers.load(Ordering::Acquire) > 0 {
            return Err(fail("the buffer is written by a queued run: await it before reading"));
        }
        let offset = self.range("read", offset, dst.len())?;
        unsafe {
            std::ptr::copy_nonoverlapping(self.span(memory).ptr.add(offset), dst.as_mut().as_mut_ptr(), dst.len())
        };
        Ok(())
    }

    #[napi]
    pub fn dispose(&mut self, env: Env) -> Result<()> {
        if self.memory.take().is_some() {
            env.adjust_external_memory(-(self.counted as i64))?;
        }
        Ok(())
    }

    fn range(&self, what: &str, offset: Option<f64>, bytes: usize) -> Result<usize> {
        let offset = whole("offset", offset.unwrap_or(0.0))?;
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(fail(format!(
                "cannot {what} {bytes} bytes at offset {offset} of a buffer of {} bytes",
                self.bytes
            )));
        }
        Ok(offset)
    }
}

impl NativeBuffer {
    pub fn memory(&self) -> Result<&Arc<Memory>> {
        self.memory.as_ref().ok_or_else(|| fail("the buffer was disposed"))
    }

    /// Where its bytes are.
    pub fn span(&self, memory: &Memory) -> Span {
        Span { ptr: memory.buffer.as_ptr().wrapping_add(self.offset), len: self.bytes }
    }

    /// Notes a queued use; the returned value ends it.
    pub fn queue(&self, writes: bool) -> Result<Use> {
        let memory = self.memory()?;
        let count = if writes { &memory.writers } else { &memory.readers };
        count.fetch_add(1, Ordering::AcqRel);
        Ok(Use { memory: memory.clone(), span: self.span(memory), writes, running: false })
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
    if Arc::ptr_eq(src.memory()?, dst.memory()?) {
        return Err(fail("gatherRows cannot copy within one buffer"));
    }
    let (mut source, mut target) = (src.queue(false)?, dst.queue(true)?);
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
