//! Kernels generated for fused groups: straight-line vector code for AVX-512 and AVX2.
//!
//! The interpreter of tiles gives the same bits and takes over where no kernel can be generated: on other processors, for
//! functions that are library calls, and where the system forbids executable memory.

mod assembler;
mod body;
mod cast;
mod encode;
mod graph;
mod interleave;
mod kernel;
mod memory;
mod translate;
mod value;

mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

pub use graph::View;
pub use translate::{Description, Instruction};
pub use writer::HEAD;

use crate::isa::Isa;
use crate::{bail, Result};

/// Whether programs get generated kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generate {
    On,
    Off,
}

impl Generate {
    /// The value of `HEDDLE_JIT`: `on` (the default) or `off`.
    pub fn choose() -> Result<Generate> {
        Generate::parse(std::env::var("HEDDLE_JIT").ok().as_deref())
    }

    /// Reads a value of that variable.
    pub fn parse(value: Option<&str>) -> Result<Generate> {
        match value {
            None | Some("" | "on") => Ok(Generate::On),
            Some("off") => Ok(Generate::Off),
            Some(other) => bail!("HEDDLE_JIT is \"{other}\": it can be on or off"),
        }
    }
}

/// Code of one group for one instruction set.
pub struct Kernel {
    pages: memory::Pages,
    constants: Vec<u64>,
    /// Whether lanes of folds stay in registers: a row then writes 16 lanes for each fold and reads none.
    pub holds: bool,
}

impl Kernel {
    /// Runs rows of columns. See [`HEAD`] for the arguments; this function sets the address of the constants.
    ///
    /// # Safety
    /// The addresses and strides must stay inside live memory, and no other code may access what the kernel writes.
    pub unsafe fn call(&self, arguments: &mut [u64]) {
        arguments[2] = self.constants.as_ptr() as u64;
        #[cfg(target_arch = "x86_64")]
        {
            let run: unsafe extern "sysv64" fn(*mut u64) = std::mem::transmute(self.pages.start());
            run(arguments.as_mut_ptr());
        }
    }
}

/// Most kernels that are kept for programs to come.
const KEPT: usize = 512;

type Key = (Description, bool);

/// Kernels by content, in the order in which they were made.
#[derive(Default)]
struct Cache {
    kernels: HashMap<Key, Arc<Kernel>>,
    order: Vec<Key>,
}

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

/// The kernel of a group, from the cache or generated now; `None` where none can be generated.
pub fn kernel(description: &Description, isa: Isa) -> Option<Arc<Kernel>> {
    if isa == Isa::Scalar || !cfg!(target_arch = "x86_64") {
        return None;
    }
    let wide = isa >= Isa::Avx512;
    let mut cache = CACHE.lock().unwrap_or_else(|e| e.into_inner());
    let cache = cache.get_or_insert_with(Cache::default);
    let key = (description.clone(), wide);
    if let Some(kernel) = cache.kernels.get(&key) {
        return Some(kernel.clone());
    }
    let kernel = Arc::new(compile(description, wide)?);
    if cache.order.len() >= KEPT {
        let oldest = cache.order.remove(0);
        cache.kernels.remove(&oldest);
    }
    cache.order.push(key.clone());
    cache.kernels.insert(key, kernel.clone());
    Some(kernel)
}

/// A group and its kernels for AVX2 and AVX-512, generated at first use.
pub struct Prepared {
    pub description: Description,
    kernels: [OnceLock<Option<Arc<Kernel>>>; 2],
}

impl Prepared {
    /// Generates the kernel for the instruction set of this process.
    pub fn new(description: Description) -> Prepared {
        let prepared = Prepared { description, kernels: Default::default() };
        if let Ok(isa) = Isa::choose(None) {
            prepared.kernel(isa);
        }
        prepared
    }

    pub fn kernel(&self, isa: Isa) -> Option<&Kernel> {
        let cell = self.kernels.get((isa.general() as usize).checked_sub(Isa::Avx2 as usize)?)?;
        cell.get_or_init(|| kernel(&self.description, isa)).as_deref()
    }
}

/// How many kernels are kept.
pub fn kept() -> usize {
    CACHE.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map_or(0, |cache| cache.order.len())
}

fn compile(description: &Description, wide: bool) -> Option<Kernel> {
    let graph = translate::translate(description, wide)?;
    let (code, pool) = kernel::write(&graph, wide).ok()?;
    let words = pool.chunks(8).map(|c| {
        let mut word = [0; 8];
        word[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(word)
    });
    Some(Kernel { constants: words.collect(), pages: memory::map(&code).ok()?, holds: !graph.held.is_empty() })
}
