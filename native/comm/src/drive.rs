//! Runs the schedule of one collective over a transport: sends and receives side by side on the calling thread.

use std::io::{IoSlice, IoSliceMut};
use std::time::{Duration, Instant};

use crate::exchange::Messages;
use crate::frame::{HEADER, Header, MAX_TEXT};
use crate::memory::Memory;
use crate::reduce::{Triple, combine};
use crate::schedule::{Receive, Send};
use crate::signals::Waiting;
use crate::state::Shared;
use crate::transport::{LinkError, Transport};
use crate::{Dtype, Error, Reduction, Result};

const IOV: usize = 24;
const YIELDS: u32 = 40;
/// Longest sleep before looking again at deadlines and at what other peers have sent.
const NAP: Duration = Duration::from_millis(25);
/// Time for a peer's last notice to arrive after its data link ended, or carried bytes that do not belong.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// Time without a byte after which a rank looks at what other peers have sent.
const STALLED: Duration = Duration::from_millis(100);

/// One collective of one rank.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) shared: &'a Shared,
    /// World rank of each position of the group.
    pub(crate) ranks: &'a [usize],
    pub(crate) schedule: Messages<'a>,
    pub(crate) memory: Memory<'a>,
    pub(crate) reduce: (Dtype, Reduction),
    /// Header of its messages, without the fields that differ between them.
    pub(crate) header: Header,
    /// Description for error messages.
    pub(crate) what: &'a str,
    /// Description for peers: the text, a zero byte, the name of the group.
    pub(crate) text: &'a [u8],
    /// The number of the collective in the flight recorder.
    pub(crate) flight: u64,
}

struct Outgoing {
    message: Option<Send>,
    head: [u8; HEADER + MAX_TEXT],
    head_len: usize,
    done: usize,
    peer: usize,
    ordinal: u32,
}

pub(crate) struct Incoming {
    pub(crate) message: Option<Receive>,
    head: [u8; HEADER],
    head_got: usize,
    text: [u8; MAX_TEXT],
    text_len: usize,
    /// Bytes of text and payload so far.
    done: usize,
    /// Bytes of payload that are combined already; later bytes are in staging.
    combined: usize,
    peer: usize,
    pub(crate) ordinal: u32,
}

pub(crate) struct Drive<'a> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) transport: &'a mut dyn Transport,
    sent: usize,
    pub(crate) received: usize,
    out: Outgoing,
    pub(crate) incoming: Incoming,
    pub(crate) idle: u32,
    stalled_since: Option<Instant>,
    said_waiting: bool,
}

fn text_of(what: &[u8]) -> (String, String) {
    let mut halves = what.splitn(2, |byte| *byte == 0).map(|half| String::from_utf8_lossy(half).into_owned());
    (halves.next().unwrap_or_default(), halves.next().unwrap_or_default())
}

impl<'a> Drive<'a> {
    pub(crate) fn new(job: &'a Job<'a>, transport: &'a mut dyn Transport) -> Self {
        let nobody = usize::MAX;
        let out =
            Outgoing { message: None, head: [0; HEADER + MAX_TEXT], head_len: 0, done: 0, peer: nobody, ordinal: 0 };
        let incoming = Incoming {
            message: None,
            head: [0; HEADER],
            head_got: 0,
            text: [0; MAX_TEXT],
            text_len: 0,
            done: 0,
            combined: 0,
            peer: nobody,
            ordinal: 0,
        };
        Self { job, transport, sent: 0, received: 0, out, incoming, idle: 0, stalled_since: None, said_waiting: false }
    }

    /// Runs the schedule to its end.
    pub(crate) fn run(mut self) -> Result<()> {
        let (sends, receives) = (self.job.schedule.sends(), self.job.schedule.receives());
        loop {
            let mut moved = self.pump_send(sends)?;
            // Small messages leave one after another: to look for the peers' in between is a call of the system each time.
            while moved && self.job.schedule.is_direct() && self.pump_send(sends)? {}
            moved |= self.pump_receive(receives)?;
            if self.sent == sends && self.received == receives {
                return Ok(());
            }
            if let Some(notice) = self.job.shared.signals.notice() {
                return Err(notice.into_error(&self.now()));
            }
            if moved {
                (self.idle, self.stalled_since) = (0, None);
            } else {
                self.rest()?;
            }
        }
    }

    pub(crate) fn now(&self) -> String {
        format!("{} (sequence {}, message {})", self.job.what, self.job.header.sequence, self.received)
    }

    fn pump_send(&mut self, sends: usize) -> Result<bool> {
        if self.sent == sends || (self.out.message.is_none() && !self.begin_send()) {
            return Ok(false);
        }
        let Some(message) = self.out.message else { return Ok(false) };
        let count = self.push(&message).map_err(|error| self.link_error(message.peer, error))?;
        self.out.done += count;
        if self.out.done == self.out.head_len + message.from.len {
            self.out.message = None;
            self.sent += 1;
        }
        Ok(count > 0)
    }

