//! Records to columns.

use crate::number::{number, trimmed};

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    F32,
    F64,
    I32,
    U8,
    /// Where each field begins and ends, for texts and what else the caller makes of its bytes.
    Places,
}

/// A column that is read.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The place of its field in a record, from 0.
    pub field: usize,
    pub kind: Kind,
    /// Whether nobody has named its type: then floats must not make another whole number of one.
    pub inferred: bool,
}

/// How records are written.
pub struct Format<'a> {
    pub separator: u8,
    /// Fields of each record.
    pub fields: usize,
    /// Fields that mean a missing value: NaN among floats.
    pub missing: &'a [Vec<u8>],
    /// Bytes of the longest record that is read, with the end of its line.
    pub longest: usize,
}

/// Where the values of a column go, one for each record, and of places two.
#[derive(PartialEq, Debug)]
pub enum Values<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I32(&'a mut [i32]),
    U8(&'a mut [u8]),
    Places(&'a mut [i32]),
}

impl Values<'_> {
    /// For how many records there is room.
    fn rows(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::I32(values) => values.len(),
            Values::U8(values) => values.len(),
            Values::Places(places) => places.len() / 2,
        }
    }
}

/// What was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    pub rows: usize,
    /// Where the next record begins: one that is not plain, whose end is not there, or for which there is no room.
    pub next: usize,
}

/// A record is not plain.
struct Unusual;

/// Whole numbers up to here are counts or identifiers, which must not become others.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_991.0;
/// More digits than this may be another number in a double.
const SAFE_BYTES: usize = 15;

/// Reads records from `from` on while they are plain, end before `to`, and have room in each of `values`, which are those of `columns`.
pub fn read(bytes: &[u8], from: usize, to: usize, format: &Format, columns: &[Column], values: &mut [Values]) -> Read {
    let bytes = &bytes[..to.min(bytes.len())];
    let mut found = Read { rows: 0, next: from.min(bytes.len()) };
    let mut wanted: Vec<Option<usize>> = vec![None; format.fields];
    for (index, column) in columns.iter().enumerate().take(values.len()) {
        if let Some(place) = wanted.get_mut(column.field) {
            *place = Some(index);
        }
    }
    let most = values.iter().map(Values::rows).min().unwrap_or(usize::MAX);
    while found.rows < most && !wanted.is_empty() {
        match record(bytes, found, format, &wanted, columns, values) {
            Ok(next) => found = Read { rows: found.rows + 1, next },
            Err(Unusual) => break,
        }
    }
    found
}

/// Reads the next record; gives where the one after it begins.
fn record(
    bytes: &[u8],
    found: Read,
    format: &Format,
    wanted: &[Option<usize>],
    columns: &[Column],
    values: &mut [Values],
) -> Result<usize, Unusual> {
    let last = format.fields - 1;
    let mut at = found.next;
    for (field, column) in wanted.iter().enumerate() {
        let begin = at;
        let rest = &bytes[at..];
        if rest.first() == Some(&b'"') {
            return Err(Unusual);
        }
        let ends = |byte: &u8| *byte == format.separator || *byte == b'\n' || *byte == b'\r';
        at += rest.iter().position(ends).ok_or(Unusual)?;
        if (bytes[at] != format.separator) != (field == last) {
            return Err(Unusual);
        }
        if let Some(index) = *column {
            take(bytes, (begin, at), format, columns[index], &mut values[index], found.rows)?;
        }
        at += match &bytes[at..] {
            [b'\r', b'\n', ..] => 2,
            [b'\r', ..] => return Err(Unusual),
            _ => 1,
        };
    }
    if at - found.next > format.longest {
        return Err(Unusual);
    }
    Ok(at)
}

/// Takes the value of a field.
fn take(
    bytes: &[u8],
    (begin, end): (usize, usize),
    format: &Format,
    column: Column,
    values: &mut Values,
    row: usize,
) -> Result<(), Unusual> {
    let field = &bytes[begin..end];
    if let Values::Places(places) = values {
        for (place, at) in [begin, end].into_iter().enumerate() {
            places[2 * row + place] = i32::try_from(at).map_err(|_| Unusual)?;
        }
        return Ok(());
    }
    let missing = format.missing.iter().any(|one| one == field);
    let value = if missing { f64::NAN } else { number(field).ok_or(Unusual)? };
    match values {
        Values::F32(all) => {
            let held = value as f32;
            let exact = missing || f64::from(held) == value;
            if !exact && (held.is_infinite() || (column.inferred && is_count(value))) {
                return Err(Unusual);
            }
            digits(field, exact && !missing, column)?;
            all[row] = held;
        }
        Values::F64(all) => {
            digits(field, !missing, column)?;
            all[row] = value;
        }
        Values::I32(all) => all[row] = whole(value, i32::MIN.into(), i32::MAX.into())? as i32,
        Values::U8(all) => all[row] = whole(value, 0.0, 255.0)? as u8,
        Values::Places(_) => {}
    }
    Ok(())
}

fn is_count(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() <= LARGEST_WHOLE
}

fn whole(value: f64, least: f64, most: f64) -> Result<f64, Unusual> {
    if value.fract() == 0.0 && (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Unusual)
    }
}

/// Whole numbers of many digits may be others in a float, which only matters where nobody has named the type.
fn digits(field: &[u8], held: bool, column: Column) -> Result<(), Unusual> {
    let is_long = held && column.inferred && field.len() > SAFE_BYTES;
    if is_long && trimmed(field).iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-')) {
        return Err(Unusual);
    }
    Ok(())
}
