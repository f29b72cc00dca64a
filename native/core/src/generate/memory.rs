//! Pages for generated code: written while they are data, then made executable and never writable again.

use std::io;

use memmap2::{Mmap, MmapMut};

pub struct Pages(Mmap);

/// Makes pages of code; a system may refuse.
pub fn map(code: &[u8]) -> io::Result<Pages> {
    let mut pages = MmapMut::map_anon(code.len())?;
    pages.copy_from_slice(code);
    Ok(Pages(pages.make_exec()?))
}

impl Pages {
    pub fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }
}
