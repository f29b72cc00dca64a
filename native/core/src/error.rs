//! One error type: a message that a user can act on, and what programs tell errors apart by.

use std::fmt;
use std::sync::Arc;

/// What kind of error it is; names of it are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything that a program or its values made impossible.
    Run,
    /// A value that an op is not defined for: an index out of range, an integer division by zero.
    Value,
    /// More memory than there is.
    Memory,
    /// The device was told to end.
    Aborted,
}

#[derive(Clone, Debug)]
pub struct Error {
    pub message: String,
    pub kind: Kind,
    /// Number and name of the program's outermost step that failed.
    pub step: Option<(usize, &'static str)>,
    /// What such a value means, in the words that the program has for it.
    pub failure: Option<String>,
    /// What the carrier of the collectives said, for those who know its type.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Error { message: message.into(), kind: Kind::Run, step: None, failure: None, source: None }
    }

    /// A value that an op is not defined for.
    pub fn value(message: impl Into<String>) -> Self {
        Error { kind: Kind::Value, ..Error::new(message) }
    }

    /// With what it means, where the program says so.
    pub fn meaning(self, failure: Option<&str>) -> Self {
        Error { failure: failure.map(str::to_owned), ..self }
    }

    /// More memory than there is.
    pub fn memory(message: impl Into<String>) -> Self {
        Error { kind: Kind::Memory, ..Error::new(message) }
    }

    /// The device was told to end, for this reason.
    pub fn aborted(reason: &str) -> Self {
        Error { kind: Kind::Aborted, ..Error::new(format!("aborted: {reason}")) }
    }

    /// An error of another layer, kept whole.
    pub fn from_source(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = source.to_string();
        Error { source: Some(Arc::new(source)), ..Error::new(message) }
    }

    /// Says where an error happened, in front of what happened.
    pub fn at(self, place: impl fmt::Display) -> Self {
        Error { message: format!("{place}: {}", self.message), ..self }
    }

    /// As `at`, of a place within the step that was reached. One that names a step already is of a collective that was
    /// under way: it only came to light here.
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        if self.step.is_some() {
            self
        } else {
            self.at(place)
        }
    }

    /// Notes the step in which it happened.
    pub fn in_step(self, number: usize, name: &'static str) -> Self {
        Error { step: Some((number, name)), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Leaves the function with an error of a value, made as by `format!`.
#[macro_export]
macro_rules! bail_value {
    ($($arg:tt)*) => { return Err($crate::Error::value(format!($($arg)*))) };
}

/// Leaves the function with an error made as by `format!`.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::Error::new(format!($($arg)*))) };
}
