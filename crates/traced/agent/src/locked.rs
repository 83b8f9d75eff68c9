//! Whether the program has locked itself in, and our thread with it: a seccomp filter that all threads of a process get
//! (`SECCOMP_FILTER_FLAG_TSYNC`).
//!
//! Such a filter may kill for any system call. While our thread sleeps it makes none; the session, which sees the
//! filter from outside, does not speak to it then. When it wakes up all the same, because the session has died, or
//! something is still to be done, it reads one file that it has opened before: read(2) is what nearly every sandbox
//! allows. (A session that has seen the filter in time leaves it asleep also when it dies: its end of the link is kept
//! open by a socket of the process itself, whose queue it is in.) When that says that it is locked in, it sleeps for
//! ever, in another read. A filter that kills for read(2), too, ends the process.
//!
//! What counts is a change since the thread was started: many programs run in a sandbox from the beginning, in which we
//! come to be all the same.

use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Wait};
use mote_sys::tasks::Task;
use mote_sys::{thread, time};
use mote_wire::{Message, SESSIONS_MAX};

/// What `/proc` says of a thread's seccomp: mode, and number of filters (since Linux 5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State([u32; 2]);

/// Of the thread that has made it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// To be read once.
    status: Option<Fd>,
    before: Option<State>,
    /// Never readable.
    nothing: Option<Fd>,
    /// No thread reads what is sent to it: it keeps descriptors.
    keeper: Option<(Fd, Fd)>,
    /// The links whose sessions know it.
    informed: [i32; SESSIONS_MAX],
}

impl Watch {
    /// The calling thread as it is now. No other code may close its descriptors.
    pub(crate) fn new() -> Watch {
        let before = open().and_then(|status| read(&status).ok());
        Watch {
            status: open(),
            before,
            nothing: fd::event().ok(),
            keeper: socket::pair().ok(),
            informed: [-1; SESSIONS_MAX],
        }
    }

    /// Gives new sessions the socket that keeps their end of the link, so that the thread sleeps on when they die.
    pub(crate) fn tell(&mut self, links: [i32; SESSIONS_MAX]) {
        let mut buffer = [0; 8];
        let Some((_, theirs)) = &self.keeper else { return };
        let Some(message) = Message::Keeper.encode(&mut buffer) else { return };
        for (informed, link) in self.informed.iter_mut().zip(links) {
            if *informed != link && link >= 0 {
                let _ = socket::send(link, message, &[theirs.raw()], Wait::No);
            }
            *informed = link;
        }
    }

    /// To be asked after the thread has slept, before it makes any other system call.
    pub(crate) fn is_locked_in(&mut self) -> bool {
        let (Some(before), Some(status)) = (self.before, self.status.take()) else { return false };
        let now = read(&status);
        if now != Ok(before) {
            // Closing it would be a system call.
            core::mem::forget(status);
            return true;
        }
        self.status = open();
        false
    }

    /// Sleeps for ever. Returns only where even that is forbidden.
    pub(crate) fn stay(self) {
        if let Some(nothing) = &self.nothing {
            let _ = fd::read(nothing, &mut [0; 8]);
        }
        // Some sandboxes answer an error: other ways of sleeping.
        while time::sleep(u64::from(u32::MAX) << 16).is_ok() {}
        core::mem::forget(self);
    }
}

/// Waits until a thread of this process sleeps, for a while: only then may the program lock it in.
pub(crate) fn until_asleep(tid: u32) {
    const LOOKS: u32 = 200;
    let _ = (0..LOOKS).find(|_| {
        let is_awake = state_of(Task(tid)) == Some(b'R');
        if is_awake {
            thread::give_way();
        }
        !is_awake
    });
}

/// State of a thread as proc_pid_stat(5) has it.
fn state_of(task: Task) -> Option<u8> {
    let mut text = [0; 64];
    let len = task.read("stat", &mut text).ok()?;
    let text = text.get(..len)?;
    let name_end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(name_end + 2).copied()
}

fn open() -> Option<Fd> {
    fd::open(c"/proc/thread-self/status", libc::O_RDONLY, 0).ok()
}

fn read(status: &Fd) -> Result<State, Option<mote_sys::Errno>> {
    let mut text = [0; 4096];
    let len = fd::read(status, &mut text).map_err(Some)?;
    State::of(text.get(..len).unwrap_or(&[])).ok_or(None)
}

impl State {
    fn of(status: &[u8]) -> Option<State> {
        let value = |name: &[u8]| {
            let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
            core::str::from_utf8(line.trim_ascii()).ok()?.parse().ok()
        };
        Some(State([value(b"Seccomp:")?, value(b"Seccomp_filters:").unwrap_or(0)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_from_the_status() {
        assert_eq!(State::of(b"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n"), Some(State([2, 3])));
        assert_eq!(State::of(b"Seccomp:\t1\n"), Some(State([1, 0])));
        assert_eq!(State::of(b"Seccomp_filters:\t3\n"), None);
        assert_eq!(State::of(b"Seccomp:\tx\n"), None);
    }

    #[test]
    fn a_thread_is_seen_awake() {
        assert_eq!(state_of(Task(mote_sys::process::tid() as u32)), Some(b'R'));
        until_asleep(mote_sys::process::tid() as u32);
    }

    #[test]
    fn who_has_not_been_locked_in_may_ask_as_often_as_it_likes() {
        let mut watch = Watch::new();
        assert!((0..3).all(|_| !watch.is_locked_in()));
        watch.before = Some(State([9, 9]));
        assert!(watch.is_locked_in());
    }
}
