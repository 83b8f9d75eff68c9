//! Gives the threads that a process has their names in the trace of a session that comes later.
//!
//! A thread leaves its name where sessions are at its first event (`channel::introduce_thread`). For a session that
//! comes after that the control path does it, which looks the threads up in `/proc/self/task`. Where
//! there is no `/proc` they have no names.

use crate::channel::Channel;
use core::ops::ControlFlow;
use mote_sys::process;
use mote_sys::tasks::{self, Task};

/// Names all threads of the process but the calling one in a channel that has been published.
pub(crate) fn introduce_all(channel: &Channel) {
    let _ = tasks::each(|task| {
        if let Some((tid, comm)) = thread(task).filter(|(tid, _)| *tid != process::tid() as u32) {
            channel.writer.introduce(tid, process::pid() as u32, comm);
        }
        ControlFlow::Continue(())
    });
}

/// Id and name of a thread. The id is the one that the thread itself knows.
fn thread(task: Task) -> Option<(u32, [u8; 16])> {
    let mut buffer = [0; 4096];
    let len = task.read("status", &mut buffer).ok()?;
    let mut lines = buffer.get(..len)?.split(|byte| *byte == b'\n');
    let id = match lines.find_map(|line| line.strip_prefix(b"NSpid:")) {
        Some(ids) => {
            let own = ids.trim_ascii_end().rsplit(|byte| !byte.is_ascii_digit()).next()?;
            core::str::from_utf8(own).ok()?.parse().ok()?
        }
        None => task.0,
    };
    let len = task.read("comm", &mut buffer).ok()?;
    let mut comm = [0; 16];
    // The last byte stays the NUL.
    comm.iter_mut().take(15).zip(buffer.get(..len)?.trim_ascii_end()).for_each(|(to, from)| *to = *from);
    Some((id, comm))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_is_found_by_its_id() {
        let own = mote_sys::process::tid();
        let (tid, comm) = super::thread(super::Task(own as u32)).expect("we are there");
        assert_eq!((tid, comm), (own as u32, mote_sys::process::comm()));
        assert_eq!(super::thread(super::Task(1_999_999_999)), None);
    }
}
