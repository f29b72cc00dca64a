//! The closed table of messages between a store and its clients. Every size is checked before memory is taken.

use std::net::TcpStream;
use std::time::Instant;

use crate::net::{Cut, read_by, write_by};

/// Longest key, in bytes.
pub(crate) const MAX_KEY: usize = 512;
/// Largest value, in bytes.
pub(crate) const MAX_VALUE: usize = 1 << 20;
const MAX_REQUEST: usize = 2 * MAX_VALUE + MAX_KEY + 64;
/// Largest answer, in bytes.
const MAX_ANSWER: usize = MAX_VALUE + 64;

/// What a client asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Set { key: String, value: Vec<u8> },
    Get { key: String, wait_ms: u32 },
    Add { key: String, delta: i64 },
    CompareAndSet { key: String, expected: Option<Vec<u8>>, value: Vec<u8> },
}

/// What the store answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Missing,
    Value(Vec<u8>),
    Number(i64),
    Refused(String),
}

/// Reads the fields of one message; every method is `None` past the end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }
    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    fn int(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn long(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn bytes(&mut self, most: usize) -> Option<&'a [u8]> {
        let count = self.int()? as usize;
        if count > most { None } else { self.take(count) }
    }
    fn text(&mut self, most: usize) -> Option<String> {
        Some(std::str::from_utf8(self.bytes(most)?).ok()?.to_owned())
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let (kind, key) = match self {
            Self::Set { key, .. } => (1, key),
            Self::Get { key, .. } => (2, key),
            Self::Add { key, .. } => (3, key),
            Self::CompareAndSet { key, .. } => (4, key),
        };
        out.push(kind);
        put(&mut out, key.as_bytes());
        match self {
            Self::Set { value, .. } => put(&mut out, value),
            Self::Get { wait_ms, .. } => out.extend_from_slice(&wait_ms.to_le_bytes()),
            Self::Add { delta, .. } => out.extend_from_slice(&delta.to_le_bytes()),
            Self::CompareAndSet { expected, value, .. } => {
                out.push(u8::from(expected.is_some()));
                put(&mut out, expected.as_deref().unwrap_or_default());
                put(&mut out, value);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let kind = fields.byte()?;
        let key = fields.text(MAX_KEY)?;
        let request = match kind {
            1 => Self::Set { key, value: fields.bytes(MAX_VALUE)?.to_vec() },
            2 => Self::Get { key, wait_ms: fields.int()? },
            3 => Self::Add { key, delta: fields.long()? },
            4 => {
                let present = fields.byte()? == 1;
                let expected = fields.bytes(MAX_VALUE)?.to_vec();
                let value = fields.bytes(MAX_VALUE)?.to_vec();
                Self::CompareAndSet { key, expected: present.then_some(expected), value }
            }
            _ => return None,
        };
        fields.0.is_empty().then_some(request)
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Done => out.push(1),
            Self::Missing => out.push(2),
            Self::Value(value) => {
                out.push(3);
                put(&mut out, value);
            }
            Self::Number(number) => {
                out.push(4);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Refused(text) => {
                out.push(6);
                put(&mut out, text.as_bytes());
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let answer = match fields.byte()? {
            1 => Self::Done,
            2 => Self::Missing,
            3 => Self::Value(fields.bytes(MAX_VALUE)?.to_vec()),
            4 => Self::Number(fields.long()?),
            6 => Self::Refused(fields.text(4096)?),
            _ => return None,
        };
        fields.0.is_empty().then_some(answer)
    }
}

/// Writes one message with its length before it.
pub(crate) fn write_message(stream: &TcpStream, message: &[u8], deadline: Instant) -> Result<(), Cut> {
    let mut framed = Vec::with_capacity(message.len() + 4);
    put(&mut framed, message);
    write_by(stream, &framed, deadline)
}

fn read_body(stream: &TcpStream, length: [u8; 4], most: usize, deadline: Instant) -> Result<Vec<u8>, Cut> {
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        return Err(Cut::Failed(format!("a message of {length} bytes is over the limit of {most}")));
    }
    let mut body = vec![0; length];
    read_by(stream, &mut body, deadline)?;
    Ok(body)
}

/// Reads one answer.
pub(crate) fn read_answer(stream: &TcpStream, deadline: Instant) -> Result<Answer, Cut> {
    let mut length = [0; 4];
    read_by(stream, &mut length, deadline)?;
    let body = read_body(stream, length, MAX_ANSWER, deadline)?;
    Answer::decode(&body).ok_or_else(|| Cut::Failed("an answer that is not in the table".into()))
}

/// Reads the rest of a request whose length has arrived.
pub(crate) fn read_request(stream: &TcpStream, length: [u8; 4], deadline: Instant) -> Result<Request, Cut> {
    let body = read_body(stream, length, MAX_REQUEST, deadline)?;
    Request::decode(&body).ok_or_else(|| Cut::Failed("a request that is not in the table".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        let (key, value) = (String::from("k"), vec![1, 2, 3]);
        vec![
            Request::Set { key: key.clone(), value: value.clone() },
            Request::Get { key: key.clone(), wait_ms: 7 },
            Request::Add { key: key.clone(), delta: -3 },
            Request::CompareAndSet { key: key.clone(), expected: None, value: value.clone() },
            Request::CompareAndSet { key, expected: Some(vec![]), value },
        ]
    }

    #[test]
    fn messages_survive_the_wire_and_no_damage_is_taken_for_one() {
        for request in requests() {
            let bytes = request.encode();
            for cut in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..cut]), None);
            }
            assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(Request::decode(&bytes), Some(request));
        }
        for answer in [Answer::Done, Answer::Missing, Answer::Value(vec![1]), Answer::Number(-1)] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }

    #[test]
    fn random_bytes_neither_panic_nor_take_memory() {
        let mut state = 1_u64;
        for round in 0..20_000 {
            let bytes: Vec<u8> = (0..round % 40)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8 % 9
                })
                .collect();
            let _ = (Request::decode(&bytes), Answer::decode(&bytes));
        }
        assert_eq!(Answer::decode(&[5, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
