//! Files whose chunks have hashes, read and verified off the JavaScript thread.

use std::fs::File;
use std::slice::from_raw_parts_mut;

use napi::bindgen_prelude::{ClassInstance, Either, Float64Array, Object, Uint8Array};
use napi::{Env, Result};
use napi_derive::napi;

use heddle_files::{read_chunks, Chunk, Digest, Run};

use crate::buffer::NativeBuffer;
use crate::promise::background;
use crate::{fail, whole, Failure};

/// Numbers of each chunk, and of each run, that JavaScript gives in a row.
const OF_CHUNK: usize = 3;
const OF_RUN: usize = 3;
const DIGEST: usize = size_of::<Digest>();

/// Reads chunks of a file into `target`, and compares their hashes. `chunks` has offset, bytes and number of runs of each, `runs` the place in the
/// chunk, the place in the target and the bytes of each, `hashes` the SHA-256 of each chunk. Gives -1, or the first chunk with another hash.
#[napi]
pub fn read_verified<'e>(
    env: &'e Env,
    path: String,
    chunks: Float64Array,
    runs: Float64Array,
    hashes: Uint8Array,
    target: Either<ClassInstance<NativeBuffer>, Uint8Array>,
) -> Result<Object<'e>> {
    let numbers = |name, list: &[f64]| list.iter().map(|value| whole(name, *value)).collect::<Result<Vec<usize>>>();
    let (chunks, runs) = (numbers("chunks", &chunks)?, numbers("runs", &runs)?);
    let wanted: Option<usize> = chunks.chunks(OF_CHUNK).try_fold(0usize, |sum, chunk| sum.checked_add(*chunk.last()?));
    if chunks.len() / OF_CHUNK * DIGEST != hashes.len()
        || wanted.and_then(|n| n.checked_mul(OF_RUN)) != Some(runs.len())
    {
        return Err(fail("readVerified: the lists do not have equal lengths"));
    }
    let hashes = hashes.to_vec();
    let mut target = match target {
        Either::A(buffer) => Target::Buffer(buffer.piece()?.queue(true)),
        Either::B(array) => Target::Array(array),
    };
    let work = move || {
        let file = File::open(&path).map_err(failed)?;
        let runs: Vec<Run> =
            runs.chunks_exact(OF_RUN).map(|run| Run { from: run[0], to: run[1], bytes: run[2] }).collect();
        let mut left = &runs[..];
        let mut next = |count: usize| {
            let (own, others) = left.split_at(count);
            left = others;
            own
        };
        let each = chunks.chunks_exact(OF_CHUNK).zip(hashes.chunks_exact(DIGEST));
        let chunks: Vec<Chunk> = each
            .map(|(chunk, hash)| Chunk {
                offset: chunk[0] as u64,
                bytes: chunk[1],
                digest: hash.try_into().unwrap_or_default(),
                runs: next(chunk[2]),
            })
            .collect();
        let different = read_chunks(&file, &chunks, target.bytes()?).map_err(failed)?;
        Ok(different.map_or(-1.0, |chunk| chunk as f64))
    };
    background(env, work, |_, different| Ok(different))
}

/// The caller reads with Node what cannot be read here, which has the words for the reason.
fn failed(error: std::io::Error) -> Failure {
    Failure(error.to_string())
}

/// Where bytes go.
enum Target {
    Buffer(crate::buffer::Use),
    Array(Uint8Array),
}

impl Target {
    fn bytes(&mut self) -> std::result::Result<&mut [u8], Failure> {
        match self {
            Target::Buffer(buffer) => {
                buffer.begin()?;
                // Nobody else uses the buffer while the task runs.
                Ok(unsafe { from_raw_parts_mut(buffer.span.ptr, buffer.span.len) })
            }
            // The caller leaves the array alone until the promise is settled.
            Target::Array(array) => Ok(unsafe { array.as_mut() }),
        }
    }
}
