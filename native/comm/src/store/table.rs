//! The content of a store: bounded, and waited on.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::wire::{Answer, Request};

const MAX_ENTRIES: usize = 1 << 20;
const MAX_BYTES: usize = 256 << 20;
/// A client repeats its request after this time, so that no thread waits long for a client that is gone.
const MAX_WAIT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Content {
    entries: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    stopped: bool,
}

impl Content {
    fn put(&mut self, key: String, value: Vec<u8>) -> Result<(), String> {
        let old = self.entries.get(&key).map(|value| value.len() + key.len());
        let bytes = self.bytes - old.unwrap_or(0) + value.len() + key.len();
        if bytes > MAX_BYTES || (old.is_none() && self.entries.len() >= MAX_ENTRIES) {
            return Err(format!("the store is full ({} keys, {} bytes)", self.entries.len(), self.bytes));
        }
        self.bytes = bytes;
        self.entries.insert(key, value);
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct Table {
    content: Mutex<Content>,
    changed: Condvar,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all waits.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn serve(&self, request: Request) -> Answer {
        self.try_serve(request).unwrap_or_else(Answer::Refused)
    }

    fn try_serve(&self, request: Request) -> Result<Answer, String> {
        match request {
            Request::Get { key, wait_ms } => Ok(self.get(&key, Duration::from_millis(wait_ms.into()))),
            Request::Set { key, value } => {
                self.lock().put(key, value)?;
                self.changed.notify_all();
                Ok(Answer::Done)
            }
            Request::Add { key, delta } => self.add(key, delta),
            Request::CompareAndSet { key, expected, value } => self.compare_and_set(key, expected.as_deref(), value),
        }
    }

    fn get(&self, key: &str, wait: Duration) -> Answer {
        let deadline = Instant::now() + wait.min(MAX_WAIT);
        let mut content = self.lock();
        loop {
            if let Some(value) = content.entries.get(key) {
                return Answer::Value(value.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || content.stopped {
                return Answer::Missing;
            }
            content = self.changed.wait_timeout(content, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn add(&self, key: String, delta: i64) -> Result<Answer, String> {
        let mut content = self.lock();
        let old = match content.entries.get(&key) {
            None => 0,
            Some(value) => {
                let bytes = value.as_slice().try_into();
                i64::from_le_bytes(bytes.map_err(|_| format!("a value of {} bytes is not a counter", value.len()))?)
            }
        };
        let new = old.wrapping_add(delta);
        content.put(key, new.to_le_bytes().to_vec())?;
        drop(content);
        self.changed.notify_all();
        Ok(Answer::Number(new))
    }

    fn compare_and_set(&self, key: String, expected: Option<&[u8]>, value: Vec<u8>) -> Result<Answer, String> {
        let mut content = self.lock();
        let current = content.entries.get(&key).map(Vec::as_slice);
        if current != expected {
            return Ok(current.map_or(Answer::Missing, |current| Answer::Value(current.to_vec())));
        }
        content.put(key, value)?;
        drop(content);
        self.changed.notify_all();
        Ok(Answer::Done)
    }
}
