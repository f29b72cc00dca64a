//! Blocks of CSV to columns, off the JavaScript thread.

use std::slice::from_raw_parts_mut;

use napi::bindgen_prelude::{Int32Array, Object, Uint8Array};
use napi::{Env, Result};
use napi_derive::napi;

use heddle_csv::{read, Column, Format, Kind, Values};

use crate::promise::background;
use crate::{fail, whole};

/// Numbers of each column that JavaScript gives in a row: its field, its kind, and whether its type is inferred.
const OF_COLUMN: usize = 3;
/// Kinds by number, with the bytes of a record's value.
const KINDS: [(Kind, usize); 5] = [(Kind::F32, 4), (Kind::F64, 8), (Kind::I32, 4), (Kind::U8, 1), (Kind::Places, 8)];
const ALIGNMENT: usize = 8;

/// How records are written.
#[napi(object, object_to_js = false)]
pub struct CsvFormat {
    pub separator: f64,
    pub fields: f64,
    pub missing: Vec<String>,
    pub longest: f64,
}

/// Reads plain records of `bytes` from `from` to `to`, at most `rows`. `columns` has three numbers for each: field, kind (f32, f64, i32, u8, places), and
/// 1 for an inferred type. Their values go to `target` one column after another, each from a multiple of 8 bytes on. Gives the number of records,
/// and where the next one begins. The caller leaves both arrays alone until the promise is settled.
#[napi]
pub fn read_csv<'e>(
    env: &'e Env,
    bytes: Uint8Array,
    range: Vec<f64>,
    format: CsvFormat,
    columns: Int32Array,
    mut target: Uint8Array,
) -> Result<Object<'e>> {
    let numbers = range.into_iter().map(|value| whole("range", value)).collect::<Result<Vec<usize>>>()?;
    let [from, to, rows] = numbers[..] else {
        return Err(fail("readCsv: takes where it begins and ends, and records"));
    };
    let fields = whole("fields", format.fields)?;
    let longest = whole("longest", format.longest)?;
    let separator = u8::try_from(whole("separator", format.separator)?).map_err(|_| fail("readCsv: separator"))?;
    let kinds: Vec<(Column, usize)> = columns
        .chunks_exact(OF_COLUMN)
        .map(|one| {
            let kind = usize::try_from(one[1]).ok().and_then(|kind| KINDS.get(kind)).copied();
            let field = usize::try_from(one[0]).ok().filter(|field| *field < fields);
            match (field, kind) {
                (Some(field), Some((kind, size))) => Ok((Column { field, kind, inferred: one[2] != 0 }, size)),
                _ => Err(fail("readCsv: a column that no record has")),
            }
        })
        .collect::<Result<_>>()?;
    let wanted = kinds.iter().try_fold(0usize, |sum, (_, size)| {
        sum.checked_add(size.checked_mul(rows)?.checked_next_multiple_of(ALIGNMENT)?)
    });
    if wanted.is_none_or(|wanted| wanted > target.len()) || target.as_ptr().align_offset(ALIGNMENT) != 0 {
        return Err(fail("readCsv: the target is too small for so many records"));
    }
    let missing: Vec<Vec<u8>> = format.missing.into_iter().map(String::into_bytes).collect();
    let work = move || {
        // The caller leaves the array alone until the promise is settled.
        let mut place = unsafe { target.as_mut() }.as_mut_ptr();
        let mut values = Vec::new();
        for (column, size) in &kinds {
            // Columns do not overlap, are within the target, and begin at multiples of 8: checked above.
            values.push(unsafe {
                match column.kind {
                    Kind::F32 => Values::F32(from_raw_parts_mut(place.cast(), rows)),
                    Kind::F64 => Values::F64(from_raw_parts_mut(place.cast(), rows)),
                    Kind::I32 => Values::I32(from_raw_parts_mut(place.cast(), rows)),
                    Kind::U8 => Values::U8(from_raw_parts_mut(place, rows)),
                    Kind::Places => Values::Places(from_raw_parts_mut(place.cast(), 2 * rows)),
                }
            });
            place = unsafe { place.add((size * rows).next_multiple_of(ALIGNMENT)) };
        }
        let columns: Vec<Column> = kinds.iter().map(|(column, _)| *column).collect();
        let format = Format { separator, fields, missing: &missing, longest };
        let found = read(&bytes, from, to, &format, &columns, &mut values);
        Ok(vec![found.rows as f64, found.next as f64])
    };
    background(env, work, |_, found| Ok(found))
}
