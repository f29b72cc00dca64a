//! Files whose chunks have sums, read and verified off the JavaScript thread; and what they are written from.

use std::fs::File;
use std::slice::from_raw_parts_mut;

use napi::bindgen_prelude::{ClassInstance, Either, Float64Array, Object, Uint8Array};
use napi::{Env, Result};
use napi_derive::napi;

use heddle_files::{read_chunks, sums, Chunk, Digest, Run, Sum};

use crate::buffer::NativeBuffer;
use crate::promise::background;
use crate::{fail, whole, Failure};

/// Numbers of each chunk, and of each run, that JavaScript gives in a row.
const OF_CHUNK: usize = 3;
const OF_RUN: usize = 3;
const DIGEST: usize = size_of::<Digest>();
const CRC: usize = size_of::<u32>();

/// Both sums of each chunk of some arrays, off the JavaScript thread: SHA-256, then CRC32C, little-endian. The caller leaves the arrays alone until
/// the promise is settled.
#[napi]
pub fn sums_of<'e>(env: &'e Env, arrays: Vec<Uint8Array>, chunk: f64) -> Result<Object<'e>> {
    let chunk = whole("chunk", chunk)?;
    if chunk == 0 {
        return Err(fail("sumsOf: chunk is 0"));
    }
    let work = move || {
        let texts: Vec<&[u8]> = arrays.iter().map(|array| &array[..]).collect();
        let all: Vec<u8> = sums(&texts, chunk)
            .iter()
            .flat_map(|(digest, crc)| digest.iter().copied().chain(crc.to_le_bytes()))
            .collect();
        Ok(all)
    };
    background(env, work, |_, all| Ok(Uint8Array::new(all)))
}

/// Reads chunks of a file into `target`, and compares their sums. `chunks` has offset, bytes and number of runs of each, `runs` the place in the
/// chunk, the place in the target and the bytes of each, `expected` the SHA-256 of each chunk, or the CRC32C of each, little-endian. Gives -1, or the
/// first chunk with another sum.
#[napi]
pub fn read_verified<'e>(
    env: &'e Env,
    path: String,
    chunks: Float64Array,
    runs: Float64Array,
    expected: Uint8Array,
    target: Either<ClassInstance<NativeBuffer>, Uint8Array>,
) -> Result<Object<'e>> {
    let numbers = |name, list: &[f64]| list.iter().map(|value| whole(name, *value)).collect::<Result<Vec<usize>>>();
    let (chunks, runs) = (numbers("chunks", &chunks)?, numbers("runs", &runs)?);
    let wanted: Option<usize> = chunks.chunks(OF_CHUNK).try_fold(0usize, |sum, chunk| sum.checked_add(*chunk.last()?));
    let sum = if chunks.len() / OF_CHUNK * CRC == expected.len() { CRC } else { DIGEST };
    if chunks.len() / OF_CHUNK * sum != expected.len() || wanted.and_then(|n| n.checked_mul(OF_RUN)) != Some(runs.len())
    {
        return Err(fail("readVerified: the lists do not have equal lengths"));
    }
    let expected = expected.to_vec();
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
        let each = chunks.chunks_exact(OF_CHUNK).zip(expected.chunks_exact(sum));
        let chunks: Vec<Chunk> = each
            .map(|(chunk, expected)| Chunk {
                offset: chunk[0] as u64,
                bytes: chunk[1],
                sum: match expected.try_into() {
                    Ok(crc) => Sum::Crc32c(u32::from_le_bytes(crc)),
                    Err(_) => Sum::Sha256(expected.try_into().unwrap_or_default()),
                },
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
