//! The error type: what went wrong and where, as data. `src/util/faults.ts` makes sentences of it.

use std::fmt;

use serde_json::{json, Value};

/// Declares the faults: the kind and the fields of each, in Rust and in the record that TypeScript reads.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $kind:literal { $($field:ident: $type:ty),+ })+) => {
        /// What went wrong.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Fault {
            $($(#[$doc])* $name { $($field: $type),+ },)+
            /// The record of an error of the collectives.
            Carried(Value),
        }

        impl Fault {
            fn record(&self) -> Value {
                match self {
                    $(Fault::$name { $($field),+ } => json!({ "kind": $kind, $((stringify!($field)): $field),+ }),)+
                    Fault::Carried(record) => record.clone(),
                }
            }
        }
    };
}

faults! {
    /// A malformed program or call; the text says why.
    Run "run" { text: String }
    /// An index that is outside the rows of a table.
    Index "index" { index: i64, position: usize, size: usize }
    /// A label that is outside the classes.
    Label "label" { index: i64, position: usize, size: usize }
    /// A division of an integer by zero: its number among the `of` divisions of the call.
    ZeroDivisor "zeroDivisor" { op: &'static str, dtype: &'static str, division: usize, of: usize }
    NotPositiveDefinite "notPositiveDefinite" { matrix: usize }
    Singular "singular" { matrix: usize, pivot: usize }
    NotConverging "notConverging" { matrix: usize }
    /// An allocation that failed or is above the limit.
    Memory "memory" { bytes: usize }
    /// A defect of Heddle.
    Panic "panic" { text: String }
    /// Another thread has aborted the device.
    Aborted "aborted" { reason: String }
}

/// Where in a program the fault occurred.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    pub program: Option<String>,
    /// The outermost step that was reached.
    pub step: Option<usize>,
    /// The kernel of that step.
    pub kernel: Option<&'static str>,
    /// The outermost step that started the collective, where an asynchronous collective failed.
    pub begun: Option<usize>,
    /// The call's number among all calls, those in loops and branches included.
    pub call: Option<usize>,
    /// The iterations of the loops around the call, the outermost first.
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
        let mut record = self.fault.record();
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

    /// Puts the place in a malformed program in front of the text.
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        if let Fault::Run { text } = &mut self.fault {
            *text = format!("{place}: {text}");
        }
        self
    }

    /// Notes the call, unless the call is known already. An asynchronous collective failed in another call than this one.
    pub(crate) fn in_call(mut self, number: usize) -> Self {
        if self.place.begun.is_none() {
            self.place.call.get_or_insert(number);
        }
        self
    }

    /// Notes the iteration of a loop around the call, as `in_call` does.
    pub(crate) fn in_iteration(mut self, count: i32) -> Self {
        if self.place.begun.is_none() {
            self.place.iterations.insert(0, count);
        }
        self
    }

    /// Notes the outermost step that started the collective.
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

/// Returns an error whose text is formatted as by `format!`.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::Error::new(format!($($arg)*))) };
}
