//! One error type: what went wrong and where, as data. Sentences are made of it in `src/util/faults.ts`.

use std::fmt;

use serde_json::{json, Value};

/// What went wrong; kinds and fields are what TypeScript reads.
#[derive(Clone, Debug, PartialEq)]
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
    Carried(Value),
}

/// Where in a program it went wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    pub program: Option<String>,
    /// The outermost step that was reached.
    pub step: Option<usize>,
    /// Its kernel.
    pub kernel: Option<&'static str>,
    /// The outermost step that began the collective, where one under way failed.
    pub begun: Option<usize>,
    /// The call's number among all calls, those in loops and branches included.
    pub call: Option<usize>,
    /// Of the loops around it, the outermost first.
    pub iterations: Vec<i32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub fault: Fault,
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

    /// The record that TypeScript reads.
    pub fn record(&self) -> Value {
        let mut record = match &self.fault {
            Fault::Run { text } => json!({ "kind": "run", "text": text }),
            Fault::Index { index, position, size } => {
                json!({ "kind": "index", "index": index, "position": position, "size": size })
            }
            Fault::Label { index, position, size } => {
                json!({ "kind": "label", "index": index, "position": position, "size": size })
            }
            Fault::ZeroDivisor { op, dtype, division, of } => {
                json!({ "kind": "zeroDivisor", "op": op, "dtype": dtype, "division": division, "of": of })
            }
            Fault::NotPositiveDefinite { matrix } => json!({ "kind": "notPositiveDefinite", "matrix": matrix }),
            Fault::Singular { matrix, pivot } => json!({ "kind": "singular", "matrix": matrix, "pivot": pivot }),
            Fault::NotConverging { matrix } => json!({ "kind": "notConverging", "matrix": matrix }),
            Fault::Memory { bytes } => json!({ "kind": "memory", "bytes": bytes }),
            Fault::Panic { text } => json!({ "kind": "panic", "text": text }),
            Fault::Aborted { reason } => json!({ "kind": "aborted", "reason": reason }),
            Fault::Carried(record) => record.clone(),
        };
        let Place { program, step, kernel, begun, call, iterations } = &*self.place;
        let numbers = [("step", step), ("begun", begun), ("call", call)];
        let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, json!((*number)?))));
        let names = program.as_deref().map(|name| ("program", json!(name)));
        let kernel = kernel.map(|name| ("kernel", json!(name)));
        let iterations = (!iterations.is_empty()).then(|| ("iterations", json!(iterations)));
        for (name, value) in numbers.chain(names).chain(kernel).chain(iterations) {
            record[name] = value;
        }
        record
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
        self.record().fmt(f)
    }
}

impl std::error::Error for Error {}

/// Leaves the function with an error made as by `format!`.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::Error::new(format!($($arg)*))) };
}
