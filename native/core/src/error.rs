//! One error type: what went wrong and where, as data. Sentences are made of it in `src/util/faults.ts`.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// What went wrong; kinds and fields are what TypeScript reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Fault {
    /// A malformed program or call, in words.
    Run {
        text: String,
    },
    /// An index of no row.
    Index {
        index: i64,
        position: usize,
        size: usize,
    },
    /// A label of no class.
    Label {
        index: i64,
        position: usize,
        size: usize,
    },
    /// An integer divided by zero: which of the divisions of the call, from 0, and of how many.
    ZeroDivisor {
        op: &'static str,
        dtype: &'static str,
        division: usize,
        of: usize,
    },
    NotPositiveDefinite {
        matrix: usize,
    },
    Singular {
        matrix: usize,
        pivot: usize,
    },
    NotConverging {
        matrix: usize,
    },
    /// More bytes than there are.
    Memory {
        bytes: usize,
    },
    /// A mistake of Heddle's own.
    Panic {
        text: String,
    },
    /// The device was told to end.
    Aborted {
        reason: String,
    },
    /// What the carrier of the collectives says.
    #[serde(untagged)]
    Carried(Value),
}

/// Where in a program it went wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Place {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The outermost step that was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<&'static str>,
    /// The outermost step that began the collective, where one under way failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<usize>,
    /// The call's number among all calls, those in loops and branches included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<usize>,
    /// Of the loops around it, the outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<i32>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Error {
    #[serde(flatten)]
    pub fault: Fault,
    #[serde(flatten)]
    pub place: Box<Place>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error { fault, place: Box::default() }
    }
}

impl Error {
    pub fn new(text: impl Into<String>) -> Self {
        Fault::Run { text: text.into() }.into()
    }

    /// An error of another layer, as data.
    pub fn carried(record: impl Serialize) -> Self {
        serde_json::to_value(record).map_or_else(|e| Error::new(e.to_string()), |value| Fault::Carried(value).into())
    }

    /// Says where in a program it is malformed, in front of what is.
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        if let Fault::Run { text } = &mut self.fault {
            *text = format!("{place}: {text}");
        }
        self
    }

    /// Notes the call, unless it is known. An error of a collective under way only came to light here.
    pub(crate) fn in_call(mut self, number: usize) -> Self {
        if self.place.begun.is_none() {
            self.place.call.get_or_insert(number);
        }
        self
    }

    /// Notes an iteration of a loop around it, as `in_call`.
    pub(crate) fn in_iteration(mut self, count: i32) -> Self {
        if self.place.begun.is_none() {
            self.place.iterations.insert(0, count);
        }
        self
    }

    /// Notes the outermost step that began the collective.
    pub(crate) fn begun_in(mut self, step: usize) -> Self {
        self.place.begun = Some(step);
        self
    }

    /// Notes the program and the outermost step that was reached.
    pub(crate) fn in_step(mut self, program: &str, number: usize, kernel: &'static str) -> Self {
        self.place.program = Some(program.to_owned());
        self.place.step = Some(number);
        self.place.kernel = Some(if self.place.begun.is_some() { "collective" } else { kernel });
        self
    }
}

/// As data, in JSON.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl std::error::Error for Error {}

/// Leaves the function with an error made as by `format!`.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::Error::new(format!($($arg)*))) };
}
