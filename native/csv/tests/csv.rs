//! Records that are plain, and where reading ends before those that are not.

use heddle_csv::{number, read, Column, Format, Kind, Read, Values};

/// Room for records.
const ROOM: usize = 8;

/// The columns of a block, as texts of their values.
struct Found {
    read: Read,
    columns: Vec<Vec<String>>,
}

fn read_all(text: &str, range: (usize, usize), format: &Format, columns: &[Column], room: usize) -> Found {
    let mut floats = vec![vec![f32::MAX; room]; columns.len()];
    let mut doubles = vec![vec![f64::MAX; room]; columns.len()];
    let mut ints = vec![vec![i32::MAX; 2 * room]; columns.len()];
    let mut bytes = vec![vec![7u8; room]; columns.len()];
    let all = floats.iter_mut().zip(&mut doubles).zip(&mut ints).zip(&mut bytes).zip(columns);
    let mut values: Vec<Values> = all
        .map(|((((floats, doubles), ints), bytes), column)| match column.kind {
            Kind::F32 => Values::F32(floats),
            Kind::F64 => Values::F64(doubles),
            Kind::I32 => Values::I32(&mut ints[..room]),
            Kind::U8 => Values::U8(bytes),
            Kind::Places => Values::Places(ints),
        })
        .collect();
    let found = read(text.as_bytes(), range.0, range.1, format, columns, &mut values);
    let texts = values.iter().map(|values| match values {
        Values::F32(values) => values[..found.rows].iter().map(f32::to_string).collect(),
        Values::F64(values) => values[..found.rows].iter().map(f64::to_string).collect(),
        Values::I32(values) => values[..found.rows].iter().map(i32::to_string).collect(),
        Values::U8(values) => values[..found.rows].iter().map(u8::to_string).collect(),
        Values::Places(places) => places[..2 * found.rows]
            .chunks(2)
            .map(|place| text[place[0] as usize..place[1] as usize].to_owned())
            .collect(),
    });
    Found { columns: texts.collect(), read: found }
}

/// Longer than any record here.
const LONGEST: usize = 1 << 20;

fn columns(kinds: &[Kind], inferred: bool) -> Vec<Column> {
    kinds.iter().enumerate().map(|(field, kind)| Column { field, kind: *kind, inferred }).collect()
}

fn of(text: &str, kinds: &[Kind], missing: &[&str], inferred: bool) -> Found {
    let missing: Vec<Vec<u8>> = missing.iter().map(|one| one.as_bytes().to_vec()).collect();
    let format = Format { separator: b',', fields: kinds.len(), missing: &missing, longest: LONGEST };
    read_all(text, (0, text.len()), &format, &columns(kinds, inferred), ROOM)
}

#[test]
fn all_kinds() {
    let kinds = [Kind::F32, Kind::F64, Kind::I32, Kind::U8, Kind::Places];
    let text = "0.5,-1e-3,-2147483648,255,Oslo\r\n+7., .25 ,3.0,-0,\n";
    let found = of(text, &kinds, &[""], true);
    assert_eq!(found.read, Read { rows: 2, next: text.len() });
    assert_eq!(found.columns, [["0.5", "7"], ["-0.001", "0.25"], ["-2147483648", "3"], ["255", "0"], ["Oslo", ""]]);
}

#[test]
fn only_some_columns_in_any_order() {
    let format = Format { separator: b';', fields: 4, missing: &[], longest: LONGEST };
    let wanted = [(3, Kind::I32), (1, Kind::U8)].map(|(field, kind)| Column { field, kind, inferred: false });
    let text = "x;1;what, ever;2\nx;3;;4\n";
    assert_eq!(read_all(text, (0, text.len()), &format, &wanted, ROOM).columns, [["2", "4"], ["1", "3"]]);
    // A field that no record has is no column.
    let other = [Column { field: 7, kind: Kind::I32, inferred: false }];
    assert_eq!(read_all(text, (0, text.len()), &format, &other, ROOM).read.rows, 2);
}

