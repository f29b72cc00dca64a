//! Kernels generated for fused groups: straight-line vector code for AVX-512 and AVX2.
//!
//! The interpreter of tiles gives the same bits and takes over where a kernel cannot be had: on other processors, for
//! functions that are library calls, and where the system forbids executable memory.

mod assembler;
mod body;
mod cast;
mod encode;
mod graph;
mod kernel;
mod memory;
mod translate;
mod value;
mod weave;
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
    /// What `HEDDLE_JIT` says: `on` (the default) or `off`.
    pub fn choose() -> Result<Generate> {
        Generate::parse(std::env::var("HEDDLE_JIT").ok().as_deref())
    }

    /// What a value of that variable says.
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
    /// Lanes of folds stay in registers: a row ends with 16 of them for each fold, and nothing need be there before.
    pub holds: bool,
}

impl Kernel {
    /// Runs rows of columns: see [`HEAD`] for the arguments, of which the constants are filled in here.
    ///
    /// # Safety
    /// The addresses and strides must stay inside live memory, of which nobody else uses what is written.
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

/// The kernel of a group, made or found; none where there cannot be one.
pub fn kernel(description: &Description, isa: Isa) -> Option<Arc<Kernel>> {
    let wide = match isa {
        _ if !cfg!(target_arch = "x86_64") => return None,
        Isa::Avx512 => true,
        Isa::Avx2 => false,
        Isa::Scalar => return None,
    };
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

/// A group and its kernels for AVX2 and AVX-512, made when they are first asked for.
pub struct Prepared {
    pub description: Description,
    kernels: [OnceLock<Option<Arc<Kernel>>>; 2],
}

impl Prepared {
    /// Makes the kernel for the set that this process runs by.
    pub fn new(description: Description) -> Prepared {
        let prepared = Prepared { description, kernels: Default::default() };
        if let Ok(isa) = Isa::choose(None) {
            prepared.kernel(isa);
        }
        prepared
    }

    pub fn kernel(&self, isa: Isa) -> Option<&Kernel> {
        let cell = match isa {
            Isa::Scalar => return None,
            Isa::Avx2 => &self.kernels[0],
            Isa::Avx512 => &self.kernels[1],
        };
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
