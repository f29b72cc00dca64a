//! Errors as JavaScript sees them: records (`src/runtime/native/error.ts` reads them).

use napi::{Env, JsValue, Status};

use heddle_comm as comm;

/// An error on its way to JavaScript: its record, in JSON.
#[derive(Clone)]
pub struct Failure(pub String);

impl Failure {
    /// The error for JavaScript; only on its thread.
    pub fn raise(self, env: &Env) -> napi::Error {
        let text = self.0.clone();
        self.object(env).unwrap_or_else(|_| napi::Error::from_reason(text))
    }

    fn object(self, env: &Env) -> napi::Result<napi::Error> {
        let mut object = env.create_error(napi::Error::from_reason(self.0.clone()))?;
        object.set("fault", self.0)?;
        Ok(napi::Error::from(object.to_unknown()))
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
