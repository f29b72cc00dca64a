//! Programs and devices. A device is one thread with a queue; the event loop only enqueues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use napi::bindgen_prelude::{ClassInstance, Float64Array, Object, ToNapiValue};
use napi::{Env, Result};
use napi_derive::napi;

use heddle_core::collectives::{Alone, Collectives};
use heddle_core::exec::{Control, Device};
use heddle_core::isa::Isa;
use heddle_core::program::Program;

use crate::buffer::{NativeBuffer, Piece, Use};
use crate::groups::{Groups, NativeGroup};
use crate::handles::TABLE;
use crate::promise::{guarded, Settle};
use crate::{fail, Failure};

#[napi]
pub struct NativeProgram {
    program: Arc<Program>,
    number: u32,
}

impl Drop for NativeProgram {
    fn drop(&mut self) {
        let _ = TABLE.try_with(|table| table.borrow_mut().programs.remove(self.number));
    }
}

#[napi]
impl NativeProgram {
    #[napi(constructor)]
    pub fn new(json: String) -> Result<NativeProgram> {
        let parsed = guarded(|| Ok(Program::parse(&json)?));
        let program = Arc::new(parsed?);
        let number = TABLE.with_borrow_mut(|table| table.programs.add(program.clone()));
        Ok(NativeProgram { program, number })
    }

    /// By which `runHandles` knows the program.
    #[napi(getter)]
    pub fn number(&self) -> u32 {
        self.number
    }

    #[napi(getter)]
    pub fn arena_bytes(&self) -> f64 {
        self.program.total_bytes() as f64
    }

    /// What the steps of a program access, a line each: `name role space low high`.
    #[napi]
    pub fn accesses(json: String) -> Result<Vec<String>> {
        Ok(guarded(|| Ok(Program::accesses(&json)?))?)
    }
}

#[napi(object)]
pub struct DeviceLimits {
    pub flops: f64,
    pub bytes: f64,
}

#[napi(object)]
pub struct DeviceOptions {
    pub threads: u32,
    pub coords: Option<Vec<i32>>,
    pub isa: Option<String>,
}

/// Takes the times of a run that is profiled; none of another.
type Done = Box<dyn FnOnce(std::result::Result<Vec<f64>, Failure>) + Send>;

enum Job {
    Run { number: Option<usize>, program: Arc<Program>, arguments: Vec<Use>, profile: bool, done: Done },
    Sync(Sender<()>),
}

#[napi]
pub struct NativeDevice {
    /// `None` once closed.
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    seat: Arc<Seat>,
    control: Arc<Control>,
    collectives: Arc<dyn Collectives>,
    /// Calls of `run` so far.
    runs: AtomicUsize,
    /// By which `runHandles` knows the device, until it is closed.
    number: Option<u32>,
}

impl Drop for NativeDevice {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A run that failed, for who waits without letting promises settle.
#[napi(object)]
pub struct FailedRun {
    /// Its place among the calls of `run`, from 0.
    pub run: f64,
    /// Its record, in JSON.
    pub fault: String,
}

/// Most failures kept until `sync` is called: more than may be in flight.
const FAILURES: usize = 1024;

/// Enough for the deepest kernel and its registers.
const STACK: usize = 4 << 20;

/// What the device's thread and the thread of JavaScript share.
pub struct Seat {
    device: Mutex<Device>,
    /// Runs queued and not yet done.
    queued: AtomicUsize,
    failed: Mutex<VecDeque<(usize, Failure)>>,
}

impl Seat {
    /// Runs in place if nothing is queued, else gives the uses back.
    pub fn run_now(
        &self,
        program: &Program,
        arguments: Vec<Use>,
    ) -> std::result::Result<std::result::Result<(), Vec<Use>>, Failure> {
        if self.queued.load(Ordering::Acquire) > 0 {
            return Ok(Err(arguments));
        }
        let Ok(mut device) = self.device.try_lock() else { return Ok(Err(arguments)) };
        perform(&mut device, program, arguments, false)?;
        Ok(Ok(()))
    }
}

fn perform(
    device: &mut Device,
    program: &Program,
    mut arguments: Vec<Use>,
    profile: bool,
) -> std::result::Result<Vec<f64>, Failure> {
    // Uses end with this call, so that whoever waits may touch the buffers at once.
    guarded(move || {
        arguments.iter_mut().try_for_each(Use::begin)?;
        let spans: Vec<_> = arguments.iter().map(|a| a.span).collect();
        if profile {
            return Ok(device.profile(program, &spans)?);
        }
        device.run(program, &spans)?;
        Ok(Vec::new())
    })
}

fn serve(seat: &Seat, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Sync(done) => drop(done.send(())),
            Job::Run { number, program, arguments, profile, done } => {
                let mut device = seat.device.lock().unwrap_or_else(|e| e.into_inner());
                let result = perform(&mut device, &program, arguments, profile);
                drop(device);
                if let (Some(number), Err(error)) = (number, &result) {
                    let mut failed = seat.failed.lock().unwrap_or_else(|e| e.into_inner());
                    failed.push_back((number, error.clone()));
                    if failed.len() > FAILURES {
                        failed.pop_front();
                    }
                }
                seat.queued.fetch_sub(1, Ordering::AcqRel);
                done(result);
            }
        }
    }
}

