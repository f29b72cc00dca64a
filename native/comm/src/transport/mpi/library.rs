//! The MPI library of this machine, by the standard ABI of MPI 5: loaded when a world wants it, started and ended once.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::transport::LinkError;
use crate::{Error, Result};

/// A handle of MPI: communicators, requests, messages, types.
pub(super) type Handle = usize;
pub(super) type Mutable<T> = *mut T;

// From `mpi_abi.h`, which is the same for every MPI that has the ABI.
const COMM_WORLD: Handle = 0x101;
const ERRORS_RETURN: Handle = 0x143;
const BYTE: Handle = 0x247;
const THREAD_MULTIPLE: c_int = 4096;
const TAG_UB: c_int = 501;
const ANY: c_int = -1;
const ANY_TAG: c_int = -2;
const MAX_TEXT: usize = 8192;

/// How long a process that ends waits for the others to end MPI with it.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How often MPI may work on sends that outlive their collective.
const TICK: Duration = Duration::from_millis(1);

/// `MPI_Status`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Status([c_int; 8]);

macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*);)+) => {
        struct Functions { $($field: unsafe extern "C" fn($($argument),*) -> c_int),+ }

        impl Functions {
            /// # Safety
            /// The library must be an MPI with the standard ABI, and stay loaded.
            unsafe fn find(library: &Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the signatures are those of `mpi_abi.h`.
                unsafe { Ok(Self { $($field: *library.get($name)?),+ }) }
            }
        }
    };
}

functions! {
    abi_version "MPI_Abi_get_version" (Mutable<c_int>, Mutable<c_int>);
    init "MPI_Init_thread" (Mutable<c_int>, Mutable<c_void>, c_int, Mutable<c_int>);
    finalize "MPI_Finalize" ();
    comm_rank "MPI_Comm_rank" (Handle, Mutable<c_int>);
    comm_size "MPI_Comm_size" (Handle, Mutable<c_int>);
    comm_attribute "MPI_Comm_get_attr" (Handle, c_int, Mutable<c_void>, Mutable<c_int>);
    set_errhandler "MPI_Comm_set_errhandler" (Handle, Handle);
    error_string "MPI_Error_string" (c_int, Mutable<c_char>, Mutable<c_int>);
    isend "MPI_Isend" (*const c_void, c_int, Handle, c_int, c_int, Handle, Mutable<Handle>);
    iprobe "MPI_Iprobe" (c_int, c_int, Handle, Mutable<c_int>, Mutable<Status>);
    improbe "MPI_Improbe" (c_int, c_int, Handle, Mutable<c_int>, Mutable<Handle>, Mutable<Status>);
    imrecv "MPI_Imrecv" (Mutable<c_void>, c_int, Handle, Mutable<Handle>, Mutable<Handle>);
    test "MPI_Test" (Mutable<Handle>, Mutable<c_int>, Mutable<Status>);
    get_count "MPI_Get_count" (*const Status, Handle, Mutable<c_int>);
}

/// MPI as this process has started it.
pub(crate) struct Mpi {
    functions: Functions,
    /// This process, and how many there are.
    pub(super) rank: usize,
    pub(super) size: usize,
    /// Tells this process from others with the same number in another job.
    pub(super) process: [u8; 16],
    pub(super) path: PathBuf,
    tags: usize,
    next_tag: AtomicUsize,
    /// Sends that MPI has not been seen to complete.
    pub(super) pending: AtomicUsize,
    end: Mutex<Sender<Sender<()>>>,
}

static MPI: OnceLock<std::result::Result<Mpi, (String, String)>> = OnceLock::new();
/// Whether a world of this process has failed: then the others may never end MPI.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Notes that a world has failed.
pub(crate) fn note_failure() {
    FAILED.store(true, Ordering::Relaxed);
}