    fn begin_send(&mut self) -> bool {
        if !self.job.schedule.may_send(self.sent, self.received) {
            return false;
        }
        let message = self.job.schedule.send(self.sent);
        let out = &mut self.out;
        // Schedules serve one peer after the other, so a change of peer is the first frame to the next.
        let first = out.peer != message.peer;
        out.ordinal = if first { 0 } else { out.ordinal + 1 };
        out.peer = message.peer;
        let text = if first { self.job.text } else { &[] };
        let header = Header {
            length: message.from.len as u32,
            ordinal: out.ordinal,
            text: text.len() as u16,
            ..self.job.header
        };
        out.head[..HEADER].copy_from_slice(&header.encode());
        out.head[HEADER..HEADER + text.len()].copy_from_slice(text);
        out.head_len = HEADER + text.len();
        out.done = 0;
        out.message = Some(message);
        true
    }

    fn push(&mut self, message: &Send) -> std::result::Result<usize, LinkError> {
        let mut iov = [IoSlice::new(&[]); IOV];
        let mut used = 0;
        let head = &self.out.head[..self.out.head_len];
        if self.out.done < head.len() {
            iov[0] = IoSlice::new(&head[self.out.done..]);
            used = 1;
        }
        let mut at = self.out.done.saturating_sub(head.len());
        while at < message.from.len && used < IOV {
            let (start, len) = self.job.memory.piece(&message.from, at);
            // SAFETY: the piece lies in a part or in scratch, both valid for reads; as the schedule has it,
            // nothing writes there before this message is sent.
            iov[used] = IoSlice::new(unsafe { std::slice::from_raw_parts(start, len) });
            used += 1;
            at += len;
        }
        self.transport.try_send(self.job.ranks[message.peer], &iov[..used])
    }

    fn pump_receive(&mut self, receives: usize) -> Result<bool> {
        if self.received == receives || (self.incoming.message.is_none() && !self.begin_receive()) {
            return Ok(false);
        }
        let Some(message) = self.incoming.message else { return Ok(false) };
        let got = self.incoming.head_got;
        if got < HEADER {
            if got == 0
                && let Some(taken) = self.take_whole(&message)?
            {
                return Ok(taken && self.end_receive());
            }
            let count = self.take(message.peer, |incoming| &mut incoming.head[got..])?;
            self.incoming.head_got += count;
            if self.incoming.head_got == HEADER {
                self.check_header(&message)?;
            }
            return Ok(count > 0);
        }
        if self.incoming.done < self.incoming.text_len + message.into.len {
            let count = self.pull(&message).map_err(|error| self.link_error(message.peer, error))?;
            self.incoming.done += count;
            return Ok(count > 0);
        }
        self.combine_staged(&message, message.into.len);
        Ok(self.end_receive())
    }

    fn end_receive(&mut self) -> bool {
        self.incoming.message = None;
        self.received += 1;
        self.job.shared.flight.progress(self.job.flight, self.received as u64);
        true
    }

    fn begin_receive(&mut self) -> bool {
        if !self.job.schedule.may_receive(self.received, self.sent) {
            return false;
        }
        let message = self.job.schedule.receive(self.received);
        let incoming = &mut self.incoming;
        incoming.ordinal = if incoming.peer == message.peer { incoming.ordinal + 1 } else { 0 };
        incoming.peer = message.peer;
        incoming.head_got = 0;
        incoming.done = 0;
        incoming.combined = 0;
        incoming.message = Some(message);
        true
    }

    fn take(&mut self, peer: usize, buffer: impl FnOnce(&mut Incoming) -> &mut [u8]) -> Result<usize> {
        let rank = self.job.ranks[peer];
        let mut bytes = [IoSliceMut::new(buffer(&mut self.incoming))];
        self.transport.try_receive(rank, &mut bytes).map_err(|error| self.link_error(peer, error))
    }

    fn pull(&mut self, message: &Receive) -> std::result::Result<usize, LinkError> {
        let rank = self.job.ranks[message.peer];
        let mut end = message.into.len;
        if message.with.is_some()
            && let Some((left, count)) =
                self.transport.here(rank, (self.incoming.text_len + end) - self.incoming.done)?
        {
            let element = self.job.reduce.0.size();
            let whole = count - count % element;
            match self.incoming.done.checked_sub(self.incoming.text_len) {
                _ if count == 0 => return Ok(0),
                None => end = 0,
                Some(at) if whole > 0 && self.incoming.combined == at => {
                    self.combine(message, left, at..at + whole);
                    self.transport.take(rank, whole);
                    self.incoming.combined += whole;
                    return Ok(whole);
                }
                // An element across the end of the link's memory is assembled in staging.
                Some(at) => end = (at - at % element + element).min(end),
            }
        }
        let count = self.pull_until(message, end)?;
        if end < message.into.len && self.incoming.done + count == self.incoming.text_len + end {
            self.combine_staged(message, end);
        }
        Ok(count)
    }

