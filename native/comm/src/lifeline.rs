//! Ends this process some time after its parent process has ended, whatever this process is doing.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};

use crate::{Error, Result};

/// The interval of checks, where the system cannot notify this process.
const LOOK: Duration = Duration::from_millis(200);

/// Kills this process `grace` after its parent `parent` has ended; in the grace it can end by itself, and tidy up.
///
/// Holds for a process that spins or hangs, too: a thread of its own waits. (The kernel's own signal on a parent's death
/// would leave no time to remove half-written files, and would come when the parent's *thread* ends.) A parent that is
/// gone already, even one whose number another process has by now, counts as ended.
pub fn end_with_parent(parent: u32, grace: Duration) -> Result<()> {
    let parent = Pid::from_raw(parent as i32).ok_or_else(|| Error::Invalid("a process id is not 0".into()))?;
    let watch = move || {
        wait_for_end(parent);
        std::thread::sleep(grace);
        let _ = kill_process(getpid(), Signal::KILL);
    };
    let builder = std::thread::Builder::new().name("heddle-lifeline".into()).stack_size(128 << 10);
    builder.spawn(watch).map(drop).map_err(|error| Error::io("could not watch the launcher", error))
}

fn wait_for_end(parent: Pid) {
    let descriptor = pidfd_open(parent, PidfdFlags::empty());
    // Asked for only now: from here on the descriptor and the number mean the same process, or the parent is gone.
    while getppid() == Some(parent) {
        match &descriptor {
            Ok(descriptor) => wait_readable(descriptor),
            Err(Errno::SRCH) => return,
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

fn wait_readable(descriptor: &OwnedFd) {
    // Readable when the process has ended; an interrupted wait is begun again by the caller.
    if poll(&mut [PollFd::new(descriptor, PollFlags::IN)], None).is_ok() {
        // A parent that has ended but is not reaped yet still counts as the parent for a moment.
        std::thread::sleep(Duration::from_millis(1));
    }
}