#[test]
fn missing_values_are_nan_among_floats_alone() {
    let found = of("1,2\nNA,\n", &[Kind::F32, Kind::F64], &["", "NA"], true);
    assert_eq!(found.columns, [["1", "NaN"], ["2", "NaN"]]);
    assert_eq!(of("1\nNA\n", &[Kind::I32], &["NA"], true).read.rows, 1);
}

#[test]
fn ends_before_what_is_not_plain() {
    let kinds = [Kind::F32, Kind::I32];
    let unusual = [
        "\"1\",2\n", "1,\"2\"\n", "1\n", "1,2,3\n", "\n", "1,2\r1,2\n", "x,1\n", "1,1.5\n", "1,2147483648\n",
        "nan,1\n", "inf,1\n", "1e999999,1\n", "1e39,1\n", "16777217,1\n", "1,", "1,2", "1,2\r", "", "--1,1\n",
        "1-,1\n", ".,1\n", "1e,1\n", "1.5.5,1\n", "0x1,1\n", "1_0,1\n", "1 0,1\n", ",1\n",
    ];
    for text in unusual {
        let found = of(&format!("1,2\n{text}"), &kinds, &[], true);
        assert_eq!(found.read, Read { rows: 1, next: 4 }, "{text:?}");
        assert_eq!(found.columns, [["1"], ["2"]], "{text:?}");
    }
}

#[test]
fn ends_where_there_is_no_room_and_outside_of_the_bytes() {
    let format = Format { separator: b',', fields: 1, missing: &[], longest: LONGEST };
    let columns = columns(&[Kind::I32], false);
    assert_eq!(read_all("1\n2\n3\n", (0, 6), &format, &columns, 2).read, Read { rows: 2, next: 4 });
    assert_eq!(read_all("1\n2\n3\n", (0, 5), &format, &columns, ROOM).read, Read { rows: 2, next: 4 });
    assert_eq!(read_all("1\n2\n", (9, 9), &format, &columns, ROOM).read, Read { rows: 0, next: 4 });
    assert_eq!(read_all("1\n2\n", (2, 99), &format, &columns, ROOM).read, Read { rows: 1, next: 4 });
}

#[test]
fn a_record_that_is_too_long_is_not_plain() {
    let format = Format { separator: b',', fields: 2, missing: &[], longest: 6 };
    let columns = columns(&[Kind::Places], false);
    assert_eq!(read_all("ab,cd\nab,cde\n", (0, 13), &format, &columns, ROOM).read, Read { rows: 1, next: 6 });
}

#[test]
fn whole_numbers_stay_what_they_are_unless_a_type_is_named() {
    for (kind, text) in [(Kind::F32, "16777217\n"), (Kind::F64, "9007199254740993\n")] {
        assert_eq!(of(text, &[kind], &[], true).read.rows, 0, "{text:?}");
        assert_eq!(of(text, &[kind], &[], false).read.rows, 1, "{text:?}");
    }
    assert_eq!(of("0.12345678901234568\n1234567.890123456789\n", &[Kind::F64], &[], true).read.rows, 2);
}

#[test]
fn numbers_are_the_nearest_doubles() {
    let mut state = 1u64;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let value = f64::from_bits(state);
        for text in [format!("{value}"), format!("{value:e}"), format!("{}.{}", state >> 40, state & 0xffff)] {
            if value.is_finite() && text.len() <= 400 {
                let expected = text.parse::<f64>().map(f64::to_bits);
                assert_eq!(number(text.as_bytes()).map(f64::to_bits), expected.ok(), "{text}");
            }
        }
    }
    assert_eq!(number(b"-0").map(f64::to_bits), Some((-0.0f64).to_bits()));
    for text in ["", " ", "-", "+", ".", "e5", "1e123456", "nan", "inf", "Infinity", "1 2", "1e+", "1e5.0"] {
        assert_eq!(number(text.as_bytes()), None, "{text:?}");
    }
}
