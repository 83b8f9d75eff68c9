//! Makes a descriptor in a process by which it is seen which of its pages are written to (`mote_sys::uffd`).
//!
//! ```text
//! recorder                                             process
//! writes code behind the end of some binary's code
//! sends a thread there that waits, as for a join, or
//! leads one through it that runs                       userfaultfd(2); waits, for a second at most
//! takes the descriptor over (pidfd_getfd(2))
//! says that the thread may go on                       closes it, goes back to where it was
//! takes the code away
//! ```
//! The thread takes no lock and uses no memory but its stack, so that any may be sent, also one that is in the middle
//! of its allocator. A recorder that is killed at any step leaves the process running, and what it has watched as it
//! was.

use crate::arch::track as code;
use crate::error::Error;
use crate::image;
use crate::placed::Placed;
use crate::shared::track;
use crate::stop::{Sent, Waiting};
use crate::target::{Patience, Target, errno, fresh_number, take_back};
use crate::thread::Call;
use mote_symbol::mapped;
use mote_sys::fd::Fd;
use mote_sys::{Errno, process};
use std::time::Duration;

/// How long a thread that waits is looked for, before one that runs is led there.
const PREFER: Duration = Duration::from_millis(20);
/// How long the thread may take to come there, and to make it.
const MAKING: Duration = Duration::from_secs(2);

/// Makes a userfaultfd(2) in a process, which keeps none; also in our own one.
///
/// # Errors
/// [`Error`]: it may not be touched, or is in a state in which it is not to be; its kernel has no such call.
///
/// # Cost
/// A thread of it makes a detour of some milliseconds.
pub fn tracker(pid: i32, patience: Patience<'_>) -> Result<Fd, Error> {
    if pid == process::pid() {
        return mote_sys::uffd::make().map_err(Error::Refused);
    }
    let target = Target::any(pid)?;
    if mapped::has_shadow_stack(pid.unsigned_abs()) {
        return Err(Error::Forbidden(Errno(libc::EOPNOTSUPP)));
    }
    let own = (code::code(), code::words_at());
    let image = image::read(pid.unsigned_abs(), target.memory(), &[], own)?;
    target.lock(patience)?;
    let made = make(&Placed { target: &target, room: &image.room }, patience);
    target.unlock();
    made
}

fn make(placed: &Placed<'_>, patience: Patience<'_>) -> Result<Fd, Error> {
    let target = placed.target;
    target.check()?;
    let number = fresh_number().map_err(|why| Error::Forbidden(errno(&why)))?;
    let put = |kind: u64| {
        let mut bytes = code::code().to_vec();
        if let Some(word) = bytes.get_mut(code::words_at() + track::KIND..).and_then(<[u8]>::first_chunk_mut)
        {
            *word = kind.to_le_bytes();
        }
        placed.put(&bytes)
    };
    let at = placed.room.address;
    let entry = at + mote_layout::join::RESTART_BYTES;
    let tell = |waiting: &Waiting| put(waiting.kind);
    let sent = match target.send((entry, number), &tell, patience.at_most(PREFER)) {
        Err(Error::NoThread(busy)) => {
            put(0)?;
            let led = target.lead(at + code::runs_at() as u64, patience.at_most(MAKING));
            match led.and_then(|led| led.ok_or(Error::NoThread(busy))) {
                Ok(sent) => sent,
                Err(why) => {
                    placed.put_back()?;
                    return Err(why);
                }
            }
        }
        sent => sent?,
    };
    let made = take(placed, &sent, patience.at_most(MAKING));
    if matches!(made, Err(Error::Silent(_) | Error::Over)) {
        take_back(entry, &sent);
    }
    placed.remove(&patience, &sent)?;
    made
}

/// Takes over what the thread has made, and lets it go on.
fn take(placed: &Placed<'_>, sent: &Sent, patience: Patience<'_>) -> Result<Fd, Error> {
    let target = placed.target;
    let (made, stack) = loop {
        let line = mapped::table(&format!("/proc/{}/task/{}/syscall", target.pid(), sent.tid));
        let waits =
            |call: &Call| call.number == libc::SYS_nanosleep && call.arguments[2] == u64::from(track::MARK);
        let here = Call::place(&line).filter(|(_, at)| placed.code().contains(at));
        if let Some((call, (stack, _))) = Call::parse(&line).filter(waits).zip(here) {
            break (call.arguments[track::MADE].cast_signed(), stack);
        }
        target.check()?;
        patience.wait(Error::Silent(MAKING.as_secs()))?;
    };
    let taken = match i32::try_from(made) {
        Ok(number) if number >= 0 => process::pidfd_open(target.pid())
            .and_then(|process| process::descriptor_of(&process, number))
            .map_err(Error::Forbidden),
        _ => Err(Error::Refused(Errno(made.unsigned_abs() as i32))),
    };
    // It goes on by itself, too, later.
    let _ = placed.write_at(stack, &1_u64.to_le_bytes());
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    /// A process that ends when dropped.
    struct Program(Child);

    impl Program {
        fn start(script: &str) -> Program {
            let mut shell = Command::new("/bin/sh");
            let started = shell.args(["-c", script]).stdin(Stdio::piped()).spawn();
            Program(started.expect("a shell"))
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn descriptors(pid: i32) -> usize {
        std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
    }

    #[test]
    fn a_thread_that_waits_or_runs_makes_it_and_goes_on() {
        for script in ["read line; :", "while :; do :; done"] {
            let mut program = Program::start(script);
            let pid = program.0.id().cast_signed();
            std::thread::sleep(Duration::from_millis(50));
            let before = descriptors(pid);
            let over = AtomicBool::new(false);
            let patience = Patience { until: Instant::now() + Duration::from_secs(20), over: &over };
            let made = match tracker(pid, patience) {
                Ok(made) => made,
                Err(Error::Refused(why) | Error::Forbidden(why)) => {
                    return mote_skip::skip(format_args!("{why:?}"));
                }
                Err(why) => panic!("{script}: {why}"),
            };
            if mote_sys::uffd::prepare(&made).is_err() {
                return mote_skip::skip("write-protection that the kernel lifts itself is of Linux 6.7");
            }
            assert_eq!(descriptors(pid), before, "it keeps none");
            // Its code is away, and whatever it was, it still runs.
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(program.0.try_wait().expect("a child"), None, "{script}");
        }
    }
}
