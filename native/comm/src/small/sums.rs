//! All-reduces of one small part between ranks that all share memory: combined where the messages arrive, without copies.

use super::lane::mark;
use super::mutual::await_next;
use crate::Result;
use crate::drive::Job;
use crate::reduce::{Triple, combine};
use crate::schedule::{Pattern, Schedule};
use crate::transport::Transport;

/// Carries out the collective, if it is such an all-reduce; says whether it was.
pub(crate) fn sum(job: &Job<'_>, schedule: &Schedule, transport: &mut dyn Transport) -> Result<bool> {
    let Schedule { pattern: Pattern::AllReduce, size, me, bytes, .. } = *schedule else { return Ok(false) };
    let [part] = job.memory.parts else { return Ok(false) };
    let mut shares = |position: usize| position == me || transport.shared(job.ranks[position]).is_some();
    if !schedule.is_small() || !(0..size).all(&mut shares) {
        return Ok(false);
    }
    let mark = mark(&job.header);
    for position in (me + 1..size).chain(0..me) {
        if let Some(mut pair) = transport.shared(job.ranks[position]) {
            // SAFETY: the input is `bytes` long, at most as long as a message may be, and apart from the lane.
            unsafe { pair.post(&mark, job.text, bytes, |to| std::ptr::copy_nonoverlapping(part.input, to, bytes)) };
        }
    }
    // A peer that sleeps has sent its message before. So peers are woken once their messages are here, or late: this rank
    // looks meanwhile at what it waits for, instead of waiting until its own messages have left the processor.
    let behind = || (0..me).rev().chain((me + 1..size).rev());
    let mut looks = job.shared.spins;
    let here = |position: usize| {
        let Some(pair) = transport.shared(job.ranks[position]) else { return false };
        while pair.arrived(&mark, bytes).is_none() {
            if looks == 0 {
                return false;
            }
            looks -= 1;
            std::hint::spin_loop();
        }
        true
    };
    let arrived = behind().map(here).take_while(|here| *here).count();
    job.ranks.iter().for_each(|rank| transport.wake(*rank));
    job.shared.flight.progress(job.flight, arrived as u64);
    for index in arrived..size - 1 {
        await_next(job, transport, &schedule.receive(index), index)?;
        job.shared.flight.progress(job.flight, index as u64 + 1);
    }
    // SAFETY: the messages of all other ranks are here, and stay until this rank is in the next collective.
    unsafe { fold(job, (size, me, bytes), transport) };
    for position in behind() {
        if let Some(mut pair) = transport.shared(job.ranks[position]) {
            pair.taken(bytes);
        }
    }
    Ok(true)
}

/// Combines the ranks' parts 0, 1, … in this order, as collectives over other links do.
///
/// # Safety
/// The next message of every other rank must be here, of `bytes` bytes, and the collective have one part.
unsafe fn fold(job: &Job<'_>, (size, me, bytes): (usize, usize, usize), transport: &mut dyn Transport) {
    let (part, mark) = (&job.memory.parts[0], mark(&job.header));
    let mut of = |position: usize| match transport.shared(job.ranks[position]) {
        Some(pair) if position != me => pair.arrived(&mark, bytes).unwrap_or(part.input),
        _ => part.input,
    };
    let mut left = of(0);
    for position in 1..size {
        // The output may be the input, which is read last.
        let out = if position + 1 == size { part.output } else { job.memory.scratch };
        // SAFETY: all are `bytes` long, of whole elements; messages begin at multiples of 32 bytes, parts are checked. An output
        // is equal to or apart from the own input, and apart from messages.
        unsafe { combine(job.reduce.0, job.reduce.1, Triple { out, left, right: of(position), bytes }) };
        left = out.cast_const();
    }
}
