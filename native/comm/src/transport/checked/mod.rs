//! Checksums over TCP: bytes go in blocks, each with its length and CRC32C. A block that does not match is an error of the link, which the
//! collective names with rank and sequence.

use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use super::link::{LinkError, Transport};

/// Most bytes of a block: it is handed on when it has been checked.
const BLOCK: usize = 128 << 10;
/// Length and CRC32C of a block, and the CRC32C of both: a changed length must not be waited for.
const HEAD: usize = 12;

/// The blocks to and from one peer.
#[derive(Default)]
struct Link {
    /// The block under way, and how much of it has gone.
    out: Vec<u8>,
    sent: usize,
    head: [u8; HEAD],
    head_got: usize,
    body: Vec<u8>,
    body_got: usize,
    /// Bytes of the body that have been handed on; only a checked body has any left.
    given: usize,
    checked: bool,
    broken: Option<LinkError>,
}

impl Link {
    /// Makes a block of the first bytes.
    fn pack(&mut self, bytes: &[IoSlice<'_>]) {
        self.out.clear();
        self.out.resize(HEAD, 0);
        for part in bytes {
            let room = HEAD + BLOCK - self.out.len();
            self.out.extend_from_slice(&part[..part.len().min(room)]);
        }
        let length = (self.out.len() - HEAD) as u32;
        let sum = crc32c::crc32c(&self.out[HEAD..]);
        self.out[..4].copy_from_slice(&length.to_le_bytes());
        self.out[4..8].copy_from_slice(&sum.to_le_bytes());
        let head = crc32c::crc32c(&self.out[..8]);
        self.out[8..HEAD].copy_from_slice(&head.to_le_bytes());
        self.sent = 0;
    }

    fn ready(&self) -> &[u8] {
        if self.checked { &self.body[self.given..] } else { &[] }
    }

    fn give(&mut self, count: usize) {
        self.given += count;
        if self.given == self.body.len() {
            (self.head_got, self.body_got, self.given, self.checked) = (0, 0, 0, false);
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.head[at..at + 4].try_into().expect("four bytes"))
    }

    /// Takes what has arrived of a block, until the block is whole and checked.
    fn fill(&mut self, mut receive: impl FnMut(&mut [u8]) -> Result<usize, LinkError>) -> Result<(), LinkError> {
        while !self.checked {
            if self.head_got < HEAD {
                let count = receive(&mut self.head[self.head_got..])?;
                if count == 0 {
                    return Ok(());
                }
                self.head_got += count;
                if self.head_got < HEAD {
                    continue;
                }
                let length = self.word(0) as usize;
                if self.word(8) != crc32c::crc32c(&self.head[..8]) || length == 0 || length > BLOCK {
                    return Err(changed("the head of a block"));
                }
                self.body.resize(length, 0);
            }
            while self.body_got < self.body.len() {
                let count = receive(&mut self.body[self.body_got..])?;
                if count == 0 {
                    return Ok(());
                }
                self.body_got += count;
            }
            if self.word(4) != crc32c::crc32c(&self.body) {
                return Err(changed(&format!("a block of {} bytes", self.body.len())));
            }
            self.checked = true;
        }
        Ok(())
    }
}

fn changed(what: &str) -> LinkError {
    LinkError::Failed(format!("{what} does not match its CRC32C: bits have changed on the way"))
}

/// A transport whose links have checksums.
pub(crate) struct Checked<T> {
    inner: T,
    links: Vec<Link>,
}

impl<T: Transport> Checked<T> {
    pub(crate) fn new(inner: T, size: usize) -> Self {
        Self { inner, links: (0..size).map(|_| Link::default()).collect() }
    }