    /// Receives payload up to a position, into its place or into staging.
    fn pull_until(&mut self, message: &Receive, end: usize) -> std::result::Result<usize, LinkError> {
        let incoming = &mut self.incoming;
        let mut iov: [IoSliceMut<'_>; IOV] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut used = 0;
        if incoming.done < incoming.text_len {
            iov[0] = IoSliceMut::new(&mut incoming.text[incoming.done..incoming.text_len]);
            used = 1;
        }
        let mut at = incoming.done.saturating_sub(incoming.text_len);
        while at < end && used < IOV {
            let (start, len) = match message.with {
                Some(_) => (self.job.memory.staging.wrapping_add(at), end - at),
                None => self.job.memory.piece(&message.into, at),
            };
            // SAFETY: the piece lies in an output, scratch or staging, valid for writes; nothing else touches it until
            // this message has arrived, as the schedule has it.
            iov[used] = IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(start, len) });
            used += 1;
            at += len;
        }
        self.transport.try_receive(self.job.ranks[message.peer], &mut iov[..used])
    }

    /// Combines the staged part of a message, up to a position.
    fn combine_staged(&mut self, message: &Receive, end: usize) {
        let from = self.incoming.combined;
        if message.with.is_some() && from < end {
            self.combine(message, self.job.memory.staging.wrapping_add(from), from..end);
            self.incoming.combined = end;
        }
    }

    /// Combines bytes that have arrived, as left operand, with those in their place.
    pub(crate) fn combine(&self, message: &Receive, arrived: *const u8, range: std::ops::Range<usize>) {
        let Some(with) = message.with else { return };
        let memory = &self.job.memory;
        let (dtype, reduction) = self.job.reduce;
        let mut at = range.start;
        while at < range.end {
            let (out, writable) = memory.piece(&message.into, at);
            let (right, readable) = memory.piece(&with, at);
            let bytes = writable.min(readable).min(range.end - at);
            let left = arrived.wrapping_add(at - range.start);
            // SAFETY: the pieces are `bytes` long; those of parts are aligned (parts are checked, all offsets are whole
            // elements), and an output is equal to or apart from its input (checked), and apart from what arrived.
            unsafe { combine(dtype, reduction, Triple { out, left, right, bytes }) };
            at += bytes;
        }
    }

    fn check_header(&mut self, message: &Receive) -> Result<()> {
        let rank = self.job.ranks[message.peer];
        let mine = &self.job.header;
        let peer = || self.job.shared.names[rank].clone();
        let broken = |detail: &str| Error::Protocol { peer: peer(), detail: detail.to_owned() };
        let header = Header::decode(&self.incoming.head).map_err(broken)?;
        let incarnation = self.job.shared.incarnations[rank];
        if let Some(detail) = header.wrong_sender(mine, rank as u32, incarnation) {
            return Err(broken(detail));
        }
        if !header.same_collective(mine) {
            let text = self.read_text(message.peer, header.text as usize)?;
            return Err(self.mismatch(rank, &header, &text));
        }
        let text_len = if self.incoming.ordinal == 0 { self.job.text.len() } else { 0 };
        let expected = (message.into.len as u32, self.incoming.ordinal, text_len as u16);
        if (header.length, header.ordinal, header.text) != expected {
            // A peer that was lost while ranks met may leave them with other ideas of how messages travel: its failure is the cause.
            if let Some(error) = self.last_words() {
                return Err(error);
            }
            if let Some(gone) = self.job.ranks.iter().find(|rank| self.job.shared.signals.is_gone(**rank)) {
                return Err(self.gone(*gone));
            }
            return Err(broken("a message of this collective has another size or number than expected"));
        }
        self.incoming.text_len = text_len;
        Ok(())
    }

    /// Reads the description of a collective that is not this rank's.
    fn read_text(&mut self, peer: usize, length: usize) -> Result<Vec<u8>> {
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut got = 0;
        while got < length && Instant::now() < deadline {
            let count = self.take(peer, |incoming| &mut incoming.text[got..length])?;
            if count == 0 {
                self.transport.wait(None, Some(self.job.ranks[peer]), NAP);
            }
            got += count;
        }
        Ok(self.incoming.text[..got].to_vec())
    }

    pub(crate) fn mismatch(&self, rank: usize, header: &Header, text: &[u8]) -> Error {
        // Bytes that a peer sent before it failed may not match: its failure is the cause.
        if let Some(error) = self.last_words() {
            return error;
        }
        let mine = (self.job.shared.rank, self.job.header.sequence, text_of(self.job.text));
        let theirs = (rank, header.sequence, text_of(text));
        let groups_differ = header.group != self.job.header.group;
        let (low, high) = if mine.0 < theirs.0 { (mine, theirs) } else { (theirs, mine) };
        let say = |(rank, sequence, (what, group)): (usize, u64, (String, String))| {
            let what = if what.is_empty() { "a later part of another collective".into() } else { what };
            let group = if groups_differ { format!(" of group {group}") } else { String::new() };
            format!("rank {rank} is in {what}{group} (sequence {sequence})")
        };
        Error::Mismatch(format!("{}, but {}", say(low), say(high)))
    }

    pub(crate) fn link_error(&self, peer: usize, error: LinkError) -> Error {
        let rank = self.job.ranks[peer];
        // A peer that failed sent the reason on its control link just before it closed the link.
        if let Some(error) = self.last_words() {
            return error;
        }
        match error {
            LinkError::Closed => self.gone(rank),
            LinkError::Failed(detail) => Error::io(format!("the link to rank {rank} failed in {}", self.now()), detail),
        }
    }

    fn gone(&self, rank: usize) -> Error {
        Error::PeerClosed { rank, peer: self.job.shared.names[rank].clone(), during: self.now() }
    }

    /// The notice of a peer's failure, which comes over another link than its data and so may come a little later.
    fn last_words(&self) -> Option<Error> {
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            if let Some(notice) = self.job.shared.signals.notice() {
                return Some(notice.into_error(&self.now()));
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Spins briefly, then yields, then sleeps until a link or another thread is ready.
    pub(crate) fn rest(&mut self) -> Result<()> {
        self.idle += 1;
        if self.idle <= self.job.shared.spins {
            std::hint::spin_loop();
            return Ok(());
        }
        if self.idle <= self.job.shared.spins + YIELDS {
            std::thread::yield_now();
            return Ok(());
        }
        let shared = self.job.shared;
        let stalled = self.stalled_since.get_or_insert_with(Instant::now).elapsed();
        let rank = |peer: usize| self.job.ranks[peer];
        let from = self.incoming.message.map(|message| rank(message.peer));
        let to = self.out.message.map(|message| rank(message.peer));
        let whom = from.or(to);
        if stalled >= shared.timeout {
            return Err(Error::Timeout { limit: shared.timeout, waiting_for: self.culprit(whom), during: self.now() });
        }
        if let Some(rank) = whom
            && stalled >= shared.timeout / 2
            && !self.said_waiting
        {
            self.said_waiting = true;
            shared.say_waiting(self.waiting(rank));
        }
        if stalled >= STALLED {
            self.look_around(from)?;
        }
        let left = shared.timeout.saturating_sub(stalled).max(Duration::from_millis(1));
        self.transport.wait(to, from, NAP.min(left));
        Ok(())
    }

    fn waiting(&self, rank: usize) -> Waiting {
        Waiting { group: self.job.header.group, sequence: self.job.header.sequence, rank }
    }

    /// Describes the rank that this rank waits for, and the rank for which that rank waits.
    fn culprit(&self, whom: Option<usize>) -> String {
        let Some(rank) = whom else { return "its peers".into() };
        let culprit = self.job.shared.signals.culprit(self.waiting(rank));
        if culprit == rank || culprit == self.job.shared.rank {
            return self.job.shared.names[rank].clone();
        }
        let names = &self.job.shared.names;
        format!("{}, which waits for {},", names[rank], names[culprit])
    }

    /// While no bytes move: checks whether another peer than the awaited one is gone or in another collective.
    fn look_around(&mut self, waiting_for: Option<usize>) -> Result<()> {
        for rank in self.job.ranks.iter().copied().filter(|rank| *rank != self.job.shared.rank) {
            self.look_at_lane(rank, Some(rank) == waiting_for)?;
            if Some(rank) != waiting_for {
                self.look_at(rank)?;
            }
        }
        let gone = self.job.ranks.iter().find(|rank| self.job.shared.signals.is_gone(**rank));
        gone.map_or(Ok(()), |rank| Err(self.gone(*rank)))
    }

    fn look_at(&mut self, rank: usize) -> Result<()> {
        let mut bytes = [0; HEADER + MAX_TEXT];
        let got = self.transport.peek(rank, &mut bytes);
        let Some(Ok(header)) = bytes[..got].first_chunk().map(Header::decode) else { return Ok(()) };
        let mine = &self.job.header;
        // A message of a later collective may be early; one of this number and group must agree.
        if (header.group, header.sequence) == (mine.group, mine.sequence) && header.fingerprint != mine.fingerprint {
            let text = &bytes[HEADER..got.min(HEADER + header.text as usize)];
            return Err(self.mismatch(rank, &header, text));
        }
        Ok(())
    }
}