#[napi]
impl NativeDevice {
    #[napi(constructor)]
    pub fn new(options: DeviceOptions, groups: Option<Vec<ClassInstance<NativeGroup>>>) -> Result<NativeDevice> {
        if options.threads == 0 || options.threads > 1024 {
            return Err(fail(format!("threads must be 1 to 1024, got {}", options.threads)));
        }
        let isa = Isa::choose(options.isa.as_deref()).map_err(fail)?;
        let groups = groups.unwrap_or_default();
        let collectives: Arc<dyn Collectives> = if groups.is_empty() {
            Arc::new(Alone)
        } else {
            Arc::new(Groups(groups.iter().map(|g| g.shared()).collect()))
        };
        let coords = options.coords.unwrap_or_default();
        let device = Device::new(options.threads as usize, isa, coords, collectives.clone());
        let control = device.control.clone();
        let (queue, jobs) = channel();
        let builder = std::thread::Builder::new().name("heddle-device".to_string()).stack_size(STACK);
        let seat = Arc::new(Seat { device: Mutex::new(device), queued: AtomicUsize::new(0), failed: Mutex::default() });
        let served = seat.clone();
        let thread = builder.spawn(move || serve(&served, &jobs)).map_err(fail)?;
        let number = TABLE.with_borrow_mut(|table| table.devices.add(seat.clone()));
        Ok(NativeDevice {
            number: Some(number),
            queue: Some(queue),
            thread: Some(thread),
            seat,
            control,
            collectives,
            runs: AtomicUsize::new(0),
        })
    }

