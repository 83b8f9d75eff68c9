//! Notices when all threads of a program have ended but ours: the main thread by `pthread_exit`, or by exit(2) in a
//! sandbox, others later.
//!
//! The kernel ends such a process with its last thread. Ours would be that thread, and it never ends by itself. It does
//! not look either, because it makes no system call while nothing happens: the session does, from outside, and asks it
//! to look.

use mote_sys::fd;

/// Whether the main thread has left, and no threads are there but as many of agents, the calling one among them.
pub(crate) fn is_last(agents: u32) -> bool {
    // Field 3, the state, and field 20, the number of threads, the dead leader among them (proc_pid_stat(5)).
    let mut text = [0; 512];
    let Ok(file) = fd::open(c"/proc/self/stat", libc::O_RDONLY, 0) else { return false };
    let Ok(len) = fd::read(&file, &mut text) else { return false };
    let text = text.get(..len).unwrap_or(&[]);
    let Some(name_end) = text.iter().rposition(|byte| *byte == b')') else { return false };
    // The state is the first behind the name.
    let mut fields = text.get(name_end + 2..).unwrap_or(&[]).split(|byte| *byte == b' ');
    let is_dead = fields.next() == Some(b"Z");
    let threads = fields.nth(16).and_then(|digits| core::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    is_dead && threads == agents.checked_add(1)
}