/// The MPI of this process; the first call loads and starts it.
pub(super) fn start(wanted: Option<&Path>) -> Result<&'static Mpi> {
    let started = MPI.get_or_init(|| {
        let (functions, path) = load(wanted)?;
        let (ready, starting) = channel();
        let run = move || serve(functions, path, &ready);
        let spawned = std::thread::Builder::new().name("heddle-mpi".into()).spawn(run);
        spawned.map_err(|error| ("could not start the thread of MPI".to_owned(), error.to_string()))?;
        let lost = || ("MPI did not start".to_owned(), "its thread has ended".to_owned());
        let mpi = starting.recv().map_err(|_| lost())??;
        // SAFETY: the function has the signature that `atexit` wants.
        unsafe { atexit(end) };
        Ok(mpi)
    });
    started.as_ref().map_err(|(what, detail)| Error::io(what.clone(), detail))
}

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Ends MPI with the process, unless a world has failed: the end waits for all processes.
extern "C" fn end() {
    let Some(Ok(mpi)) = MPI.get() else { return };
    if FAILED.load(Ordering::Relaxed) {
        return;
    }
    let (done, ended) = channel();
    if mpi.end.lock().unwrap_or_else(PoisonError::into_inner).send(done).is_ok() {
        let _ = ended.recv_timeout(END_LIMIT);
    }
}

/// Files that may be the library: the one that is wanted, else beside the `mpiexec` of this machine, else the loader's.
fn candidates(wanted: Option<&Path>) -> Vec<PathBuf> {
    const NAMES: [&str; 3] = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];
    if let Some(path) = wanted {
        return vec![path.to_owned()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = std::env::split_paths(&path).filter(|folder| folder.join("mpiexec").exists());
    let folders = beside.filter_map(|folder| Some(folder.parent()?.join("lib")));
    let files = folders.flat_map(|folder| NAMES.map(|name| folder.join(name))).filter(|file| file.exists());
    files.chain(NAMES.map(PathBuf::from)).collect()
}

fn load(wanted: Option<&Path>) -> std::result::Result<(Functions, PathBuf), (String, String)> {
    let mut refused = String::new();
    for path in candidates(wanted) {
        // SAFETY: loading runs the library's own initialisers, as for every program that is linked with it.
        match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) } {
            Err(error) if wanted.is_some() => refused = format!("{}. ", cause(&error)),
            Err(_) => {}
            Ok(library) => {
                // SAFETY: a library that has all of these names, `MPI_Abi_get_version` too, has the standard ABI.
                let functions = unsafe { Functions::find(&library) }.map_err(|error| {
                    (
                        format!("{} has not the standard ABI of MPI 5", path.display()),
                        format!("{}. {HOW}", cause(&error)),
                    )
                })?;
                // MPI has threads and handlers of its own, so its code stays.
                std::mem::forget(library);
                return Ok((functions, path));
            }
        }
    }
    Err(("there is no MPI library with the standard ABI".into(), format!("{refused}{HOW}")))
}

const HOW: &str = "MPICH from version 5 on has one, libmpi_abi.so.1 (pip install mpich); HEDDLE_MPI is its path";

/// What the loader says.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The thread that starts MPI, lets it work while nobody else does, and ends it.
fn serve(functions: Functions, path: PathBuf, ready: &Sender<std::result::Result<Mpi, (String, String)>>) {
    let (end, asked) = channel();
    let mpi = begin(functions, path, end);
    let started = mpi.is_ok();
    if ready.send(mpi).is_err() || !started {
        return;
    }
    let mpi = loop {
        match MPI.get() {
            Some(Ok(mpi)) => break mpi,
            _ => std::thread::sleep(TICK),
        }
    };
    if let Some(done) = wait_for_end(mpi, &asked) {
        // SAFETY: this thread has started MPI.
        unsafe { (mpi.functions.finalize)() };
        let _ = done.send(());
    }
}

