//! Bytes of a link that were read ahead, so that a small message is one call of the system.

use std::ops::Range;

/// Most bytes read ahead; longer messages are read to where they belong.
const SIZE: usize = 16 << 10;

/// What one peer has sent and this rank has not taken yet.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Of `SIZE` bytes, once it is used.
    bytes: Vec<u8>,
    filled: Range<usize>,
}

impl Ahead {
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.filled.clone()]
    }

    /// Reads ahead if a message of `most` bytes may be whole then; `None`: nothing is here, and the message is too long.
    pub(crate) fn here<E>(
        &mut self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Option<(*const u8, usize)>, E> {
        if self.filled.len() < most && most <= SIZE {
            self.bytes.resize(SIZE, 0);
            self.bytes.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
            match read(&mut self.bytes[self.filled.end..]) {
                Ok(count) => self.filled.end += count,
                // What came before the end of the link comes first.
                Err(error) if self.filled.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        let here = self.filled();
        Ok(if here.is_empty() && most > SIZE { None } else { Some((here.as_ptr(), here.len().min(most))) })
    }

    pub(crate) fn take(&mut self, count: usize) {
        self.filled.start += count.min(self.filled.len());
    }

    /// Moves as many bytes as there are and fit into the pieces, one after another.
    pub(crate) fn drain(&mut self, pieces: &mut [std::io::IoSliceMut<'_>]) -> usize {
        let before = self.filled.len();
        for piece in pieces {
            let count = piece.len().min(self.filled.len());
            piece[..count].copy_from_slice(&self.filled()[..count]);
            self.take(count);
        }
        before - self.filled.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use super::*;

    /// A link that has these bytes and then ends.
    fn link(bytes: &'static [u8]) -> impl FnMut(&mut [u8]) -> Result<usize, &'static str> {
        let mut left = bytes;
        move |to| {
            let count = left.len().min(to.len()).min(3);
            to[..count].copy_from_slice(&left[..count]);
            left = &left[count..];
            if count == 0 { Err("the end") } else { Ok(count) }
        }
    }

    #[test]
    fn bytes_come_in_order_and_the_end_comes_last() {
        let (mut ahead, mut read) = (Ahead::default(), link(b"abcdefg"));
        let mut here = |ahead: &mut Ahead, most| ahead.here(most, &mut read).map(|here| here.map(|(_, count)| count));
        assert_eq!(here(&mut ahead, 4), Ok(Some(3)));
        assert_eq!(here(&mut ahead, 4), Ok(Some(4)));
        assert_eq!(ahead.filled(), b"abcdef");
        ahead.take(4);
        // A long message is not read ahead; what is here of it counts.
        assert_eq!(here(&mut ahead, SIZE + 1), Ok(Some(2)));
        let (mut first, mut second) = ([0; 1], [0; 4]);
        assert_eq!(ahead.drain(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]), 2);
        assert_eq!((&first, &second), (b"e", b"f\0\0\0"));
        assert_eq!(here(&mut ahead, SIZE + 1), Ok(None));
        assert_eq!(here(&mut ahead, 2), Ok(Some(1)));
        assert_eq!(here(&mut ahead, 2), Ok(Some(1)));
        ahead.take(1);
        assert_eq!(here(&mut ahead, 2), Err("the end"));
    }
}