    #[napi]
    pub fn run<'e>(
        &self,
        env: &'e Env,
        program: &NativeProgram,
        args: Vec<ClassInstance<NativeBuffer>>,
    ) -> Result<Object<'e>> {
        self.enqueue(env, program, &args, false, |_, _| Ok(()))
    }

    /// Runs and gives the times of the steps: the run's beginning in microseconds since the epoch and its length; then of
    /// each step, at any depth and in order, its first beginning, its time in all and how often it ran. Nanoseconds.
    #[napi]
    pub fn profile<'e>(
        &self,
        env: &'e Env,
        program: &NativeProgram,
        args: Vec<ClassInstance<NativeBuffer>>,
    ) -> Result<Object<'e>> {
        self.enqueue(env, program, &args, true, |_, times| Ok(Float64Array::new(times)))
    }

    /// Operations and bytes per second that this device could reach at most, measured for about a tenth of a second.
    #[napi]
    pub fn limits(&self) -> Result<DeviceLimits> {
        let device = self.seat.device.lock().unwrap_or_else(|e| e.into_inner());
        let limits = device.limits().map_err(fail)?;
        Ok(DeviceLimits { flops: limits.flops, bytes: limits.bytes })
    }

    /// Runs and waits; in place if nothing is queued, since a round trip to another thread costs more than many a run.
    #[napi]
    pub fn run_sync(&self, program: &NativeProgram, args: Vec<ClassInstance<NativeBuffer>>) -> Result<()> {
        let arguments = arguments(&program.program, args.len(), |i| args[i].piece())?;
        let arguments = match self.number {
            None => arguments,
            Some(_) => match self.seat.run_now(&program.program, arguments)? {
                Ok(()) => return Ok(()),
                Err(arguments) => arguments,
            },
        };
        let (sender, receiver) = channel();
        let done: Done = Box::new(move |result| drop(sender.send(result)));
        self.send(Job::Run { number: None, program: program.program.clone(), arguments, profile: false, done })?;
        receiver.recv().map_err(|_| fail("the device has ended"))??;
        Ok(())
    }

    /// Waits until everything queued so far is done. Gives the runs that have failed since the last call.
    #[napi]
    pub fn sync(&self) -> Result<Vec<FailedRun>> {
        let (sender, receiver) = channel();
        self.send(Job::Sync(sender))?;
        receiver.recv().map_err(|_| fail("the device has ended"))?;
        let mut failed = self.seat.failed.lock().unwrap_or_else(|e| e.into_inner());
        Ok(failed.drain(..).map(|(run, failure)| FailedRun { run: run as f64, fault: failure.0 }).collect())
    }

    /// Ends the running program after its current step, and refuses all later ones.
    #[napi]
    pub fn abort(&self, reason: String) {
        self.control.abort(&reason);
        self.collectives.abort(&reason);
    }

    /// Waits for what is queued, then ends the thread. Closing twice does nothing.
    #[napi]
    pub fn close(&mut self) {
        self.forget();
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    #[napi(getter)]
    pub fn number(&self) -> Option<u32> {
        self.number
    }

    fn forget(&mut self) {
        if let Some(number) = self.number.take() {
            let _ = TABLE.try_with(|table| table.borrow_mut().devices.take(number as usize));
        }
    }

    fn open(&self) -> Result<&Sender<Job>> {
        self.queue.as_ref().ok_or_else(|| fail("the device is closed, with its runtime"))
    }

    fn send(&self, job: Job) -> Result<()> {
        let queue = self.open()?;
        if matches!(job, Job::Run { .. }) {
            self.seat.queued.fetch_add(1, Ordering::AcqRel);
        }
        queue.send(job).map_err(|_| fail("the device has ended"))
    }

    /// Queues a run; `into` makes what its promise gives.
    fn enqueue<'e, D: ToNapiValue + 'static>(
        &self,
        env: &'e Env,
        program: &NativeProgram,
        args: &[ClassInstance<NativeBuffer>],
        profile: bool,
        into: impl FnOnce(Env, Vec<f64>) -> Result<D> + Send + 'static,
    ) -> Result<Object<'e>> {
        let arguments = arguments(&program.program, args.len(), |i| args[i].piece())?;
        // A promise that nobody settles would keep the process alive.
        self.open()?;
        let (settle, promise) = Settle::new(env)?;
        let done: Done = Box::new(move |result| settle.settle(result, into));
        let number = Some(self.runs.fetch_add(1, Ordering::AcqRel));
        self.send(Job::Run { number, program: program.program.clone(), arguments, profile, done })?;
        Ok(promise)
    }
}

/// Checks what can be checked before queueing, and notes the uses.
pub fn arguments<'a>(program: &Program, count: usize, pieces: impl Fn(usize) -> Result<&'a Piece>) -> Result<Vec<Use>> {
    if count != program.buffers.len() {
        return Err(fail(format!("takes {} buffers, got {count}", program.buffers.len())));
    }
    for i in 0..count {
        let (piece, need) = (pieces(i)?, program.buffers[i]);
        if piece.bytes < need {
            return Err(fail(format!("buffer {i} has {} bytes, {need} are needed", piece.bytes)));
        }
        for j in 0..i {
            if (program.written[i] || program.written[j]) && Arc::ptr_eq(&pieces(j)?.memory, &piece.memory) {
                return Err(fail(format!("arguments {j} and {i} are the same buffer, and the program writes it")));
            }
        }
    }
    (0..count).map(|i| Ok(pieces(i)?.queue(program.written[i]))).collect()
}
