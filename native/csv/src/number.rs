//! Decimal numbers in bytes of text, by the grammar and with the results of `numberIn` (src/data/sources/numbers.ts).

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// Whole numbers of so many digits are exact, and their quotients by a power of ten are rounded once.
const MOST_DIGITS: usize = 15;
const MOST_BYTES: usize = 400;
const MOST_EXPONENT_DIGITS: usize = 5;

/// The number of a field, spaces around it left out; none for what is not written in digits, as `inf` and `nan`.
pub fn number(field: &[u8]) -> Option<f64> {
    let field = trimmed(field);
    let (negative, digits) = match field.first() {
        Some(b'-') => (true, field.get(1..)?),
        Some(b'+') => (false, field.get(1..)?),
        _ => (false, field),
    };
    let mut value: u64 = 0;
    let mut whole = 0;
    for byte in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        whole += 1;
    }
    let mut fraction = 0;
    let mut rest = &digits[whole..];
    if let [b'.', after @ ..] = rest {
        for byte in after.iter().take_while(|byte| byte.is_ascii_digit()) {
            value = value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            fraction += 1;
        }
        rest = &after[fraction..];
    }
    if whole + fraction == 0 {
        return None;
    }
    if rest.is_empty() && whole + fraction <= MOST_DIGITS {
        let scaled = value as f64 / POWERS[fraction];
        return Some(if negative { -scaled } else { scaled });
    }
    if field.len() > MOST_BYTES || !is_exponent(rest) {
        return None;
    }
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Whether this ends a number: nothing, or an exponent.
fn is_exponent(rest: &[u8]) -> bool {
    let digits = match rest {
        [] => return true,
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => digits,
        _ => return false,
    };
    (1..=MOST_EXPONENT_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

pub(crate) fn trimmed(mut field: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = field {
        field = rest;
    }
    field
}
