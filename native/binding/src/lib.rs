//! The Node-API surface: buffers, programs, devices and the transport. It receives programs and knows no operator.

mod buffer;
mod comm;
mod csv;
mod device;
mod error;
mod files;
mod groups;
mod handles;
mod kept;
mod promise;

use napi_derive::napi;

use heddle_core::isa::Isa;

pub(crate) use error::{fail, Failure};

#[napi(object)]
pub struct Info {
    pub version: String,
    pub isa: String,
    pub cores: u32,
    pub cpu: String,
    pub features: Vec<String>,
}

#[napi(object)]
pub struct MemoryUse {
    pub live_buffers: f64,
    pub live_bytes: f64,
    pub peak_bytes: f64,
}

#[napi]
pub fn info() -> Info {
    Info {
        version: env!("CARGO_PKG_VERSION").to_string(),
        isa: Isa::detect().name().to_string(),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        cpu: cpu_name(),
        features: Isa::available().into_iter().map(|isa| isa.name().to_string()).collect(),
    }
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.and_then(|line| line.split_once(':')).map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_string()
}

#[napi]
pub fn memory() -> MemoryUse {
    let memory = heddle_core::buffer::memory();
    MemoryUse {
        live_buffers: memory.live_buffers as f64,
        live_bytes: memory.live_bytes as f64,
        peak_bytes: memory.peak_bytes as f64,
    }
}

/// The version of Node-API under which collected objects are finalized within the collection, not when the event loop
/// turns next. Else a loop that never awaits could not get back the memory of tensors it has dropped.
const FINALIZE_AT_ONCE: i32 = i32::MAX;

/// The version of an addon that names none.
const FINALIZE_LATE: i32 = 8;

/// Asked by Node when it loads the addon. A finalizer may do nothing that allocates in JavaScript; older Nodes end the
/// process where it deletes its own reference, as all do: of those the loader says so (src/executors/native/binding.ts).
#[no_mangle]
pub extern "C" fn node_api_module_get_api_version_v1() -> i32 {
    if std::env::var_os("HEDDLE_FINALIZE").is_some_and(|when| when == "late") {
        FINALIZE_LATE
    } else {
        FINALIZE_AT_ONCE
    }
}

/// A number from JavaScript as a count of bytes or elements.
pub(crate) fn whole(name: &str, value: f64) -> napi::Result<usize> {
    if value < 0.0 || value > (1u64 << 53) as f64 || value.fract() != 0.0 {
        return Err(fail(format!("{name} must be a whole number, got {value}")));
    }
    Ok(value as usize)
}
