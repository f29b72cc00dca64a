//! Groups of ranks: what JavaScript calls on them, and the carrier of a device's collectives.

use std::sync::{Arc, Mutex};

use napi::bindgen_prelude::{Buffer, Object};
use napi::{Env, Result};
use napi_derive::napi;

use heddle_comm as comm;
use heddle_core::collectives::{Call, CollectiveOp, Collectives, Part, ReduceOp, TransferCall, Way};
use heddle_core::dtype::DType;

use crate::promise::background;

pub struct Shared {
    size: usize,
    index: usize,
    world: Arc<comm::World>,
    group: Mutex<comm::Group>,
}

impl Shared {
    fn call<T>(&self, f: impl FnOnce(&mut comm::Group) -> comm::Result<T>) -> comm::Result<T> {
        let mut group = self.group.lock().unwrap_or_else(|e| e.into_inner());
        f(&mut group).inspect_err(|error| {
            if matches!(error, comm::Error::Invalid { .. }) {
                // Nothing was sent, and the others wait.
                self.world.abort(&error.to_string());
            }
        })
    }
}

#[napi]
pub struct NativeGroup {
    shared: Arc<Shared>,
}

impl NativeGroup {
    pub fn new(world: Arc<comm::World>, group: comm::Group) -> NativeGroup {
        let shared = Shared { size: group.size(), index: group.index(), world, group: Mutex::new(group) };
        NativeGroup { shared: Arc::new(shared) }
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

#[napi]
impl NativeGroup {
    #[napi(getter)]
    pub fn size(&self) -> u32 {
        self.shared.size as u32
    }

    #[napi(getter)]
    pub fn index(&self) -> u32 {
        self.shared.index as u32
    }

    #[napi]
    pub fn barrier<'e>(&self, env: &'e Env, label: Option<String>) -> Result<Object<'e>> {
        let shared = self.shared.clone();
        let label = label.unwrap_or_else(|| "barrier".to_string());
        background(env, move || Ok(shared.call(|group| group.barrier(&label))?), |_, ()| Ok(()))
    }

    /// Resolves to the bytes of the member at position `root`; all give the same length.
    #[napi]
    pub fn broadcast<'e>(&self, env: &'e Env, bytes: &[u8], root: u32, label: Option<String>) -> Result<Object<'e>> {
        let (shared, mut bytes) = (self.shared.clone(), bytes.to_vec());
        let label = label.unwrap_or_else(|| "broadcast".to_string());
        let work = move || {
            shared.call(|group| {
                group.broadcast(&[comm::Part::in_place(&mut bytes)], comm::Dtype::U8, root as usize, &label)
            })?;
            Ok(bytes)
        };
        background(env, work, |_, bytes: Vec<u8>| Ok(Buffer::from(bytes)))
    }

    /// Resolves to the bytes of all members, one after another; all give the same length.
    #[napi]
    pub fn all_gather<'e>(&self, env: &'e Env, bytes: &[u8], label: Option<String>) -> Result<Object<'e>> {
        let (shared, bytes) = (self.shared.clone(), bytes.to_vec());
        let label = label.unwrap_or_else(|| "allGather".to_string());
        let work = move || {
            let mut all = vec![0u8; bytes.len() * shared.size];
            shared.call(|group| group.all_gather(&[comm::Part::new(&bytes, &mut all)], comm::Dtype::U8, &label))?;
            Ok(all)
        };
        background(env, work, |_, bytes: Vec<u8>| Ok(Buffer::from(bytes)))
    }
}

/// One group per mesh axis.
pub struct Groups(pub Vec<Arc<Shared>>);

impl Groups {
    fn group(&self, axis: usize) -> heddle_core::Result<&Arc<Shared>> {
        let missing = || heddle_core::Error::new(format!("there is no group for mesh axis {axis}"));
        self.0.get(axis).ok_or_else(missing)
    }
}

fn carried(error: comm::Error) -> heddle_core::Error {
    heddle_core::Fault::Carried(error.record()).into()
}

/// The dtype as collectives know it.
fn wire(dtype: DType) -> comm::Dtype {
    match dtype {
        DType::F32 => comm::Dtype::F32,
        DType::F64 => comm::Dtype::F64,
        DType::I32 => comm::Dtype::I32,
        DType::U32 => comm::Dtype::U32,
        DType::U8 | DType::Bool => comm::Dtype::U8,
        DType::F16 => comm::Dtype::F16,
        DType::Bf16 => comm::Dtype::Bf16,
        DType::I8 => comm::Dtype::I8,
        DType::I64 => comm::Dtype::I64,
        DType::U64 => comm::Dtype::U64,
    }
}

impl Collectives for Groups {
    fn size(&self, axis: usize) -> Option<usize> {
        self.0.get(axis).map(|shared| shared.size)
    }

    fn run(&self, call: &Call, parts: &mut [Part]) -> heddle_core::Result<()> {
        let shared = self.group(call.axis)?;
        let dtype = wire(call.dtype);
        let reduction = match call.reduction {
            ReduceOp::Max => comm::Reduction::Max,
            ReduceOp::Min => comm::Reduction::Min,
            _ => comm::Reduction::Sum,
        };
        // The executor has checked that parts are inside their buffers and apart.
        let raw = |p: &mut Part| unsafe {
            comm::Part::from_raw(p.input, p.input_bytes, p.output.as_mut_ptr(), p.output.len())
        };
        // Most collectives have one part, which needs no memory.
        let (one, several): ([comm::Part; 1], Vec<comm::Part>);
        let parts: &[comm::Part] = match parts {
            [part] => {
                one = [raw(part)];
                &one
            }
            _ => {
                several = parts.iter_mut().map(raw).collect();
                &several
            }
        };
        let run = |group: &mut comm::Group| match call.op {
            CollectiveOp::AllReduce => group.all_reduce(parts, dtype, reduction, call.label),
            CollectiveOp::AllGather => group.all_gather(parts, dtype, call.label),
            CollectiveOp::ReduceScatter => group.reduce_scatter(parts, dtype, reduction, call.label),
            CollectiveOp::AllToAll => group.all_to_all(parts, dtype, call.label),
            CollectiveOp::Broadcast => group.broadcast(parts, dtype, 0, call.label),
            CollectiveOp::Exchange => {
                let (Some((sends, receives)), [part]) = (call.exchange, parts) else {
                    return Err(comm::Error::Invalid(format!("exchange '{}' has no counts", call.label)));
                };
                group.exchange(part, dtype, sends, receives, call.label)
            }
        };
        shared.call(run).map_err(carried)
    }

    fn transfer(&self, call: &TransferCall, parts: &mut [Part]) -> heddle_core::Result<()> {
        let shared = self.group(call.axis)?;
        // As above; a sender's output is its input, which is not written.
        let parts: Vec<comm::Part> = parts
            .iter_mut()
            .map(|p| match call.way {
                Way::To(_) => unsafe {
                    comm::Part::from_raw(p.input, p.input_bytes, p.input.cast_mut(), p.input_bytes)
                },
                Way::From(_) => unsafe { comm::Part::from_raw(p.input, 0, p.output.as_mut_ptr(), p.output.len()) },
            })
            .collect();
        let run = |group: &mut comm::Group| match call.way {
            Way::To(peer) => group.send(&parts, wire(call.dtype), peer, call.label),
            Way::From(peer) => group.receive(&parts, wire(call.dtype), peer, call.label),
        };
        shared.call(run).map_err(carried)
    }

    fn abort(&self, reason: &str) {
        for shared in &self.0 {
            shared.world.abort(reason);
        }
    }
}
