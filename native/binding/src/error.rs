//! Errors as JavaScript sees them: records (`src/executors/native/error.ts` reads them).

use napi::Status;

use heddle_comm as comm;

/// An error on its way to JavaScript: its record, in JSON, which is the message there.
#[derive(Clone)]
pub struct Failure(pub String);

impl From<Failure> for napi::Error {
    fn from(failure: Failure) -> napi::Error {
        napi::Error::from_reason(failure.0)
    }
}

impl From<comm::Error> for Failure {
    fn from(error: comm::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<heddle_core::Error> for Failure {
    fn from(error: heddle_core::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// A call that is wrong in itself.
pub(crate) fn fail(message: impl std::fmt::Display) -> napi::Error {
    napi::Error::new(Status::InvalidArg, message.to_string())
}
