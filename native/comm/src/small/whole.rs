//! Messages that have arrived whole in the memory of a link: compared with what is expected, and used in place.

use crate::Result;
use crate::drive::Drive;
use crate::frame::HEADER;
use crate::schedule::Receive;

/// How often a rank looks again before it lets other threads run: a message between two processors takes less time than
/// waking a thread. Where `ranks` are more than the processors, the processor is what a peer waits for; without memory, a look
/// is a call of the system besides.
pub(crate) fn spins(ranks: usize, memory: bool) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if ranks <= processors {
        40
    } else if memory {
        10
    } else {
        0
    }
}

impl Drive<'_> {
    /// Takes the message, if all of it is here and its head is exactly the expected one; says whether it did. `None`:
    /// something else is here, which the general way takes, or says what is wrong with it.
    pub(crate) fn take_whole(&mut self, message: &Receive) -> Result<Option<bool>> {
        let (job, incoming) = (self.job, &mut self.incoming);
        let rank = job.ranks[message.peer];
        let text: &[u8] = if incoming.ordinal == 0 { job.text } else { &[] };
        let head = HEADER + text.len();
        let total = head + message.into.len;
        let here = match self.transport.here(rank, total) {
            Ok(Some((start, count))) if count == total => start,
            Ok(Some((_, 0))) => return Ok(Some(false)),
            Ok(_) => return Ok(None),
            Err(error) => return Err(self.link_error(message.peer, error)),
        };
        // SAFETY: the link has `total` bytes there, which stay as they are until `take`.
        let arrived = unsafe { std::slice::from_raw_parts(here, total) };
        let mut expected = job.header;
        (expected.sender, expected.incarnation) = (rank as u32, job.shared.incarnations[rank]);
        (expected.length, expected.ordinal, expected.text) =
            (message.into.len as u32, incoming.ordinal, text.len() as u16);
        if arrived[..HEADER] != expected.encode() || &arrived[HEADER..head] != text {
            return Ok(None);
        }
        let payload = here.wrapping_add(head);
        if message.with.is_some() {
            self.combine(message, payload, 0..message.into.len);
        } else {
            let mut at = 0;
            while at < message.into.len {
                let (to, count) = job.memory.piece(&message.into, at);
                // SAFETY: the piece is an output or scratch, `count` bytes long and apart from the memory of the link.
                unsafe { std::ptr::copy_nonoverlapping(payload.add(at), to, count) };
                at += count;
            }
        }
        self.transport.take(rank, total);
        Ok(Some(true))
    }
}