    fn fill(&mut self, peer: usize) -> Result<(), LinkError> {
        let link = &mut self.links[peer];
        if let Some(error) = &link.broken {
            return Err(error.clone());
        }
        let filled = link.fill(|bytes| self.inner.try_receive(peer, &mut [IoSliceMut::new(bytes)]));
        filled.inspect_err(|error| link.broken = Some(error.clone()))
    }
}

impl<T: Transport> Transport for Checked<T> {
    fn try_send(&mut self, peer: usize, bytes: &[IoSlice<'_>]) -> Result<usize, LinkError> {
        let link = &mut self.links[peer];
        if link.out.is_empty() {
            if bytes.iter().all(|part| part.is_empty()) {
                return Ok(0);
            }
            link.pack(bytes);
        }
        link.sent += self.inner.try_send(peer, &[IoSlice::new(&link.out[link.sent..])])?;
        if link.sent < link.out.len() {
            // The caller comes again with the same bytes.
            return Ok(0);
        }
        let count = link.out.len() - HEAD;
        link.out.clear();
        Ok(count)
    }

    fn try_receive(&mut self, peer: usize, bytes: &mut [IoSliceMut<'_>]) -> Result<usize, LinkError> {
        if self.links[peer].ready().is_empty() {
            self.fill(peer)?;
        }
        let link = &mut self.links[peer];
        let mut taken = 0;
        for part in bytes {
            let left = &link.ready()[taken..];
            let count = left.len().min(part.len());
            part[..count].copy_from_slice(&left[..count]);
            taken += count;
        }
        if taken > 0 {
            link.give(taken);
        }
        Ok(taken)
    }

    fn peek(&mut self, peer: usize, bytes: &mut [u8]) -> usize {
        if self.links[peer].ready().is_empty() {
            // The next receive says what is wrong.
            let _ = self.fill(peer);
        }
        let ready = self.links[peer].ready();
        let count = ready.len().min(bytes.len());
        bytes[..count].copy_from_slice(&ready[..count]);
        count
    }

    fn wait(&mut self, send_to: Option<usize>, receive_from: Option<usize>, limit: Duration) {
        let here = receive_from.is_some_and(|peer| !self.links[peer].ready().is_empty());
        if !here {
            self.inner.wait(send_to, receive_from, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wire to itself that moves few bytes at a time, and may change one bit.
    struct Wire {
        bytes: Vec<u8>,
        sent: usize,
        flip: Option<usize>,
    }

    impl Transport for Wire {
        fn try_send(&mut self, _peer: usize, bytes: &[IoSlice<'_>]) -> Result<usize, LinkError> {
            let count = bytes[0].len().min(1 + self.sent * 7 % 50_000);
            self.bytes.extend_from_slice(&bytes[0][..count]);
            if let Some(bit) = self.flip
                && (self.sent..self.sent + count).contains(&(bit / 8))
            {
                let at = self.bytes.len() - (self.sent + count - bit / 8);
                self.bytes[at] ^= 1 << (bit % 8);
            }
            self.sent += count;
            Ok(count)
        }

        fn try_receive(&mut self, _peer: usize, bytes: &mut [IoSliceMut<'_>]) -> Result<usize, LinkError> {
            let count = bytes[0].len().min(self.bytes.len()).min(30_000);
            bytes[0][..count].copy_from_slice(&self.bytes[..count]);
            self.bytes.drain(..count);
            Ok(count)
        }

        fn peek(&mut self, _peer: usize, _bytes: &mut [u8]) -> usize {
            0
        }

        fn wait(&mut self, _send_to: Option<usize>, _receive_from: Option<usize>, _limit: Duration) {}
    }

    /// Sends bytes to itself; what arrives, and the error that ends it.
    fn carried(bytes: &[u8], flip: Option<usize>) -> (Vec<u8>, Option<LinkError>) {
        let mut link = Checked::new(Wire { bytes: Vec::new(), sent: 0, flip }, 1);
        let (mut sent, mut arrived) = (0, Vec::new());
        for _ in 0..100_000 {
            if sent < bytes.len() {
                let (first, rest) = bytes[sent..].split_at((bytes.len() - sent) / 3);
                sent += link.try_send(0, &[IoSlice::new(first), IoSlice::new(rest)]).expect("room");
            }
            let mut seen = [0; 5];
            let count = link.peek(0, &mut seen);
            let mut part = [0; 7000];
            let (first, rest) = part.split_at_mut(3);
            match link.try_receive(0, &mut [IoSliceMut::new(first), IoSliceMut::new(rest)]) {
                Ok(taken) => {
                    assert_eq!(&part[..count.min(taken)], &seen[..count.min(taken)]);
                    arrived.extend_from_slice(&part[..taken]);
                }
                Err(error) => return (arrived, Some(error)),
            }
            if sent == bytes.len() && arrived.len() == bytes.len() {
                return (arrived, None);
            }
        }
        panic!("{} of {} bytes arrived", arrived.len(), bytes.len());
    }

    #[test]
    fn all_bytes_arrive_in_order() {
        for length in [1, 72, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
            assert_eq!(carried(&bytes, None), (bytes, None));
        }
    }

    #[test]
    fn a_changed_bit_is_an_error_and_nothing_wrong_is_handed_on() {
        let bytes: Vec<u8> = (0..500).map(|at| (at * 31 % 251) as u8).collect();
        for bit in 0..8 * (HEAD + bytes.len()) {
            let (arrived, error) = carried(&bytes, Some(bit));
            assert!(bytes.starts_with(&arrived), "bit {bit}");
            let Some(LinkError::Failed(text)) = error else { panic!("bit {bit} was not found") };
            assert!(text.contains("does not match its CRC32C"), "{text}");
        }
    }
}
