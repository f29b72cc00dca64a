//! Collectives in which each rank sends every other one small message: by lanes, where ranks share memory.

use super::lane::MOST;
use crate::Result;
use crate::drive::{Drive, Job};
use crate::exchange::{Listed, Messages};
use crate::frame::{HEADER, Header, MAX_TEXT};
use crate::schedule::{Pattern, Receive, Schedule};
use crate::transport::Transport;

/// Carries a collective: by lanes if each rank sends every other one small message, where peers without shared memory get
/// theirs over their links, else over the links alone.
pub(crate) fn carry(job: &Job<'_>, transport: &mut dyn Transport) -> Result<()> {
    let schedule = match job.schedule {
        Messages::Computed(schedule) if schedule.is_small() => schedule,
        _ => return Drive::new(job, transport).run(),
    };
    let mut rest = Listed::default();
    for index in 0..schedule.sends() {
        let message = schedule.send(index);
        match transport.shared(job.ranks[message.peer]) {
            Some(mut pair) => pair.post_from(&job.header, job.text, &job.memory, &message.from),
            None => rest.sends.push(message),
        }
    }
    job.ranks.iter().for_each(|rank| transport.wake(*rank));
    let receives = (0..schedule.receives()).map(|index| schedule.receive(index));
    let mut shares = |message: &Receive| transport.shared(job.ranks[message.peer]).is_some();
    rest.receives.extend(receives.clone().filter(|message| !shares(message)));
    if !rest.sends.is_empty() {
        Drive::new(&Job { schedule: Messages::Listed(&rest), ..*job }, transport).run()?;
    }
    for (index, message) in receives.enumerate() {
        await_next(job, transport, &message, index)?;
        if let Some(mut pair) = transport.shared(job.ranks[message.peer]) {
            pair.take_to(&job.header, &job.memory, &message.into);
        }
        job.shared.flight.progress(job.flight, index as u64 + 1);
    }
    Ok(())
}

/// Waits until the message of one peer is on its lane; not at all where the peer has no lane.
pub(super) fn await_next(job: &Job<'_>, transport: &mut dyn Transport, message: &Receive, index: usize) -> Result<()> {
    let rank = job.ranks[message.peer];
    let Some(pair) = transport.shared(rank) else { return Ok(()) };
    for _ in 0..=job.shared.spins {
        if pair.look(&job.header) == Ok(true) {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    let mut drive = Drive::new(job, transport);
    (drive.received, drive.idle, drive.incoming.message) = (index, job.shared.spins, Some(*message));
    loop {
        match drive.transport.shared(rank).map_or(Ok(true), |pair| pair.look(&job.header)) {
            Ok(true) => return Ok(()),
            Ok(false) => drive.look_at_link(message.peer)?,
            Err((header, text)) => return Err(drive.mismatch(rank, &header, &text)),
        }
        if let Some(notice) = job.shared.signals.notice() {
            return Err(notice.into_error(&drive.now()));
        }
        drive.rest()?;
    }
}

impl Schedule {
    /// Whether each rank sends every other one small message, and gets one.
    pub(crate) fn is_small(&self) -> bool {
        let mutual = !matches!(self.pattern, Pattern::Broadcast { .. } | Pattern::Exchange | Pattern::Barrier);
        self.direct && !self.in_rounds && self.bytes <= MOST && mutual
    }
}

impl Drive<'_> {
    /// Finds that a peer without a message on its lane has left, or is in a collective that sends none there.
    fn look_at_link(&mut self, peer: usize) -> Result<()> {
        let rank = self.job.ranks[peer];
        match self.transport.here(rank, HEADER) {
            Ok(Some((_, count))) if count > 0 => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(self.link_error(peer, error)),
        }
        // What stands on the lane came before what is on the link.
        if self.transport.shared(rank).is_some_and(|pair| pair.has_next()) {
            return Ok(());
        }
        let mut bytes = [0; HEADER + MAX_TEXT];
        let got = self.transport.peek(rank, &mut bytes);
        let Some(Ok(header)) = bytes[..got].first_chunk().map(Header::decode) else { return Ok(()) };
        Err(self.mismatch(rank, &header, &bytes[HEADER..got.min(HEADER + header.text as usize)]))
    }

    /// Finds a peer that has sent a message on its lane and is in another collective than this one, which uses none.
    /// `awaited`: this rank waits for bytes of the peer, so that the message is not of a later collective.
    pub(crate) fn look_at_lane(&mut self, rank: usize, awaited: bool) -> Result<()> {
        let found = self.transport.shared(rank).and_then(|pair| pair.collective(&self.job.header));
        let Some((header, text)) = found else { return Ok(()) };
        let mine = &self.job.header;
        let here = (header.group, header.sequence) == (mine.group, mine.sequence);
        // Bytes that came before the message are looked at first.
        let empty = matches!(self.transport.here(rank, 1), Ok(Some((_, 0))));
        if (awaited && empty || here) && !header.same_collective(mine) {
            return Err(self.mismatch(rank, &header, &text));
        }
        Ok(())
    }
}
