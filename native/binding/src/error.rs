//! Errors as JavaScript sees them: a stable code, and the fields that programs tell errors apart by.

use napi::{Env, JsValue, Status};

use heddle_comm as comm;
use heddle_core::error::Kind;

/// An error on its way to JavaScript.
#[derive(Clone)]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
    /// The collective that was under way.
    pub during: Option<String>,
    /// The rank that closed its connection or aborted.
    pub rank: Option<u32>,
    /// The program's outermost step that failed.
    pub step: Option<(u32, &'static str)>,
    /// What a value outside means, in the words of the program.
    pub failure: Option<String>,
}

impl Failure {
    pub fn new(code: &'static str, message: impl std::fmt::Display) -> Failure {
        Failure { code, message: message.to_string(), during: None, rank: None, step: None, failure: None }
    }

    /// The error for JavaScript; only on its thread.
    pub fn raise(self, env: &Env) -> napi::Error {
        let text = self.message.clone();
        self.object(env).unwrap_or_else(|_| napi::Error::from_reason(text))
    }

    fn object(self, env: &Env) -> napi::Result<napi::Error> {
        let mut object = env.create_error(napi::Error::from_reason(self.message))?;
        object.set("code", self.code)?;
        if let Some(during) = self.during {
            object.set("during", during)?;
        }
        if let Some(rank) = self.rank {
            object.set("rank", rank)?;
        }
        if let Some((step, op)) = self.step {
            object.set("step", step)?;
            object.set("op", op)?;
        }
        if let Some(failure) = self.failure {
            object.set("failure", failure)?;
        }
        Ok(napi::Error::from(object.to_unknown()))
    }
}

impl From<comm::Error> for Failure {
    fn from(error: comm::Error) -> Failure {
        let during = error.during().map(str::to_owned);
        Failure { during, rank: error.rank().map(|rank| rank as u32), ..Failure::new(error.code(), &error) }
    }
}

impl From<heddle_core::Error> for Failure {
    fn from(error: heddle_core::Error) -> Failure {
        let carried = error.source.as_ref().and_then(|source| source.downcast_ref::<comm::Error>());
        let failure = match (carried, error.kind) {
            (Some(source), _) => Failure { message: error.to_string(), ..Failure::from(source.clone()) },
            (None, Kind::Aborted) => Failure::new("aborted", &error),
            (None, Kind::Memory) => Failure::new("memory", &error),
            (None, Kind::Value) => Failure::new("value", &error),
            (None, Kind::Run) => Failure::new("run", &error),
        };
        let step = error.step.map(|(number, name)| (number as u32, name));
        Failure { step, failure: error.failure, ..failure }
    }
}

/// A call that is wrong in itself.
pub(crate) fn fail(message: impl std::fmt::Display) -> napi::Error {
    napi::Error::new(Status::InvalidArg, message.to_string())
}
