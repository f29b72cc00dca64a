//! Kernels generated for fused groups: straight-line vector code for AVX-512 and AVX2.
//!
//! The interpreter of tiles gives the same bits and takes over where a kernel cannot be had: on other processors, for
//! functions that are library calls, and where the system forbids executable memory.

mod assembler;
mod body;
mod encode;
mod kernel;
mod memory;
mod translate;
mod value;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

pub use kernel::{View, HEAD};
pub use translate::{Description, Instruction};

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

    fn parse(value: Option<&str>) -> Result<Generate> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::dtype::DType;
    use crate::exec::{Alone, Device};
    use crate::program::Program;

    #[test]
    fn the_switch_refuses_nonsense() {
        assert_eq!(Generate::parse(None).expect("legal"), Generate::On);
        assert_eq!(Generate::parse(Some("on")).expect("legal"), Generate::On);
        assert_eq!(Generate::parse(Some("off")).expect("legal"), Generate::Off);
        let error = Generate::parse(Some("maybe")).expect_err("nonsense");
        assert!(error.message.contains("\"maybe\""), "{error}");
    }

    fn group(ops: &[&str]) -> Description {
        let view = View { dtype: DType::F32, along: true, streamed: false, lanes: None };
        let mut registers = vec![(Instruction::Input(0), DType::F32)];
        for (i, name) in ops.iter().enumerate() {
            registers.push((Instruction::Compute(name.to_string(), vec![i]), DType::F32));
        }
        Description { views: vec![view, view], outputs: vec![(1, registers.len() - 1)], registers }
    }

    #[test]
    fn there_is_no_kernel_where_the_system_or_a_function_forbids_it() {
        for wide in [false, true] {
            assert!(compile(&group(&["exp"]), wide).is_some());
            assert!(compile(&group(&["exp", "sin"]), wide).is_none(), "sin is a library call");
            memory::REFUSED.set(true);
            assert!(compile(&group(&["exp"]), wide).is_none());
            memory::REFUSED.set(false);
        }
    }

    #[test]
    fn the_interpreter_runs_what_the_system_refuses_to_make_executable() {
        let view = r#""dtype": "f32", "strides": [1]"#;
        let text = format!(
            r#"{{ "version": 1, "arena": 0, "buffers": [{{ "bytes": 400 }}, {{ "bytes": 400 }}], "steps": [{{ "k": "fused",
            "shape": [100], "in": [{{ "at": [1, 0], {view} }}], "ops": [["const", "f32", 4321], ["add", "f32", 0, 1]],
            "out": [{{ "at": [2, 0], {view}, "reg": 2 }}] }}] }}"#
        );
        for refused in [true, false] {
            memory::REFUSED.set(refused);
            let program = Program::parse_with(&text, Generate::On).expect("program");
            let mut buffers = [Buffer::new(400).expect("memory"), Buffer::new(400).expect("memory")];
            buffers.iter_mut().for_each(|b| b.as_mut_slice().fill(0));
            let mut device = Device::new(1, Isa::detect(), vec![0], Arc::new(Alone));
            device.run(&program, &[&buffers[0], &buffers[1]]).expect("runs");
            memory::REFUSED.set(false);
            let sums = buffers[1].as_slice().chunks_exact(4);
            assert!(sums.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).all(|x| x == 4321.0));
        }
    }
}
