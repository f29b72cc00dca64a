//! Reads the fields of calls: each field is taken once, and unknown fields are refused.

use serde_json::{Map, Value};

use crate::dtype::DType;
use crate::verify::At;
use crate::{bail, Result};

/// The fields that have not been taken yet, by name.
pub struct Fields(Map<String, Value>);

/// A type that is read from the fields of an object.
pub trait Take: Sized {
    fn take(fields: &mut Fields) -> Result<Self>;
}

/// A type that is read from one JSON value.
pub trait Read: Sized {
    fn read(value: Value) -> Result<Self>;
}

impl Fields {
    pub fn of(value: Value) -> Result<Fields> {
        match value {
            Value::Object(map) => Ok(Fields(map)),
            other => bail!("invalid value {other}: takes an object"),
        }
    }

    pub fn need<T: Read>(&mut self, name: &str) -> Result<T> {
        match self.0.remove(name) {
            Some(value) => T::read(value).map_err(|e| e.at(name)),
            None => bail!("missing field `{name}`"),
        }
    }

    pub fn optional<T: Read>(&mut self, name: &str) -> Result<Option<T>> {
        match self.0.remove(name) {
            Some(value) => T::read(value).map(Some).map_err(|e| e.at(name)),
            None => Ok(None),
        }
    }

    /// A flag; false where the field is absent.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        Ok(self.optional(name)?.unwrap_or(false))
    }

    /// Refuses fields that are not among the known ones.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => bail!("unknown field `{name}`, there are {}", known.join(", ")),
            None => Ok(()),
        }
    }
}

impl<T: Take> Read for T {
    fn read(value: Value) -> Result<T> {
        let mut fields = Fields::of(value)?;
        let taken = T::take(&mut fields)?;
        fields.only(&[])?;
        Ok(taken)
    }
}

impl Read for Value {
    fn read(value: Value) -> Result<Value> {
        Ok(value)
    }
}

macro_rules! plain {
    ($($type:ty, $what:literal, |$value:ident| $read:expr;)*) => {
        $(impl Read for $type {
            fn read($value: Value) -> Result<$type> {
                match $read {
                    Some(value) => Ok(value),
                    None => bail!("invalid value {}: takes {}", $value, $what),
                }
            }
        })*
    };
}

plain! {
    usize, "a size", |value| value.as_u64().and_then(|x| usize::try_from(x).ok());
    isize, "an integer", |value| value.as_i64().and_then(|x| isize::try_from(x).ok());
    i64, "an integer", |value| value.as_i64();
    u32, "a size of 32 bits", |value| value.as_u64().and_then(|x| u32::try_from(x).ok());
    f64, "a number", |value| value.as_f64();
    bool, "true or false", |value| value.as_bool();
    String, "a text", |value| value.as_str().map(str::to_owned);
    DType, "a dtype", |value| value.as_str().and_then(DType::named);
}

fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(list) => Ok(list),
        other => bail!("invalid value {other}: takes a list"),
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: Value) -> Result<Vec<T>> {
        let read = |(i, value)| T::read(value).map_err(|e| e.at(format!("[{i}]")));
        list(value)?.into_iter().enumerate().map(read).collect()
    }
}

impl<T: Read, const N: usize> Read for [T; N] {
    fn read(value: Value) -> Result<[T; N]> {
        let items = Vec::<T>::read(value)?;
        let count = items.len();
        items.try_into().or_else(|_| bail!("takes {N} values, got {count}"))
    }
}

fn pair<A: Read, B: Read>(value: Value) -> Result<(A, B)> {
    let [first, second] = <[Value; 2]>::read(value)?;
    Ok((A::read(first)?, B::read(second)?))
}

impl Read for (i64, usize) {
    fn read(value: Value) -> Result<(i64, usize)> {
        pair(value)
    }
}

impl Read for At {
    fn read(value: Value) -> Result<At> {
        let (space, offset) = pair(value)?;
        Ok(At { space, offset })
    }
}

/// Enums of names.
macro_rules! names {
    ($($type:ident { $($variant:ident = $name:literal),* })*) => {
        $(
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $type { $($variant),* }

            impl $type {
                pub fn named(name: &str) -> Option<$type> {
                    match name { $($name => Some($type::$variant),)* _ => None }
                }
            }

            impl $crate::fields::Read for $type {
                fn read(value: serde_json::Value) -> $crate::Result<$type> {
                    match value.as_str().and_then($type::named) {
                        Some(value) => Ok(value),
                        None => $crate::bail!("unknown variant {value}, there are {}", [$($name),*].join(", ")),
                    }
                }
            }
        )*
    };
}

/// Structs; each field has its type and the expression that takes it.
macro_rules! structs {
    ($($type:ident from $fields:ident { $($name:ident: $of:ty = $taken:expr,)* })*) => {
        $(
            #[derive(Clone, Debug)]
            pub struct $type { $(pub $name: $of),* }

            impl $crate::fields::Take for $type {
                fn take($fields: &mut $crate::fields::Fields) -> $crate::Result<$type> {
                    Ok($type { $($name: $taken),* })
                }
            }
        )*
    };
}

pub(crate) use {names, structs};
