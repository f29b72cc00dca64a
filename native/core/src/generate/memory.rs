//! Pages for generated code: written while they are data, then made executable and never writable again.

use std::io;

use memmap2::{Mmap, MmapMut};

pub struct Pages(Mmap);

#[cfg(test)]
thread_local! {
    /// As if the system refused to make pages of this thread executable.
    pub static REFUSED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes pages of code; a system may refuse.
pub fn map(code: &[u8]) -> io::Result<Pages> {
    #[cfg(test)]
    if REFUSED.get() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut pages = MmapMut::map_anon(code.len())?;
    pages.copy_from_slice(code);
    Ok(Pages(pages.make_exec()?))
}

impl Pages {
    pub fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }
}
