//! Promises that are settled from other threads.

use std::panic::{catch_unwind, AssertUnwindSafe};

use napi::bindgen_prelude::{Object, ToNapiValue};
use napi::{Env, JsDeferred, Result};

use heddle_core::Fault;

use crate::{fail, Failure};

type Resolver<D> = Box<dyn FnOnce(Env) -> Result<D>>;

/// The settling side of a promise.
pub struct Settle<D: ToNapiValue + 'static>(JsDeferred<D, Resolver<D>>);

impl<D: ToNapiValue + 'static> Settle<D> {
    pub fn new(env: &Env) -> Result<(Settle<D>, Object<'_>)> {
        let (deferred, promise) = env.create_deferred()?;
        Ok((Settle(deferred), promise))
    }

    /// `into` runs on the JavaScript thread.
    pub fn settle<T: Send + 'static>(
        self,
        result: std::result::Result<T, Failure>,
        into: impl FnOnce(Env, T) -> Result<D> + 'static,
    ) {
        self.0.resolve(Box::new(move |env| match result {
            Ok(value) => into(env, value),
            Err(failure) => Err(failure.into()),
        }));
    }
}

/// Turns a panic into an error.
pub fn guarded<T>(work: impl FnOnce() -> std::result::Result<T, Failure>) -> std::result::Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(heddle_core::Error::from(Fault::Panic { text: text.unwrap_or("panic").to_owned() }).into())
    })
}

/// Runs `work` on a thread of its own and gives a promise of its result.
pub fn background<'e, T, D>(
    env: &'e Env,
    work: impl FnOnce() -> std::result::Result<T, Failure> + Send + 'static,
    into: impl FnOnce(Env, T) -> Result<D> + Send + 'static,
) -> Result<Object<'e>>
where
    T: Send + 'static,
    D: ToNapiValue + 'static,
{
    // The thread comes first: a promise that nobody settles keeps the process alive.
    let (send, receive) = std::sync::mpsc::channel::<Settle<D>>();
    let run = move || {
        if let Ok(settle) = receive.recv() {
            settle.settle(guarded(work), into);
        }
    };
    let builder = std::thread::Builder::new().name("heddle-task".to_string());
    builder.spawn(run).map_err(|error| fail(format!("could not start a thread: {error}")))?;
    let (settle, promise) = Settle::new(env)?;
    let _ = send.send(settle);
    Ok(promise)
}
