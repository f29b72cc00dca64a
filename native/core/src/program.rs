//! A lowered program: read, verified, ready to run.

use serde_json::Value;

use crate::fields::{structs, Read};
use crate::generate::Generate;
use crate::kernels;
use crate::reader::Reader;
use crate::step::Block;
use crate::verify::{InFlight, Region};
use crate::{bail, Error, Fault, Result};

structs! {
    ProgramJson from f {
        name: String = f.optional("name")?.unwrap_or_default(),
        version: u32 = f.need("version")?,
        arena: usize = f.need("arena")?,
        buffers: Vec<BufferJson> = f.need("buffers")?,
        steps: Vec<Value> = f.need("steps")?,
    }
    BufferJson from f {
        bytes: usize = f.need("bytes")?,
    }
}

/// A verified program: only this can be run.
pub struct Program {
    pub name: String,
    /// Bytes of the arena that lowering laid out.
    pub arena: usize,
    /// Bytes after the arena for partial results of kernels.
    pub extra: usize,
    pub buffers: Vec<usize>,
    /// Which buffers some step writes.
    pub written: Vec<bool>,
    pub(crate) block: Block,
    /// Number of steps at any depth.
    pub steps: usize,
    /// Whether other devices take part.
    pub(crate) collective: bool,
    /// Whether some collectives are asynchronous.
    pub(crate) asynchronous: bool,
}

/// The largest buffer or arena of a program.
const MAX_BYTES: usize = 1 << 46;

impl Program {
    /// Verifies a program; its kernels are generated unless `HEDDLE_JIT=off`.
    pub fn parse(text: &str) -> Result<Program> {
        Program::parse_with(text, Generate::choose()?)
    }

    pub fn parse_with(text: &str, generate: Generate) -> Result<Program> {
        Program::read(text, generate).map(|(program, _)| program)
    }

    /// The accesses of all steps of a program, in the order of the steps: one line of [`Region::line`] each.
    pub fn accesses(text: &str) -> Result<Vec<String>> {
        let (_, log) = Program::read(text, Generate::choose()?)?;
        Ok(log.iter().map(|(_, region)| region.line()).collect())
    }

    fn read(text: &str, generate: Generate) -> Result<(Program, Vec<(usize, Region)>)> {
        let value: Value = serde_json::from_str(text).map_err(|e| Error::new(format!("program: {e}")))?;
        let json = ProgramJson::read(value).map_err(|e| e.at("program"))?;
        if json.version != 1 {
            bail!("program: version {} is not understood, this executor knows version 1", json.version);
        }
        let mut spaces = Vec::with_capacity(json.buffers.len() + 1);
        for bytes in std::iter::once(json.arena).chain(json.buffers.iter().map(|b| b.bytes)) {
            if bytes > MAX_BYTES {
                return Err(Fault::Memory { bytes }.into());
            }
            spaces.push(bytes);
        }
        let mut written = vec![false; json.buffers.len()];
        let mut reader = Reader {
            spaces: &spaces,
            written: &mut written,
            next: 0,
            depth: 0,
            generate,
            in_flight: InFlight::default(),
            load: kernels::find,
            log: Vec::new(),
        };
        let copies = kernels::narrow_layer::copies(&json.steps);
        let mut block = reader.block(json.steps)?;
        kernels::narrow_layer::join(&mut block, &copies, &reader);
        kernels::loop_views::join(&mut block, &copies, &reader);
        let (steps, log) = (reader.next, reader.log);
        let extra = block.extra();
        if extra > MAX_BYTES {
            bail!("program: {extra} bytes of partial results are too many");
        }
        let collective = block.any(&|kernel| kernel.communicates());
        let asynchronous = block.any(&|kernel| kernel.waits());
        let program = Program {
            name: json.name,
            arena: spaces[0],
            extra,
            buffers: spaces[1..].to_vec(),
            written,
            block,
            steps,
            collective,
            asynchronous,
        };
        Ok((program, log))
    }

    /// Bytes of arena that a run needs.
    pub fn total_bytes(&self) -> usize {
        self.arena.next_multiple_of(64) + self.extra
    }
}