fn wait_for_end(mpi: &Mpi, asked: &Receiver<Sender<()>>) -> Option<Sender<()>> {
    loop {
        let pause = if mpi.pending.load(Ordering::Relaxed) > 0 { TICK } else { 20 * TICK };
        match asked.recv_timeout(pause) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if mpi.pending.load(Ordering::Relaxed) > 0 => mpi.tick(),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn begin(functions: Functions, path: PathBuf, end: Sender<Sender<()>>) -> std::result::Result<Mpi, (String, String)> {
    let (mut major, mut minor, mut level) = (0, 0, 0);
    let (mut rank, mut size, mut found) = (0, 0, 0);
    let mut tags: *const c_int = std::ptr::null();
    let failed = |what: &str, code| Err((format!("{what} of {} failed", path.display()), functions.text(code)));
    // SAFETY: all addresses are valid for what the functions write; `MPI_Init_thread` takes no arguments of the program.
    unsafe {
        (functions.abi_version)(&raw mut major, &raw mut minor);
        if major != 1 {
            let what = format!("{} has version {major}.{minor} of the ABI, not 1", path.display());
            return Err((what, HOW.into()));
        }
        let code = (functions.init)(null_mut(), null_mut(), THREAD_MULTIPLE, &raw mut level);
        if code != 0 {
            return failed("MPI_Init_thread", code);
        }
        (functions.set_errhandler)(COMM_WORLD, ERRORS_RETURN);
        (functions.comm_rank)(COMM_WORLD, &raw mut rank);
        (functions.comm_size)(COMM_WORLD, &raw mut size);
        (functions.comm_attribute)(COMM_WORLD, TAG_UB, (&raw mut tags).cast(), &raw mut found);
    }
    if level < THREAD_MULTIPLE {
        let what = format!("{} does not let several threads call it", path.display());
        return Err((what, "it must have been built with MPI_THREAD_MULTIPLE".into()));
    }
    // SAFETY: where MPI has found the attribute, the address is that of a number which MPI never changes.
    let tags = if found != 0 && !tags.is_null() { (unsafe { *tags }) as usize } else { 32767 };
    let counters = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (rank, size, end) = (rank as usize, size as usize, Mutex::new(end));
    let process = crate::net::random();
    Ok(Mpi { functions, rank, size, process, path, tags, next_tag: counters.0, pending: counters.1, end })
}

impl Functions {
    fn text(&self, code: c_int) -> String {
        let mut text: [c_char; MAX_TEXT] = [0; MAX_TEXT];
        let mut length = 0;
        // SAFETY: the buffer is longer than `MPI_MAX_ERROR_STRING`, and the last byte stays zero.
        unsafe {
            (self.error_string)(code, text.as_mut_ptr(), &raw mut length);
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
        }
    }
}

impl Mpi {
    fn check(&self, code: c_int) -> std::result::Result<(), LinkError> {
        if code == 0 { Ok(()) } else { Err(LinkError::Failed(self.functions.text(code))) }
    }

    /// A number by which messages to one world of this process are told from those to others.
    pub(super) fn new_tag(&self) -> u32 {
        (self.next_tag.fetch_add(1, Ordering::Relaxed) % self.tags) as u32
    }

    /// Lets MPI work.
    fn tick(&self) {
        let (mut flag, mut status) = (0, Status::default());
        // SAFETY: both addresses are valid.
        unsafe { (self.functions.iprobe)(ANY, ANY_TAG, COMM_WORLD, &raw mut flag, &raw mut status) };
    }

    /// Starts to send bytes, which must stay as they are until the request is done.
    pub(super) fn send(&self, bytes: &[u8], to: usize, tag: u32) -> std::result::Result<Handle, LinkError> {
        let mut request = 0;
        let (start, count) = (bytes.as_ptr().cast(), bytes.len() as c_int);
        // SAFETY: the caller keeps the bytes.
        let code = unsafe {
            (self.functions.isend)(start, count, BYTE, to as c_int, tag as c_int, COMM_WORLD, &raw mut request)
        };
        self.check(code).map(|()| request)
    }

    /// Starts to receive the next message, if there is one: into `bytes`, which must stay until the request is done.
    pub(super) fn receive(
        &self,
        bytes: &mut [u8],
        from: usize,
        tag: u32,
    ) -> std::result::Result<Option<(Handle, usize)>, LinkError> {
        let (mut flag, mut message, mut count, mut request) = (0, 0, 0, 0);
        let mut status = Status::default();
        let functions = &self.functions;
        // SAFETY: all addresses are valid; the caller keeps the bytes, of which there are as many as MPI is told.
        unsafe {
            let (from, tag) = (from as c_int, tag as c_int);
            let code = (functions.improbe)(from, tag, COMM_WORLD, &raw mut flag, &raw mut message, &raw mut status);
            self.check(code)?;
            if flag == 0 {
                return Ok(None);
            }
            self.check((functions.get_count)(&raw const status, BYTE, &raw mut count))?;
            let (start, room) = (bytes.as_mut_ptr().cast(), bytes.len() as c_int);
            self.check((functions.imrecv)(start, room, BYTE, &raw mut message, &raw mut request))?;
        }
        Ok(Some((request, count as usize)))
    }

    /// Whether a request is done.
    pub(super) fn done(&self, request: &mut Handle) -> std::result::Result<bool, LinkError> {
        let (mut flag, mut status) = (0, Status::default());
        // SAFETY: all addresses are valid.
        self.check(unsafe { (self.functions.test)(request, &raw mut flag, &raw mut status) })?;
        Ok(flag != 0)
    }
}
